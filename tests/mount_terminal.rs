//! A mount outlives the terminal it was made from, and is not made when its caller is interrupted.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "a failed step of a test is a panic"
)]

mod common;

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use common::day::{Day, scratch};
use common::mounted::{Mounted, is_mounted, wait_until_unmounted};
use common::pcap::{Magic, Pcap};
use common::point::{Point, has_ended};
use common::{assert_same, names, pcapzst, run, sys, tool};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use tempfile::TempDir;

fn day() -> Day {
    Day::with("a", &Pcap::random(Magic::LeUs, 800, 20))
}

/// The fields of proc(5)'s stat behind the program's name, and what the standard streams are.
fn ties_of(pid: i32) -> (i32, i32, Vec<PathBuf>) {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    let fields: Vec<_> = fields.split(' ').collect();
    let number = |field: usize| fields[field].parse().unwrap();
    let streams = (0..3).map(|fd| fs::read_link(format!("/proc/{pid}/fd/{fd}")).unwrap());
    // Session and terminal.
    (number(3), number(4), streams.collect())
}

#[track_caller]
fn assert_serves_alone(point: &Point) {
    assert_eq!(names(point.path()), [b"a.pcap"]);
    let daemons = point.daemons();
    assert_eq!(daemons.len(), 1, "{daemons:?}");
    let (session, terminal, streams) = ties_of(daemons[0]);
    assert_eq!(
        (session, terminal),
        (daemons[0], 0),
        "a session of its own, no terminal"
    );
    assert_eq!(
        streams,
        [
            PathBuf::from("/dev/null"),
            "/dev/null".into(),
            "/dev/null".into()
        ]
    );
    let folder = fs::read_link(format!("/proc/{}/cwd", daemons[0])).unwrap();
    assert_eq!(folder, PathBuf::from("/"));
    let daemon = point.daemon();
    run(pcapzst().arg("umount").arg(point.path())).ok();
    assert!(has_ended(&daemon, 20_000), "the program still runs");
}

/// The shell's words for a mount of `day` on `point`.
fn words(day: &Day, point: &Point) -> String {
    let program = env!("CARGO_BIN_EXE_pcapzst");
    let (source, point) = (day.source(), point.path().display().to_string());
    format!(
        "'{program}' mount -o no_index '{}' '{point}'",
        source.display()
    )
}

#[test]
fn a_terminal_that_is_gone_at_once_leaves_the_mount() {
    // As with `ssh -t host pcapzst mount …`: the command leads the terminal's session, and what is left in it gets SIGHUP.
    let day = day();
    for _ in 0..5 {
        let point = Point::new();
        let mut script = tool("script");
        script.args(["-q", "-e", "-c", &words(&day, &point), "/dev/null"]);
        run(&mut script).ok();
        assert_serves_alone(&point);
    }
}

#[test]
fn a_group_that_gets_sighup_or_sigint_right_behind_the_command_leaves_the_mount() {
    let day = day();
    for signal in ["HUP", "INT", "TERM"] {
        let point = Point::new();
        let script = format!("{}; kill -{signal} 0", words(&day, &point));
        let mut shell = tool("setsid");
        shell.args(["--wait", "sh", "-c", &script]);
        let ran = run(&mut shell);
        assert_ne!(
            ran.code,
            Some(0),
            "the shell is in the group, too: {}",
            ran.stderr
        );
        assert_serves_alone(&point);
    }
}

/// A folder with a fusermount3 that waits for a word before it becomes the real one.
struct Slow {
    folder: TempDir,
}

