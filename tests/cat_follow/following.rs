//! `pcapzst cat -f` beside the test, its output taken byte by byte.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::common::{assert_same, pcapzst, watch};

/// Whoever is waited for longer than this hangs.
const PATIENCE: Duration = Duration::from_mins(1);

/// `cat -f` of FILE with these options before it.
pub fn cat_follow<S: AsRef<OsStr>>(file: &Path, options: &[S]) -> Command {
    let mut command = pcapzst();
    command.args(["cat", "-f"]).args(options).arg(file);
    command
}

/// Appends to a file, as its writer does.
pub fn append(path: &Path, bytes: &[u8]) {
    let mut file = File::options().append(true).open(path).unwrap();
    file.write_all(bytes).unwrap();
}

/// A running `cat -f`; killed in the end if it still runs.
pub struct Following {
    child: Child,
    /// `None` once the test has closed it.
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
}

/// How it ended.
#[derive(Debug)]
pub struct End {
    pub code: Option<i32>,
    /// Output that was not taken before.
    pub rest: Vec<u8>,
    /// What it said on stderr.
    pub said: String,
}

impl End {
    /// Checks that it ended with 0, without a word, and that this was all that was left of its output.
    #[track_caller]
    pub fn completes(&self, rest: &[u8]) {
        assert_eq!((self.code, self.said.as_str()), (Some(0), ""));
        assert_same(&self.rest, rest, "the rest");
    }

    /// Checks that it ended with 5 and said why.
    #[track_caller]
    pub fn is_cut_short(&self, why: &str) {
        assert_eq!(self.code, Some(5), "{}", self.said);
        assert!(self.said.contains(why), "{}", self.said);
    }
}

impl Following {
    pub fn start(file: &Path) -> Self {
        Self::start_with(file, &[])
    }

    pub fn start_with(file: &Path, options: &[&str]) -> Self {
        let mut child = cat_follow(file, options)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        Self {
            child,
            stdout,
            stderr,
        }
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id().try_into().unwrap())
    }

    /// Checks that the next output is these bytes; takes no byte more.
    #[track_caller]
    pub fn takes(&mut self, wanted: &[u8]) {
        let mut got = vec![0; wanted.len()];
        let mut len = 0;
        let pipe = self.stdout.as_mut().unwrap();
        while len < got.len() {
            await_input(pipe, "output");
            let more = pipe.read(&mut got[len..]).unwrap();
            assert_ne!(more, 0, "it ended {len} bytes into {}", wanted.len());
            len += more;
        }
        assert_same(&got, wanted, "the next output");
    }

    /// Checks that no output waits.
    #[track_caller]
    pub fn is_silent(&self) {
        let pipe = self.stdout.as_ref().unwrap();
        assert!(!is_ready(pipe, PollTimeout::ZERO), "output that is early");
    }

    /// A line of stderr.
    #[track_caller]
    pub fn says(&mut self) -> String {
        let pipe = self.stderr.as_mut().unwrap();
        let mut line = Vec::new();
        while line.last() != Some(&b'\n') {
            await_input(pipe, "word on stderr");
            let mut byte = [0];
            assert_eq!(pipe.read(&mut byte).unwrap(), 1, "it closed stderr");
            line.extend(byte);
        }
        String::from_utf8(line).unwrap()
    }

    /// Its calls of read and pread so far.
    pub fn reads(&self) -> u64 {
        let counters = fs::read_to_string(format!("/proc/{}/io", self.child.id())).unwrap();
        let mut lines = counters.lines();
        let count = lines.find_map(|line| line.strip_prefix("syscr: ")).unwrap();
        count.parse().unwrap()
    }

    /// Waits until it has read the file again since `reads` was counted, and waits itself.
    #[track_caller]
    pub fn has_looked_since(&self, reads: u64) {
        let begun = Instant::now();
        while self.reads() < reads + 2 || !self.is_waiting() {
            assert!(begun.elapsed() < PATIENCE, "it does not look");
            thread::yield_now();
        }
    }

    fn is_waiting(&self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        stat.rsplit(") ").next().unwrap().starts_with('S')
    }

    /// Lets the test do something at one stroke: it sees nothing of it before all is done.
    pub fn at_one_stroke(&self, deed: impl FnOnce()) {
        kill(self.pid(), Signal::SIGSTOP).unwrap();
        let begun = Instant::now();
        let stat = format!("/proc/{}/stat", self.child.id());
        while !fs::read_to_string(&stat).unwrap().contains(") T ") {
            assert!(begun.elapsed() < PATIENCE, "it does not stop");
            thread::yield_now();
        }
        deed();
        kill(self.pid(), Signal::SIGCONT).unwrap();
    }

    /// Closes its output.
    pub fn close(&mut self) {
        self.stdout = None;
    }

    /// Closes the pipe that it talks to.
    pub fn close_stderr(&mut self) {
        self.stderr = None;
    }

    /// Waits until it has ended by itself.
    #[track_caller]
    pub fn end(mut self) -> End {
        let mut rest = Vec::new();
        if let Some(pipe) = &mut self.stdout {
            let mut piece = [0; 8192];
            loop {
                await_input(pipe, "end");
                match pipe.read(&mut piece).unwrap() {
                    0 => break,
                    len => rest.extend_from_slice(&piece[..len]),
                }
            }
        }
        let in_time = watch(self.pid(), PATIENCE, || ());
        let code = self.child.wait().unwrap().code();
        assert!(in_time, "it did not end");
        let mut said = String::new();
        if let Some(pipe) = &mut self.stderr {
            pipe.read_to_string(&mut said).unwrap();
        }
        End { code, rest, said }
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn is_ready(pipe: &impl AsFd, timeout: PollTimeout) -> bool {
    let mut wanted = [PollFd::new(pipe.as_fd(), PollFlags::POLLIN)];
    poll(&mut wanted, timeout).unwrap() == 1
}

#[track_caller]
fn await_input(pipe: &impl AsFd, what: &str) {
    let patience = PollTimeout::try_from(PATIENCE).unwrap();
    assert!(is_ready(pipe, patience), "no {what} came");
}
