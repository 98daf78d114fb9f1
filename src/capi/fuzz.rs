//! A capture in memory, of any bytes, through the functions that C calls.
#![allow(
    clippy::missing_panics_doc,
    reason = "a property that does not hold is a panic"
)]

use std::ffi::CStr;
use std::ptr;

use super::pcapzst_next::*;
use super::pcapzst_state::*;
use super::pcapzst_status::{self, *};
use super::*;
use crate::format::fuzz::Dice;

/// The largest frame that is decoded here.
const FRAME_MOST: u64 = 256 * 1024;
/// Source bytes that are read in a row.
const READ_MOST: u64 = 4 * 1024 * 1024;

/// Opens any bytes under tight limits and calls everything that reads: every status is one that the header names, frames and reads
/// give the same bytes, packets lie in them end to end, and what was not asked to be written is not.
pub fn open_memory(bytes: &[u8]) {
    let options = pcapzst_reader_options {
        cache_size: 4 * FRAME_MOST,
        max_frame_size: FRAME_MOST,
    };
    let mut reader = ptr::dangling_mut::<pcapzst_reader>();
    let mut version = 77;
    // SAFETY: the bytes outlive the reader; the rest are places of ours.
    let status = unsafe {
        pcapzst_open_memory(
            bytes.as_ptr().cast(),
            bytes.len() as u64,
            &raw const options,
            &raw mut reader,
            &raw mut version,
        )
    };
    if status != PCAPZST_OK {
        refused(bytes, status, reader, version);
        return;
    }
    // Thirteen bytes hold a version; fewer may still become a marker.
    let told = if bytes.len() < 13 {
        0
    } else {
        PCAPZST_FORMAT_VERSION_MAX
    };
    assert_eq!(version, told);
    let mut state = PCAPZST_GROWING;
    // SAFETY: an open reader, and a place of ours.
    let looked = unsafe { pcapzst_refresh(reader, &raw mut state) };
    let open = Open {
        reader,
        info: info_of(reader),
        has_walk_fault: looked != PCAPZST_OK,
    };
    assert_eq!(
        (open.info.physical_size, open.info.state),
        (bytes.len() as u64, state)
    );
    assert!(
        matches!(
            state,
            PCAPZST_COMPLETE | PCAPZST_DAMAGED | PCAPZST_CUT_SHORT
        ),
        "{state:?}"
    );
    if open.has_walk_fault {
        assert_eq!(
            (state, open.info.fault),
            (PCAPZST_DAMAGED, looked),
            "the first fault is told"
        );
    }
    let truth = open.frames();
    open.reads(&truth, &mut Dice::of(bytes));
    open.stored(bytes);
    open.packets(&truth);
    let again = info_of(reader);
    assert_eq!(
        (again.source_size, again.frames),
        (open.info.source_size, open.info.frames)
    );
    // SAFETY: opened above, closed once.
    unsafe { pcapzst_close(reader) };
}

fn refused(bytes: &[u8], status: pcapzst_status, reader: *mut pcapzst_reader, version: u32) {
    assert!(reader.is_null());
    let is_known = matches!(
        status,
        PCAPZST_E_NOT_MARKED
            | PCAPZST_E_VERSION
            | PCAPZST_E_FORMAT
            | PCAPZST_E_ZSTD
            | PCAPZST_E_LIMIT
    );
    assert!(
        is_known || (bytes.is_empty() && status == PCAPZST_E_INVALID),
        "{status:?}"
    );
    match status {
        PCAPZST_E_NOT_MARKED | PCAPZST_E_INVALID => assert_eq!(version, 0),
        PCAPZST_E_VERSION => assert_ne!(version, PCAPZST_FORMAT_VERSION_MAX),
        _ => assert_eq!(version, PCAPZST_FORMAT_VERSION_MAX),
    }
    // SAFETY: never NULL, and valid until the next failing call.
    let words = unsafe { CStr::from_ptr(pcapzst_last_error()) };
    assert!(!words.is_empty());
}

