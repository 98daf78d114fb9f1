//! Captures written by a C caller.

use std::ffi::{c_char, c_void};
use std::time::{Duration, Instant};

use super::guard::{
    Refusal, bytes, call, call_or, hand_out, object, out, out_object, reclaim, wipe,
};
use super::open::path_of;
use super::status::pcapzst_status::{self, *};
use crate::capture::Error;
use crate::capture::writer::{Existing, FRAME_TARGET, LEVEL, Options, Writer, Written};
use crate::format::pcap::{GlobalHeader, LengthRule, Magic, Record};

/// A capture that is written.
///
/// Owner: who created it, until pcapzst_writer_close or pcapzst_writer_abandon. Threads: one at a time.
pub struct pcapzst_writer {
    /// `None` once it is finished.
    writer: Option<Writer>,
    written: Written,
    flush_after: Option<Duration>,
    /// When the first record came that no frame holds yet.
    pending_since: Option<Instant>,
    /// For messages.
    name: String,
}

/// As `flags`: replace a file, or a partial one, that is there.
pub const PCAPZST_WRITER_REPLACE: u32 = 1;
/// As `flags`: go on behind the last whole frame of a partial file that a writer left, its torn end cut off; start anew where there is
/// none. A file under the final name is PCAPZST_E_EXISTS. Where the global header is there already (has_header), packets may be
/// added at once.
pub const PCAPZST_WRITER_RESUME: u32 = 2;

/// Source bytes handed to the writer at once.
const PIECE: usize = 1024 * 1024;

/// How to write. All zeros, as NULL in its place, is the default.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct pcapzst_writer_options {
    /// zstd's compression level; 0 for 2.
    pub level: i32,
    /// PCAPZST_WRITER_REPLACE or PCAPZST_WRITER_RESUME, not both; 0: nothing that is there is touched.
    pub flags: u32,
    /// Source bytes that a frame aims at; 0 for 256 KiB.
    pub frame_target: u64,
    /// A frame is ended when its first record has waited so many milliseconds; 0 for never. Looked at when records are added:
    /// between two calls nothing is written, so a caller with long silences flushes by himself.
    pub flush_ms: u32,
}

/// What was written so far.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct pcapzst_written {
    /// Source bytes in whole frames, those of an earlier writer included: where pcapzst_writer_write goes on.
    pub source_size: u64,
    /// Bytes of the file.
    pub physical_size: u64,
    /// Data frames.
    pub frames: u64,
    /// Source bytes that no frame holds yet.
    pub pending_size: u64,
    /// 1 if the global header is written, else 0.
    pub has_header: u32,
}

impl pcapzst_writer {
    fn open(&mut self) -> Result<(&mut Writer, &str), Refusal> {
        match &mut self.writer {
            Some(writer) => Ok((writer, &self.name)),
            None => Err(Refusal::new(
                PCAPZST_E_INVALID,
                format!("{}: is finished", self.name),
            )),
        }
    }

    /// Does `work`, then what is due: a frame whose first record has waited long enough is ended.
    fn work(&mut self, work: impl FnOnce(&mut Writer) -> Result<(), Error>) -> Result<(), Refusal> {
        let flush_after = self.flush_after;
        let mut since = self.pending_since;
        let (writer, name) = self.open()?;
        let frames = writer.written().frames;
        let outcome = work(writer).and_then(|()| {
            if writer.written().frames > frames || writer.pending_bytes() == 0 {
                since = None;
            }
            let Some(flush_after) = flush_after.filter(|_| writer.pending_bytes() > 0) else {
                return Ok(());
            };
            if since.get_or_insert_with(Instant::now).elapsed() >= flush_after {
                since = None;
                writer.flush()?;
            }
            Ok(())
        });
        let outcome = outcome.map_err(|error| Refusal::of(&error, name));
        self.pending_since = since;
        outcome
    }
}

