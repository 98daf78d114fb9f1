//! What the integration tests share: random numbers, running programs, the program under test.
//!
//! Nothing here uses the library crate: captures, frames and expectations are built from the format document alone, so
//! that a fault in the product cannot hide in the tests.
#![allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "each test file uses its own part of this module, and a failed step of a test is a panic"
)]

pub mod apart;
pub mod day;
pub mod frames;
pub mod growth;
pub mod live;
pub mod mounted;
pub mod pcap;
pub mod point;
pub mod sys;
pub mod user;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;

/// A program that runs longer than this hangs: it is killed, and the test fails.
const PATIENCE: Duration = Duration::from_secs(90);

/// How much of a test is run: what the environment says, else the usual.
///
/// # Panics
/// When that is no number.
pub fn number<T: FromStr>(variable: &str, usual: T) -> T {
    let value = std::env::var(variable);
    value.map_or(usual, |value| {
        let number = value.parse();
        number.unwrap_or_else(|_| panic!("{variable} is a number"))
    })
}

/// xorshift64*: small, the same on every machine.
#[derive(Clone)]
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number in `0..end`; `end` must not be 0.
    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() >> 8).unwrap() % end
    }

    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len + 8);
        while bytes.len() < len {
            bytes.extend_from_slice(&self.next().to_le_bytes());
        }
        bytes.truncate(len);
        bytes
    }
}

/// What a program did.
#[derive(Debug)]
pub struct Ran {
    /// The exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    pub stdout: Vec<u8>,
    pub stderr: String,
    line: String,
}

impl Ran {
    pub fn is_ok(&self) -> bool {
        self.code == Some(0)
    }

    /// The same, after a check that the exit code is 0.
    #[track_caller]
    pub fn ok(self) -> Self {
        self.exits(0)
    }

    /// The same, after a check of the exit code.
    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(
            self.code,
            Some(code),
            "{}\n{}\n{}",
            self.line,
            self.text(),
            self.stderr
        );
        self
    }

    /// The same, after a check that it failed by itself (no signal) and said why on stderr.
    #[track_caller]
    pub fn fails(self) -> Self {
        assert!(
            self.code.is_some_and(|code| code != 0),
            "{}: {:?}",
            self.line,
            self.code
        );
        assert!(
            !self.stderr.trim().is_empty(),
            "{} failed without a word",
            self.line
        );
        self
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Each line of stdout as a JSON object.
    #[track_caller]
    pub fn json(&self) -> Vec<serde_json::Map<String, serde_json::Value>> {
        let parse = |line: &str| match serde_json::from_str(line) {
            Ok(serde_json::Value::Object(object)) => object,
            other => panic!(
                "{}: not one JSON object a line: {line:?}: {other:?}",
                self.line
            ),
        };
        self.text().lines().map(parse).collect()
    }
}

/// Runs a command to its end with nothing on stdin, and gives what it said.
///
/// # Panics
/// When it cannot be started, runs for more than `PATIENCE`, or leaves something behind that holds its output open.
#[track_caller]
pub fn run(command: &mut Command) -> Ran {
    run_with_input(command, Stdio::null())
}