fn info_of(reader: *const pcapzst_reader) -> pcapzst_info {
    // SAFETY: zeros are a value of it.
    let mut info: pcapzst_info = unsafe { std::mem::zeroed() };
    // SAFETY: an open reader, and a place of ours.
    let status = unsafe { pcapzst_get_info(reader, &raw mut info) };
    assert_eq!(status, PCAPZST_OK);
    info
}

struct Open {
    reader: *mut pcapzst_reader,
    info: pcapzst_info,
    /// Something behind the last frame can never be mapped.
    has_walk_fault: bool,
}

/// A frame, and its source bytes if it decodes.
struct Frame {
    info: pcapzst_frame_info,
    bytes: Result<Vec<u8>, pcapzst_status>,
}

impl Open {
    /// All frames: end to end from the prologue on, within what is there; each decoded.
    fn frames(&self) -> Vec<Frame> {
        let mut source = if self.info.prologue_size == 0 { 0 } else { 24 };
        let mut physical = self.info.prologue_size;
        let mut frames: Vec<Frame> = Vec::new();
        // SAFETY: an open reader.
        let count = unsafe { pcapzst_frame_count(self.reader) };
        assert_eq!(count, self.info.frames);
        for index in 0..count {
            let info = self
                .frame_info(index)
                .unwrap_or_else(|status| panic!("{index}: {status:?}"));
            assert_eq!(info.source_offset, source, "end to end");
            assert!(info.physical_offset >= physical && info.source_size > 0);
            source += info.source_size;
            physical = info.physical_offset + info.physical_size;
            let bytes = self.decode(index, &info);
            for offset in [info.source_offset, source - 1] {
                let mut found = 0;
                // SAFETY: an open reader, and a place of ours.
                let status = unsafe { pcapzst_find_frame(self.reader, offset, &raw mut found) };
                assert_eq!((status, found), (PCAPZST_OK, index));
            }
            frames.push(Frame { info, bytes });
        }
        assert!(physical <= self.info.physical_size);
        assert_eq!(source, self.info.source_size);
        assert_eq!(self.frame_info(count).err(), Some(PCAPZST_E_RANGE));
        assert_eq!(self.frame_info(u64::MAX).err(), Some(PCAPZST_E_RANGE));
        frames
    }

    fn frame_info(&self, index: u64) -> Result<pcapzst_frame_info, pcapzst_status> {
        let mut info = pcapzst_frame_info {
            source_offset: 0,
            source_size: 0,
            physical_offset: 0,
            physical_size: 0,
        };
        // SAFETY: an open reader, and a place of ours.
        let status = unsafe { pcapzst_frame_info_at(self.reader, index, &raw mut info) };
        if status == PCAPZST_OK {
            Ok(info)
        } else {
            Err(status)
        }
    }

    /// Frame number `index`, decoded into a buffer that is one byte too long, and refused for one that is too short.
    fn decode(&self, index: u64, info: &pcapzst_frame_info) -> Result<Vec<u8>, pcapzst_status> {
        if info.source_size > FRAME_MOST {
            let mut byte = 0_u8;
            // Before there is a buffer of that size.
            // SAFETY: an open reader, and one byte of ours.
            let status =
                unsafe { pcapzst_decode_frame(self.reader, index, (&raw mut byte).cast(), 1) };
            assert_eq!((status, byte), (PCAPZST_E_RANGE, 0));
            return Err(PCAPZST_E_LIMIT);
        }
        let len = usize::try_from(info.source_size).unwrap_or(0);
        let mut bytes = vec![0xA5; len + 1];
        // SAFETY: an open reader, and a buffer of ours of that length.
        let short = unsafe {
            pcapzst_decode_frame(
                self.reader,
                index,
                bytes.as_mut_ptr().cast(),
                len as u64 - 1,
            )
        };
        assert!(short == PCAPZST_E_RANGE && bytes.iter().all(|byte| *byte == 0xA5));
        // SAFETY: as above.
        let status = unsafe {
            pcapzst_decode_frame(
                self.reader,
                index,
                bytes.as_mut_ptr().cast(),
                len as u64 + 1,
            )
        };
        assert_eq!(bytes.pop(), Some(0xA5), "a byte behind the frame");
        let mut batch = vec![0xA5_u8; len];
        let (mut failed, dst, size) = (7, batch.as_mut_ptr().cast(), len as u64);
        // SAFETY: as above; one slot.
        let batched = unsafe {
            pcapzst_decode_frames(
                self.reader,
                &raw const index,
                1,
                &raw const dst,
                &raw const size,
                0,
                &raw mut failed,
            )
        };
        assert_eq!(
            (batched, failed == PCAPZST_SLOT_NONE),
            (status, status == PCAPZST_OK)
        );
        if status == PCAPZST_OK {
            assert!(batch == bytes, "the batch gives other bytes");
            return Ok(bytes);
        }
        assert!(batch.iter().all(|byte| *byte == 0), "what failed is zeroed");
        assert!(
            matches!(status, PCAPZST_E_ZSTD | PCAPZST_E_FORMAT | PCAPZST_E_LIMIT),
            "{status:?}"
        );
        Err(status)
    }

