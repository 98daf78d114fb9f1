//! Mounting and unmounting by our own hand: mount(2) where that is allowed, else fusermount3.
//!
//! fuser's own mount object unmounts its path a second time when somebody has unmounted it before, whatever is mounted
//! there by then. So we mount, hand fuser the descriptor only, and unmount a path only while our mount is what it shows.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::unistd::{getgid, getuid};

use super::mountinfo::{self, FSTYPE, Mount, Whereabouts};
use super::options::{Access, MountOptions};

/// The setuid helper of libfuse, for users that may not mount.
const FUSERMOUNT: &str = "fusermount3";

/// Where it is without a PATH: mount(8) may be called with none, and an empty one stands for the working folder.
const USUAL_FOLDERS: [&str; 4] = ["/usr/bin", "/bin", "/usr/local/bin", "/usr/sbin"];

/// The largest request that the kernel grants.
const READAHEAD_KIB: &str = "1024";

/// A mount of ours.
#[derive(Debug)]
pub struct Mounting {
    /// What tells it from another one on the same path.
    mount: Mount,
    /// With `auto_unmount`, fusermount3 unmounts when this is closed.
    _auto_unmount: Option<UnixStream>,
}

/// How an unmount went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmounted {
    /// The mount is gone.
    Gone,
    /// It was busy: no path leads there any more, open files are served until they are closed.
    Detached,
}

impl Mounting {
    /// Mounts on `point`, an absolute path without links; the descriptor through which the kernel asks.
    pub fn new(source: &Path, point: &Path, options: &MountOptions) -> io::Result<(Self, OwnedFd)> {
        let (fd, socket) = if options.auto_unmount {
            mount_by_helper(source, point, options)?
        } else {
            match mount_directly(source, point, options) {
                Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
                    mount_by_helper(source, point, options)?
                }
                outcome => (outcome?, None),
            }
        };
        let mount = mountinfo::at(point)?
            .filter(|mount| mount.fstype == FSTYPE)
            .ok_or_else(|| {
                io::Error::other("mounted, but /proc/self/mountinfo does not show it")
            })?;
        let mounting = Self {
            mount,
            _auto_unmount: socket,
        };
        Ok((mounting, fd))
    }

    /// Where it was mounted.
    #[must_use]
    pub fn point(&self) -> &Path {
        &self.mount.point
    }

    /// Raises the kernel's readahead, where this process may: with 128 KiB a page-cached reader has too few requests in flight
    /// to keep two decoders busy. For a mount that answers; holds for files opened from now on.
    pub fn raise_readahead(&self) {
        let path = format!("/sys/class/bdi/{}/read_ahead_kb", self.mount.device);
        if let Err(error) = std::fs::write(&path, READAHEAD_KIB) {
            log::info!("{path}: {error}");
        }
    }

    /// Unmounts, lazily if busy, wherever it was moved to. `None` if it was unmounted before: whatever is there now is not
    /// ours.
    pub fn unmount(&self) -> io::Result<Option<Unmounted>> {
        unmount_only(&self.mount)
    }
}

/// Unmounts this mount and no other, lazily if it is busy. `None` if it is gone.
///
/// # Errors
/// What umount(2) says, and that another one is mounted over it.
pub(super) fn unmount_only(mount: &Mount) -> io::Result<Option<Unmounted>> {
    match mountinfo::find(mount)? {
        Whereabouts::Gone => Ok(None),
        Whereabouts::Seen(point) => unmount(&point).map(Some),
        Whereabouts::Hidden(point, fstype) => Err(io::Error::other(format!(
            "a mount of type {fstype} is on top of it: run `umount {}`, then try again",
            point.display()
        ))),
    }
}

/// Unmounts the file system that is mounted on `point`, lazily if it is busy.
pub fn unmount(point: &Path) -> io::Result<Unmounted> {
    match umount2(point, MntFlags::UMOUNT_NOFOLLOW) {
        Ok(()) => Ok(Unmounted::Gone),
        Err(Errno::EBUSY) => {
            umount2(point, MntFlags::MNT_DETACH | MntFlags::UMOUNT_NOFOLLOW)?;
            Ok(Unmounted::Detached)
        }
        Err(Errno::EPERM) => {
            if helper(&[OsString::from("-u"), "--".into(), point.into()]).is_ok() {
                return Ok(Unmounted::Gone);
            }
            helper(&["-u".into(), "-z".into(), "--".into(), point.into()])?;
            Ok(Unmounted::Detached)
        }
        Err(errno) => Err(errno.into()),
    }
}

