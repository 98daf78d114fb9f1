//! Mount tables of containers (54).

use std::fs;
use std::path::Path;

use nix::mount::{MntFlags, MsFlags, mount, umount2};

use crate::common::day::{Day, scratch};
use crate::common::mounted::free;
use crate::common::pcap::{Magic, Pcap};
use crate::common::user::{bind, in_own_namespace};
use crate::common::{Ran, pcapzst, run, tool};

/// A process in a mount table of its own, made now: it looks at a path whenever it gets a line.
struct Container {
    child: std::process::Child,
    answers: std::io::BufReader<std::process::ChildStdout>,
}

impl Container {
    fn with(propagation: &str, path: &Path) -> Self {
        let mut command = tool("unshare");
        command.args(["--mount", "--propagation", propagation, "--", "sh", "-c"]);
        let look = "echo ready; while read -r line; do cat \"$1\" 2>&1 >/dev/null | tail -n 1; echo end; done";
        command.args([look, "sh"]).arg(path);
        command.stdin(std::process::Stdio::piped());
        command.stdout(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        let answers = std::io::BufReader::new(child.stdout.take().unwrap());
        let mut container = Self { child, answers };
        assert_eq!(container.line(), "ready");
        container
    }

    fn line(&mut self) -> String {
        use std::io::BufRead;
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    /// What `cat` complains of; empty if it reads.
    fn complaint(&mut self) -> String {
        use std::io::Write;
        let lines = self.child.stdin.as_mut().unwrap();
        lines.write_all(b"\n").unwrap();
        let first = self.line();
        if first == "end" {
            return String::new();
        }
        assert_eq!(self.line(), "end");
        first
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        self.child.wait().unwrap();
    }
}

/// Ends the mount on a point whatever happens: a daemon that is left would keep the mount table, and all in it.
struct Ended<'a>(&'a Path);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        free(self.0);
    }
}

#[test]
fn a_container_sees_a_mount_made_later_and_a_new_one_only_if_its_table_follows() {
    in_own_namespace(
        "trap::container::a_container_sees_a_mount_made_later_and_a_new_one_only_if_its_table_follows",
        || {
            let day = Day::with("a", &Pcap::random(Magic::LeUs, 1, 20));
            // What `docker -v MNT:…` binds: a folder on a shared mount, with the mount point in it.
            let shared = scratch();
            bind(shared.path(), shared.path());
            let none = None::<&str>;
            mount(none, shared.path(), none, MsFlags::MS_SHARED, none).unwrap();
            let point = shared.path().join("mnt");
            fs::create_dir(&point).unwrap();
            let _ended = Ended(&point);
            let serve = || -> Ran {
                run(pcapzst()
                    .args(["mount", "-o", "no_index"])
                    .arg(day.source())
                    .arg(&point))
                .ok()
            };
            let seen = point.join("a.pcap");
            let mut follows = Container::with("slave", &seen);
            let mut stays = Container::with("private", &seen);
            serve();
            assert_eq!(follows.complaint(), "");
            assert!(stays.complaint().contains("No such file"));

            // Containers that are made while it is mounted both see it; after the daemon died, and a new one took its place:
            let mut later = Container::with("private", &seen);
            assert_eq!(later.complaint(), "");
            let ours = |pid: &i32| {
                let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                String::from_utf8_lossy(&arguments).contains(point.to_str().unwrap())
                    && fs::read_link(format!("/proc/{pid}/exe"))
                        .is_ok_and(|exe| exe.ends_with("pcapzst"))
            };
            let pids = fs::read_dir("/proc").unwrap();
            let pids = pids.filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
            let daemon: Vec<i32> = pids.filter(ours).collect();
            assert_eq!(daemon.len(), 1);
            let pid = nix::unistd::Pid::from_raw(daemon[0]);
            let handle = crate::common::sys::pidfd(daemon[0]).unwrap();
            nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).unwrap();
            assert!(crate::common::point::has_ended(&handle, 10_000));
            assert!(later.complaint().contains("not connected"));
            run(pcapzst().arg("umount").arg(&point)).ok();
            serve();
            assert_eq!(
                follows.complaint(),
                "",
                "a table that follows has the new mount"
            );
            let complaint = later.complaint();
            assert!(complaint.contains("not connected"), "{complaint}");
            run(pcapzst().arg("umount").arg(&point)).ok();
            umount2(shared.path(), MntFlags::MNT_DETACH).unwrap();
        },
    );
}
