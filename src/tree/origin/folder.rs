//! A folder of SOURCE: which one it is, and what lies in it while it is held.
//!
//! The kernel checks the rights of a folder that it knows by a number, then asks for names in it by that number. Where others
//! than the mounting user read, the two must be one folder, whoever moves folders meanwhile. So there a number stands for a
//! folder and not for its path, a path that leads to another one now is `ESTALE`, and a name is looked for from the folder's
//! descriptor. What lies above needs no second look: the kernel came to this folder by folders that were it, each in its turn.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag};
use nix::sys::stat::{FileStat, fstat, fstatat};

use super::{Base, EntryKind, Links, Origin, Way, check_owner, is_file, is_folder, kind};

/// Which folder it is, whatever its path.
#[derive(Clone, Copy, Debug)]
pub struct FolderId {
    /// Device and inode number.
    pub number: (u64, u64),
    /// When it was made, where the file system says: a number that is free again is given to the next folder.
    made: Option<SystemTime>,
}

impl FolderId {
    /// That of `folder`.
    pub fn of(folder: &File) -> Result<Self, Errno> {
        let status = folder
            .metadata()
            .map_err(|error| Errno::try_from(error).unwrap_or(Errno::EIO))?;
        Ok(Self {
            number: (status.dev(), status.ino()),
            made: status.created().ok(),
        })
    }

    /// Whether both are of one folder, as far as the file system says.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        let is_made_anew = self.made.is_some() && other.made.is_some() && self.made != other.made;
        self.number == other.number && !is_made_anew
    }
}

/// A folder in SOURCE, held for the time of one look.
#[derive(Debug)]
pub struct Folder<'a> {
    origin: &'a Origin,
    path: PathBuf,
    /// `None` for SOURCE itself.
    way: Option<Way>,
}

impl Origin {
    /// Whether what the kernel was told of the folder `told` holds for the folder `now` that its path leads to.
    #[must_use]
    pub fn is_same_folder(&self, told: &FolderId, now: &FolderId) -> bool {
        match self.links {
            // They are the mounting user's own, whatever he has moved.
            Links::Everybodys => true,
            Links::Trusted => told.is_same(now),
        }
    }

    /// The folder at `path`, relative to SOURCE, to look at names in it; it was told to be `told`.
    ///
    /// # Errors
    /// `ESTALE` where it is another one now.
    pub fn folder(&self, path: &Path, told: &FolderId) -> Result<Folder<'_>, Errno> {
        if path.as_os_str().is_empty() {
            return Ok(Folder {
                origin: self,
                path: PathBuf::new(),
                way: None,
            });
        }
        self.enter(path, told, OFlag::O_PATH)
    }

    /// As [`Self::folder`], to list what is in it, once.
    pub fn folder_to_list(&self, path: &Path, told: &FolderId) -> Result<Folder<'_>, Errno> {
        self.enter(path, told, OFlag::O_RDONLY)
    }

    fn enter(&self, path: &Path, told: &FolderId, access: OFlag) -> Result<Folder<'_>, Errno> {
        let way = self.resolve(&self.base(), path, access | OFlag::O_DIRECTORY)?;
        if self.links == Links::Trusted && !told.is_same(&FolderId::of(&way.file)?) {
            return Err(Errno::ESTALE);
        }
        Ok(Folder {
            origin: self,
            path: path.to_owned(),
            way: Some(way),
        })
    }
}