/// Begins to write the capture at `path`, which is to end in `.pcap.zst`: as `path.partial`, which readers may follow, until
/// pcapzst_writer_finish gives it its name. `options` may be NULL. `*out` is NULL on failure.
///
/// PCAPZST_E_EXISTS when a file is there, or a partial one that another writer left, and the flags do not say what to do with it.
/// PCAPZST_E_BUSY, at once, while another writer has it; the kernel lets go of a killed writer's lock. PCAPZST_E_FORMAT and others
/// for a partial file that is to be resumed and is none of a writer's. PCAPZST_E_INVALID, _RANGE, _IO, _NOMEM, _ZSTD.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcapzst_writer_create(
    path: *const c_char,
    options: *const pcapzst_writer_options,
    out: *mut *mut pcapzst_writer,
) -> pcapzst_status {
    call(|| {
        // SAFETY: the caller's pointers, as the header asks for.
        let (out, path) = unsafe { (out_object(out, "out")?, path_of(path)?) };
        // SAFETY: as above.
        let options = unsafe { options.as_ref() }.copied().unwrap_or_default();
        let existing = match options.flags {
            0 => Existing::Keep,
            PCAPZST_WRITER_REPLACE => Existing::Replace,
            PCAPZST_WRITER_RESUME => Existing::Append,
            flags => {
                let words = format!("flags: {flags} is none of PCAPZST_WRITER_…");
                return Err(Refusal::new(PCAPZST_E_INVALID, words));
            }
        };
        let frame_target = match options.frame_target {
            0 => FRAME_TARGET,
            asked => usize::try_from(asked)
                .ok()
                .filter(|_| asked <= crate::capture::MAX_FRAME_SIZE)
                .ok_or_else(|| Refusal::range(format!("frame_target: {asked}")))?,
        };
        let level = if options.level == 0 {
            LEVEL
        } else {
            options.level
        };
        let name = path.to_string_lossy().into_owned();
        let writer = Writer::create(
            path,
            Options {
                level,
                frame_target,
                existing,
            },
        )
        .map_err(|error| Refusal::of(&error, &name))?;
        let flush_after = Duration::from_millis(u64::from(options.flush_ms));
        *out = hand_out(pcapzst_writer {
            written: writer.written(),
            writer: Some(writer),
            flush_after: Some(flush_after).filter(|after| !after.is_zero()),
            pending_since: None,
            name,
        });
        Ok(())
    })
}

/// Writes the global header for packets that are added one by one: little-endian, version 2.4, in nanoseconds if
/// `is_nanoseconds` is not 0, else microseconds. In a resumed file it must say what the header there says, and is not
/// written again.
///
/// PCAPZST_E_EXISTS when there is another header already.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcapzst_writer_header(
    writer: *mut pcapzst_writer,
    link_type: u32,
    snaplen: u32,
    is_nanoseconds: i32,
) -> pcapzst_status {
    call(|| {
        // SAFETY: the caller's pointer, as the header asks for.
        let writer = unsafe { out(writer, "writer") }?;
        let header = GlobalHeader {
            magic: if is_nanoseconds == 0 {
                Magic::LeUs
            } else {
                Magic::LeNs
            },
            version: (2, 4),
            snaplen,
            network: link_type,
            zone: [0; 8],
        };
        writer.work(|writer| writer.begin(&header))
    })
}

/// Adds a packet behind the header: `captured_length` bytes from `data` on.
///
/// PCAPZST_E_INVALID before there is a header, and behind half a record that pcapzst_writer_write took. PCAPZST_E_LIMIT for more
/// captured bytes than the header's snaplen, or 262144; PCAPZST_E_RANGE for a time that a pcap record cannot hold (2106 and
/// later). Nothing is taken then. Behind PCAPZST_E_IO or _ZSTD the packet is kept, and written by the next call that can: it is not
/// to be added again. Behind PCAPZST_E_NOMEM, and with 128 MiB pending, it is if source_size and pending_size together have
/// grown.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcapzst_writer_add(
    writer: *mut pcapzst_writer,
    ts_ns: u64,
    data: *const c_void,
    captured_length: u32,
    original_length: u32,
) -> pcapzst_status {
    call(|| {
        // SAFETY: the caller's pointers, as the header asks for.
        let (writer, data) = unsafe {
            (
                out(writer, "writer")?,
                bytes(data, u64::from(captured_length), "data")?,
            )
        };
        let (open, name) = writer.open()?;
        let Some(header) = open.header().copied() else {
            let words = format!("{name}: a packet before the global header");
            return Err(Refusal::new(PCAPZST_E_INVALID, words));
        };
        if let Some(fault) = open.cut_record() {
            let words = format!("{name}: a packet within another one: {fault}");
            return Err(Refusal::new(PCAPZST_E_INVALID, words));
        }
        let limit = header.incl_len_limit(LengthRule::Marked);
        if captured_length > limit {
            let words =
                format!("{name}: captured length: wanted at most {limit}, got {captured_length}");
            return Err(Refusal::new(PCAPZST_E_LIMIT, words));
        }
        if ts_ns > GlobalHeader::TS_NS_MOST {
            return Err(Refusal::range(format!("{name}: time {ts_ns} ns")));
        }
        let record = Record {
            ts_ns,
            incl_len: captured_length,
            orig_len: original_length,
        };
        writer.work(|writer| writer.add(&record, data))
    })
}

