//! The file that a mount's log goes to, when one was named.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::folder::{is_above, is_same, nearest};

/// Who may read it: captures' names are in it. The umask takes away more.
const MODE: u32 = 0o640;

/// The log file at `path`, open for appending, made if it is not there: for a mount of `source` on `point`.
///
/// # Errors
/// Why that file cannot be used, in words for the user.
pub(super) fn open(path: &Path, source: &Path, point: &Path) -> Result<File, String> {
    let shown = path.display();
    // Before anything is made there: SOURCE is only ever read, and the mount would hide what lies below its point.
    let (there, rest) = nearest(path);
    for (holder, name) in [(source, "source folder"), (point, "mount point")] {
        if is_same(holder, &there) || is_above(holder, &there) {
            let holder = holder.display();
            return Err(format!(
                "{shown}: the log file lies in the {name}, {holder}"
            ));
        }
    }
    let resolved = if rest.as_os_str().is_empty() {
        there
    } else {
        there.join(rest)
    };
    // What is there has no link in it, and behind it none is followed. A FIFO that nobody reads is an error, not a wait.
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(MODE)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(resolved)
        .map_err(|error| format!("{shown}: the log file: {error}"))
}
