//! Programs that run beside the test, and are ended by it.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use nix::unistd::Pid;

use crate::common::sys::{await_change, changes_in, pidfd};
use crate::common::{pcapzst, watch};

/// Whoever is waited for longer than this hangs.
const PATIENCE: Duration = Duration::from_mins(1);

/// A program whose output goes to the test, or to the next program; killed in the end if it still runs.
pub struct Running {
    child: Child,
    name: String,
    stdout: Option<ChildStdout>,
    lines: Option<Lines>,
    errors: Option<Lines>,
}

impl Running {
    #[track_caller]
    pub fn start(command: &mut Command, stdin: Stdio) -> Self {
        command
            .env("LC_ALL", "C")
            .env("TZ", "UTC")
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        Self {
            name: format!("{command:?}"),
            stdout: child.stdout.take(),
            errors: Some(Lines::of(child.stderr.take().unwrap())),
            lines: None,
            child,
        }
    }

    /// Its standard output, for another program.
    pub fn stdout(&mut self) -> ChildStdout {
        self.stdout.take().unwrap()
    }

    /// Its standard output, line by line.
    pub fn lines(&mut self) -> Lines {
        Lines::of(self.stdout.take().unwrap())
    }

    /// What it says on stderr, line by line; `end` then has nothing of it.
    pub fn errors(&mut self) -> Lines {
        self.errors.take().unwrap()
    }

    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id().try_into().unwrap())
    }

    /// Kills it; what it said on stderr.
    pub fn stop(mut self) -> String {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.errors
            .take()
            .map(|lines| lines.rest())
            .unwrap_or_default()
    }

    /// Waits until it has ended by itself: exit code, the rest of its output, and what it said on stderr.
    #[track_caller]
    pub fn end(mut self) -> (Option<i32>, String, String) {
        let in_time = watch(self.pid(), PATIENCE, || ());
        let code = self.child.wait().unwrap().code();
        assert!(in_time, "{} did not end", self.name);
        let rest = |lines: Option<Lines>| lines.map(|it| it.rest()).unwrap_or_default();
        let (out, errors) = (rest(self.lines.take()), rest(self.errors.take()));
        (code, out, errors)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Lines of a pipe, fetched by a thread so that a pipe that stays silent is a failure and no hang.
#[derive(Clone)]
pub struct Lines(std::sync::Arc<std::sync::Mutex<Receiver<String>>>);

impl Lines {
    fn of(pipe: impl Read + Send + 'static) -> Self {
        let (sender, receiver) = channel();
        thread::spawn(move || {
            let mut pipe = BufReader::new(pipe);
            loop {
                let mut line = Vec::new();
                if pipe.read_until(b'\n', &mut line).unwrap() == 0 {
                    return;
                }
                // Nobody may listen any more.
                let _ = sender.send(String::from_utf8_lossy(&line).into_owned());
            }
        });
        Self(std::sync::Arc::new(std::sync::Mutex::new(receiver)))
    }

    /// The next line, its end included.
    #[track_caller]
    pub fn next_line(&self) -> String {
        let line = self.0.lock().unwrap().recv_timeout(PATIENCE);
        line.unwrap_or_else(|error| panic!("no further line came: {error}"))
    }

    /// All that comes until the pipe's end.
    #[track_caller]
    pub fn rest(&self) -> String {
        let lines = self.0.lock().unwrap();
        let mut rest = String::new();
        loop {
            match lines.recv_timeout(PATIENCE) {
                Ok(line) => rest += &line,
                Err(RecvTimeoutError::Disconnected) => return rest,
                Err(RecvTimeoutError::Timeout) => panic!("the pipe stays open"),
            }
        }
    }
}

/// `pcapzst pack - -o OUT`.
pub struct Pack {
    child: Child,
    stdin: Option<ChildStdin>,
    out: PathBuf,
    changes: File,
    running: OwnedFd,
}

impl Pack {
    /// Fed by the test.
    pub fn start(out: &Path) -> Self {
        Self::start_on(out, Stdio::piped())
    }

    /// Fed by another program.
    pub fn start_on(out: &Path, stdin: Stdio) -> Self {
        let changes = changes_in(out.parent().unwrap()).unwrap();
        let mut command = pcapzst();
        command
            .args(["pack", "-", "--flush-ms", "20", "-o"])
            .arg(out)
            .stdin(stdin)
            .stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        Self {
            stdin: child.stdin.take(),
            running: pidfd(child.id().try_into().unwrap()).unwrap(),
            child,
            out: out.to_path_buf(),
            changes,
        }
    }

    pub fn feed(&mut self, bytes: &[u8]) {
        self.stdin.as_mut().unwrap().write_all(bytes).unwrap();
    }

    /// The size of the partial file, in bytes; 0 where there is none yet.
    pub fn physical_size(&self) -> u64 {
        let mut partial = self.out.clone().into_os_string();
        partial.push(".partial");
        std::fs::metadata(partial).map_or(0, |file| file.size())
    }

    /// Waits until the file on disk has a header to show.
    #[track_caller]
    pub fn await_file(&self) {
        // The marker alone is 14 bytes.
        self.await_more_than(14);
    }

    /// Waits until the partial file is larger than `size` bytes.
    #[track_caller]
    pub fn await_more_than(&self, size: u64) {
        while self.physical_size() <= size {
            assert!(await_change(&self.changes, &self.running), "pack has ended");
        }
    }

    /// Ends the input and waits for the file to be finished.
    #[track_caller]
    pub fn finish(mut self) {
        drop(self.stdin.take());
        let pid = Pid::from_raw(self.child.id().try_into().unwrap());
        let in_time = watch(pid, PATIENCE, || ());
        let code = self.child.wait().unwrap().code();
        assert!(in_time, "pack did not end");
        assert_eq!(code, Some(0), "pack");
        assert!(self.out.exists());
    }
}

impl Drop for Pack {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