/// Takes the next bytes of a pcap file, in any pieces: in a new capture from its global header on, in a resumed one from source
/// offset source_size on.
///
/// PCAPZST_E_FORMAT for what is no pcap: whole records before it stay, and every further write fails and takes nothing. Behind
/// PCAPZST_E_IO, _NOMEM or _ZSTD a part of `data` may have been taken: source_size and pending_size together are where to go on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcapzst_writer_write(
    writer: *mut pcapzst_writer,
    data: *const c_void,
    size: u64,
) -> pcapzst_status {
    call(|| {
        // SAFETY: the caller's pointers, as the header asks for.
        let (writer, data) = unsafe { (out(writer, "writer")?, bytes(data, size, "data")?) };
        // In steps, so that what waits for its frame stays small.
        let mut pieces = data.chunks(PIECE);
        pieces.try_for_each(|piece| writer.work(|writer| writer.write(piece)))
    })
}

/// Ends the frame: every whole record so far can be read behind this call, and so can a header and frames that could not be
/// written before. Not yet on disk: that is pcapzst_writer_finish's. Fails as pcapzst_writer_write does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcapzst_writer_flush(writer: *mut pcapzst_writer) -> pcapzst_status {
    call(|| {
        // SAFETY: the caller's pointer, as the header asks for.
        let writer = unsafe { out(writer, "writer") }?;
        writer.work(Writer::flush)
    })
}

/// What was written so far, into `written`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcapzst_writer_get_written(
    writer: *const pcapzst_writer,
    written: *mut pcapzst_written,
) -> pcapzst_status {
    call(|| {
        // SAFETY: the caller's pointers, as the header asks for.
        unsafe { wipe(written) };
        // SAFETY: as above.
        let (writer, place) = unsafe { (object(writer, "writer")?, out(written, "written")?) };
        let open = writer.writer.as_ref();
        let written = open.map_or(writer.written, Writer::written);
        *place = pcapzst_written {
            source_size: written.source_bytes,
            physical_size: written.physical_bytes,
            frames: written.frames,
            pending_size: open.map_or(0, Writer::pending_bytes),
            has_header: open.is_none_or(Writer::has_header).into(),
        };
        Ok(())
    })
}

/// Completes the capture: flushes, brings it to the disk, and renames it to its final name. Then the writer is only good to
/// be closed.
///
/// PCAPZST_E_TORN, and nothing renamed, when bytes of half a record or header are pending. PCAPZST_E_CHANGED when the partial path no
/// longer leads to the file that was written, PCAPZST_E_EXISTS when the final name has come to be taken: the file stays as it
/// is, and finishing may be tried again. So it may be after PCAPZST_E_IO, which may come behind the final name, when the folder
/// cannot be brought to the disk, or (NFS) the partial name not be removed: packets are PCAPZST_E_EXISTS then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcapzst_writer_finish(writer: *mut pcapzst_writer) -> pcapzst_status {
    call(|| {
        // SAFETY: the caller's pointer, as the header asks for.
        let writer = unsafe { out(writer, "writer") }?;
        let (open, name) = writer.open()?;
        let refuse = |error: &Error| Refusal::of(error, name);
        if let Some(fault) = open.cut_record() {
            return Err(refuse(&Error::Fault(fault)));
        }
        writer.written = open.finish().map_err(|error| refuse(&error))?;
        writer.writer = None;
        Ok(())
    })
}

/// Closes a writer. One that is not finished leaves its partial file, with every whole record that was added if those can be
/// written: another writer may resume it. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcapzst_writer_close(writer: *mut pcapzst_writer) {
    call_or((), || {
        // SAFETY: the caller's pointer, as the header asks for.
        let writer = unsafe { reclaim(writer) };
        if let Some(mut open) = writer.and_then(|writer| writer.writer)
            && let Err(error) = open.flush()
        {
            log::warn!("closing a writer: {error}");
        }
    });
}

/// Closes a writer and removes its partial file, unless it is finished. NULL is fine. PCAPZST_E_CHANGED, and nothing removed, when
/// the partial path leads to another file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcapzst_writer_abandon(writer: *mut pcapzst_writer) -> pcapzst_status {
    call(|| {
        // SAFETY: the caller's pointer, as the header asks for.
        let Some(writer) = (unsafe { reclaim(writer) }) else {
            return Ok(());
        };
        let pcapzst_writer { writer, name, .. } = *writer;
        let abandoned = writer.map_or(Ok(()), Writer::abandon);
        abandoned.map_err(|error| Refusal::of(&error, &name))
    })
}
