//! A mount point for mounts in the background.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use super::mounted::free;
use super::sys;

/// A mount point for mounts in the background: unmounted in the end, and its program killed if it still runs.
pub struct Point(TempDir);

impl Point {
    pub fn new() -> Self {
        Self(
            tempfile::Builder::new()
                .prefix("pcapzst-point-")
                .tempdir()
                .unwrap(),
        )
    }

    /// A mount point in this folder.
    pub fn new_in(folder: &Path) -> Self {
        Self(
            tempfile::Builder::new()
                .prefix("pcapzst-point-")
                .tempdir_in(folder)
                .unwrap(),
        )
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// The programs that have this mount point among their arguments.
    pub fn daemons(&self) -> Vec<i32> {
        let is_ours = |pid: &i32| {
            let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            arguments
                .split(|byte| *byte == 0)
                .any(|argument| argument == self.path().as_os_str().as_bytes())
        };
        let entries = fs::read_dir("/proc")
            .unwrap()
            .map(|entry| entry.unwrap().file_name());
        let numbers = entries.filter_map(|name| name.to_str()?.parse().ok());
        numbers.filter(is_ours).collect()
    }

    /// The one program that serves this mount point.
    #[track_caller]
    pub fn daemon(&self) -> OwnedFd {
        let daemons = self.daemons();
        assert_eq!(daemons.len(), 1, "{daemons:?}");
        sys::pidfd(daemons[0]).unwrap()
    }
}

impl Drop for Point {
    fn drop(&mut self) {
        free(self.path());
        for pid in self.daemons() {
            let Ok(daemon) = sys::pidfd(pid) else {
                continue;
            };
            if !has_ended(&daemon, 5000) {
                // It may end in this very moment.
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
        }
    }
}

/// Whether a process ends within this time.
pub fn has_ended(process: &OwnedFd, millis: u16) -> bool {
    let mut wanted = [PollFd::new(process.as_fd(), PollFlags::POLLIN)];
    poll(&mut wanted, PollTimeout::from(millis)).unwrap() == 1
}
