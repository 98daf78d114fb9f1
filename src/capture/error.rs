//! What can go wrong with one capture: the disk, the file's content, or this reader's own limits.
//!
//! Clonable, because readers that join one decode share its outcome. Names no file: who opened it puts the name in front.

use std::{fmt, io};

use crate::format::{Fault, FaultKind};

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
    /// zstd refused a parameter or to compress; its own words.
    Zstd(&'static str),
    /// Another writer holds the file.
    Busy,
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

    /// Whether the frame's bytes were replaced or cut off since they were walked, which a new walk may mend.
    #[must_use]
    pub fn is_changed(&self) -> bool {
        matches!(
            self.fault(),
            Some(Fault {
                kind: FaultKind::Changed { .. },
                ..
            })
        )
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
            Self::Zstd(words) => write!(f, "zstd: {words}"),
            Self::Busy => f.write_str("another writer holds the file"),
        }
    }
}

impl std::error::Error for Error {}
