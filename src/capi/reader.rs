//! What a reader tells and reads.

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use super::guard::{Refusal, buffer, call, call_or, object, out, wipe};
use super::status::pcapzst_status::{self, *};
use crate::capture::live::{Live, Outlook};
use crate::capture::{Error, OnFault, Progress, Source, State};
use crate::format::marker::{self, Marker};
use crate::format::pcap::Magic;
use crate::format::table::Span;

/// A capture, open for reading.
///
/// Owner: who opened it, until pcapzst_close. Threads: every function that takes a const reader may be called by any number of
/// threads at once; pcapzst_close by one, when the others are done.
pub struct pcapzst_reader {
    live: Arc<Live>,
    /// For messages.
    name: String,
}

impl pcapzst_reader {
    pub(super) fn new(live: Live, name: String) -> Self {
        Self {
            live: Arc::new(live),
            name,
        }
    }

    pub(super) fn live(&self) -> &Arc<Live> {
        &self.live
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    fn source(&self) -> &Source {
        self.live.source()
    }

    pub(super) fn refusal(&self, error: &Error) -> Refusal {
        Refusal::of(error, &self.name)
    }

    /// Whether a whole marker of a version that is known is there.
    pub(super) fn has_marker(&self) -> bool {
        let mut head = [0; marker::DECIDING];
        let read = self.source().read_prologue(&mut head);
        read.is_ok() && matches!(marker::check(&head), Ok(Marker::Valid { .. }))
    }

    /// Frame number `index`, which is there.
    pub(super) fn span(&self, index: u64) -> Result<(usize, Span), Refusal> {
        usize::try_from(index)
            .ok()
            .and_then(|index| Some((index, self.source().span(index)?)))
            .ok_or_else(|| {
                let frames = self.source().facts().frames;
                Refusal::range(format!("{}: frame {index} of {frames}", self.name))
            })
    }
}

/// Where a capture stands.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum pcapzst_state {
    /// Being written: it has its partial name.
    PCAPZST_GROWING = 0,
    /// It has its final name, and a tail that is no whole frame yet: the writer's last bytes are on their way, or it was cut.
    PCAPZST_DRAINING = 1,
    /// Final name, and every byte in whole frames. Nothing more comes.
    PCAPZST_COMPLETE = 2,
    /// A frame is malformed or does not decode. What is before and, unless the walk ended there, behind it can be read.
    PCAPZST_DAMAGED = 3,
    /// No more can come, though it is not known to be whole: its file was removed, or written over with another capture, or it is
    /// in memory and ends within a frame.
    PCAPZST_CUT_SHORT = 4,
}

use pcapzst_state::*;

/// Byte order and time unit of a capture's source, as its first four bytes tell.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum pcapzst_magic {
    /// No global header yet.
    PCAPZST_NO_MAGIC = 0,
    /// Little-endian, microseconds: d4 c3 b2 a1.
    PCAPZST_LE_US = 1,
    /// Big-endian, microseconds: a1 b2 c3 d4.
    PCAPZST_BE_US = 2,
    /// Little-endian, nanoseconds: 4d 3c b2 a1.
    PCAPZST_LE_NS = 3,
    /// Big-endian, nanoseconds: a1 b2 3c 4d.
    PCAPZST_BE_NS = 4,
}

/// What is known of a capture since the last look at its file.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct pcapzst_info {
    /// Where it stands.
    pub state: pcapzst_state,
    /// The first fault found so far; PCAPZST_OK if there is none.
    pub fault: pcapzst_status,
    /// Source bytes in whole frames, global header included: what can be read.
    pub source_size: u64,
    /// Bytes of the file.
    pub physical_size: u64,
    /// Data frames.
    pub frames: u64,
    /// Bytes at the end of the file that are no whole frame yet.
    pub torn_bytes: u64,
    /// Bytes of the file before the first data frame: marker and header frame; 0 before they are whole.
    pub prologue_size: u64,
    /// FileId: the first packet's time in nanoseconds since 1970; 0, with file_id_crc32, before there is one.
    pub file_id_ts_ns: u64,
    /// FileId: CRC-32 of the global header and the first record header.
    pub file_id_crc32: u32,
    /// Byte order and time unit; what follows is 0 without one.
    pub magic: pcapzst_magic,
    /// Nanoseconds of one step of a time stamp: 1000 or 1.
    pub ts_unit_ns: u32,
    /// The link-type field, all 32 bits; the link type is the low 16.
    pub link_type: u32,
    /// Snapshot length in bytes.
    pub snaplen: u32,
    /// The pcap version.
    pub version_major: u16,
    /// As version_major.
    pub version_minor: u16,
    /// 1 when its final name was seen, or it is in memory; 0 while it is being written. Tells of a damaged capture whether a
    /// restarted writer may yet mend it.
    pub is_final: u32,
}

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

/// What is known of the capture, without a look at its file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcapzst_get_info(
    reader: *const pcapzst_reader,
    info: *mut pcapzst_info,
) -> pcapzst_status {
    call(|| {
        // SAFETY: the caller's pointers, as the header asks for.
        unsafe { wipe(info) };
        // SAFETY: as above.
        let (reader, info) = unsafe { (object(reader, "reader")?, out(info, "info")?) };
        *info = describe(reader);
        Ok(())
    })
}

