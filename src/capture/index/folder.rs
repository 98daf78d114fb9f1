//! The folder of kept tables: entries read, replaced and removed as whole files, within a bound.
//!
//! Several programs may use one folder at once. An entry is written under a name of its own and renamed into place, so a
//! reader has the old one or the new one, whole. Only files with an entry's name are ever counted or removed.

use std::ffi::{CStr, OsStr};
use std::fs::{DirBuilder, File};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat, renameat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, fstatat, futimens};
use nix::sys::time::TimeSpec;
use nix::unistd::{UnlinkatFlags, geteuid, unlinkat};

use crate::capture::sync::lock;

/// How an entry's name ends.
const SUFFIX: &str = ".pszindex";
/// How the name of one that is being written ends.
const SUFFIX_NEW: &str = ".pszindex.new";
/// The folder is counted each time this part of the bound was written.
const SHARE: u64 = 16;
/// What a file takes at least.
const BLOCK: u64 = 4096;
/// An entry that was used counts as used for so long: one change of times an hour is enough to tell old from new.
const USED_FOR: Duration = Duration::from_hours(1);
/// A file that is still being written after this was left behind.
const ABANDONED_AFTER: Duration = Duration::from_hours(1);
/// Names tried for a file to write.
const ATTEMPTS: usize = 16;

/// A folder of entries.
#[derive(Debug)]
pub(super) struct Folder {
    fd: OwnedFd,
    /// The most bytes of all entries together.
    bytes_most: u64,
    /// Bytes written since the folder was counted; `None` before the first time.
    uncounted: Mutex<Option<u64>>,
    next_new: AtomicU64,
}

