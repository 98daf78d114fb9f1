//! Mounts that are busy when they end, and mounts whose program was killed.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "a failed step of a test is a panic"
)]

mod common;

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use common::day::{Day, scratch};
use common::mounted::{free, is_mounted, mount_entry, wait_until_unmounted};
use common::pcap::{Magic, Pcap};
use common::point::{Point, has_ended};
use common::user::{
    NOBODY, as_user, bind, in_own_namespace, let_users_mount, program_in, set_mode,
};
use common::{Ran, assert_same, names, pcapzst, run, tool};
use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

fn day() -> (Day, Pcap) {
    let pcap = Pcap::random(Magic::LeUs, 900, 2000);
    (Day::with("a", &pcap), pcap)
}

/// A folder on which something of the test's is mounted, taken away in the end.
struct Bound(tempfile::TempDir);

impl Bound {
    /// A bind mount of this folder.
    fn of(folder: &Path) -> Self {
        let bound = Self(scratch());
        bind(folder, bound.path());
        bound
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        free(self.path());
    }
}

#[track_caller]
fn errno<T>(outcome: io::Result<T>) -> i32 {
    match outcome {
        Ok(_) => panic!("no error"),
        Err(error) => error.raw_os_error().unwrap(),
    }
}

fn is_dead(folder: &Path) -> bool {
    is_mounted(folder) && errno(fs::read_dir(folder)) == libc::ENOTCONN
}

/// Kills the program of a mount in the background.
fn kill_daemon(point: &Point) {
    let (pid, daemon) = (point.daemons()[0], point.daemon());
    kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
    assert!(has_ended(&daemon, 20_000));
}

fn mount_on(point: &Path, day: &Day) -> Command {
    let mut command = pcapzst();
    command
        .args(["mount", "-o", "no_index"])
        .arg(day.source())
        .arg(point);
    command
}

#[test]
fn a_plain_unmount_of_a_busy_mount_is_refused_and_a_lazy_one_serves_what_is_open() {
    let (day, pcap) = day();
    let umount = |options: &[&str]| {
        let mut command = tool("umount");
        command.args(options);
        command
    };
    let fusermount = |options: &[&str]| {
        let mut command = tool("fusermount3");
        command.args(options);
        command
    };
    for (mut plain, mut lazy) in [
        (umount(&[]), umount(&["-l"])),
        (fusermount(&["-u"]), fusermount(&["-u", "-z"])),
    ] {
        let mounted = day.mount();
        let path = mounted.path().to_path_buf();
        let mut file = File::open(mounted.join("a.pcap")).unwrap();
        let mut bytes = vec![0; 1000];
        file.read_exact(&mut bytes).unwrap();
        let ran = run(plain.arg(&path)).fails();
        assert!(ran.stderr.contains("busy"), "{}", ran.stderr);
        assert_eq!(names(&path), [b"a.pcap"], "nothing has changed");
        run(lazy.arg(&path)).ok();
        assert!(!is_mounted(&path));
        file.read_to_end(&mut bytes).unwrap();
        assert_same(&bytes, &pcap.bytes, "behind the unmount");
        let still = common::sys::pidfd(mounted.pid().as_raw()).unwrap();
        assert!(
            !has_ended(&still, 0),
            "with a file open the program goes on"
        );
        drop(file);
        mounted.wait();
    }
}

#[test]
fn pcapzst_umount_of_a_busy_mount_says_so() {
    let (day, pcap) = day();
    let mounted = day.mount();
    let path = mounted.path().to_path_buf();
    let mut file = File::open(mounted.join("a.pcap")).unwrap();
    let ran = run(pcapzst().arg("umount").arg(&path)).ok();
    assert!(ran.stderr.contains("was busy"), "{}", ran.stderr);
    assert!(!is_mounted(&path));
    // A mount on the same path is another one.
    run(&mut mount_on(&path, &day)).ok();
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).unwrap();
    assert_same(&bytes, &pcap.bytes, "a.pcap");
    drop(file);
    let in_time = common::watch(mounted.pid(), Duration::from_secs(20), || ());
    assert!(in_time, "the first program still runs");
    assert_eq!(names(&path), [b"a.pcap"], "its end is not the second one's");
    run(pcapzst().arg("umount").arg(&path)).ok();
    mounted.wait();
}

