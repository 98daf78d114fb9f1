//! Other users, and a mount table of a test's own.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::mount::{MsFlags, mount};
use nix::sys::stat::{Mode, SFlag, makedev, mknod};

use super::{run, tool};

/// `nobody`: mounts.
pub const NOBODY: u32 = 65_534;
/// `daemon`: looks into what others mounted.
pub const DAEMON: u32 = 1;

/// Runs what is added to it as this user, with the group of the same number and these groups beside it.
pub fn as_user(user: u32, groups: &[u32]) -> Command {
    let mut command = tool("setpriv");
    command.arg(format!("--reuid={user}"));
    command.arg(format!("--regid={user}"));
    if groups.is_empty() {
        command.arg("--clear-groups");
    } else {
        let list: Vec<_> = groups.iter().map(u32::to_string).collect();
        command.arg(format!("--groups={}", list.join(",")));
    }
    command.arg("--");
    command
}

/// The program under test where every user can run it: a copy in `folder`.
pub fn program_in(folder: &Path) -> PathBuf {
    let copy = folder.join("pcapzst");
    fs::copy(env!("CARGO_BIN_EXE_pcapzst"), &copy).unwrap();
    set_mode(&copy, 0o755);
    copy
}

pub fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Runs the test `name` once more in a process whose mounts nobody else sees, and there its `body`. All that is mounted and
/// all that is started there goes with the process, also when that is killed.
#[track_caller]
pub fn in_own_namespace(name: &str, body: impl FnOnce()) {
    const INSIDE: &str = "PCAPZST_OWN_NAMESPACE";
    if std::env::var_os(INSIDE).is_some_and(|inside| inside == name) {
        return body();
    }
    let mut command = tool("unshare");
    command.args(["--mount", "--propagation", "private"]);
    command.args(["--pid", "--fork", "--kill-child", "--mount-proc", "--"]);
    command.arg(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--nocapture"]);
    let ran = run(command.env(INSIDE, name)).ok();
    assert!(ran.text().contains("1 passed"), "{}", ran.text());
}

/// In a mount table of our own: a /dev/fuse that every user may open, as udev makes it, and this as /etc/fuse.conf.
pub fn let_users_mount(folder: &Path, fuse_conf: &str) {
    let (node, conf) = (folder.join("fuse"), folder.join("fuse.conf"));
    if !node.exists() {
        let fuse = makedev(10, 229);
        mknod(&node, SFlag::S_IFCHR, Mode::from_bits_truncate(0o666), fuse).unwrap();
        set_mode(&node, 0o666);
        bind(&node, Path::new("/dev/fuse"));
        fs::write(&conf, "").unwrap();
        set_mode(&conf, 0o644);
        bind(&conf, Path::new("/etc/fuse.conf"));
    }
    fs::write(&conf, fuse_conf).unwrap();
}

pub fn bind(from: &Path, to: &Path) {
    let none = None::<&str>;
    mount(Some(from), to, none, MsFlags::MS_BIND, none).unwrap();
}
