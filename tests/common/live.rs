//! `pack` on a pipe that the test writes to.

use std::io::Write;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use nix::unistd::Pid;

use super::{pcapzst, run, tool, watch};

/// A writer that reads from a pipe the test holds; killed in the end if it still runs.
pub struct Live {
    pub child: Child,
    pub stdin: Option<ChildStdin>,
}

impl Live {
    pub fn start(out: &Path) -> Self {
        let mut command = pcapzst();
        command.args(["pack", "-", "-o"]).arg(out);
        Self::spawn(command.stderr(Stdio::null()))
    }

    pub fn spawn(command: &mut Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        let mut child = command.spawn().unwrap();
        let stdin = child.stdin.take();
        Self { child, stdin }
    }

    /// Writes; it returns when all but a pipe's worth has been read.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.stdin.as_mut().unwrap().write_all(bytes).unwrap();
    }

    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id().try_into().unwrap())
    }

    /// The exit code once it has ended.
    pub fn end(&mut self) -> Option<i32> {
        let in_time = watch(self.pid(), Duration::from_secs(30), || ());
        let code = self.child.wait().unwrap().code();
        assert!(in_time, "the writer did not end");
        code
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What `zstd -dc` makes of a file that `verify` finds good.
pub fn decoded(out: &Path) -> Vec<u8> {
    run(pcapzst().arg("verify").arg(out)).ok();
    run(tool("zstd").arg("-dc").arg(out)).ok().stdout
}