impl Folder {
    /// The folder at `path`, made if it is not there, and tried by a file.
    pub(super) fn open(path: &Path, bytes_most: u64) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let folder = Self {
            fd: nix::fcntl::open(path, flags, Mode::empty())?,
            bytes_most,
            uncounted: Mutex::new(None),
            next_new: AtomicU64::new(0),
        };
        let (_, name) = folder.create()?;
        folder.unlink(&name)?;
        Ok(folder)
    }

    /// The entry of this name, open, and its length. One that is not a file of this user's alone is none.
    pub(super) fn entry(&self, name: &str) -> io::Result<Option<(File, u64)>> {
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let name = format!("{name}{SUFFIX}");
        let file = match openat(&self.fd, &*name, flags, Mode::empty()) {
            Err(Errno::ENOENT) => return Ok(None),
            outcome => File::from(outcome?),
        };
        let stat = fstat(&file)?;
        if !is_regular(&stat) || stat.st_uid != geteuid().as_raw() || stat.st_mode & 0o022 != 0 {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        if age(&stat).is_none_or(|age| age > USED_FOR) {
            // A cache: where this fails, the entry goes a little earlier.
            let _ = futimens(&file, &TimeSpec::UTIME_OMIT, &TimeSpec::UTIME_NOW);
        }
        Ok(Some((file, len(&stat))))
    }

    /// Puts `bytes` in place of the entry of this name.
    pub(super) fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.make_room(bytes.len() as u64)?;
        let (mut file, new) = self.create()?;
        let mut put = || -> io::Result<()> {
            file.write_all(bytes)?;
            let name = format!("{name}{SUFFIX}");
            Ok(renameat(&self.fd, &*new, &self.fd, &*name)?)
        };
        let outcome = put();
        if outcome.is_err() {
            // The first error is the one to tell; what stays is removed when it is old.
            let _ = self.unlink(&new);
        }
        outcome
    }

    /// Removes the entry of this name, if there is one.
    pub(super) fn remove(&self, name: &str) -> io::Result<()> {
        self.unlink(&format!("{name}{SUFFIX}"))
    }

    fn unlink(&self, name: &str) -> io::Result<()> {
        match unlinkat(&self.fd, name, UnlinkatFlags::NoRemoveDir) {
            Err(Errno::ENOENT) => Ok(()),
            outcome => Ok(outcome?),
        }
    }

    /// A new file under a name of its own.
    fn create(&self) -> io::Result<(File, String)> {
        let flags =
            OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        for _ in 0..ATTEMPTS {
            let number = self.next_new.fetch_add(1, Ordering::Relaxed);
            // Programs in other containers may have the same number: the time tells them apart.
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            let nanos = now.map_or(0, |now| now.subsec_nanos());
            let name = format!("{}-{number}-{nanos}{SUFFIX_NEW}", std::process::id());
            match openat(&self.fd, &*name, flags, Mode::S_IRUSR | Mode::S_IWUSR) {
                Err(Errno::EEXIST) => {}
                outcome => return Ok((File::from(outcome?), name)),
            }
        }
        Err(Errno::EEXIST.into())
    }

    /// Sees to it that with an entry of `len` bytes all together take no more than they may.
    fn make_room(&self, len: u64) -> io::Result<()> {
        let (len, share) = (on_disk(len), self.bytes_most / SHARE);
        {
            let mut uncounted = lock(&self.uncounted);
            if let Some(bytes) = uncounted.map(|bytes| bytes + len)
                && bytes <= share
            {
                *uncounted = Some(bytes);
                return Ok(());
            }
            *uncounted = Some(len);
        }
        self.sweep(self.bytes_most.saturating_sub(share.max(len)))
    }

    /// Removes the entries that were not used for longest, until the others take no more than `most` bytes.
    fn sweep(&self, most: u64) -> io::Result<()> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let mut dir = Dir::openat(self.fd.as_fd(), ".", flags, Mode::empty())?;
        let mut entries = Vec::new();
        let mut total: u64 = 0;
        for entry in dir.iter() {
            let entry = entry?;
            let name: &CStr = entry.file_name();
            let bytes = name.to_bytes();
            let is_new = is_named(bytes, SUFFIX_NEW);
            if !is_new && !is_named(bytes, SUFFIX) {
                continue;
            }
            let Ok(stat) = fstatat(&self.fd, name, AtFlags::AT_SYMLINK_NOFOLLOW) else {
                continue;
            };
            if is_new {
                if age(&stat).is_some_and(|age| age > ABANDONED_AFTER) {
                    self.unlink_raw(bytes);
                }
                continue;
            }
            total += on_disk(len(&stat));
            entries.push((
                stat.st_mtime,
                stat.st_mtime_nsec,
                on_disk(len(&stat)),
                bytes.to_vec(),
            ));
        }
        if total > most {
            entries.sort_unstable();
            for (_, _, bytes, name) in entries {
                if total <= most {
                    break;
                }
                self.unlink_raw(&name);
                total -= bytes;
            }
        }
        Ok(())
    }

    fn unlink_raw(&self, name: &[u8]) {
        // Another program may have been faster.
        let _ = unlinkat(
            &self.fd,
            OsStr::from_bytes(name),
            UnlinkatFlags::NoRemoveDir,
        );
    }
}

/// Whether `name` is one that is given here: numbers, and this suffix.
fn is_named(name: &[u8], suffix: &str) -> bool {
    name.strip_suffix(suffix.as_bytes()).is_some_and(|name| {
        name.iter()
            .all(|byte| byte.is_ascii_hexdigit() || *byte == b'-')
    })
}

fn is_regular(stat: &FileStat) -> bool {
    SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT == SFlag::S_IFREG
}

fn len(stat: &FileStat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(0)
}

fn on_disk(len: u64) -> u64 {
    len.max(1).div_ceil(BLOCK).saturating_mul(BLOCK)
}

/// Time since the last write; `None` for one in the future.
fn age(stat: &FileStat) -> Option<Duration> {
    let secs = u64::try_from(stat.st_mtime).ok()?;
    let written = UNIX_EPOCH.checked_add(Duration::from_secs(secs))?;
    SystemTime::now().duration_since(written).ok()
}
