//! Many frames at once.

use std::ffi::c_void;
use std::num::NonZero;
use std::thread;

use super::frames::room;
use super::guard::{Refusal, array, buffer, call, object};
use super::reader::pcapzst_reader;
use super::status::pcapzst_status::{self, *};
use crate::capture::batch::{Slot, decode_all};

/// As `n_threads`: one for each MiB of source bytes in all, up to one for each processor.
pub const PCAPZST_THREADS_AUTO: i32 = i32::MAX;
/// As `*failed_slot`: no slot in particular.
pub const PCAPZST_SLOT_NONE: u64 = u64::MAX;

/// Source bytes that are worth a thread of their own: some milliseconds of decoding.
const AUTO_BYTES: u64 = 1024 * 1024;

/// Decodes `count` frames: number `indices[i]` into `dsts[i]`, which has room for `dst_sizes[i]` bytes. Buffers must not overlap.
///
/// With `n_threads` threads, the caller's among them: 0 and 1 are his alone, a negative number is one for each processor, 256 are
/// the most. They end before the call does. What comes of it never depends on their number: every slot is tried, one that
/// fails is zeroed as far as the frame's source_size, and the status is the first one by slot.
///
/// PCAPZST_E_RANGE and PCAPZST_E_INVALID are found before anything is written. `failed_slot` may be NULL; it receives the slot
/// that the status is about, or PCAPZST_SLOT_NONE. A count of 0 succeeds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcapzst_decode_frames(
    reader: *const pcapzst_reader,
    indices: *const u64,
    count: u64,
    dsts: *const *mut c_void,
    dst_sizes: *const u64,
    n_threads: i32,
    failed_slot: *mut u64,
) -> pcapzst_status {
    call(|| {
        // SAFETY: the caller's pointers, as the header asks for.
        let failed = unsafe { failed_slot.as_mut() };
        let mut nowhere = 0;
        let failed = failed.unwrap_or(&mut nowhere);
        *failed = PCAPZST_SLOT_NONE;
        // SAFETY: as above.
        let reader = unsafe { object(reader, "reader") }?;
        if count == 0 {
            return Ok(());
        }
        // SAFETY: as above; each array has `count` entries.
        let (indices, dsts, sizes) = unsafe {
            (
                array(indices, count, "indices")?,
                array(dsts, count, "dsts")?,
                array(dst_sizes, count, "dst_sizes")?,
            )
        };
        let mut slots = Vec::new();
        slots
            .try_reserve_exact(indices.len())
            .map_err(|_| Refusal::new(PCAPZST_E_NOMEM, format!("no memory for {count} slots")))?;
        let mut total = 0_u64;
        for (place, ((index, dst), size)) in indices.iter().zip(dsts).zip(sizes).enumerate() {
            let slot = || {
                let (index, span) = reader.span(*index)?;
                // SAFETY: as above; buffers do not overlap, by the caller's promise.
                let out = room(unsafe { buffer(*dst, *size, "a buffer") }?, span.src_len)?;
                Ok(Slot { index, span, out })
            };
            let slot = slot().inspect_err(|_| *failed = place as u64)?;
            total = total.saturating_add(slot.span.src_len);
            slots.push(slot);
        }
        let decoded = decode_all(reader.live().source(), slots, threads(n_threads, total));
        decoded.map_err(|(place, error)| {
            *failed = place as u64;
            reader.refusal(&error)
        })
    })
}

fn threads(asked: i32, total_bytes: u64) -> usize {
    let processors = || thread::available_parallelism().map_or(1, NonZero::get);
    match asked {
        PCAPZST_THREADS_AUTO => {
            let worth = usize::try_from(total_bytes / AUTO_BYTES).unwrap_or(usize::MAX);
            processors().min(worth)
        }
        ..0 => processors(),
        _ => usize::try_from(asked).unwrap_or(1),
    }
}
