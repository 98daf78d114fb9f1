//! What the tests of rights share.

mod folder;
mod link;
mod mode;
mod tcpdump;
mod user_mount;

use std::fs::{self, File, FileTimes};
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

use crate::common::day::scratch;
use crate::common::frames::Marked;
use crate::common::pcap::{Magic, Pcap};
use crate::common::user::set_mode;

/// A folder that every user can pass, with `source` and `mnt` in it.
fn open_to_all() -> (TempDir, PathBuf, PathBuf) {
    let folder = scratch();
    set_mode(folder.path(), 0o755);
    let [source, mnt] = ["source", "mnt"].map(|name| folder.path().join(name));
    for path in [&source, &mnt] {
        fs::create_dir(path).unwrap();
        set_mode(path, 0o755);
    }
    (folder, source, mnt)
}

/// A capture of its own bytes for each `seed`.
fn capture(seed: u64) -> Pcap {
    Pcap::random(Magic::LeUs, seed, 60)
}

/// Writes that capture to `path`, in the form that its name says, with this mode, as root's, long ago.
fn put(path: &Path, seed: u64, mode: u32) -> Pcap {
    let pcap = capture(seed);
    let is_zst = path.to_str().unwrap().contains(".zst");
    if is_zst {
        fs::write(path, Marked::pack(&pcap, 2000).physical).unwrap();
    } else {
        fs::write(path, &pcap.bytes).unwrap();
    }
    let then = SystemTime::now() - Duration::from_hours(1);
    let times = FileTimes::new().set_modified(then);
    File::options()
        .write(true)
        .open(path)
        .unwrap()
        .set_times(times)
        .unwrap();
    set_mode(path, mode);
    pcap
}

fn give(path: &Path, user: u32) {
    chown(path, Some(user), Some(user)).unwrap();
}

/// `cat` as whom `command` runs it.
fn cat(mut command: Command, path: &Path) -> Command {
    command.arg("cat").arg(path);
    command
}
