//! Why an operation on the tree fails, and the errno that a caller of the kernel sees. The only place that chooses one.

use std::fmt;

use nix::errno::Errno;

use crate::capture;
use crate::format::Fault;

/// Why an operation on the tree fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No such name here, now.
    NotFound,
    /// The name or inode is no folder.
    NotFolder,
    /// The inode or name is a folder.
    IsFolder,
    /// The inode's capture is no longer the one its name leads to, and nobody holds it open, or its file was written over:
    /// look up again. Also an inode that is not known.
    Stale,
    /// The capture cannot be opened: another format, or broken from the start.
    Refused(Fault),
    /// Reading the capture failed.
    Capture(capture::Error),
    /// A system call on the source folder failed.
    Os(Errno),
    /// As many captures are open as descriptors allow.
    TooManyOpen,
    /// A write, of whatever kind.
    ReadOnly,
    /// No attribute of that name, or none that has a value now.
    NoAttribute,
    /// No file here has attributes of that kind: labels, access lists, capabilities.
    NoSuchAttributes,
    /// The attribute's value does not fit the caller's buffer.
    Range,
    /// No data at or behind the offset.
    NoData,
    /// A handle that is not open, or an argument that makes no sense.
    Invalid,
}

impl Failure {
    /// The errno.
    #[must_use]
    pub fn errno(&self) -> i32 {
        match self {
            Self::NotFound => libc::ENOENT,
            Self::NotFolder => libc::ENOTDIR,
            Self::IsFolder => libc::EISDIR,
            // The kernel answers ESTALE by looking the path up again, so that an open lands on the new capture.
            Self::Stale => libc::ESTALE,
            // A foreign file is nothing that is broken: "operation not supported" sends nobody looking for a bad disk.
            Self::Refused(fault) if fault.kind.is_foreign() => libc::EOPNOTSUPP,
            Self::Refused(_) => libc::EIO,
            Self::Capture(error) => match error {
                capture::Error::Io { errno, .. } => *errno,
                capture::Error::Fault(_)
                | capture::Error::Zstd(_)
                | capture::Error::CutOff
                | capture::Error::Shrank
                | capture::Error::Panicked
                | capture::Error::InputChanged
                | capture::Error::PathChanged => libc::EIO,
                capture::Error::Exists(_)
                | capture::Error::LeftBehind
                | capture::Error::NotResumable(_) => libc::EEXIST,
                capture::Error::NoMemory(_) => libc::ENOMEM,
                capture::Error::Busy => libc::EBUSY,
            },
            Self::Os(errno) => *errno as i32,
            Self::TooManyOpen => libc::EMFILE,
            Self::ReadOnly => libc::EROFS,
            Self::NoAttribute => libc::ENODATA,
            Self::NoSuchAttributes => libc::EOPNOTSUPP,
            Self::Range => libc::ERANGE,
            Self::NoData => libc::ENXIO,
            Self::Invalid => libc::EINVAL,
        }
    }
}

impl From<Errno> for Failure {
    fn from(errno: Errno) -> Self {
        match errno {
            // SOURCE is followed beneath itself only: a link that leaves it, or leads nowhere, is no file here.
            Errno::ENOENT | Errno::EXDEV | Errno::ELOOP => Self::NotFound,
            Errno::ESTALE => Self::Stale,
            errno => Self::Os(errno),
        }
    }
}

impl From<capture::Error> for Failure {
    fn from(error: capture::Error) -> Self {
        Self::Capture(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(fault) => fault.fmt(f),
            Self::Capture(error) => error.fmt(f),
            other => std::io::Error::from_raw_os_error(other.errno()).fmt(f),
        }
    }
}

impl std::error::Error for Failure {}
