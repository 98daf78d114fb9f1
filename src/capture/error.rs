//! What can go wrong with one capture: the disk, the file's content, or this reader's own limits.
//!
//! Clonable, because readers that join one decode share its outcome. Names no file: who opened it puts the name in front.

use std::{fmt, io};

use crate::format::Fault;

/// Why a capture cannot be read or written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// A system call failed.
    Io {
        /// What was being done, as in "reading".
        doing: &'static str,
        /// The errno; `EIO` where the failure carried none.
        errno: i32,
    },
    /// The content breaks the format's rules.
    Fault(Fault),
    /// A buffer of so many bytes could not be allocated.
    NoMemory(u64),
    /// Bytes that were shown once and are not on disk now: the writer has cut them off and not yet written them again.
    CutOff,
    /// A file that gets shorter while it is read.
    Shrank,
    /// A decode ended in a panic.
    Panicked,
    /// There is a file already where one is to be written; what it is.
    Exists(&'static str),
    /// A partial file that another writer left, and nothing was said of what to do with it.
    LeftBehind,
    /// A partial file that is to be gone on with, and an input that does not continue it; why.
    NotResumable(&'static str),
    /// The input was written to while it was packed.
    InputChanged,
    /// zstd refused a parameter or to compress; its own words.
    Zstd(&'static str),
    /// Another writer holds the file.
    Busy,
    /// The path of a file that is written leads to another one, or to none.
    PathChanged,
}

impl Error {
    /// A constructor for `map_err`: the system call's error, and what was being done.
    pub fn io(doing: &'static str) -> impl Fn(io::Error) -> Self {
        move |error| Self::Io {
            doing,
            errno: error.raw_os_error().unwrap_or(libc::EIO),
        }
    }

    /// The fault, if the content is what is wrong.
    #[must_use]
    pub fn fault(&self) -> Option<&Fault> {
        match self {
            Self::Fault(fault) => Some(fault),
            _ => None,
        }
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { doing, errno } => {
                write!(f, "{doing}: {}", io::Error::from_raw_os_error(*errno))
            }
            Self::Fault(fault) => fault.fmt(f),
            Self::NoMemory(bytes) => write!(f, "no memory for {bytes} bytes"),
            Self::CutOff => {
                f.write_str("the writer has cut these bytes off and not yet written them again")
            }
            Self::Shrank => f.write_str("the file became shorter while it was read"),
            Self::Panicked => f.write_str("decoding ended in a panic; please report it"),
            Self::Exists(what) | Self::NotResumable(what) => f.write_str(what),
            Self::LeftBehind => f.write_str("a partial file was left behind by another writer"),
            Self::InputChanged => f.write_str("the file was written to while it was packed"),
            Self::Zstd(words) => write!(f, "zstd: {words}"),
            Self::Busy => f.write_str("another writer holds the file"),
            Self::PathChanged => f.write_str(
                "the partial file was moved or replaced while it was written; it was not renamed",
            ),
        }
    }
}

impl std::error::Error for Error {}
