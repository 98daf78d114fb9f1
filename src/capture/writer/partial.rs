//! The file that is written: its name, and its lock, which the kernel drops with the process.

use std::fs::{File, OpenOptions};
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

/// The partial file, created if need be, locked, and still the one its path names.
pub(super) fn lock_partial(path: &Path) -> Result<Flock<File>, Error> {
    loop {
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(path)
            .map_err(Error::io("creating the partial file"))?;
        let file = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(file) => file,
            Err((_, Errno::EWOULDBLOCK)) => return Err(Error::Busy),
            Err((_, errno)) => return Err(Error::io("locking")(errno.into())),
        };
        // The writer that held it may have renamed it away between our open and our lock.
        if is_name_of(path, &file)? {
            return Ok(file);
        }
    }
}

/// Whether `path` is a name of `file`.
pub(super) fn is_name_of(path: &Path, file: &File) -> Result<bool, Error> {
    let ours = file.metadata().map_err(Error::io("looking at it"))?;
    let named = path.symlink_metadata();
    Ok(named.is_ok_and(|named| (named.dev(), named.ino()) == (ours.dev(), ours.ino())))
}