impl Folder<'_> {
    /// Its own status.
    pub fn status(&self) -> Result<FileStat, Errno> {
        fstat(self.base().fd)
    }

    /// The status of `name`, which holds no slash. Links are followed; nothing is opened.
    pub fn stat(&self, name: &OsStr) -> Result<FileStat, Errno> {
        let base = self.base();
        let stat = fstatat(base.fd, name, AtFlags::AT_SYMLINK_NOFOLLOW)?;
        if kind(&stat) == EntryKind::Link {
            return fstat(self.resolve(name, OFlag::O_PATH)?);
        }
        check_owner(&stat, base.only)?;
        Ok(stat)
    }

    /// As [`Self::stat`], and which folder it is, if it is one.
    pub fn look(&self, name: &OsStr) -> Result<(FileStat, Option<FolderId>), Errno> {
        let file = self.resolve(name, OFlag::O_PATH)?;
        let stat = fstat(&file)?;
        let folder = is_folder(&stat).then(|| FolderId::of(&file));
        Ok((stat, folder.transpose()?))
    }

    /// The file `name`, open for reading, and its status. For one that was seen to be a regular file.
    ///
    /// # Errors
    /// `ENOENT` also where something else than a regular file is there now.
    pub fn file(&self, name: &OsStr) -> Result<(File, FileStat), Errno> {
        // O_NONBLOCK: a FIFO that comes between look-up and open must not hold the daemon.
        let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
        let file = self.resolve(name, flags)?;
        let stat = fstat(&file)?;
        if !is_file(&stat) {
            return Err(Errno::ENOENT);
        }
        Ok((file, stat))
    }

    /// The names in a folder that was entered to be listed, without `.` and `..`, in no order, with what they are:
    /// [`EntryKind::Unknown`] also where only its owner tells whether it is shown.
    pub fn names(&self) -> Result<Vec<(OsString, EntryKind)>, Errno> {
        let base = self.base();
        let own = base.fd.try_clone_to_owned();
        let own = own.map_err(|error| Errno::try_from(error).unwrap_or(Errno::EIO))?;
        let mut dir = Dir::from_fd(own)?;
        let mut entries = Vec::new();
        for entry in dir.iter() {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            let kind = match entry.file_type() {
                _ if base.only.is_some() => EntryKind::Unknown,
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

    fn resolve(&self, name: &OsStr, flags: OFlag) -> Result<File, Errno> {
        let way = self.origin.resolve(&self.base(), Path::new(name), flags)?;
        Ok(way.file)
    }

    fn base(&self) -> Base<'_> {
        match &self.way {
            Some(way) => Base {
                fd: way.file.as_fd(),
                path: &self.path,
                only: way.only,
            },
            None => self.origin.base(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Read;
    use std::os::unix::fs::symlink;
    use std::time::Duration;

    use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};

    use super::*;

    #[test]
    fn a_number_that_was_given_again_is_another_folder_where_the_time_of_its_making_is_told() {
        let id = |inode, made| FolderId {
            number: (1, inode),
            made,
        };
        let (then, later) = (
            Some(SystemTime::UNIX_EPOCH),
            Some(SystemTime::UNIX_EPOCH + Duration::from_nanos(1)),
        );
        assert!(id(2, then).is_same(&id(2, then)));
        assert!(!id(2, then).is_same(&id(2, later)));
        assert!(!id(2, then).is_same(&id(3, then)));
        assert!(id(2, None).is_same(&id(2, later)));
        assert!(id(2, None).is_same(&id(2, None)));
        assert!(!id(2, None).is_same(&id(3, None)));
    }

    #[test]
    fn a_held_folder_stays_what_it_is_when_another_takes_its_place() {
        let source = tempfile::tempdir().expect("a folder");
        let at = |path: &str| source.path().join(path);
        for name in ["one", "two"] {
            fs::create_dir_all(at(name).join("sub")).expect("a folder");
            fs::write(at(name).join("file"), name).expect("a file");
            fs::write(at(name).join("sub/file"), name).expect("a file");
            fs::write(at(name).join(format!("in-{name}")), "").expect("a file");
            for (link, target) in [("link", "file"), ("deep", "sub/link")] {
                symlink(target, at(name).join(link)).expect("a link");
            }
            symlink("file", at(name).join("sub/link")).expect("a link");
            symlink("../beside", at(name).join("up")).expect("a link");
        }
        fs::write(at("beside"), "beside").expect("a file");
        for links in [Links::Everybodys, Links::Trusted] {
            let origin = Origin::open(source.path(), links).expect("a folder");
            let (_, id) = origin
                .folder(Path::new(""), &origin.id().expect("SOURCE"))
                .and_then(|root| root.look(OsStr::new("one")))
                .expect("a folder");
            let id = id.expect("it is a folder");
            let one = Path::new("one");
            let folder = origin.folder_to_list(one, &id).expect("a folder");
            let swap = || {
                let flags = RenameFlags::RENAME_EXCHANGE;
                renameat2(AT_FDCWD, &at("one"), AT_FDCWD, &at("two"), flags).expect("a swap");
            };
            swap();
            for (name, text) in [
                ("file", "one"),
                ("link", "one"),
                ("deep", "one"),
                ("up", "beside"),
            ] {
                let name = OsStr::new(name);
                let (mut file, stat) = folder.file(name).expect("a file");
                let mut read = String::new();
                file.read_to_string(&mut read).expect("a file");
                assert_eq!(read, text, "{}", name.display());
                assert_eq!(folder.stat(name).expect("a file").st_ino, stat.st_ino);
                assert_eq!(folder.look(name).expect("a file").0.st_ino, stat.st_ino);
            }
            let names = folder.names().expect("a listing");
            assert!(names.iter().any(|(name, _)| name == "in-one"));
            assert!(!names.iter().any(|(name, _)| name == "in-two"));
            let entered = [origin.folder(one, &id), origin.folder_to_list(one, &id)];
            for entered in entered {
                let is_refused = matches!(entered, Err(Errno::ESTALE));
                assert_eq!(is_refused, links == Links::Trusted, "{entered:?}");
            }
            swap();
            origin.folder(one, &id).expect("it is back");
        }
    }
}
