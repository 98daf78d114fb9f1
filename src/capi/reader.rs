//! What a reader tells and reads.

use std::ffi::c_void;
use std::sync::Arc;
use std::time::Duration;

use super::guard::{Refusal, buffer, call, object, out, wipe};
use super::status::pcapzst_status::{self, *};
use crate::capture::live::{Live, Outlook};
use crate::capture::{Error, OnFault, Progress, Source, State};
use crate::format::marker::{self, Marker};
use crate::format::pcap::{GLOBAL_HEADER_LEN, Magic};
use crate::format::table::Span;

/// Source bytes asked for at once where no frame is known to be: there is a fault, or the end.
const STEP: u64 = 4096;

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

    pub(super) fn source(&self) -> &Source {
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
    /// A frame is malformed, does not decode, or is larger than max_frame_size (then fault is PCAPZST_E_LIMIT). What is before
    /// and, unless the walk ended there, behind it can be read.
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
            Ok(Outlook::Replaced) => Err(Refusal::replaced(&reader.name)),
            Ok(_) => Ok(()),
            Err(error) => Err(reader.refusal(&error)),
        }
    })
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
        while let Some(room) = dst.get_mut(done..).filter(|room| !room.is_empty()) {
            let at = offset.saturating_add(done as u64);
            let end = match source.find(at) {
                Some((_, span)) => span.src_end().as_u64(),
                None if at < GLOBAL_HEADER_LEN => GLOBAL_HEADER_LEN,
                None => at.saturating_add(STEP),
            };
            let most = usize::try_from(end - at).unwrap_or(usize::MAX);
            match source.read(at, most.min(room.len()), OnFault::ServeGood) {
                Ok(bytes) if bytes.is_empty() => break,
                Ok(bytes) => {
                    // A read gives no more than it is asked for.
                    let (to, _) = room.split_at_mut(bytes.len().min(room.len()));
                    to.copy_from_slice(&bytes);
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
