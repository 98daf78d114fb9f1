//! The file that is written: its name, its lock, which the kernel drops with the process, and its end, which is a whole
//! frame.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use crate::capture::error::Error;

/// The suffix of a file that is being written (format document, section 7.1).
pub const PARTIAL_SUFFIX: &str = ".partial";

/// The name that `out` has while it is written.
#[must_use]
pub fn partial_path(out: &Path) -> PathBuf {
    let mut partial = out.as_os_str().to_owned();
    partial.push(PARTIAL_SUFFIX);
    PathBuf::from(partial)
}

/// A partial file, locked.
pub(super) struct Partial {
    file: Flock<File>,
    path: PathBuf,
    /// Physical bytes that are to stand: whole frames.
    len: u64,
    /// Behind those there may be more, which could not be cut off. What is appended would go behind it, and nothing would find
    /// it there: so it is cut off before anything else becomes of the file.
    has_torn_end: bool,
}

impl Partial {
    /// The partial file of `out`, created if need be, locked, and still the one its path names.
    pub(super) fn lock(out: &Path) -> Result<Self, Error> {
        let path = partial_path(out);
        loop {
            let file = OpenOptions::new()
                .read(true)
                .append(true)
                .create(true)
                .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
                .open(&path)
                .map_err(Error::io("creating the partial file"))?;
            let file = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
                Ok(file) => file,
                Err((_, Errno::EWOULDBLOCK)) => return Err(Error::Busy),
                Err((_, errno)) => return Err(Error::io("locking")(errno.into())),
            };
            // The writer that held it may have renamed it away between our open and our lock.
            if is_name_of(&path, &file)? {
                let len = file.metadata().map_err(Error::io("creating"))?.len();
                return Ok(Self {
                    file,
                    path,
                    len,
                    has_torn_end: false,
                });
            }
        }
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Physical bytes that stand.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Whether `path` is a name of it.
    pub(super) fn is_at(&self, path: &Path) -> Result<bool, Error> {
        is_name_of(path, &self.file)
    }

    /// Appends one whole frame; if that fails, the file ends where it ended before, or is cut back to there by the next call.
    pub(super) fn append(&mut self, frame: &[u8]) -> Result<(), Error> {
        self.cut_torn_end()?;
        if let Err(error) = (&*self.file).write_all(frame) {
            self.has_torn_end = true;
            // The first error is the one to tell.
            let _ = self.cut_torn_end();
            return Err(Error::io("writing")(error));
        }
        self.len += frame.len() as u64;
        Ok(())
    }

    /// Cuts the file back to its first `len` bytes, now or with the next call.
    pub(super) fn cut_to(&mut self, len: u64) -> Result<(), Error> {
        self.len = len;
        self.has_torn_end = true;
        self.cut_torn_end()
    }

    /// Brings it to the disk, with whole frames at its end.
    pub(super) fn sync(&mut self) -> Result<(), Error> {
        self.cut_torn_end()?;
        self.file.sync_all().map_err(Error::io("syncing"))
    }

    fn cut_torn_end(&mut self) -> Result<(), Error> {
        if self.has_torn_end {
            let cut = self.file.set_len(self.len);
            cut.map_err(Error::io("truncating"))?;
            self.has_torn_end = false;
        }
        Ok(())
    }
}

/// Whether `path` is a name of `file`.
fn is_name_of(path: &Path, file: &File) -> Result<bool, Error> {
    let ours = file.metadata().map_err(Error::io("looking at it"))?;
    let named = path.symlink_metadata();
    Ok(named.is_ok_and(|named| (named.dev(), named.ino()) == (ours.dev(), ours.ino())))
}