    fn read(&self, offset: u64, len: usize) -> Result<Vec<u8>, pcapzst_status> {
        let mut bytes = vec![0xA5; len + 1];
        let mut got = 7;
        // SAFETY: an open reader, a buffer of ours of that length, and a place of ours.
        let status = unsafe {
            pcapzst_read(
                self.reader,
                offset,
                bytes.as_mut_ptr().cast(),
                len as u64,
                &raw mut got,
            )
        };
        assert_eq!(bytes.pop(), Some(0xA5), "a byte behind the buffer");
        assert!(got <= len as u64 && (status == PCAPZST_OK || got == 0));
        bytes.truncate(usize::try_from(got).unwrap_or(0));
        if status == PCAPZST_OK {
            Ok(bytes)
        } else {
            Err(status)
        }
    }

    /// Reads in a row, and at odd places: what the frames hold, up to the first that fails.
    fn reads(&self, frames: &[Frame], dice: &mut Dice) {
        let head = match self.info.prologue_size {
            0 => Vec::new(),
            _ => self.read(0, 24).unwrap_or_default(),
        };
        let end = self.info.source_size;
        assert!(head.len() == 24 || end == 0);
        for round in 0..24 {
            let most = usize::try_from(end.min(READ_MOST)).unwrap_or(0) + 40;
            let (offset, len) = match (round, frames.get(round / 2)) {
                (0, _) => (0, most),
                (_, Some(frame)) if round % 2 == 1 => {
                    (frame.info.source_offset, 1 + dice.below(100))
                }
                _ => (dice.below(most) as u64, dice.below(most)),
            };
            let wanted = expected(&head, frames, offset, len);
            match (self.read(offset, len), wanted) {
                (Ok(got), Ok(wanted)) => assert!(
                    got == wanted,
                    "{offset}+{len}: other bytes than the frames'"
                ),
                (Err(got), Err(Some(wanted))) => assert_eq!(got, wanted, "at {offset}"),
                (Err(_), Err(None)) => {
                    assert!(self.has_walk_fault, "a fault behind the last frame");
                }
                // Behind the last frame: the end, or what could not be mapped.
                (Ok(got), Err(None)) => {
                    assert!(got.is_empty() && (!self.has_walk_fault || offset > end));
                }
                (got, wanted) => panic!("{offset}+{len}: {got:?}, by its frames {wanted:?}"),
            }
        }
        assert!(matches!(self.read(u64::MAX, 10), Ok(bytes) if bytes.is_empty()));
    }

