//! Whatever writes to the mount gets EROFS, and the source stays as it was.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "a failed step of a test is a panic"
)]

mod common;

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, chown, symlink};
use std::path::Path;

use common::day::Day;
use common::mounted::Mounted;
use common::pcap::{Magic, Pcap};
use common::{assert_same, names, run, tool};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, Flock, FlockArg, fcntl};
use nix::sys::stat::{Mode, SFlag, UtimensatFlags, mknod, utimensat};
use nix::sys::time::TimeSpec;
use nix::unistd::mkfifo;

fn setup() -> (Day, Mounted) {
    let day = Day::with("a", &Pcap::random(Magic::LeUs, 300, 50));
    let raw = Pcap::random(Magic::LeUs, 301, 50);
    day.add_as("raw", ".pcap", &raw.bytes, &raw.bytes);
    fs::create_dir(day.source().join("sub")).unwrap();
    let mounted = day.mount();
    (day, mounted)
}

/// Name, size, mode, times and content of all that is in the source.
fn fingerprint(folder: &Path) -> String {
    let list = run(tool("find")
        .arg(folder)
        .args(["-printf", "%p %i %s %m %U %G %T@ %C@\\n"]))
    .ok()
    .text();
    let mut lines: Vec<_> = list.lines().map(str::to_owned).collect();
    lines.sort();
    for name in names(folder) {
        let path = folder.join(String::from_utf8(name).unwrap());
        if path.is_file() {
            lines.push(crc32fast::hash(&fs::read(path).unwrap()).to_string());
        }
    }
    lines.join("\n")
}

fn errno<T>(what: &str, result: io::Result<T>) -> Errno {
    match result {
        Ok(_) => panic!("{what} succeeded"),
        Err(error) => Errno::from_raw(
            error
                .raw_os_error()
                .unwrap_or_else(|| panic!("{what}: {error}")),
        ),
    }
}

#[test]
fn every_write_is_refused_as_read_only() {
    let (day, mounted) = setup();
    let before = fingerprint(&day.source());
    let now = TimeSpec::new(1, 1);
    for name in ["a.pcap", "raw.pcap"] {
        let (file, new) = (mounted.join(name), mounted.join("new.pcap"));
        let open = |options: &mut OpenOptions, path: &Path| options.open(path).map(drop);
        let truncating = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_TRUNC)
            .clone();
        let creating = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_CREAT)
            .clone();
        let nix = |result: nix::Result<()>| result.map_err(io::Error::from);
        let tries = [
            ("open O_WRONLY", open(OpenOptions::new().write(true), &file)),
            (
                "open O_RDWR",
                open(OpenOptions::new().read(true).write(true), &file),
            ),
            (
                "open O_APPEND",
                open(OpenOptions::new().append(true), &file),
            ),
            (
                "open O_RDONLY|O_TRUNC",
                open(&mut truncating.clone(), &file),
            ),
            ("open O_RDONLY|O_CREAT", open(&mut creating.clone(), &new)),
            ("create", File::create(&new).map(drop)),
            ("create over", File::create(&file).map(drop)),
            ("unlink", fs::remove_file(&file)),
            ("rename", fs::rename(&file, &new)),
            ("rename over", fs::rename(&file, mounted.join("sub"))),
            ("mkdir", fs::create_dir(mounted.join("folder"))),
            ("rmdir", fs::remove_dir(mounted.join("sub"))),
            ("link", fs::hard_link(&file, &new)),
            ("symlink", symlink("a.pcap", &new)),
            ("mkfifo", nix(mkfifo(&new, Mode::S_IRUSR))),
            ("mknod", nix(mknod(&new, SFlag::S_IFREG, Mode::S_IRUSR, 0))),
            (
                "chmod",
                fs::set_permissions(&file, Permissions::from_mode(0o666)),
            ),
            ("chown", chown(&file, Some(1), Some(1))),
            (
                "utimens",
                nix(utimensat(
                    nix::fcntl::AT_FDCWD,
                    &file,
                    &now,
                    &now,
                    UtimensatFlags::FollowSymlink,
                )),
            ),
            ("truncate", nix(nix::unistd::truncate(&file, 0))),
            (
                "chmod of a folder",
                fs::set_permissions(mounted.join("sub"), Permissions::from_mode(0o777)),
            ),
            (
                "create in a folder",
                File::create(mounted.join("sub/new.pcap")).map(drop),
            ),
        ];
        for (what, result) in tries {
            assert_eq!(errno(what, result), Errno::EROFS, "{what} {name}");
        }
    }
    assert_eq!(fingerprint(&day.source()), before, "the source changed");
    assert_eq!(names(mounted.path()), [&b"a.pcap"[..], b"raw.pcap", b"sub"]);
}

