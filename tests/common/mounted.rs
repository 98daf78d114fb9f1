//! A real mount, made by a child in the foreground and taken away again whatever happens.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::mount::{MntFlags, umount2};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

/// A test that uses one mount for longer than this hangs: the mount is torn down, so that the test fails instead.
const LIFETIME: Duration = Duration::from_secs(150);
const PATIENCE: Duration = Duration::from_secs(30);

/// A capture folder mounted by `pcapzst mount -f`.
pub struct Mounted {
    mnt: TempDir,
    child: Child,
    log: Option<JoinHandle<String>>,
    watchdog: Option<(Sender<()>, JoinHandle<()>)>,
}

/// How the mount's program ended.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    /// All it said on stderr.
    pub log: String,
}

impl Mounted {
    /// Mounts `source` with these `-o` options (none when empty) and waits until it serves.
    #[track_caller]
    pub fn new(source: &Path, options: &str) -> Self {
        Self::launch(super::pcapzst(), source, options)
    }

    /// As `new`, with the program and what stands before `mount` of the caller's choice.
    #[track_caller]
    pub fn launch(command: Command, source: &Path, options: &str) -> Self {
        Self::launch_for(LIFETIME, command, source, options)
    }

    /// As `launch`, for a mount that lives longer than others.
    #[track_caller]
    pub fn launch_for(lifetime: Duration, command: Command, source: &Path, options: &str) -> Self {
        Self::launch_at(mount_point(), lifetime, command, source, options)
    }

    #[track_caller]
    fn launch_at(
        mnt: TempDir,
        lifetime: Duration,
        mut command: Command,
        source: &Path,
        options: &str,
    ) -> Self {
        command.args(["mount", "-f"]);
        // Nothing outlives a test, but where a test is about that.
        if !options.contains("index") {
            command.args(["-o", "no_index"]);
        }
        if !options.is_empty() {
            command.args(["-o", options]);
        }
        command.arg(source).arg(mnt.path());
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        command.env("RUST_BACKTRACE", "1");
        let mut child = command
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (serving, served) = channel();
        let log = thread::spawn(move || collect(stderr, &serving));
        let mut mounted = Self {
            mnt,
            child,
            log: Some(log),
            watchdog: None,
        };
        mounted.watchdog = Some(guard(mounted.pid(), mounted.path(), lifetime));
        if served.recv_timeout(PATIENCE).is_err() {
            let ended = mounted.end();
            panic!(
                "{command:?} does not serve (exit {:?}): {}",
                ended.code, ended.log
            );
        }
        mounted
    }

    pub fn path(&self) -> &Path {
        self.mnt.path()
    }

    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.mnt.path().join(name)
    }

    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id().try_into().unwrap())
    }

    pub fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).unwrap();
    }

    /// Unmounts with `pcapzst umount` and checks that the program ends well.
    #[track_caller]
    pub fn unmount(self) -> Ended {
        super::run(super::pcapzst().arg("umount").arg(self.path())).ok();
        self.wait()
    }

    /// Unmounts as `unmount` does, and mounts a source in the same place.
    #[track_caller]
    pub fn again(mut self, source: &Path, options: &str) -> Self {
        super::run(super::pcapzst().arg("umount").arg(self.path())).ok();
        let mnt = std::mem::replace(&mut self.mnt, mount_point());
        self.wait();
        Self::launch_at(mnt, LIFETIME, super::pcapzst(), source, options)
    }

    /// Waits until the program has ended by itself, and checks that it did so with exit code 0 and without a panic.
    #[track_caller]
    pub fn wait(mut self) -> Ended {
        let in_time = super::watch(self.pid(), PATIENCE, || ());
        assert!(in_time, "the mount's program did not end");
        let ended = self.reap();
        assert_eq!(ended.code, Some(0), "{}", ended.log);
        assert!(!ended.log.contains("panicked"), "{}", ended.log);
        ended
    }

    /// One of the mount's counters, by its name in `status --json`.
    #[track_caller]
    pub fn counter(&self, name: &str) -> u64 {
        let stats = super::sys::attribute(self.path(), "user.pcapzst.stats").unwrap();
        let stats: serde_json::Value = serde_json::from_str(&stats).unwrap();
        stats[name].as_u64().unwrap()
    }

    /// CPU time of the program so far, in hundredths of a second (`USER_HZ`, proc(5)).
    pub fn cpu_centiseconds(&self) -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let (_, fields) = stat.rsplit_once(") ").unwrap();
        let fields: Vec<_> = fields.split(' ').collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    }

    /// Memory that the program has resident, in KiB.
    pub fn resident_kib(&self) -> u64 {
        self.status("VmRSS:")
    }

    /// The most memory the program ever had resident, in KiB.
    pub fn peak_kib(&self) -> u64 {
        self.status("VmHWM:")
    }

    /// What the kernel tells of the program (`/proc/PID/status`).
    fn status(&self, key: &str) -> u64 {
        let file = format!("/proc/{}/status", self.child.id());
        number_after(&std::fs::read_to_string(file).unwrap(), key)
    }

    /// Bytes and calls of read(2) and its kin by the program so far.
    pub fn reads(&self) -> (u64, u64) {
        let io = std::fs::read_to_string(format!("/proc/{}/io", self.child.id())).unwrap();
        (number_after(&io, "rchar:"), number_after(&io, "syscr:"))
    }

    /// Takes the mount away and the program with it.
    fn end(&mut self) -> Ended {
        free(self.path());
        super::watch(self.pid(), Duration::from_secs(10), || ());
        self.reap()
    }

    fn reap(&mut self) -> Ended {
        if let Some((done, watchdog)) = self.watchdog.take() {
            drop(done);
            watchdog.join().unwrap();
        }
        let code = self.child.wait().unwrap().code();
        let log = self.log.take().map(|log| log.join().unwrap());
        Ended {
            code,
            log: log.unwrap_or_default(),
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.log.is_some() {
            let ended = self.end();
            if !thread::panicking() {
                assert!(!ended.log.contains("panicked"), "{}", ended.log);
            }
        }
        free(self.path());
    }
}

