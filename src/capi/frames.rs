//! A reader's frames, by number.

use std::ffi::c_void;
use std::ptr;

use super::guard::{Refusal, buffer, call, call_or, object, out, wipe};
use super::reader::pcapzst_reader;
use super::status::pcapzst_status::{self, *};
use crate::format::table::Span;

/// A data frame: whole pcap records, compressed. Offsets and sizes in bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct pcapzst_frame_info {
    /// Of its first byte in the source, the pcap file that is stored.
    pub source_offset: u64,
    /// In the source.
    pub source_size: u64,
    /// Of its first byte in the file.
    pub physical_offset: u64,
    /// In the file.
    pub physical_size: u64,
}

impl From<Span> for pcapzst_frame_info {
    fn from(span: Span) -> Self {
        Self {
            source_offset: span.src_start.as_u64(),
            source_size: span.src_len,
            physical_offset: span.phys_start.as_u64(),
            physical_size: span.phys_len,
        }
    }
}

/// Data frames known; 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcapzst_frame_count(reader: *const pcapzst_reader) -> u64 {
    call_or(0, || {
        // SAFETY: the caller's pointer, as the header asks for.
        unsafe { object(reader, "reader") }.map_or(0, |reader| reader.source().facts().frames)
    })
}

/// Where frame number `index` is, counted from 0. PCAPZST_E_RANGE behind the last.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcapzst_frame_info_at(
    reader: *const pcapzst_reader,
    index: u64,
    info: *mut pcapzst_frame_info,
) -> pcapzst_status {
    // SAFETY: one is what the caller's pointer has room for.
    unsafe { pcapzst_frame_info_range(reader, index, 1, info) }
}

/// Where `count` frames from number `first` on are, into `infos`, which has room for as many. PCAPZST_E_RANGE, and nothing
/// written, if that runs past the last; a count of 0 succeeds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcapzst_frame_info_range(
    reader: *const pcapzst_reader,
    first: u64,
    count: u64,
    infos: *mut pcapzst_frame_info,
) -> pcapzst_status {
    call(|| {
        // SAFETY: the caller's pointer, as the header asks for.
        let reader = unsafe { object(reader, "reader") }?;
        if count == 0 {
            return Ok(());
        }
        if infos.is_null() {
            return Err(Refusal::null("infos"));
        }
        let last = first.checked_add(count - 1);
        let last = last.ok_or_else(|| Refusal::range("first and count are over 2^64"))?;
        // Frames below the last are there as well, unless a writer cuts the file back at this moment.
        reader.span(last)?;
        for (place, index) in (0..).zip(first..=last) {
            let (_, span) = reader.span(index)?;
            // SAFETY: the caller's room is for `count`, and `place` is less; write() takes memory that holds nothing yet.
            unsafe { ptr::write(infos.add(place), span.into()) };
        }
        Ok(())
    })
}

/// The number of the frame that holds source byte `offset`. PCAPZST_E_RANGE within the global header and behind the last frame.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcapzst_find_frame(
    reader: *const pcapzst_reader,
    offset: u64,
    index: *mut u64,
) -> pcapzst_status {
    call(|| {
        // SAFETY: the caller's pointers, as the header asks for.
        unsafe { wipe(index) };
        // SAFETY: as above.
        let (reader, index) = unsafe { (object(reader, "reader")?, out(index, "index")?) };
        let (found, _) = reader.source().find(offset).ok_or_else(|| {
            Refusal::range(format!(
                "{}: no frame holds source byte {offset}",
                reader.name()
            ))
        })?;
        *index = found;
        Ok(())
    })
}

/// Decodes frame number `index` into `dst`, past the cache. PCAPZST_E_RANGE, and nothing written, if `dst_size` is less than the
/// frame's source_size; on other failures what `dst` holds is not specified.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcapzst_decode_frame(
    reader: *const pcapzst_reader,
    index: u64,
    dst: *mut c_void,
    dst_size: u64,
) -> pcapzst_status {
    call(|| {
        // SAFETY: the caller's pointers, as the header asks for.
        let (reader, dst) = unsafe { (object(reader, "reader")?, buffer(dst, dst_size, "dst")?) };
        let (index, span) = reader.span(index)?;
        let dst = room(dst, span.src_len)?;
        let decoded = reader.source().decode(index, &span, dst);
        decoded.map_err(|error| reader.refusal(&error))
    })
}

/// The bytes of frame number `index` as they are stored, for who sends them on: physical_size of them into `dst`. Behind the
/// prologue they make a capture of this format again, of the same source; what could be skipped between frames is left out. The
/// frame's headers are checked, its content is not.
///
/// PCAPZST_E_RANGE as of pcapzst_decode_frame. PCAPZST_E_CHANGED when the file holds another frame there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcapzst_read_stored(
    reader: *const pcapzst_reader,
    index: u64,
    dst: *mut c_void,
    dst_size: u64,
) -> pcapzst_status {
    call(|| {
        // SAFETY: the caller's pointers, as the header asks for.
        let (reader, dst) = unsafe { (object(reader, "reader")?, buffer(dst, dst_size, "dst")?) };
        let (index, span) = reader.span(index)?;
        let dst = room(dst, span.phys_len)?;
        let stored = reader.source().read_stored(index, &span, dst);
        stored.map_err(|error| reader.refusal(&error))
    })
}

/// The first prologue_size bytes of the file into `dst`: marker and header frame. PCAPZST_E_RANGE, and nothing written, when
/// `dst_size` is less; PCAPZST_E_TORN before they are whole.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcapzst_read_prologue(
    reader: *const pcapzst_reader,
    dst: *mut c_void,
    dst_size: u64,
) -> pcapzst_status {
    call(|| {
        // SAFETY: the caller's pointers, as the header asks for.
        let (reader, dst) = unsafe { (object(reader, "reader")?, buffer(dst, dst_size, "dst")?) };
        let len = reader.source().prologue_len();
        if len == 0 {
            let words = format!("{}: no global header yet", reader.name());
            return Err(Refusal::new(PCAPZST_E_TORN, words));
        }
        let read = reader.source().read_prologue(room(dst, len)?);
        read.map_err(|error| reader.refusal(&error))
    })
}

/// The first `wanted` bytes of a caller's buffer.
pub(super) fn room(dst: &mut [u8], wanted: u64) -> Result<&mut [u8], Refusal> {
    let got = dst.len();
    usize::try_from(wanted)
        .ok()
        .and_then(|wanted| dst.get_mut(..wanted))
        .ok_or_else(|| Refusal::range(format!("the buffer: wanted {wanted} bytes, got {got}")))
}
