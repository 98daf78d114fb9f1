//! As a service of systemd's: the units, and what the program tells a service manager.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "a failed step of a test is a panic"
)]

mod common;

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::day::{Day, scratch};
use common::mounted::{is_mounted, wait_until_unmounted};
use common::pcap::{Magic, Pcap};
use common::point::{Point, has_ended};
use common::{assert_same, called, names, pcapzst, run, sys, tool};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

fn units() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/systemd")
}

fn service() -> String {
    fs::read_to_string(units().join("pcapzst@.service")).unwrap()
}

/// The values of a setting in a unit.
fn setting<'a>(unit: &'a str, name: &str) -> Vec<&'a str> {
    let of_line = |line: &'a str| line.strip_prefix(name)?.strip_prefix('=');
    unit.lines().filter_map(of_line).collect()
}

/// What systemd has to say about a unit; nothing, if it is good.
fn verify(folder: &Path, name: &str) -> String {
    let mut command = tool("systemd-analyze");
    // The man pages need not be installed.
    command.args(["verify", "--man=no"]).arg(folder.join(name));
    // Without the colon's default folders: what is installed there is not ours to judge.
    command.env("SYSTEMD_UNIT_PATH", format!("{}:", folder.display()));
    let ran = run(&mut command);
    let ours = |line: &&str| line.contains("pcapzst") || line.contains("mnt-captures");
    let told: Vec<_> = ran.stderr.lines().filter(ours).collect();
    told.join("\n")
}

#[test]
fn systemd_finds_nothing_wrong_with_the_units() {
    let folder = scratch();
    let here = service().replace("/usr/bin/pcapzst", env!("CARGO_BIN_EXE_pcapzst"));
    fs::write(folder.path().join("pcapzst@.service"), &here).unwrap();
    for name in ["mnt-captures.mount", "mnt-captures.automount"] {
        fs::copy(
            units().join("examples").join(name),
            folder.path().join(name),
        )
        .unwrap();
        assert_eq!(verify(folder.path(), name), "");
    }
    assert_eq!(verify(folder.path(), "pcapzst@mnt-captures.service"), "");
    // It would tell.
    let wrong = here.replace("Restart=on-failure", "Restart=on-wednesdays");
    fs::write(folder.path().join("pcapzst@.service"), wrong).unwrap();
    let told = verify(folder.path(), "pcapzst@mnt-captures.service");
    assert!(told.contains("on-wednesdays"), "{told}");
}

#[test]
fn the_service_has_no_mount_namespace_of_its_own() {
    // In one, nobody else would see the mount. Each was tried with systemd 252. The last two: no right to mount; no openat2.
    const FORBIDDEN: &str = "PrivateTmp PrivateDevices PrivateMounts PrivateIPC ProtectSystem ProtectHome ProtectProc \
        ProtectKernelTunables ProtectKernelModules ProtectKernelLogs ProtectControlGroups ProcSubset ReadOnlyPaths \
        ReadWritePaths InaccessiblePaths ExecPaths NoExecPaths BindPaths BindReadOnlyPaths TemporaryFileSystem \
        MountFlags DynamicUser LogNamespace RootDirectory RootImage PrivateUsers RestrictSUIDSGID";
    let unit = service();
    for name in FORBIDDEN.split_whitespace() {
        assert_eq!(setting(&unit, name), Vec::<&str>::new(), "{name}");
    }
    assert!(
        !setting(&unit, "NoNewPrivileges").is_empty(),
        "the reader of settings reads"
    );
}

/// A service manager's end of the notifications.
struct Manager {
    folder: TempDir,
    socket: UnixDatagram,
    address: OsString,
}

impl Manager {
    fn new() -> Self {
        let folder = scratch();
        let path = folder.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        Self::with(folder, socket, path.into())
    }

    /// With a socket that is no file: `@` stands for the zero byte that its name begins with (`unix(7)`).
    fn abstract_one() -> Self {
        let folder = scratch();
        let name = folder.path().join("notify").into_os_string();
        let address = SocketAddr::from_abstract_name(name.as_bytes()).unwrap();
        let socket = UnixDatagram::bind_addr(&address).unwrap();
        let mut address = OsString::from("@");
        address.push(name);
        Self::with(folder, socket, address)
    }

    fn with(folder: TempDir, socket: UnixDatagram, address: OsString) -> Self {
        let patience = Some(Duration::from_secs(20));
        socket.set_read_timeout(patience).unwrap();
        Self {
            folder,
            socket,
            address,
        }
    }

    fn told(&self, command: &mut Command) {
        command.env("NOTIFY_SOCKET", &self.address);
    }

    /// Waits for the next message.
    #[track_caller]
    fn message(&self) -> String {
        let mut buffer = [0; 4096];
        let len = self.socket.recv(&mut buffer).expect("a message");
        String::from_utf8(buffer[..len].to_vec()).unwrap()
    }

