//! How a mount begins and ends.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "a failed step of a test is a panic"
)]

mod common;

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use common::day::{Day, scratch};
use common::mounted::{Mounted, free, is_mounted, mount_entry, wait_until_unmounted};
use common::pcap::{Magic, Pcap};
use common::point::{Point, has_ended};
use common::sys::{await_change, changes_in, pidfd};
use common::user::in_own_namespace;
use common::{assert_same, names, pcapzst, run, tool};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::signal::Signal;
use nix::sys::wait::{Id, WaitPidFlag, waitid};

fn day() -> (Day, Pcap) {
    let pcap = Pcap::random(Magic::LeUs, 400, 2000);
    (Day::with("a", &pcap), pcap)
}

#[test]
fn a_background_mount_serves_when_it_returns_and_ends_with_umount() {
    let (day, pcap) = day();
    let point = Point::new();
    for _ in 0..3 {
        let ran = run(pcapzst().arg("mount").arg(day.source()).arg(point.path())).ok();
        assert_eq!(ran.text(), "");
        assert_eq!(names(point.path()), [b"a.pcap"]);
        assert_same(
            &fs::read(point.path().join("a.pcap")).unwrap(),
            &pcap.bytes,
            "a.pcap",
        );
        let daemon = point.daemon();
        assert!(!has_ended(&daemon, 0));
        run(pcapzst().arg("umount").arg(point.path())).ok();
        assert!(!is_mounted(point.path()));
        assert!(has_ended(&daemon, 20_000), "the program still runs");
        assert_eq!(names(point.path()), Vec::<Vec<u8>>::new());
    }
}

#[test]
fn a_command_substitution_round_a_background_mount_returns() {
    let (day, _) = day();
    // The last one: a descriptor of the caller's that is no standard stream.
    for redirect in ["", "2>&1", "7>&1"] {
        let point = Point::new();
        let script =
            format!("x=$(\"$0\" mount \"$1\" \"$2\" {redirect}); echo \"code $?\"; ls \"$2\"");
        let mut shell = tool("sh");
        shell
            .args(["-c", &script, env!("CARGO_BIN_EXE_pcapzst")])
            .arg(day.source())
            .arg(point.path());
        assert_eq!(run(&mut shell).ok().text(), "code 0\na.pcap\n");
        assert_eq!(
            names(point.path()),
            [b"a.pcap"],
            "the mount outlives the shell"
        );
        point.daemon();
    }
}

#[test]
fn relative_paths_work_in_the_background() {
    let (day, pcap) = day();
    let folder = scratch();
    let point = Point::new_in(folder.path());
    symlink(day.source(), folder.path().join("captures")).unwrap();
    let mut command = pcapzst();
    command
        .current_dir(folder.path())
        .arg("mount")
        .arg("captures")
        .arg(point.path().file_name().unwrap());
    run(&mut command).ok();
    assert_same(
        &fs::read(point.path().join("a.pcap")).unwrap(),
        &pcap.bytes,
        "a.pcap",
    );
}

#[test]
fn a_signal_unmounts_and_is_a_good_end() {
    let (day, _) = day();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        let mounted = day.mount();
        let path = mounted.path().to_path_buf();
        assert_eq!(names(&path), [b"a.pcap"]);
        mounted.signal(signal);
        mounted.wait();
        assert!(!is_mounted(&path), "{signal}");
    }
}

#[test]
fn a_signal_with_an_open_file_lets_it_be_read_to_the_end() {
    let (day, pcap) = day();
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let mounted = day.mount();
        let path = mounted.path().to_path_buf();
        let mut file = File::open(mounted.join("a.pcap")).unwrap();
        let mut bytes = vec![0; 1000];
        file.read_exact(&mut bytes).unwrap();
        mounted.signal(signal);
        wait_until_unmounted(&path);
        file.read_to_end(&mut bytes).unwrap();
        assert_same(&bytes, &pcap.bytes, "after the signal");
        drop(file);
        mounted.wait();
    }
}

#[test]
fn every_way_to_unmount_ends_the_program_well() {
    let (day, _) = day();
    let ways: [fn() -> std::process::Command; 3] = [
        || tool("umount"),
        || {
            let mut command = tool("fusermount3");
            command.arg("-u");
            command
        },
        || {
            let mut command = pcapzst();
            command.arg("umount");
            command
        },
    ];
    for way in ways {
        let mounted = day.mount();
        let path = mounted.path().to_path_buf();
        run(way().arg(&path)).ok();
        mounted.wait();
        assert!(!is_mounted(&path));
    }
}

#[test]
fn a_mount_is_ended_through_a_link_to_it() {
    let (day, _) = day();
    let folder = scratch();
    let link = folder.path().join("link");
    let mounted = day.mount();
    let path = mounted.path().to_path_buf();
    symlink(&path, &link).unwrap();
    run(pcapzst().arg("umount").arg(&link)).ok();
    assert!(!is_mounted(&path));
    mounted.wait();
}

/// A tmpfs of the test's own.
struct Tmpfs(PathBuf);