/// As `run`, with stdin of the caller's choice.
#[track_caller]
pub fn run_with_input(command: &mut Command, input: Stdio) -> Ran {
    let line = format!("{command:?}");
    command.env("LC_ALL", "C").env("TZ", "UTC");
    command
        .stdin(input)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command
        .spawn()
        .unwrap_or_else(|error| panic!("cannot start {line}: {error}"));
    let pid = Pid::from_raw(child.id().try_into().unwrap());
    let (mut stdout, mut stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let (out_sender, out_receiver) = channel();
    let (err_sender, err_receiver) = channel();
    thread::spawn(move || out_sender.send(drain(&mut stdout)));
    thread::spawn(move || err_sender.send(drain(&mut stderr)));
    let in_time = watch(pid, PATIENCE, || ());
    let code = child.wait().unwrap().code();
    assert!(
        in_time,
        "{line} still ran after {PATIENCE:?} and was killed"
    );
    let rest = Duration::from_secs(20);
    let held = |_| -> Vec<u8> { panic!("{line} ended, but what it started holds its output open") };
    let stdout = out_receiver.recv_timeout(rest).unwrap_or_else(held);
    let stderr = err_receiver.recv_timeout(rest).unwrap_or_else(held);
    Ran {
        code,
        stdout,
        stderr: String::from_utf8_lossy(&stderr).into_owned(),
        line,
    }
}

fn drain(pipe: &mut impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    pipe.read_to_end(&mut bytes).unwrap();
    bytes
}

/// Waits until a child has ended, without reaping it (its number stays its own); true when it ended by itself. After
/// `patience` it calls `free` and kills it.
pub fn watch(pid: Pid, patience: Duration, free: impl FnOnce() + Send) -> bool {
    let (done, expired) = channel::<()>();
    thread::scope(|scope| {
        let watchdog = scope.spawn(move || {
            let late = expired.recv_timeout(patience) == Err(RecvTimeoutError::Timeout);
            if late {
                free();
                // It may have ended in this very moment; it is not reaped, so the number is still its own.
                let _ = kill(pid, Signal::SIGKILL);
            }
            !late
        });
        waitid(Id::Pid(pid), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT).unwrap();
        drop(done);
        watchdog.join().unwrap()
    })
}

/// Runs one of the real tools.
///
/// # Panics
/// When the tool is not installed: a test that cannot run its tool fails, it is never skipped.
#[track_caller]
pub fn tool(name: &str) -> Command {
    let path = std::env::var_os("PATH").unwrap();
    let found = std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin", "/usr/lib/openssh"].map(PathBuf::from))
        .chain(unpacked())
        .map(|folder| folder.join(name))
        .find(|file| file.is_file());
    called(
        found.unwrap_or_else(|| {
            panic!("{name} is missing: scripts/test installs what the tests need")
        }),
    )
}

/// Where scripts/install-tools unpacks packages that it must not install.
fn unpacked() -> Vec<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    let folders = cache.map(|cache| {
        let unpacked = cache.join("pcapzst-tests/unpacked/usr");
        ["bin", "sbin"].map(|folder| unpacked.join(folder))
    });
    folders.into_iter().flatten().collect()
}

/// The program under test.
pub fn pcapzst() -> Command {
    called(env!("CARGO_BIN_EXE_pcapzst"))
}

/// A program that may mount, with its cache folder among what the tests leave behind, not in the developer's home.
pub fn called(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    command.env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"));
    command
}

/// The program under test, killed after 1 s of CPU time or when it asks for more than 1 GiB of address space.
pub fn frugal_pcapzst() -> Command {
    let mut command = tool("prlimit");
    command.args([
        "--cpu=1",
        "--as=1073741824",
        "--",
        env!("CARGO_BIN_EXE_pcapzst"),
    ]);
    command
}

/// The names in a folder as bytes, sorted, `.` and `..` left out.
#[track_caller]
pub fn names(folder: &Path) -> Vec<Vec<u8>> {
    use std::os::unix::ffi::OsStringExt;
    let list =
        std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut names: Vec<_> = list
        .map(|entry| entry.unwrap().file_name().into_vec())
        .collect();
    names.sort();
    names
}

/// Fails with the first difference, not with megabytes of numbers.
#[track_caller]
pub fn assert_same(got: &[u8], wanted: &[u8], what: &str) {
    if let Some(at) = got.iter().zip(wanted).position(|(a, b)| a != b) {
        panic!(
            "{what}: byte {at} is {:#04x}, wanted {:#04x}",
            got[at], wanted[at]
        );
    }
    assert_eq!(got.len(), wanted.len(), "{what}: length");
}
