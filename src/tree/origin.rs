//! The source folder: the only way to the files in it, and never out of it.
//!
//! Every path is resolved by openat2(2) from the folder's own descriptor with `RESOLVE_BENEATH` and
//! `RESOLVE_NO_MAGICLINKS`: links are followed inside SOURCE only, and no folder that is swapped meanwhile leads outside.
//! Files are opened for reading, never for writing, and only regular ones: nothing here blocks on a FIFO or device.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, OpenHow, ResolveFlag, openat2};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, fstatat};
use nix::sys::statvfs::{Statvfs, fstatvfs};

pub use crate::capture::stamp::Stamp;

/// Attempts at a path that renames keep disturbing (openat2's EAGAIN).
const RENAME_ATTEMPTS: usize = 64;

/// The source folder of a mount.
#[derive(Debug)]
pub struct Origin {
    root: OwnedFd,
}

/// What an entry of a folder is, as far as the tree cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A folder.
    Folder,
    /// A regular file.
    File,
    /// A symbolic link; what it leads to is not known yet.
    Link,
    /// A FIFO, socket or device: never shown, never opened.
    Other,
    /// The file system did not say.
    Unknown,
}

/// Whether `stat` is that of a regular file.
#[must_use]
pub fn is_file(stat: &FileStat) -> bool {
    kind(stat) == EntryKind::File
}

/// Whether `stat` is that of a folder.
#[must_use]
pub fn is_folder(stat: &FileStat) -> bool {
    kind(stat) == EntryKind::Folder
}

/// What `stat` is of.
#[must_use]
pub fn kind(stat: &FileStat) -> EntryKind {
    match SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT {
        SFlag::S_IFREG => EntryKind::File,
        SFlag::S_IFDIR => EntryKind::Folder,
        SFlag::S_IFLNK => EntryKind::Link,
        _ => EntryKind::Other,
    }
}

impl Origin {
    /// The source folder behind `path`, held open from now on.
    pub fn open(path: &Path) -> Result<Self, Errno> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let root = nix::fcntl::open(path, flags, Mode::empty())?;
        let origin = Self { root };
        // Where openat2 is not to be had, nothing could be read: that shows here, not at each look.
        origin.resolve(Path::new("."), OFlag::O_PATH | OFlag::O_DIRECTORY)?;
        Ok(origin)
    }

    /// What the file at `path`, relative to SOURCE, is. Links are followed; nothing is opened.
    pub fn stat(&self, path: &Path) -> Result<FileStat, Errno> {
        if path.as_os_str().is_empty() {
            return fstat(&self.root);
        }
        fstat(self.resolve(path, OFlag::O_PATH)?)
    }

    /// The folder at `path`, relative to SOURCE, to look at several names in it.
    pub fn folder<'a>(&'a self, path: &'a Path) -> Result<Folder<'a>, Errno> {
        let fd = if path.as_os_str().is_empty() {
            None
        } else {
            Some(self.resolve(path, OFlag::O_PATH | OFlag::O_DIRECTORY)?)
        };
        let origin = self;
        Ok(Folder { origin, path, fd })
    }

    /// The file at `path`, open for reading, and its status. For one that was seen to be a regular file.
    ///
    /// # Errors
    /// `ENOENT` also where something else than a regular file is there now.
    pub fn file(&self, path: &Path) -> Result<(File, FileStat), Errno> {
        // O_NONBLOCK: a FIFO that comes between look-up and open must not hold the daemon.
        let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
        let fd = self.resolve(path, flags)?;
        let stat = fstat(&fd)?;
        if !is_file(&stat) {
            return Err(Errno::ENOENT);
        }
        Ok((File::from(fd), stat))
    }

    /// The names in the folder at `path`, without `.` and `..`, in no order, with what they are.
    pub fn list(&self, path: &Path) -> Result<Vec<(OsString, EntryKind)>, Errno> {
        let fd = self.resolve(path, OFlag::O_RDONLY | OFlag::O_DIRECTORY)?;
        let mut dir = Dir::from_fd(fd)?;
        let mut entries = Vec::new();
        for entry in dir.iter() {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            let kind = match entry.file_type() {
                Some(nix::dir::Type::File) => EntryKind::File,
                Some(nix::dir::Type::Directory) => EntryKind::Folder,
                Some(nix::dir::Type::Symlink) => EntryKind::Link,
                Some(_) => EntryKind::Other,
                None => EntryKind::Unknown,
            };
            entries.push((OsString::from_vec(name.to_vec()), kind));
        }
        Ok(entries)
    }

    /// The source file system's figures.
    pub fn statvfs(&self) -> Result<Statvfs, Errno> {
        fstatvfs(&self.root)
    }

    fn resolve(&self, path: &Path, flags: OFlag) -> Result<OwnedFd, Errno> {
        let path = if path.as_os_str().is_empty() {
            Path::new(".")
        } else {
            path
        };
        let how = OpenHow::new()
            .flags(flags | OFlag::O_CLOEXEC)
            .resolve(ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_MAGICLINKS);
        for _ in 0..RENAME_ATTEMPTS {
            match openat2(self.root.as_fd(), path, how) {
                Err(Errno::EAGAIN | Errno::EINTR) => {}
                outcome => return outcome,
            }
        }
        Err(Errno::EAGAIN)
    }
}

/// A folder in SOURCE, held for the time of one look.
#[derive(Debug)]
pub struct Folder<'a> {
    origin: &'a Origin,
    path: &'a Path,
    /// `None` for SOURCE itself.
    fd: Option<OwnedFd>,
}

impl Folder<'_> {
    /// As [`Origin::stat`] of `name`, which holds no slash, in this folder; cheaper unless it is a link.
    pub fn stat(&self, name: &OsStr) -> Result<FileStat, Errno> {
        let fd = self.fd.as_ref().unwrap_or(&self.origin.root);
        let stat = fstatat(fd, name, AtFlags::AT_SYMLINK_NOFOLLOW)?;
        if kind(&stat) == EntryKind::Link {
            return self.origin.stat(&join(self.path, name));
        }
        Ok(stat)
    }
}

/// `name` within the folder at `folder`, both relative to SOURCE.
#[must_use]
pub fn join(folder: &Path, name: &OsStr) -> PathBuf {
    // `Path::join` would take an absolute name for the whole path; names from the kernel hold no slash.
    let mut path = folder.as_os_str().as_bytes().to_vec();
    if !path.is_empty() {
        path.push(b'/');
    }
    path.extend(name.as_bytes());
    PathBuf::from(OsString::from_vec(path))
}
