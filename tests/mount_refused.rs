//! What cannot be mounted or unmounted is refused at once, with the reason and a failing exit code.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "a failed step of a test is a panic"
)]

mod common;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use common::day::{Day, scratch};
use common::mounted::{free, is_mounted, mount_entry};
use common::pcap::{Magic, Pcap};
use common::point::Point;
use common::{Ran, names, pcapzst, run, tool};
use nix::mount::{MsFlags, mount};

fn day() -> Day {
    Day::with("a", &Pcap::random(Magic::LeUs, 500, 20))
}

/// Whatever was mounted here against the test's expectation is taken away.
struct Cleared(PathBuf);

impl Drop for Cleared {
    fn drop(&mut self) {
        free(&self.0);
    }
}

/// Tries to mount in the foreground and in the background; both must fail with a word about `about`.
#[track_caller]
fn assert_refused(source: &Path, mnt: &Path, options: &[&str], about: &str) -> Ran {
    let real = fs::canonicalize(mnt).unwrap_or_else(|_| mnt.to_path_buf());
    let _cleared = Cleared(real.clone());
    let tries = [&["mount"][..], &["mount", "-f"]].map(|start| {
        let ran = run(pcapzst().args(start).args(options).arg(source).arg(mnt)).fails();
        assert!(
            ran.stderr.contains(about),
            "does not name {about:?}: {}",
            ran.stderr
        );
        assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);
        assert!(!is_mounted(&real), "{start:?} mounted all the same");
        ran
    });
    assert_eq!(
        tries[0].code, tries[1].code,
        "in the background as in the foreground"
    );
    let [first, _] = tries;
    first
}

#[test]
fn a_missing_source_is_named() {
    let mnt = scratch();
    let missing = mnt.path().join("no-captures-here");
    assert_refused(&missing, mnt.path(), &[], "no-captures-here");
}

#[test]
fn a_source_that_is_a_file_is_named() {
    let (day, mnt) = (day(), scratch());
    assert_refused(
        &day.source().join("a.pcap.zst"),
        mnt.path(),
        &[],
        "a.pcap.zst",
    );
}

#[test]
fn a_mount_point_that_is_missing_or_a_file_is_named() {
    let (day, folder) = (day(), scratch());
    assert_refused(
        &day.source(),
        &folder.path().join("no-such-point"),
        &[],
        "no-such-point",
    );
    fs::write(folder.path().join("plain-file"), "words").unwrap();
    assert_refused(
        &day.source(),
        &folder.path().join("plain-file"),
        &[],
        "plain-file",
    );
    assert_eq!(
        fs::read(folder.path().join("plain-file")).unwrap(),
        b"words"
    );
}

#[test]
fn an_unknown_option_is_named_and_a_usage_error() {
    let (day, mnt) = (day(), scratch());
    for (options, name) in [
        ("frobnicate", "frobnicate"),
        ("ro,frobnicate=7,nodev", "frobnicate"),
        ("nofail,allow_others", "allow_others"),
    ] {
        assert_refused(&day.source(), mnt.path(), &["-o", options], name).exits(2);
    }
}

#[test]
fn a_bad_option_value_is_named_and_a_usage_error() {
    let (day, mnt) = (day(), scratch());
    for option in [
        "cache_size=plenty",
        "umask=9",
        "uid=nobody-knows",
        "gid=-1",
        "max_frame_size=",
        "log_file=",
    ] {
        let name = option.split('=').next().unwrap();
        assert_refused(&day.source(), mnt.path(), &["-o", option], name).exits(2);
    }
}

#[test]
fn the_source_itself_its_inside_and_its_outside_are_refused() {
    let day = day();
    let source = day.source();
    let inside = source.join("sub/deep");
    fs::create_dir_all(&inside).unwrap();
    assert_refused(&source, &source, &[], source.to_str().unwrap());
    assert_refused(&source, &inside, &[], inside.to_str().unwrap());
    assert_refused(&source, day.path(), &[], day.path().to_str().unwrap());
    assert_refused(&inside, &source, &[], source.to_str().unwrap());
    assert_eq!(names(&source), [&b"a.pcap.zst"[..], b"sub"]);
}

#[test]
fn links_and_dots_do_not_hide_that_it_is_the_source() {
    let day = day();
    let source = day.source();
    let inside = source.join("sub");
    fs::create_dir(&inside).unwrap();
    let (to_source, to_inside) = (day.path().join("to-source"), day.path().join("to-inside"));
    symlink(&source, &to_source).unwrap();
    symlink(&inside, &to_inside).unwrap();
    assert_refused(&source, &to_source, &[], "");
    assert_refused(&to_source, &source, &[], "");
    assert_refused(&to_source, &to_inside, &[], "");
    assert_refused(&source, &source.join("sub/../sub"), &[], "");
    assert_refused(&source.join("sub/.."), &source, &[], "");
}

