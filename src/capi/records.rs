//! The packets of a capture, one after the other.

use super::guard::{Refusal, call, call_or, hand_out, object, out, out_object, reclaim, wipe};
use super::reader::pcapzst_reader;
use super::status::pcapzst_status::{self, *};
use crate::capture::follow::{Follower, Next};
use crate::capture::records::{NextPacket, Records};
use crate::format::pcap::GLOBAL_HEADER_LEN;

/// An iterator over the packets of a reader.
///
/// Owner: who opened it, until pcapzst_records_close. Threads: one at a time; several iterators of one reader are
/// independent. It may outlive the reader, but not the memory that that was opened on.
pub struct pcapzst_records {
    records: Records,
    /// For messages.
    name: String,
}

/// A packet. `data` belongs to the iterator, and is valid until the next call with it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct pcapzst_packet {
    /// Nanoseconds since 1970, whatever the capture's unit.
    pub ts_ns: u64,
    /// Source offset of its record header.
    pub source_offset: u64,
    /// The captured bytes; never NULL behind a call that gave a packet.
    pub data: *const u8,
    /// How many were captured.
    pub captured_length: u32,
    /// Length on the wire.
    pub original_length: u32,
}

/// What comes next.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum pcapzst_next {
    /// Nothing now; more may come: pcapzst_wait, then ask again. Of a capture that was cut and then given its final name
    /// (PCAPZST_DRAINING) it may be the answer for ever.
    PCAPZST_NOT_YET = 0,
    /// A packet.
    PCAPZST_PACKET = 1,
    /// Nothing any more: the capture is complete, and every packet was given.
    PCAPZST_AT_END = 2,
}

/// Opens an iterator that begins with the first packet of frame number `first_frame`; the number of frames stands for the
/// packets that come from now on. `*out` is to be closed with pcapzst_records_close, or NULL on failure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcapzst_records_open(
    reader: *const pcapzst_reader,
    first_frame: u64,
    out: *mut *mut pcapzst_records,
) -> pcapzst_status {
    call(|| {
        // SAFETY: the caller's pointers, as the header asks for.
        let (out, reader) = unsafe { (out_object(out, "out")?, object(reader, "reader")?) };
        let from = if first_frame == 0 {
            GLOBAL_HEADER_LEN
        } else {
            // One look at one frame: where the next one is, or will be.
            reader.span(first_frame - 1)?.1.src_end().as_u64()
        };
        let follower = Follower::new(reader.live().clone(), from);
        *out = hand_out(pcapzst_records {
            records: Records::new(follower),
            name: reader.name().to_owned(),
        });
        Ok(())
    })
}

/// The next packet into `packet`, and what it was into `next`. Looks at the file when all that was known is given, so no refresh
/// is needed.
///
/// PCAPZST_E_TORN when the capture ends here for good, but not whole. PCAPZST_E_CHANGED when another capture was written over it.
/// Damage is met where it is, when all packets before it were given, and again at every further call. On failure `packet` is all
/// zeros, and `next` PCAPZST_NOT_YET.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcapzst_records_next(
    records: *mut pcapzst_records,
    packet: *mut pcapzst_packet,
    next: *mut pcapzst_next,
) -> pcapzst_status {
    call(|| {
        // SAFETY: the caller's pointers, as the header asks for.
        unsafe {
            wipe(packet);
            wipe(next);
        }
        // SAFETY: as above.
        let (packet, next) = unsafe { (out(packet, "packet")?, out(next, "next")?) };
        // SAFETY: as above; one thread at a time.
        let pcapzst_records { records, name } = unsafe { out(records, "records") }?;
        let ending = match records.take_next() {
            Ok(NextPacket::Packet(found)) => {
                *packet = pcapzst_packet {
                    ts_ns: found.record.ts_ns,
                    source_offset: found.offset,
                    data: found.bytes.as_ptr(),
                    captured_length: found.record.incl_len,
                    original_length: found.record.orig_len,
                };
                *next = pcapzst_next::PCAPZST_PACKET;
                return Ok(());
            }
            Ok(NextPacket::Ending(ending)) => ending,
            Err(error) => return Err(Refusal::of(&error, name)),
        };
        let refuse = |status, words| Err(Refusal::new(status, format!("{name}: {words}")));
        match ending {
            Next::Complete => *next = pcapzst_next::PCAPZST_AT_END,
            Next::CutShort => return refuse(PCAPZST_E_TORN, "not whole, and no more can come"),
            Next::Replaced => return Err(Refusal::replaced(name)),
            Next::NotYet | Next::Bytes(_) => {}
        }
        Ok(())
    })
}

/// Closes an iterator. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcapzst_records_close(records: *mut pcapzst_records) {
    // SAFETY: the caller's pointer, as the header asks for.
    call_or((), || drop(unsafe { reclaim(records) }));
}