    /// The stored bytes are the file's; prologue and frames make a capture of the same source.
    fn stored(&self, file: &[u8]) {
        let len = usize::try_from(self.info.prologue_size).unwrap_or(0);
        let mut prologue = vec![0_u8; len];
        // SAFETY: an open reader, and a buffer of ours of that length.
        let status =
            unsafe { pcapzst_read_prologue(self.reader, prologue.as_mut_ptr().cast(), len as u64) };
        assert_eq!(status == PCAPZST_E_TORN, len == 0);
        assert!(file.starts_with(&prologue));
        for index in 0..self.info.frames.min(8) {
            let Ok(info) = self.frame_info(index) else {
                panic!("frame {index} was there");
            };
            let len = usize::try_from(info.physical_size).unwrap_or(0);
            let mut stored = vec![0_u8; len];
            // SAFETY: as above.
            let status = unsafe {
                pcapzst_read_stored(self.reader, index, stored.as_mut_ptr().cast(), len as u64)
            };
            assert_eq!(status, PCAPZST_OK);
            let start = usize::try_from(info.physical_offset).unwrap_or(0);
            assert!(
                stored == file[start..start + len],
                "other bytes than the file's"
            );
        }
    }

    /// Packets from the first frame on: end to end, with the bytes that the frames hold.
    fn packets(&self, frames: &[Frame]) {
        let mut records = ptr::null_mut();
        // SAFETY: an open reader, and a place of ours.
        let status = unsafe { pcapzst_records_open(self.reader, 0, &raw mut records) };
        assert_eq!(status, PCAPZST_OK);
        let mut at = 24;
        loop {
            let mut packet = pcapzst_packet {
                ts_ns: 0,
                source_offset: 0,
                data: ptr::null(),
                captured_length: 0,
                original_length: 0,
            };
            let mut next = PCAPZST_NOT_YET;
            // SAFETY: an open iterator, and places of ours.
            let status = unsafe { pcapzst_records_next(records, &raw mut packet, &raw mut next) };
            if status != PCAPZST_OK || next != PCAPZST_PACKET {
                let is_end = status == PCAPZST_OK && next == PCAPZST_AT_END;
                assert!(
                    !is_end || at == self.info.source_size.max(24),
                    "the end at {at}"
                );
                // SAFETY: as above: the same again.
                let again =
                    unsafe { pcapzst_records_next(records, &raw mut packet, &raw mut next) };
                assert_eq!(again, status);
                break;
            }
            assert_eq!(packet.source_offset, at);
            let len = packet.captured_length as usize;
            // SAFETY: valid until the next call with the iterator.
            let bytes = unsafe { std::slice::from_raw_parts(packet.data, len) };
            let found = expected(&[], frames, at + 16, len);
            assert!(
                len == 0 || found.is_ok_and(|found| found == bytes),
                "another packet at {at}"
            );
            at += 16 + len as u64;
        }
        // SAFETY: opened above, closed once.
        unsafe { pcapzst_records_close(records) };
    }
}

/// What a read gives by the global header and the frames: bytes up to the first frame that fails, its status if that is the first,
/// `None` behind the last.
fn expected(
    head: &[u8],
    frames: &[Frame],
    offset: u64,
    len: usize,
) -> Result<Vec<u8>, Option<pcapzst_status>> {
    let mut bytes = Vec::new();
    if len == 0 {
        return Ok(bytes);
    }
    if let Some(rest) = usize::try_from(offset)
        .ok()
        .and_then(|start| head.get(start..))
    {
        bytes.extend(rest.iter().take(len));
    }
    while bytes.len() < len {
        let at = offset + bytes.len() as u64;
        let within = |frame: &&Frame| {
            let start = frame.info.source_offset;
            (start..start + frame.info.source_size).contains(&at)
        };
        let failed = match frames.iter().find(within) {
            Some(Frame {
                info,
                bytes: Ok(content),
            }) => {
                let start = usize::try_from(at - info.source_offset).unwrap_or(usize::MAX);
                let most = len - bytes.len();
                bytes.extend(content[start..].iter().take(most));
                continue;
            }
            Some(Frame {
                bytes: Err(status), ..
            }) => Some(*status),
            None => None,
        };
        if bytes.is_empty() {
            return Err(failed);
        }
        break;
    }
    Ok(bytes)
}