#[test]
fn readers_of_a_killed_mount_get_an_error_and_the_next_mount_takes_its_place() {
    let (day, pcap) = day();
    let point = Point::new();
    run(&mut mount_on(point.path(), &day)).ok();
    let mut file = File::open(point.path().join("a.pcap")).unwrap();
    file.read_exact(&mut [0; 1000]).unwrap();
    let folder = File::open(point.path()).unwrap();
    kill_daemon(&point);
    assert!(is_dead(point.path()));
    assert_eq!(
        errno(fs::metadata(point.path().join("a.pcap"))),
        libc::ENOTCONN
    );
    let outcome = file.read_to_end(&mut Vec::new());
    assert!(
        outcome.is_ok() || errno(outcome) == libc::ENOTCONN,
        "from the page cache, or not"
    );
    assert_eq!(
        nix::sys::statfs::fstatfs(&folder).unwrap_err(),
        Errno::ENOTCONN
    );
    let ran = run(&mut mount_on(point.path(), &day)).ok();
    let told = format!(
        "pcapzst: {}: a dead mount was there, and is taken away\n",
        point.path().display()
    );
    assert_eq!(ran.stderr, told);
    let again = fs::read(point.path().join("a.pcap")).unwrap();
    assert_same(&again, &pcap.bytes, "a.pcap");
    drop((file, folder));
    run(pcapzst().arg("umount").arg(point.path())).ok();
    assert!(!is_mounted(point.path()), "one mount, not two");
}

#[test]
fn a_dead_mount_gives_way_in_the_foreground_too_and_through_a_link() {
    let (day, _) = day();
    let (first, links) = (day.mount(), scratch());
    let path = first.path().to_path_buf();
    kill(first.pid(), Signal::SIGKILL).unwrap();
    common::watch(first.pid(), Duration::from_secs(20), || ());
    assert!(is_dead(&path));
    let link = links.path().join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    run(&mut mount_on(&link, &day)).ok();
    assert_eq!(names(&path), [b"a.pcap"]);
    run(pcapzst().arg("umount").arg(&link)).ok();
    assert_eq!(names(&path), Vec::<Vec<u8>>::new());
}

#[test]
fn a_bind_mount_is_served_after_the_mounts_end_and_dead_after_a_kill() {
    let (day, pcap) = day();
    let point = Point::new();
    run(&mut mount_on(point.path(), &day)).ok();
    let bound = Bound::of(point.path());
    run(pcapzst().arg("umount").arg(point.path())).ok();
    assert!(!is_mounted(point.path()));
    let (pid, daemon) = (point.daemons()[0], point.daemon());
    let seen = fs::read(bound.path().join("a.pcap")).unwrap();
    assert_same(&seen, &pcap.bytes, "a.pcap");
    kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
    assert!(has_ended(&daemon, 20_000));
    assert!(is_dead(bound.path()));

    // Neither a new mount on the old point nor its end disturbs, or mends, the dead one.
    run(&mut mount_on(point.path(), &day)).ok();
    assert!(is_dead(bound.path()));
    run(pcapzst().arg("umount").arg(point.path())).ok();
    run(pcapzst().arg("umount").arg(bound.path())).ok();
    assert_eq!(names(bound.path()), Vec::<Vec<u8>>::new());
}

#[test]
fn a_bind_mount_of_a_dead_mount_does_not_keep_the_point_dead() {
    let (day, _) = day();
    let point = Point::new();
    run(&mut mount_on(point.path(), &day)).ok();
    let bound = Bound::of(point.path());
    kill_daemon(&point);
    run(&mut mount_on(point.path(), &day)).ok();
    assert_eq!(names(point.path()), [b"a.pcap"]);
    assert!(is_dead(bound.path()));
    // A mount on the bind mount's own place takes that away, and only that.
    run(&mut mount_on(bound.path(), &day)).ok();
    assert_eq!(names(bound.path()), [b"a.pcap"]);
    run(pcapzst().arg("umount").arg(bound.path())).ok();
    assert_eq!(names(point.path()), [b"a.pcap"]);
}

#[test]
fn with_auto_unmount_a_killed_programs_mount_goes_away_and_a_bind_mount_stays_dead() {
    let (day, _) = day();
    let point = Point::new();
    let mut command = mount_on(point.path(), &day);
    run(command.args(["-o", "auto_unmount,allow_other"])).ok();
    let bound = Bound::of(point.path());
    let is_pcapzst = |pid: &i32| {
        fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe.ends_with("pcapzst"))
    };
    let pid = point.daemons().into_iter().find(is_pcapzst).unwrap();
    kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
    wait_until_unmounted(point.path());
    assert_eq!(names(point.path()), Vec::<Vec<u8>>::new());
    assert!(is_dead(bound.path()));
    run(&mut mount_on(point.path(), &day)).ok();
    assert_eq!(names(point.path()), [b"a.pcap"]);
}

/// A dead mount of this type: one whose device nobody has open any more.
fn dead_mount(kind: &str, options: &str) -> Bound {
    let bound = Bound(scratch());
    let open = File::options().read(true).write(true).open("/dev/fuse");
    let device = open.unwrap();
    let data = format!(
        "fd={},rootmode=40000,user_id=0,group_id=0{options}",
        device.as_raw_fd()
    );
    mount(
        Some("x"),
        bound.path(),
        Some(kind),
        MsFlags::empty(),
        Some(data.as_str()),
    )
    .unwrap();
    drop(device);
    assert!(is_dead(bound.path()));
    bound
}