fn describe(reader: &pcapzst_reader) -> pcapzst_info {
    let facts = reader.source().facts();
    let header = facts.header;
    let magic = match header.map(|header| header.magic) {
        None => pcapzst_magic::PCAPZST_NO_MAGIC,
        Some(Magic::LeUs) => pcapzst_magic::PCAPZST_LE_US,
        Some(Magic::BeUs) => pcapzst_magic::PCAPZST_BE_US,
        Some(Magic::LeNs) => pcapzst_magic::PCAPZST_LE_NS,
        Some(Magic::BeNs) => pcapzst_magic::PCAPZST_BE_NS,
    };
    let unit = header.map_or(0, |header| header.magic.frac_ns());
    let (version_major, version_minor) = header.map_or((0, 0), |header| header.version);
    pcapzst_info {
        state: state(reader),
        fault: facts.error.as_ref().map_or(PCAPZST_OK, Into::into),
        source_size: reader.source().reachable(),
        physical_size: facts.physical_len,
        frames: facts.frames,
        torn_bytes: facts.torn_bytes,
        prologue_size: reader.source().prologue_len(),
        file_id_ts_ns: facts.file_id.first_packet_ts,
        file_id_crc32: facts.file_id.header_crc32,
        magic,
        ts_unit_ns: u32::try_from(unit).unwrap_or(0),
        link_type: header.map_or(0, |header| header.network),
        snaplen: header.map_or(0, |header| header.snaplen),
        version_major,
        version_minor,
        is_final: (reader.source().progress() == Progress::Final).into(),
    }
}

fn state(reader: &pcapzst_reader) -> pcapzst_state {
    match (reader.source().state(), reader.live().outlook()) {
        (_, Ok(Outlook::Replaced)) => PCAPZST_CUT_SHORT,
        (State::Complete, _) => PCAPZST_COMPLETE,
        (State::Damaged | State::Refused, _) => PCAPZST_DAMAGED,
        (_, Ok(Outlook::CutShort)) => PCAPZST_CUT_SHORT,
        (State::Growing, _) => PCAPZST_GROWING,
        (State::Draining, _) => PCAPZST_DRAINING,
    }
}

/// Looks at the file: takes in the frames that are whole by now, and the rename that completes the capture. `state` may be
/// NULL; it receives where the capture stands, on failure too.
///
/// Reads only what was not walked before. Other threads may go on reading meanwhile.
///
/// PCAPZST_E_CHANGED when another capture was written over the file: nothing of it is shown. PCAPZST_E_FORMAT and others, as of
/// pcapzst_open, for a fault behind which nothing can be mapped; what is before it can still be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcapzst_refresh(
    reader: *const pcapzst_reader,
    state: *mut pcapzst_state,
) -> pcapzst_status {
    call(|| {
        // SAFETY: the caller's pointers, as the header asks for.
        unsafe { wipe(state) };
        // SAFETY: as above.
        let (reader, place) = unsafe { (object(reader, "reader")?, state.as_mut()) };
        let outlook = reader.live().refresh();
        if let Some(place) = place {
            *place = self::state(reader);
        }
        match outlook {
            Ok(Outlook::Replaced) => Err(replaced(reader)),
            Ok(_) => Ok(()),
            Err(error) => Err(reader.refusal(&error)),
        }
    })
}

pub(super) fn replaced(reader: &pcapzst_reader) -> Refusal {
    let words = format!("{}: another capture was written over it", reader.name);
    Refusal::new(PCAPZST_E_CHANGED, words)
}

/// Waits until the file has changed since the last wait, or `timeout_ms` milliseconds are over: the time to refresh. The first
/// wait of a reader ends at once. One thread at a time.
///
/// File systems over a network tell of no change that another machine makes: wait no longer than a second at a time there.
///
/// PCAPZST_E_INVALID for a reader of memory, which never changes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcapzst_wait(
    reader: *const pcapzst_reader,
    timeout_ms: u32,
) -> pcapzst_status {
    call(|| {
        // SAFETY: the caller's pointer, as the header asks for.
        let reader = unsafe { object(reader, "reader") }?;
        if reader.live().file().is_none() {
            let words = format!("{} never changes", reader.name);
            return Err(Refusal::new(PCAPZST_E_INVALID, words));
        }
        let patience = Duration::from_millis(u64::from(timeout_ms));
        let waited = reader.live().wait(patience);
        waited.map_err(|error| reader.refusal(&error))
    })
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
                reader.name
            ))
        })?;
        *index = found;
        Ok(())
    })
}

/// Source bytes from source offset `offset` on into `dst`: `size` of them, fewer only at the end of what is there or before a fault;
/// how many, into `got`. 0 bytes and PCAPZST_OK are the end: refresh to see what came behind it. A fault at the very first byte is the
/// status.
///
/// Decodes the frames that the range touches, unless they are kept.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcapzst_read(
    reader: *const pcapzst_reader,
    offset: u64,
    dst: *mut c_void,
    size: u64,
    got: *mut u64,
) -> pcapzst_status {
    call(|| {
        // SAFETY: the caller's pointers, as the header asks for.
        unsafe { wipe(got) };
        // SAFETY: as above.
        let (got, reader) = unsafe { (out(got, "got")?, object(reader, "reader")?) };
        // SAFETY: as above.
        let dst = unsafe { buffer(dst, size, "dst") }?;
        let source = reader.source();
        let mut done = 0;
        // A frame at a time, so that a large range takes no second buffer as large.
        while done < dst.len() {
            let at = offset.saturating_add(done as u64);
            let most = source.find(at).map_or(dst.len(), |(_, span)| {
                usize::try_from(span.src_end().as_u64() - at).unwrap_or(usize::MAX)
            });
            match source.read(at, most.min(dst.len() - done), OnFault::ServeGood) {
                Ok(bytes) if bytes.is_empty() => break,
                Ok(bytes) => {
                    dst[done..][..bytes.len()].copy_from_slice(&bytes);
                    done += bytes.len();
                }
                Err(_) if done > 0 => break,
                Err(error) => return Err(reader.refusal(&error)),
            }
        }
        *got = done as u64;
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
            let words = format!("{}: no global header yet", reader.name);
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
