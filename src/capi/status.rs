//! What became of a call, as a number for ever.

use std::ffi::{CStr, c_char};

use crate::capture::Error;
use crate::format::pcap::RecordFaultKind;
use crate::format::{Fault, FaultKind};

/// What became of a call. A number is never given another meaning.
///
/// FORMAT and ZSTD are damage. IO and NOMEM are the machine's. All others are refusals, or answers: nothing is wrong with what
/// was asked about.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum pcapzst_status {
    /// Done.
    PCAPZST_OK = 0,
    /// A system call failed; errno tells which way.
    PCAPZST_E_IO = 1,
    /// Damaged: the bytes break the format's rules.
    PCAPZST_E_FORMAT = 2,
    /// Damaged: zstd rejects a frame, its checksum included. Of a writer: zstd rejects a parameter.
    PCAPZST_E_ZSTD = 3,
    /// An index, a count or an offset is out of range, or a buffer is too small; nothing was written to it.
    PCAPZST_E_RANGE = 4,
    /// No memory.
    PCAPZST_E_NOMEM = 5,
    /// NULL where there must be something, or a call that makes no sense now.
    PCAPZST_E_INVALID = 6,
    /// Not a file of this format: its marker is missing. Raw captures are libpcap's.
    PCAPZST_E_NOT_MARKED = 7,
    /// A version of the format that this library does not know.
    PCAPZST_E_VERSION = 8,
    /// Incomplete, and no more can come: removed before it was complete, or bytes in memory that end within a frame. Of a
    /// writer: what was written ends within a header or record. No damage.
    PCAPZST_E_TORN = 9,
    /// Another writer has the file now. Worth trying again.
    PCAPZST_E_BUSY = 10,
    /// The name is taken, or a partial file holds another capture.
    PCAPZST_E_EXISTS = 11,
    /// The file became another one, or shorter, under the caller: refresh, or open it again.
    PCAPZST_E_CHANGED = 12,
    /// Sound, and larger than the limit that the reader was opened with, or that the format sets.
    PCAPZST_E_LIMIT = 13,
    /// A fault of this library; please report it.
    PCAPZST_E_INTERNAL = 14,
}

use pcapzst_status::*;

impl pcapzst_status {
    fn message(self) -> &'static CStr {
        match self {
            PCAPZST_OK => c"success",
            PCAPZST_E_IO => c"a system call failed",
            PCAPZST_E_FORMAT => c"damaged: the bytes break the format's rules",
            PCAPZST_E_ZSTD => c"damaged: zstd rejects the frame or a parameter",
            PCAPZST_E_RANGE => c"out of range, or the buffer is too small",
            PCAPZST_E_NOMEM => c"no memory",
            PCAPZST_E_INVALID => c"an argument is NULL or makes no sense",
            PCAPZST_E_NOT_MARKED => c"not a file of this format: no marker",
            PCAPZST_E_VERSION => c"a version of the format that this library does not know",
            PCAPZST_E_TORN => c"incomplete, and no more can come",
            PCAPZST_E_BUSY => c"another writer has the file",
            PCAPZST_E_EXISTS => c"the name is taken",
            PCAPZST_E_CHANGED => c"the file was changed under the caller",
            PCAPZST_E_LIMIT => c"larger than the limit",
            PCAPZST_E_INTERNAL => c"a fault of the library",
        }
    }

    /// The status whose number is `number`.
    fn from_number(number: i32) -> Option<Self> {
        const ALL: [pcapzst_status; 15] = [
            PCAPZST_OK,
            PCAPZST_E_IO,
            PCAPZST_E_FORMAT,
            PCAPZST_E_ZSTD,
            PCAPZST_E_RANGE,
            PCAPZST_E_NOMEM,
            PCAPZST_E_INVALID,
            PCAPZST_E_NOT_MARKED,
            PCAPZST_E_VERSION,
            PCAPZST_E_TORN,
            PCAPZST_E_BUSY,
            PCAPZST_E_EXISTS,
            PCAPZST_E_CHANGED,
            PCAPZST_E_LIMIT,
            PCAPZST_E_INTERNAL,
        ];
        ALL.into_iter().find(|status| *status as i32 == number)
    }
}

/// What `status` means, in English; static, never NULL. Any number may be given.
#[unsafe(no_mangle)]
pub extern "C" fn pcapzst_status_message(status: i32) -> *const c_char {
    pcapzst_status::from_number(status)
        .map_or(c"unknown status", pcapzst_status::message)
        .as_ptr()
}

impl From<&Fault> for pcapzst_status {
    fn from(fault: &Fault) -> Self {
        match &fault.kind {
            FaultKind::NotMarked => PCAPZST_E_NOT_MARKED,
            FaultKind::UnknownVersion { .. } => PCAPZST_E_VERSION,
            FaultKind::OverLimit { .. } | FaultKind::TooLong => PCAPZST_E_LIMIT,
            FaultKind::Undecodable { .. } => PCAPZST_E_ZSTD,
            FaultKind::Changed { .. } => PCAPZST_E_CHANGED,
            FaultKind::NoHeader { .. } => PCAPZST_E_TORN,
            FaultKind::Record(record) => match record.kind {
                RecordFaultKind::Cut { .. } => PCAPZST_E_TORN,
                RecordFaultKind::InclLen { .. } | RecordFaultKind::Split { .. } => PCAPZST_E_FORMAT,
            },
            FaultKind::HeaderSize { .. }
            | FaultKind::NotPcap { .. }
            | FaultKind::NotAFrame { .. }
            | FaultKind::NoContentSize
            | FaultKind::NoChecksum
            | FaultKind::ReservedBit
            | FaultKind::Dictionary { .. }
            | FaultKind::WindowTooLarge { .. }
            | FaultKind::ReservedBlock
            | FaultKind::SizeOverBlocks { .. }
            | FaultKind::TooManyBlocks { .. }
            | FaultKind::Padded { .. } => PCAPZST_E_FORMAT,
        }
    }
}

impl From<&Error> for pcapzst_status {
    fn from(error: &Error) -> Self {
        match error {
            Error::Io { .. } => PCAPZST_E_IO,
            Error::Fault(fault) => fault.into(),
            Error::NoMemory(_) => PCAPZST_E_NOMEM,
            Error::CutOff | Error::Shrank | Error::InputChanged | Error::PathChanged => {
                PCAPZST_E_CHANGED
            }
            Error::Panicked => PCAPZST_E_INTERNAL,
            Error::Exists(_) | Error::LeftBehind | Error::NotResumable(_) => PCAPZST_E_EXISTS,
            Error::Zstd(_) => PCAPZST_E_ZSTD,
            Error::Busy => PCAPZST_E_BUSY,
        }
    }
}