fn mount_directly(source: &Path, point: &Path, options: &MountOptions) -> io::Result<OwnedFd> {
    let device = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/fuse")
        .map_err(|error| in_words("/dev/fuse", &error))?;
    let mut data = format!(
        "fd={},rootmode=40000,user_id={},group_id={},default_permissions",
        device.as_raw_fd(),
        getuid(),
        getgid()
    );
    for option in kernel_options(options) {
        data.push(',');
        data.push_str(&option);
    }
    let mut flags = MsFlags::MS_RDONLY | MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    flags.set(MsFlags::MS_NOEXEC, options.noexec);
    flags.set(MsFlags::MS_NOATIME, options.noatime);
    let name = fsname(source, options);
    mount(
        Some(name.as_os_str()),
        point,
        Some(FSTYPE),
        flags,
        Some(data.as_str()),
    )?;
    Ok(device.into())
}

/// Mounts through fusermount3, which sends the descriptor over a socket named in `_FUSE_COMMFD`.
fn mount_by_helper(
    source: &Path,
    point: &Path,
    options: &MountOptions,
) -> io::Result<(OwnedFd, Option<UnixStream>)> {
    let (ours, theirs) = UnixStream::pair()?;
    let mut list = OsString::from("ro,nosuid,nodev,default_permissions,subtype=pcapzst,fsname=");
    list.push(escape(&fsname(source, options)));
    for option in kernel_options(options) {
        list.push(",");
        list.push(option);
    }
    for (is_set, word) in [
        (options.noexec, ",noexec"),
        (options.noatime, ",noatime"),
        (options.auto_unmount, ",auto_unmount"),
    ] {
        if is_set {
            list.push(word);
        }
    }
    // The helper finds its end of the socket at the number we name: a copy that exec does not close.
    let inherited = nix::unistd::dup(&theirs)?;
    let mut child = Command::new(fusermount()?)
        .arg("-o")
        .arg(&list)
        .arg("--")
        .arg(point)
        .env("_FUSE_COMMFD", inherited.as_raw_fd().to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| in_words(FUSERMOUNT, &error))?;
    drop((theirs, inherited));
    match crate::sys::receive_descriptor(&ours) {
        Ok(fd) if options.auto_unmount => Ok((fd, Some(ours))),
        Ok(fd) => {
            drop(ours);
            child.wait()?;
            Ok((fd, None))
        }
        Err(error) => {
            drop(ours);
            let output = child.wait_with_output()?;
            let words = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            // It may have been killed, or say nothing.
            Err(if words.is_empty() {
                in_words(FUSERMOUNT, &error)
            } else {
                io::Error::other(words)
            })
        }
    }
}

/// Options that the kernel, or fusermount3, takes as they are.
fn kernel_options(options: &MountOptions) -> Vec<String> {
    let mut list = options.kernel.clone();
    // As mount(8) does: one line of fstab serves machines with and without SELinux.
    if !list.is_empty() && !has_selinux() {
        log::info!("no SELinux: left out {}", list.join(","));
        list.clear();
    }
    // The kernel knows no allow_root: the session answers root and the owner only.
    if options.access != Access::Owner {
        list.push("allow_other".to_owned());
    }
    list
}

fn has_selinux() -> bool {
    let kinds = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
    kinds.lines().any(|kind| kind.ends_with("\tselinuxfs"))
}

fn fsname(source: &Path, options: &MountOptions) -> OsString {
    match &options.fsname {
        Some(name) => name.into(),
        None => source.into(),
    }
}

/// `name` as an option's value: fusermount3 takes a comma or backslash only behind a backslash.
fn escape(name: &std::ffi::OsStr) -> OsString {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    let mut bytes = Vec::new();
    for byte in name.as_bytes() {
        if [b',', b'\\'].contains(byte) {
            bytes.push(b'\\');
        }
        bytes.push(*byte);
    }
    OsString::from_vec(bytes)
}

/// The helper's path. Never one in the working folder.
fn fusermount() -> io::Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .filter(|folder| folder.is_absolute())
        .chain(USUAL_FOLDERS.map(PathBuf::from))
        .map(|folder| folder.join(FUSERMOUNT))
        .find(|file| file.is_file())
        .ok_or_else(|| {
            let words = format!("{FUSERMOUNT} is not installed (Debian: package fuse3)");
            io::Error::new(io::ErrorKind::NotFound, words)
        })
}

fn helper(arguments: &[OsString]) -> io::Result<()> {
    let output = Command::new(fusermount()?)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| in_words(FUSERMOUNT, &error))?;
    if output.status.success() {
        Ok(())
    } else {
        let words = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(io::Error::other(if words.is_empty() {
            format!("{FUSERMOUNT}: {}", output.status)
        } else {
            words
        }))
    }
}

fn in_words(what: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}

/// A file of /dev/null, for the standard streams of a daemon.
pub fn dev_null() -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open("/dev/null")
}
