//! A capture in memory, of any bytes, through the functions that C calls.
#![allow(
    clippy::missing_panics_doc,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::panic,
    clippy::unreachable,
    reason = "a property that does not hold is a panic"
)]

mod frame;

use std::ffi::CStr;
use std::marker::PhantomData;
use std::ptr;

use super::pcapzst_next::*;
use super::pcapzst_state::*;
use super::pcapzst_status::{self, *};
use super::*;
use crate::format::fuzz::Dice;
use frame::{Frame, expected};

/// The largest frame that is decoded here.
const FRAME_MOST: u64 = 256 * 1024;
/// Source bytes that are read in a row.
const READ_MOST: u64 = 4 * 1024 * 1024;

/// Opens any bytes under tight limits and calls everything that reads: every status is one that the header names, frames and reads
/// give the same bytes, packets lie in them end to end, and what was not asked to be written is not.
pub fn open_memory(bytes: &[u8]) {
    let Some(open) = Open::new(bytes) else {
        return;
    };
    assert_eq!(open.info.physical_size, bytes.len() as u64);
    let truth = open.frames();
    open.reads(&truth, &mut Dice::of(bytes));
    open.stored(bytes);
    open.packets(&truth);
    let again = info_of(open.reader);
    assert_eq!(
        (again.source_size, again.frames),
        (open.info.source_size, open.info.frames)
    );
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

/// An open reader of bytes that outlive it.
struct Open<'a> {
    reader: *mut pcapzst_reader,
    info: pcapzst_info,
    /// Something behind the last frame can never be mapped.
    has_walk_fault: bool,
    bytes: PhantomData<&'a [u8]>,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        // SAFETY: opened by new(), closed once.
        unsafe { pcapzst_close(self.reader) };
    }
}

impl<'a> Open<'a> {
    /// A reader of `bytes`, walked; `None` if they are refused.
    fn new(bytes: &'a [u8]) -> Option<Self> {
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
            return None;
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
        let open = Self {
            reader,
            info: info_of(reader),
            has_walk_fault: looked != PCAPZST_OK,
            bytes: PhantomData,
        };
        assert_eq!(open.info.state, state);
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
        Some(open)
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