impl Tmpfs {
    fn new(path: &Path) -> Self {
        mount(
            Some("tmpfs"),
            path,
            Some("tmpfs"),
            MsFlags::empty(),
            Some("size=1m"),
        )
        .unwrap();
        fs::write(path.join("kept"), "words").unwrap();
        Self(path.to_path_buf())
    }

    fn is_there(&self) -> bool {
        let kind = mount_entry(&self.0).map(|entry| entry.kind);
        kind.as_deref() == Some("tmpfs") && fs::read(self.0.join("kept")).unwrap() == b"words"
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        free(&self.0);
    }
}

#[test]
fn another_mount_on_the_path_survives_the_programs_end() {
    let (day, pcap) = day();
    let point = Point::new();
    run(pcapzst().arg("mount").arg(day.source()).arg(point.path())).ok();
    let daemon = point.daemon();
    // The open file keeps the program alive until the other mount is there.
    let mut file = File::open(point.path().join("a.pcap")).unwrap();
    umount2(point.path(), MntFlags::MNT_DETACH).unwrap();
    let other = Tmpfs::new(point.path());
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).unwrap();
    assert_same(&bytes, &pcap.bytes, "a.pcap");
    drop(file);
    assert!(has_ended(&daemon, 20_000), "the program still runs");
    assert!(
        other.is_there(),
        "the program took somebody else's mount away"
    );
}

#[test]
fn a_signal_after_an_external_unmount_leaves_another_mount_alone() {
    let (day, _) = day();
    let mounted = day.mount();
    let file = File::open(mounted.join("a.pcap")).unwrap();
    umount2(mounted.path(), MntFlags::MNT_DETACH).unwrap();
    let other = Tmpfs::new(mounted.path());
    mounted.signal(Signal::SIGTERM);
    drop(file);
    let in_time = common::watch(mounted.pid(), std::time::Duration::from_secs(20), || ());
    assert!(in_time, "the program still runs");
    assert!(
        other.is_there(),
        "the program took somebody else's mount away"
    );
    drop(other);
    mounted.wait();
}

#[test]
fn a_signal_to_a_mount_that_another_one_hides_is_told_and_the_mount_goes_on() {
    let (day, _) = day();
    let log = day.out().join("log");
    let changes = changes_in(&day.out()).unwrap();
    let mounted = Mounted::new(&day.source(), &format!("log_file={}", log.display()));
    let other = Tmpfs::new(mounted.path());
    mounted.signal(Signal::SIGTERM);
    let told = format!(
        "SIGTERM: unmounting {0}: a mount of type tmpfs is on top of it: run `umount {0}`, then try again\n",
        mounted.path().display()
    );
    let running = pidfd(mounted.pid().as_raw()).unwrap();
    while !fs::read_to_string(&log).is_ok_and(|log| log.contains(&told)) {
        assert!(await_change(&changes, &running), "the program has ended");
    }
    assert!(other.is_there());
    umount2(mounted.path(), MntFlags::empty()).unwrap();
    assert_eq!(names(mounted.path()), [b"a.pcap"]);
    mounted.signal(Signal::SIGTERM);
    mounted.wait();
}

#[test]
fn a_mount_that_does_not_answer_is_told_and_not_waited_for() {
    let (day, _) = day();
    let mounted = day.mount();
    mounted.signal(Signal::SIGSTOP);
    // All its threads have stopped then; one that had taken the question would keep who asked from ending.
    waitid(Id::Pid(mounted.pid()), WaitPidFlag::WSTOPPED).unwrap();
    let mut again = pcapzst();
    again.arg("mount").arg(day.source()).arg(mounted.path());
    let ran = run(&mut again);
    mounted.signal(Signal::SIGCONT);
    let told = format!(
        "pcapzst: {0}: the mount of type fuse.pcapzst that is there does not answer (run `umount -f -l {0}` to be rid of it)\n",
        mounted.path().display()
    );
    assert_eq!(ran.exits(1).stderr, told);
    assert_eq!(names(mounted.path()), [b"a.pcap"]);
    mounted.unmount();
}

#[test]
fn a_mount_that_was_moved_is_unmounted_where_it_is_now() {
    const NAME: &str = "a_mount_that_was_moved_is_unmounted_where_it_is_now";
    in_own_namespace(NAME, || {
        let (day, _) = day();
        let mounted = day.mount();
        let elsewhere = scratch();
        let none = None::<&str>;
        let (from, to) = (mounted.path(), elsewhere.path());
        mount(Some(from), to, none, MsFlags::MS_MOVE, none).unwrap();
        let other = Tmpfs::new(from);
        assert_eq!(names(to), [b"a.pcap"]);
        mounted.signal(Signal::SIGTERM);
        let in_time = common::watch(mounted.pid(), std::time::Duration::from_secs(20), || ());
        assert!(in_time, "the program still runs");
        assert!(!is_mounted(to));
        assert!(other.is_there());
        drop(other);
        mounted.wait();
    });
}
