//! The file that a mount's log goes to, when one was named.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;

use super::folder::holder_of;

/// Who may read it: captures' names are in it. The umask takes away more.
const MODE: Mode = Mode::S_IRUSR.union(Mode::S_IWUSR).union(Mode::S_IRGRP);

/// The log file at `path`, open for appending, made if it is not there: for a mount of `source` on `point`.
///
/// # Errors
/// Why that file cannot be used, in words for the user.
pub(super) fn open(path: &Path, source: &Path, point: &Path) -> Result<File, String> {
    let shown = path.display();
    let failed = |error: io::Error| format!("{shown}: the log file: {error}");
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(failed(Errno::EISDIR.into()));
    };
    // The kernel goes the way, with its own rules for links in folders that everybody may write to (`fs.protected_symlinks`);
    // and what is checked is what is used.
    let folder = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_PATH | libc::O_DIRECTORY)
        .open(parent)
        .map_err(failed)?;
    let there = Path::new("/proc/self/fd")
        .join(folder.as_raw_fd().to_string())
        .read_link()
        .map_err(failed)?;
    // Before anything is made there: SOURCE is only ever read, and the mount would hide what lies below its point.
    if let Some((holder, kind)) = holder_of(&there, source, point) {
        let holder = holder.display();
        return Err(format!(
            "{shown}: the log file lies in the {kind}, {holder}"
        ));
    }
    // No link is followed: whoever may write to the folder could have planted one. A FIFO that nobody reads is an error, not a
    // wait.
    let flags = OFlag::O_WRONLY | OFlag::O_APPEND | OFlag::O_CREAT | OFlag::O_CLOEXEC;
    let careful = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    openat(&folder, name, flags | careful, MODE)
        .map(File::from)
        .map_err(|errno| failed(errno.into()))
}
