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
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat};
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
        Ok(Self {
            root: nix::fcntl::open(path, flags, Mode::empty())?,
        })
    }

    /// What the file at `path`, relative to SOURCE, is. Links are followed; nothing is opened.
    pub fn stat(&self, path: &Path) -> Result<FileStat, Errno> {
        fstat(self.resolve(path, OFlag::O_PATH)?)
    }

    /// The regular file at `path`, open for reading, and its status.
    ///
    /// # Errors
    /// `ENOENT` also where something else than a regular file is there.
    pub fn file(&self, path: &Path) -> Result<(File, FileStat), Errno> {
        // O_NONBLOCK: a FIFO that comes between look-up and open must not hold the daemon.
        let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
        if !is_file(&self.stat(path)?) {
            return Err(Errno::ENOENT);
        }
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