impl Slow {
    fn new() -> Self {
        let folder = scratch();
        let helper = folder.path().join("fusermount3");
        let real = tool("fusermount3")
            .get_program()
            .to_str()
            .unwrap()
            .to_owned();
        let script = format!("#!/bin/sh\nread word <\"$WORD\"\nexec {real} \"$@\"\n");
        fs::write(&helper, script).unwrap();
        fs::set_permissions(&helper, fs::Permissions::from_mode(0o755)).unwrap();
        nix::unistd::mkfifo(&folder.path().join("word"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        Self { folder }
    }

    /// A mount in the background, in a process group of its own, that has come to the helper; and where to give the word.
    fn start(&self, day: &Day, point: &Point) -> (Child, File) {
        let mut command = pcapzst();
        let word = self.folder.path().join("word");
        command
            .env("PATH", self.folder.path())
            .env("WORD", &word)
            .args(["mount", "-o", "no_index,auto_unmount,allow_other"])
            .arg(day.source())
            .arg(point.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0);
        let mut child = command.spawn().unwrap();
        let late = Instant::now() + Duration::from_secs(30);
        loop {
            // ENXIO until the helper reads, which gives no other sign.
            match OpenOptions::new()
                .write(true)
                .custom_flags(libc::O_NONBLOCK)
                .open(&word)
            {
                Ok(word) => return (child, word),
                Err(error) if error.raw_os_error() == Some(libc::ENXIO) => {}
                Err(error) => panic!("{error}"),
            }
            let ended = child.try_wait().unwrap();
            let is_expected = ended.is_none() && Instant::now() < late;
            assert!(is_expected, "it did not come to the helper: {ended:?}");
            thread::yield_now();
        }
    }
}

#[track_caller]
fn assert_all_end(point: &Point) {
    for pid in point.daemons() {
        // An error: it has ended already.
        let has_ended = sys::pidfd(pid).map_or(true, |process| has_ended(&process, 20_000));
        assert!(has_ended, "{pid} still runs");
    }
    assert!(!is_mounted(point.path()));
}

#[test]
fn an_interrupt_while_the_caller_waits_leaves_no_mount_and_no_program() {
    let (day, point, slow) = (day(), Point::new(), Slow::new());
    let (mut child, word) = slow.start(&day, &point);
    let group = Pid::from_raw(child.id().try_into().unwrap());
    killpg(group, Signal::SIGINT).unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(Signal::SIGINT as i32));
    drop(word);
    assert_all_end(&point);
}

#[test]
fn a_caller_that_was_killed_while_it_waited_leaves_no_mount_behind() {
    let (day, point, slow) = (day(), Point::new(), Slow::new());
    let (mut child, mut word) = slow.start(&day, &point);
    child.kill().unwrap();
    child.wait().unwrap();
    word.write_all(b"go on\n").unwrap();
    assert_all_end(&point);
}

#[test]
fn with_nohup_a_hangup_leaves_a_mount_in_the_foreground() {
    let day = day();
    let mut nohup = tool("nohup");
    nohup.arg(env!("CARGO_BIN_EXE_pcapzst"));
    let mut shell = tool("sh");
    // As a script's `&` does.
    shell.args([
        "-c",
        "trap '' INT; exec \"$@\"",
        "sh",
        env!("CARGO_BIN_EXE_pcapzst"),
    ]);
    for (command, ignored) in [(nohup, Signal::SIGHUP), (shell, Signal::SIGINT)] {
        let mounted = Mounted::launch(command, &day.source(), "");
        let point = mounted.path().display().to_string();
        // Of signals that wait together the lowest comes first: had the first of these counted, it would be named.
        mounted.signal(ignored);
        mounted.signal(Signal::SIGTERM);
        let log = mounted.wait().log;
        assert!(
            log.contains(&format!("{point} is unmounted: SIGTERM\n")),
            "{log}"
        );
    }
}

#[test]
fn any_of_the_three_signals_ends_a_mount_in_the_background_whatever_its_caller_ignored() {
    let day = day();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        let point = Point::new();
        let mut nohup = tool("sh");
        let script = format!("trap '' INT HUP; {}", words(&day, &point));
        run(nohup.args(["-c", &script])).ok();
        let (pid, daemon) = (point.daemons()[0], point.daemon());
        kill(Pid::from_raw(pid), signal).unwrap();
        assert!(
            has_ended(&daemon, 20_000),
            "{signal}: the program still runs"
        );
        assert!(!is_mounted(point.path()), "{signal}");
    }
}

/// A program that stays in this folder until its input is closed.
fn visitor(folder: &std::path::Path) -> Child {
    let mut command: Command = tool("cat");
    command
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::null());
    command.spawn().unwrap()
}

#[test]
fn whoever_stands_in_the_mount_does_not_hold_it_there() {
    let pcap = Pcap::random(Magic::LeUs, 801, 2000);
    let day = Day::with("a", &pcap);
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        let mounted = day.mount();
        let path = mounted.path().to_path_buf();
        let mut visitor = visitor(&path);
        let pid = visitor.id();
        mounted.signal(signal);
        wait_until_unmounted(&path);
        // It goes on from where it stands.
        let seen = fs::read(format!("/proc/{pid}/cwd/a.pcap")).unwrap();
        assert_same(&seen, &pcap.bytes, "a.pcap");
        drop(visitor.stdin.take());
        assert!(visitor.wait().unwrap().success());
        mounted.wait();
    }
}