#[test]
fn writing_tools_say_read_only() {
    let (day, mounted) = setup();
    let before = fingerprint(&day.source());
    let file = mounted.join("a.pcap");
    let mut commands = [
        tool("touch"),
        tool("rm"),
        tool("mv"),
        tool("cp"),
        tool("setfattr"),
        tool("chmod"),
        tool("truncate"),
        tool("fallocate"),
    ];
    commands[0].arg(&file);
    commands[1].arg("-f").arg(&file);
    commands[2].arg(&file).arg(mounted.join("b.pcap"));
    commands[3]
        .arg(day.raw().join("a.pcap"))
        .arg(mounted.join("b.pcap"));
    commands[4].args(["-n", "user.x", "-v", "y"]).arg(&file);
    commands[5].arg("666").arg(&file);
    commands[6].args(["-s", "0"]).arg(&file);
    commands[7].args(["-l", "1M"]).arg(&file);
    for command in &mut commands {
        let ran = run(command).fails();
        assert!(
            ran.stderr.contains("Read-only file system"),
            "{command:?}: {}",
            ran.stderr
        );
    }
    let removed = run(tool("setfattr")
        .args(["-x", "user.pcapzst.state"])
        .arg(&file))
    .fails();
    assert!(
        removed.stderr.contains("Read-only file system"),
        "{}",
        removed.stderr
    );
    assert_eq!(fingerprint(&day.source()), before, "the source changed");
}

#[test]
fn locks_of_readers_work() {
    let (_day, mounted) = setup();
    for name in ["a.pcap", "raw.pcap"] {
        let open = || File::open(mounted.join(name)).unwrap();
        let shared = Flock::lock(open(), FlockArg::LockSharedNonblock)
            .map_err(|(_, errno)| errno)
            .unwrap();
        let second = Flock::lock(open(), FlockArg::LockSharedNonblock)
            .map_err(|(_, errno)| errno)
            .unwrap();
        let refused =
            Flock::lock(open(), FlockArg::LockExclusiveNonblock).map_err(|(_, errno)| errno);
        assert_eq!(refused.err(), Some(Errno::EWOULDBLOCK), "{name}");
        drop((shared, second));
        Flock::lock(open(), FlockArg::LockExclusiveNonblock)
            .map_err(|(_, errno)| errno)
            .unwrap();
    }
}

#[test]
fn a_record_lock_of_a_reader_works() {
    let (_day, mounted) = setup();
    let file = File::open(mounted.join("a.pcap")).unwrap();
    let lock = |kind: i32| libc::flock {
        l_type: kind.try_into().unwrap(),
        l_whence: libc::SEEK_SET.try_into().unwrap(),
        l_start: 0,
        l_len: 24,
        l_pid: 0,
    };
    fcntl(&file, FcntlArg::F_SETLK(&lock(libc::F_RDLCK))).unwrap();
    fcntl(&file, FcntlArg::F_SETLK(&lock(libc::F_UNLCK))).unwrap();
    // A lock for writing needs a descriptor for writing, which nobody has here (fcntl(2), EBADF).
    let refused = fcntl(&file, FcntlArg::F_SETLK(&lock(libc::F_WRLCK)));
    assert_eq!(refused, Err(Errno::EBADF));
}

#[test]
fn reading_leaves_the_source_as_it_was() {
    let (day, mounted) = setup();
    let before = fingerprint(&day.source());
    let read = fs::read(mounted.join("a.pcap")).unwrap();
    assert_same(
        &read,
        &fs::read(day.raw().join("a.pcap")).unwrap(),
        "a.pcap",
    );
    let size = fs::metadata(mounted.join("raw.pcap")).unwrap().size();
    assert!(size > 24);
    mounted.unmount();
    assert_eq!(
        fingerprint(&day.source()),
        before,
        "nothing is left in the source"
    );
}
