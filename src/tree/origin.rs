//! The source folder: the only way to the files in it, and never out of it.
//!
//! Every path is resolved by openat2(2) from SOURCE's own descriptor, or from that of a folder in it, with `RESOLVE_BENEATH`
//! and `RESOLVE_NO_MAGICLINKS`: links are followed inside SOURCE only, and no folder that is swapped meanwhile leads outside.
//! For who reads here by our rights and not by his own, links are followed one by one, and not everybody's ([`Links`]).
//! Files are opened for reading, never for writing, and only regular ones: nothing here blocks on a FIFO or device.

mod folder;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2, readlinkat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat};
use nix::sys::statvfs::{Statvfs, fstatvfs};
use nix::unistd::geteuid;

pub use self::folder::{Folder, FolderId};
pub use crate::capture::stamp::Stamp;

/// Attempts at a path that renames keep disturbing (openat2's EAGAIN).
const RENAME_ATTEMPTS: usize = 64;

/// As many links as the kernel follows in one path (`MAXSYMLINKS`).
const LINKS_MOST: usize = 40;

/// The source folder of a mount.
#[derive(Debug)]
pub struct Origin {
    root: File,
    links: Links,
}

/// Whose symbolic links are followed, and so what else it takes that nobody is led past the rights of folders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// Everybody's. For readers who might follow them in SOURCE as well as we do.
    Everybodys,
    /// Root's and our own user's; another's only to what is its owner's too, and so in a folder that it leads to. For a mount
    /// that others may enter: the kernel checks the folders that it knows of, and a link leads past them. Who may write to one folder of SOURCE could show
    /// everybody what lies in another one that is closed to him.
    Trusted,
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
    pub fn open(path: &Path, links: Links) -> Result<Self, Errno> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let root = File::from(nix::fcntl::open(path, flags, Mode::empty())?);
        let origin = Self { root, links };
        // Where openat2 is not to be had, nothing could be read: that shows here, not at each look.
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY;
        origin.resolve(&origin.base(), Path::new("."), flags)?;
        Ok(origin)
    }

    /// Which folder SOURCE is.
    pub fn id(&self) -> Result<FolderId, Errno> {
        FolderId::of(&self.root)
    }

    /// The source file system's figures.
    pub fn statvfs(&self) -> Result<Statvfs, Errno> {
        fstatvfs(&self.root)
    }

    fn base(&self) -> Base<'_> {
        Base {
            fd: self.root.as_fd(),
            path: Path::new(""),
            only: None,
        }
    }

    /// What `path` leads to, relative to the folder `from`.
    fn resolve(&self, from: &Base<'_>, path: &Path, flags: OFlag) -> Result<Way, Errno> {
        let path = if path.as_os_str().is_empty() {
            Path::new(".")
        } else {
            path
        };
        match self.links {
            Links::Everybodys => Ok(Way {
                file: self.open_beneath(from, path, flags, ResolveFlag::empty())?,
                only: None,
            }),
            Links::Trusted => self.resolve_trusted(from, path.to_owned(), flags),
        }
    }

    /// As [`Links::Trusted`] says. A path is opened only without a link in it; one that it meets is read, and put in its
    /// place. So whatever is swapped meanwhile, no link is followed that was not seen.
    fn resolve_trusted(
        &self,
        from: &Base<'_>,
        mut path: PathBuf,
        flags: OFlag,
    ) -> Result<Way, Errno> {
        let ours = geteuid().as_raw();
        let mut only = from.only;
        for _ in 0..=LINKS_MOST {
            match self.open_beneath(from, &path, flags, ResolveFlag::RESOLVE_NO_SYMLINKS) {
                // Without a link in it the path has no loop: there is one.
                Err(Errno::ELOOP) => {}
                Ok(file) => {
                    if only.is_some() {
                        check_owner(&fstat(&file)?, only)?;
                    }
                    return Ok(Way { file, only });
                }
                Err(errno) => return Err(errno),
            }
            if let Some((next, owner)) = self.first_link(from, &path)? {
                path = next;
                if owner != 0
                    && owner != ours
                    && only.replace(owner).is_some_and(|other| other != owner)
                {
                    // Nothing belongs to both.
                    return Err(Errno::EXDEV);
                }
            }
        }
        Err(Errno::ELOOP)
    }

    /// The path that `path` stands for by the first link in it, and that link's owner; `None` if there is none any more.
    fn first_link(&self, from: &Base<'_>, path: &Path) -> Result<Option<(PathBuf, u32)>, Errno> {
        let mut before = PathBuf::new();
        let mut rest = path.components();
        while let Some(component) = rest.next() {
            let here = before.join(component);
            let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW;
            let file = self.open_beneath(from, &here, flags, ResolveFlag::RESOLVE_NO_SYMLINKS)?;
            let stat = fstat(&file)?;
            if kind(&stat) == EntryKind::Link {
                let target = PathBuf::from(readlinkat(&file, "")?);
                // `join` would take it for the whole path, and openat2 refuses it with this.
                if target.is_absolute() {
                    return Err(Errno::EXDEV);
                }
                // Not joined in one: an empty rest would become a slash at the end.
                let next = rest.fold(before.join(target), |path, name| path.join(name));
                return Ok(Some((next, stat.st_uid)));
            }
            before = here;
        }
        Ok(None)
    }

    fn open_beneath(
        &self,
        from: &Base<'_>,
        path: &Path,
        flags: OFlag,
        more: ResolveFlag,
    ) -> Result<File, Errno> {
        let beneath = ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_MAGICLINKS;
        let how = OpenHow::new()
            .flags(flags | OFlag::O_CLOEXEC)
            .resolve(beneath | more);
        match open(from.fd, path, how) {
            // By a link that leads up: out of that folder, not yet out of SOURCE.
            Err(Errno::EXDEV) if !from.path.as_os_str().is_empty() => {
                open(self.root.as_fd(), &join(from.path, path.as_os_str()), how)
            }
            outcome => outcome,
        }
    }
}

fn open(from: BorrowedFd<'_>, path: &Path, how: OpenHow) -> Result<File, Errno> {
    for _ in 0..RENAME_ATTEMPTS {
        match openat2(from, path, how) {
            Err(Errno::EAGAIN | Errno::EINTR) => {}
            outcome => return outcome.map(File::from),
        }
    }
    Err(Errno::EAGAIN)
}

/// The folder from which a path is resolved.
#[derive(Clone, Copy, Debug)]
struct Base<'a> {
    fd: BorrowedFd<'a>,
    /// Its own path, relative to SOURCE.
    path: &'a Path,
    /// As in [`Way`].
    only: Option<u32>,
}

/// What a path leads to.
#[derive(Debug)]
struct Way {
    file: File,
    /// The user of a link on the way that is not trusted: it leads only to what is this user's, also beneath a folder.
    only: Option<u32>,
}

fn check_owner(stat: &FileStat, only: Option<u32>) -> Result<(), Errno> {
    match only {
        Some(owner) if owner != stat.st_uid => Err(Errno::EXDEV),
        _ => Ok(()),
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