#[test]
fn a_folder_whose_name_begins_alike_is_no_inside() {
    let day = day();
    let beside = day.path().join("source-mount");
    fs::create_dir(&beside).unwrap();
    let _cleared = Cleared(beside.clone());
    run(pcapzst().arg("mount").arg(day.source()).arg(&beside)).ok();
    assert_eq!(names(&beside), [b"a.pcap"]);
    run(pcapzst().arg("umount").arg(&beside)).ok();
}

#[test]
fn missing_arguments_are_a_usage_error() {
    run(pcapzst().arg("mount")).exits(2);
    run(&mut pcapzst()).exits(2);
    run(pcapzst().arg("frobnicate")).exits(2);
    run(pcapzst().arg("umount")).exits(2);
    assert!(run(pcapzst().arg("--help")).ok().text().contains("mount"));
    assert!(
        run(pcapzst().args(["completions", "bash"]))
            .ok()
            .text()
            .contains("pcapzst")
    );
}

#[test]
fn only_a_pcapzst_mount_is_unmounted() {
    let folder = scratch();
    let refused = |path: &Path| {
        let ran = run(pcapzst().arg("umount").arg(path)).fails();
        assert!(
            ran.stderr.contains(path.to_str().unwrap()),
            "{}",
            ran.stderr
        );
    };
    refused(folder.path());
    refused(&folder.path().join("absent"));
    let tmpfs = folder.path().join("tmpfs");
    fs::create_dir(&tmpfs).unwrap();
    let _cleared = Cleared(tmpfs.clone());
    mount(
        Some("tmpfs"),
        &tmpfs,
        Some("tmpfs"),
        MsFlags::empty(),
        Some("size=1m"),
    )
    .unwrap();
    refused(&tmpfs);
    assert_eq!(mount_entry(&tmpfs).unwrap().kind, "tmpfs");
    let day = day();
    let mounted = day.mount();
    refused(&mounted.join("a.pcap"));
    assert!(is_mounted(mounted.path()));
}

#[test]
fn status_of_something_else_fails() {
    let folder = scratch();
    for path in [folder.path().to_path_buf(), folder.path().join("absent")] {
        let ran = run(pcapzst().args(["status", "--json"]).arg(&path)).fails();
        assert!(
            ran.stderr.contains(path.to_str().unwrap()),
            "{}",
            ran.stderr
        );
        assert_eq!(ran.text(), "");
    }
}

/// Runs a command under a filter of system calls that knows no openat2 (number 437 everywhere), as old kernels and some
/// service managers have it: `struct sock_filter`, `PR_SET_NO_NEW_PRIVS`, `PR_SET_SECCOMP`.
const WITHOUT_OPENAT2: &str = "
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
steps = [(0x20, 0, 0, 0), (0x15, 0, 1, 437), (0x06, 0, 0, 0x50000 | 38), (0x06, 0, 0, 0x7fff0000)]
code = ctypes.create_string_buffer(b''.join(struct.pack('=HBBI', *step) for step in steps))
program = ctypes.create_string_buffer(struct.pack('@HP', len(steps), ctypes.addressof(code)))
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program) == 0
os.execv(sys.argv[1], sys.argv[1:])
";

#[test]
fn without_openat2_there_is_no_mount_and_the_reason_is_told() {
    let (day, mnt) = (day(), scratch());
    let _cleared = Cleared(mnt.path().to_path_buf());
    let mut command = tool("python3");
    command.args(["-c", WITHOUT_OPENAT2, env!("CARGO_BIN_EXE_pcapzst")]);
    command
        .args(["mount", "-o", "no_index"])
        .arg(day.source())
        .arg(mnt.path());
    let ran = run(&mut command).exits(1);
    assert!(ran.stderr.contains("openat2 is missing"), "{}", ran.stderr);
    assert!(!is_mounted(mnt.path()));
}

#[test]
fn a_fusermount_that_fails_without_a_word_is_named() {
    let day = day();
    let programs = scratch();
    let program = programs.path().join("fusermount3");
    symlink(tool("false").get_program(), program).unwrap();
    let point = Point::new();
    let ran = run(pcapzst()
        .args(["mount", "-o", "auto_unmount"])
        .arg(day.source())
        .arg(point.path())
        .env("PATH", programs.path()))
    .fails();
    assert!(ran.stderr.contains("fusermount3: "), "{}", ran.stderr);
    assert!(!is_mounted(point.path()));
}