#[test]
fn a_dead_mount_of_another_file_system_stays_and_the_way_out_is_told() {
    let (day, _) = day();
    let other = dead_mount("fuse.sshfs", "");
    let ran = run(&mut mount_on(other.path(), &day)).exits(1);
    let way = format!(
        "a dead mount of type fuse.sshfs is there: run `umount {}`",
        other.path().display()
    );
    assert!(ran.stderr.contains(&way), "{}", ran.stderr);
    assert!(is_dead(other.path()));
    run(pcapzst().arg("umount").arg(other.path())).exits(1);
    assert_eq!(mount_entry(other.path()).unwrap().kind, "fuse.sshfs");
}

#[test]
fn all_dead_mounts_on_one_point_give_way_to_the_next() {
    let (day, _) = day();
    let lower = dead_mount("fuse.pcapzst", "");
    assert_eq!(run(tool("umount").arg(lower.path())).code, Some(0));
    // Two, of which only the upper one shows.
    for _ in 0..2 {
        let upper = dead_mount("fuse.pcapzst", "");
        let (from, none) = (Some(upper.path()), None::<&str>);
        mount(from, lower.path(), none, MsFlags::MS_MOVE, none).unwrap();
    }
    run(&mut mount_on(lower.path(), &day)).ok();
    assert_eq!(names(lower.path()), [b"a.pcap"]);
    run(pcapzst().arg("umount").arg(lower.path())).ok();
    assert!(!is_mounted(lower.path()));
}

/// The program where every user can run it, in `folder`; that folder and `day` are opened up.
fn for_anybody(folder: &TempDir, day: &Day) -> PathBuf {
    for opened in [folder.path(), day.path()] {
        set_mode(opened, 0o755);
    }
    program_in(folder.path())
}

/// Nobody's try to mount a day on a point.
fn by_nobody(day: &Day, point: &Path) -> Ran {
    let folder = scratch();
    let program = for_anybody(&folder, day);
    let mut command = as_user(NOBODY, &[]);
    command.arg(program).args(["mount", "-o", "no_index"]);
    run(command.arg(day.source()).arg(point))
}

#[test]
fn somebody_elses_dead_mount_stays_and_the_command_for_its_owner_is_told() {
    let (day, _) = day();
    let dead = dead_mount("fuse.pcapzst", ",allow_other");
    let ran = by_nobody(&day, dead.path()).exits(1);
    let shown = dead.path().display();
    let way = format!("run `pcapzst umount {shown}` as the user who made it or as root");
    assert!(ran.stderr.contains(&way), "{}", ran.stderr);
    assert!(is_dead(dead.path()));
}

#[test]
fn somebody_elses_mount_that_one_may_not_enter_stays_and_the_way_out_is_told() {
    let (day, _) = day();
    let (alive, dead) = (day.mount(), dead_mount("fuse.pcapzst", ""));
    for point in [alive.path(), dead.path()] {
        let ran = by_nobody(&day, point).exits(1);
        let shown = point.display();
        let start = format!("pcapzst: {shown}: Permission denied (os error 13) (a pcapzst mount");
        let way = format!("run `pcapzst umount {shown}` as that user or as root");
        let is_told = ran.stderr.starts_with(&start) && ran.stderr.contains(&way);
        assert!(is_told, "{}", ran.stderr);
    }
    assert_eq!(names(alive.path()), [b"a.pcap"]);
    assert!(is_dead(dead.path()));
}

#[test]
fn a_users_own_dead_mount_gives_way_and_so_does_a_users_mount_at_its_end() {
    let name = "a_users_own_dead_mount_gives_way_and_so_does_a_users_mount_at_its_end";
    in_own_namespace(name, || {
        let ((day, _), folder, point) = (day(), scratch(), Point::new());
        let program = for_anybody(&folder, &day);
        let_users_mount(folder.path(), "");
        std::os::unix::fs::chown(point.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        let users = |command: &str| {
            let mut user = as_user(NOBODY, &[]);
            user.arg(&program).arg(command);
            user
        };
        let mount = || {
            let mut mount = users("mount");
            mount.args(["-o", "no_index"]).arg(day.source());
            run(mount.arg(point.path())).ok().stderr
        };
        let told = format!(
            "pcapzst: {}: a dead mount was there, and is taken away\n",
            point.path().display()
        );
        assert_eq!(mount(), "");
        kill_daemon(&point);
        assert_eq!(mount(), told);
        let listed = run(as_user(NOBODY, &[]).arg("ls").arg(point.path())).ok();
        assert_eq!(listed.text(), "a.pcap\n");
        kill(Pid::from_raw(point.daemons()[0]), Signal::SIGTERM).unwrap();
        // One mount, not two; and one that is ended by hand.
        wait_until_unmounted(point.path());
        assert_eq!(mount(), "");
        run(users("umount").arg(point.path())).ok();
        assert!(!is_mounted(point.path()));
    });
}