fn mount_point() -> TempDir {
    tempfile::Builder::new()
        .prefix("pcapzst-mnt-")
        .tempdir()
        .unwrap()
}

/// Reads stderr to its end; tells when the line comes that says that the mount serves.
fn collect(stderr: impl BufRead, serving: &Sender<()>) -> String {
    let mut log = String::new();
    for line in stderr.split(b'\n') {
        let line = String::from_utf8_lossy(&line.unwrap()).into_owned();
        if line.starts_with("pcapzst: serving ") {
            // The receiver is gone when it gave up waiting.
            let _ = serving.send(());
        }
        log += &line;
        log.push('\n');
    }
    log
}

/// A thread that ends a mount which outlives its time, so that whoever hangs on it gets an error; what is given is dropped
/// first, then the thread joined, when the mount has ended.
pub fn guard(pid: Pid, mnt: &Path, lifetime: Duration) -> (Sender<()>, JoinHandle<()>) {
    let (done, ended) = channel::<()>();
    let mnt = mnt.to_path_buf();
    let watchdog = thread::spawn(move || {
        if ended.recv_timeout(lifetime) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            // MNT_FORCE aborts the connection: it frees readers even when SIGKILL cannot.
            let _ = umount2(&mnt, MntFlags::MNT_FORCE);
            let _ = kill(pid, Signal::SIGKILL);
        }
    });
    (done, watchdog)
}

/// Unmounts whatever is mounted on this path, which is the caller's own.
pub fn free(mnt: &Path) {
    while is_mounted(mnt) {
        umount2(mnt, MntFlags::MNT_DETACH).unwrap();
    }
}

/// A line of /proc/self/mounts.
pub struct Entry {
    pub source: String,
    pub kind: String,
    pub options: Vec<String>,
}

/// What is mounted on a path (the uppermost).
pub fn mount_entry(mnt: &Path) -> Option<Entry> {
    entry_of(&std::fs::read_to_string("/proc/self/mounts").unwrap(), mnt)
}

fn entry_of(table: &str, mnt: &Path) -> Option<Entry> {
    let fields = |line: &str| -> Vec<String> { line.split(' ').map(str::to_owned).collect() };
    let mut lines = table.lines().rev().map(fields);
    let line = lines.find(|line| line[1].as_bytes() == mnt.as_os_str().as_bytes())?;
    let options = line[3].split(',').map(str::to_owned).collect();
    Some(Entry {
        source: line[0].clone(),
        kind: line[2].clone(),
        options,
    })
}

/// Waits until nothing is mounted on a path.
#[track_caller]
pub fn wait_until_unmounted(mnt: &Path) {
    wait_until(mnt, false);
}

/// Waits until something is mounted on a path.
#[track_caller]
pub fn wait_until_mounted(mnt: &Path) {
    wait_until(mnt, true);
}

/// The kernel tells each change of the table (proc(5), /proc/mounts).
#[track_caller]
fn wait_until(mnt: &Path, is_mounted: bool) {
    let mut file = File::open("/proc/self/mounts").unwrap();
    loop {
        let mut table = String::new();
        file.rewind().unwrap();
        file.read_to_string(&mut table).unwrap();
        if entry_of(&table, mnt).is_some() == is_mounted {
            return;
        }
        let mut wanted = [PollFd::new(file.as_fd(), PollFlags::POLLPRI)];
        let changed = poll(&mut wanted, PollTimeout::from(20_000_u16)).unwrap();
        assert_ne!(
            changed,
            0,
            "{}: no change to mounted: {is_mounted}",
            mnt.display()
        );
    }
}

pub fn is_mounted(mnt: &Path) -> bool {
    mount_entry(mnt).is_some()
}

fn number_after(text: &str, key: &str) -> u64 {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(key))
        .unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}