    /// Sends until nobody can send more. One sender alone may come to its own bound first.
    fn fill(&self) {
        let path = self.folder.path().join("notify");
        let mut is_full = false;
        while !is_full {
            let sender = UnixDatagram::unbound().unwrap();
            sender.set_nonblocking(true).unwrap();
            is_full = sender.send_to(b"X=1", &path).is_err();
            while sender.send_to(b"X=1", &path).is_ok() {}
        }
    }

    fn is_silent(&self) -> bool {
        self.socket.set_nonblocking(true).unwrap();
        self.socket.recv(&mut [0; 16]).is_err()
    }
}

/// A program that is killed if the test does not end it.
struct Running(Child);

impl Running {
    fn pid(&self) -> Pid {
        Pid::from_raw(self.0.id().try_into().unwrap())
    }

    /// Its exit code; `None` after a signal.
    fn end(&mut self) -> Option<i32> {
        let process = sys::pidfd(self.pid().as_raw()).unwrap();
        assert!(has_ended(&process, 20_000), "the program still runs");
        self.0.wait().unwrap().code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The unit's command for this mount, with the rights that the unit leaves it.
fn as_the_unit_has_it(day: &Day, point: &Point, manager: &Manager, log: &Path) -> Running {
    let unit = service();
    let [exec] = setting(&unit, "ExecStart")[..] else {
        panic!("one ExecStart");
    };
    let [rights] = setting(&unit, "CapabilityBoundingSet")[..] else {
        panic!("one CapabilityBoundingSet");
    };
    let rights = rights.to_lowercase().replace("cap_", "+").replace(' ', ",");
    let source = day.source().display().to_string();
    let point = point.path().display().to_string();
    let words = exec.split(' ').map(|word| match word {
        "/usr/bin/pcapzst" => env!("CARGO_BIN_EXE_pcapzst"),
        "${OPTIONS}" => "allow_other,no_index",
        "${SOURCE}" => source.as_str(),
        "%f" => point.as_str(),
        word => word,
    });
    let mut command = called(tool("setpriv").get_program());
    command.args(["--no-new-privs", "--inh-caps=-all"]);
    command
        .arg(format!("--bounding-set=-all,{rights}"))
        .arg("--")
        .args(words);
    manager.told(&mut command);
    let log = File::options().append(true).create(true).open(log).unwrap();
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log);
    Running(command.spawn().unwrap())
}

#[test]
fn the_services_command_serves_what_is_roots_is_killed_comes_back_and_ends_well() {
    let pcap = Pcap::random(Magic::LeUs, 950, 2000);
    let (day, point, manager) = (Day::with("a", &pcap), Point::new(), Manager::new());
    let log = day.out().join("log");
    // Only its owner may read it, and root, whose service this is.
    let file = day.source().join("a.pcap.zst");
    fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    std::os::unix::fs::chown(&file, Some(65534), Some(65534)).unwrap();

    let mut first = as_the_unit_has_it(&day, &point, &manager, &log);
    assert_eq!(manager.message(), "READY=1\n");
    assert!(is_mounted(point.path()), "told too early");
    let seen = fs::read(point.path().join("a.pcap")).unwrap();
    assert_same(&seen, &pcap.bytes, "a.pcap");
    let status = fs::read_to_string(format!("/proc/{}/status", first.pid())).unwrap();
    // CAP_DAC_READ_SEARCH (2), CAP_SYS_ADMIN (21).
    assert!(status.contains("CapEff:\t0000000000200004\n"), "{status}");
    kill(first.pid(), Signal::SIGKILL).unwrap();
    assert_eq!(first.end(), None);
    assert!(is_mounted(point.path()), "it is dead, and still there");

    // Restart=on-failure.
    let mut second = as_the_unit_has_it(&day, &point, &manager, &log);
    assert_eq!(manager.message(), "READY=1\n");
    assert_eq!(names(point.path()), [b"a.pcap"]);
    kill(second.pid(), Signal::SIGTERM).unwrap();
    assert_eq!(manager.message(), "STOPPING=1\n");
    assert_eq!(second.end(), Some(0));
    assert!(!is_mounted(point.path()), "one mount, not two");
    let told = fs::read_to_string(&log).unwrap();
    assert!(
        told.contains("a dead mount was there, and is taken away\n"),
        "{told}"
    );
}

#[test]
fn a_service_that_is_stopped_with_files_open_says_what_it_waits_for() {
    let pcap = Pcap::random(Magic::LeUs, 951, 2000);
    let (day, point, manager) = (Day::with("a", &pcap), Point::new(), Manager::new());
    let log = day.out().join("log");
    let mut service = as_the_unit_has_it(&day, &point, &manager, &log);
    assert_eq!(manager.message(), "READY=1\n");
    let mut open = File::open(point.path().join("a.pcap")).unwrap();
    kill(service.pid(), Signal::SIGTERM).unwrap();
    assert_eq!(manager.message(), "STOPPING=1\n");
    let words = "open files are served until they are closed";
    assert_eq!(manager.message(), format!("STATUS={words}\n"));
    wait_until_unmounted(point.path());
    let mut bytes = Vec::new();
    open.read_to_end(&mut bytes).unwrap();
    assert_same(&bytes, &pcap.bytes, "a.pcap");
    drop(open);
    assert_eq!(service.end(), Some(0));
    // What is written to standard error is written by a thread of its own: all of it is there at the end.
    let told = fs::read_to_string(&log).unwrap();
    let line = format!(
        "pcapzst: SIGTERM: {} is unmounted; {words}\n",
        point.path().display()
    );
    assert!(told.contains(&line), "{told}");
}

#[test]
fn an_unmount_from_outside_is_told_to_the_manager_and_no_failure() {
    let (day, point, manager) = (Day::new(), Point::new(), Manager::new());
    let mut service = as_the_unit_has_it(&day, &point, &manager, &day.out().join("log"));
    assert_eq!(manager.message(), "READY=1\n");
    run(tool("umount").arg(point.path())).ok();
    assert_eq!(manager.message(), "STOPPING=1\n");
    assert_eq!(service.end(), Some(0));
}

#[test]
fn a_manager_whose_socket_is_no_file_is_told_too() {
    let (day, point, manager) = (Day::new(), Point::new(), Manager::abstract_one());
    let mut service = as_the_unit_has_it(&day, &point, &manager, &day.out().join("log"));
    assert_eq!(manager.message(), "READY=1\n");
    kill(service.pid(), Signal::SIGTERM).unwrap();
    assert_eq!(manager.message(), "STOPPING=1\n");
    assert_eq!(service.end(), Some(0));
}

#[test]
fn a_mount_that_fails_and_one_in_the_background_tell_the_manager_nothing() {
    let (day, point, manager) = (Day::new(), Point::new(), Manager::new());
    let mut command = pcapzst();
    manager.told(&mut command);
    run(command
        .args(["mount", "-f"])
        .args([day.source(), day.source()]))
    .exits(1);
    let mut command = pcapzst();
    manager.told(&mut command);
    command
        .args(["mount", "-o", "no_index"])
        .arg(day.source())
        .arg(point.path());
    run(&mut command).ok();
    let daemon = point.daemon();
    run(pcapzst().arg("umount").arg(point.path())).ok();
    assert!(has_ended(&daemon, 20_000));
    assert!(manager.is_silent());
}

#[test]
fn a_manager_that_is_gone_is_no_reason_not_to_serve() {
    let (day, point, manager) = (Day::new(), Point::new(), Manager::new());
    let socket = manager.folder.path().join("notify");
    fs::remove_file(socket).unwrap();
    let log = day.out().join("log");
    let mut service = as_the_unit_has_it(&day, &point, &manager, &log);
    // Who is told of nothing sees the mount come: the kernel tells each change of the table.
    common::mounted::wait_until_mounted(point.path());
    kill(service.pid(), Signal::SIGTERM).unwrap();
    assert_eq!(service.end(), Some(0));
    assert!(!is_mounted(point.path()));
    let told = fs::read_to_string(&log).unwrap();
    assert!(told.contains("pcapzst: NOTIFY_SOCKET: "), "{told}");
}

#[test]
fn a_manager_that_does_not_read_does_not_hold_up_the_unmount() {
    let (day, point, manager) = (Day::new(), Point::new(), Manager::new());
    let mut service = as_the_unit_has_it(&day, &point, &manager, &day.out().join("log"));
    assert_eq!(manager.message(), "READY=1\n");
    manager.fill();
    kill(service.pid(), Signal::SIGTERM).unwrap();
    wait_until_unmounted(point.path());
    while manager.message() != "STOPPING=1\n" {}
    assert_eq!(service.end(), Some(0));
}

#[test]
fn a_manager_that_never_reads_does_not_hold_up_the_end() {
    let (day, point, manager) = (Day::new(), Point::new(), Manager::new());
    let log = day.out().join("log");
    let mut service = as_the_unit_has_it(&day, &point, &manager, &log);
    assert_eq!(manager.message(), "READY=1\n");
    manager.fill();
    kill(service.pid(), Signal::SIGTERM).unwrap();
    assert_eq!(service.end(), Some(0));
    let told = fs::read_to_string(&log).unwrap();
    assert!(told.contains("pcapzst: NOTIFY_SOCKET: "), "{told}");
}
