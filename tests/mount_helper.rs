//! Called by mount(8), by libfuse's mount.fuse and by an automounter.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "a failed step of a test is a panic"
)]

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;

use common::apart::{apart, helpers};
use common::day::{Day, scratch};
use common::mounted::{is_mounted, mount_entry};
use common::pcap::{Magic, Pcap};
use common::point::{Point, has_ended};
use common::{names, pcapzst, run, sys};

/// What stands behind the fourth field of fstab, and what systemd and mount(8) make of it.
const WORDS: &str = "ro,nofail,_netdev,noauto,nodev,x-systemd.automount";

fn day() -> Day {
    Day::with("a", &Pcap::random(Magic::LeUs, 700, 20))
}

/// Lays the helpers in `$1` over /sbin, calls mount(8) with what follows the first two arguments, and shows what came
/// of it. `$2` is the mount point.
const MOUNT: &str = r#"
    mount --bind "$1" /sbin
    mnt=$2
    shift 2
    trap 'umount -l "$mnt" || :' EXIT
    mount "$@"
    ls "$mnt"
    sed -n "s#.* $mnt \([^ ]* [^ ]*\) 0 0\$#\1#p" /proc/self/mounts
    trap - EXIT
    umount "$mnt"
    ! grep -q " $mnt " /proc/self/mounts
"#;

#[track_caller]
fn assert_mounts(kind: &str, name: &str, source: &str, options: &str) {
    let (helpers, point) = (helpers(&[name]), Point::new());
    let mut command = apart(MOUNT);
    command.arg(helpers.path()).arg(point.path());
    command.args(["-t", kind, source]).arg(point.path());
    if !options.is_empty() {
        command.args(["-o", options]);
    }
    let ran = run(&mut command).ok();
    assert_eq!(ran.stderr, "");
    let text = ran.text();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!((lines.len(), lines[0]), (2, "a.pcap"), "{text}");
    let (found, flags) = lines[1].split_once(' ').unwrap();
    assert_eq!(found, "fuse.pcapzst");
    for flag in ["ro", "nosuid", "nodev"] {
        assert!(flags.split(',').any(|word| word == flag), "{flag}: {flags}");
    }
    for daemon in point.daemons() {
        // An error: it has ended already.
        let has_ended = sys::pidfd(daemon).map_or(true, |daemon| has_ended(&daemon, 20_000));
        assert!(has_ended, "the program still runs");
    }
}

#[test]
fn mount_finds_the_program_as_mount_pcapzst() {
    let day = day();
    let source = day.source();
    for options in [
        "",
        "rw",
        WORDS,
        "ro,user,exec,context=system_u:object_r:tmp_t:s0",
    ] {
        assert_mounts(
            "pcapzst",
            "mount.pcapzst",
            source.to_str().unwrap(),
            options,
        );
    }
}

#[test]
fn mount_finds_the_program_for_the_type_that_the_mount_table_shows() {
    let day = day();
    let source = day.source();
    let source = source.to_str().unwrap();
    assert_mounts("fuse.pcapzst", "mount.fuse.pcapzst", source, WORDS);
    // By libfuse's helper, which looks for the program by its own name.
    assert_mounts("fuse.pcapzst", "pcapzst", source, WORDS);
    assert_mounts("fuse", "pcapzst", &format!("pcapzst#{source}"), WORDS);
}

#[test]
fn mount_reads_a_line_of_fstab_with_spaces_in_it() {
    let day = day();
    let (helpers, folder) = (helpers(&["mount.pcapzst"]), scratch());
    let (source, mnt) = (
        folder.path().join("my captures"),
        folder.path().join("my point"),
    );
    fs::rename(day.source(), &source).unwrap();
    fs::create_dir(&mnt).unwrap();
    let escaped = |path: &Path| path.to_str().unwrap().replace(' ', "\\040");
    let fstab = format!(
        "{} {} pcapzst ro,nofail,umask=027,x-systemd.idle-timeout=1min 0 0\n",
        escaped(&source),
        escaped(&mnt)
    );
    fs::write(folder.path().join("fstab"), fstab).unwrap();
    let script = r#"
        mount --bind "$1" /sbin
        trap 'umount -l "$3" || :' EXIT
        mount --fstab "$2" "$3"
        ls -l "$3" | cut -c 1-10
        mount --fstab "$2" -a
        umount "$3""#;
    let mut command = apart(script);
    let fstab = folder.path().join("fstab");
    command.arg(helpers.path()).arg(fstab).arg(&mnt);
    // `umount` in the trap finds nothing any more, and says so.
    let ran = run(&mut command).ok();
    assert_eq!(ran.text(), "total 8\n-r--r-----\n");
}

#[test]
fn what_mount_cannot_do_is_told_through_it() {
    let day = day();
    let source = day.source();
    for (options, about) in [
        ("ro,bogus", "mount option 'bogus': unknown"),
        (
            "remount,ro",
            "mount option 'remount': a mount is not changed",
        ),
    ] {
        let (helpers, point) = (helpers(&["mount.pcapzst"]), Point::new());
        let script = r#"mount --bind "$1" /sbin; mount -t pcapzst -o "$2" "$3" "$4""#;
        let mut command = apart(script);
        command
            .arg(helpers.path())
            .arg(options)
            .args([source.as_path(), point.path()]);
        let ran = run(&mut command).fails();
        assert!(ran.stderr.contains(about), "{}", ran.stderr);
        assert!(point.daemons().is_empty());
    }
}

/// Runs a command with only these variables.
fn with(command: &mut Command, variables: &[(&str, &str)]) -> String {
    command.env_clear().envs(variables.iter().copied());
    run(command).ok().stderr
}

#[test]
fn neither_path_nor_home_is_needed() {
    let day = day();
    for path in [&[][..], &[("PATH", "")], &[("PATH", "relative:")]] {
        // Through fusermount3, which is then looked for; and not in the folder where the command is given.
        let trap = scratch();
        fs::write(
            trap.path().join("fusermount3"),
            "#!/bin/sh\necho trapped >&2\nexit 9\n",
        )
        .unwrap();
        fs::set_permissions(
            trap.path().join("fusermount3"),
            std::os::unix::fs::PermissionsExt::from_mode(0o755),
        )
        .unwrap();
        for options in ["no_index", "no_index,auto_unmount,allow_other"] {
            let point = Point::new();
            let mut mount = pcapzst();
            mount
                .current_dir(trap.path())
                .args(["mount", "-o", options]);
            mount.arg(day.source()).arg(point.path());
            assert_eq!(with(&mut mount, path), "");
            assert_eq!(names(point.path()), [b"a.pcap"]);
            let mut umount = pcapzst();
            umount
                .current_dir(trap.path())
                .arg("umount")
                .arg(point.path());
            assert_eq!(with(&mut umount, path), "");
            assert!(!is_mounted(point.path()));
        }
    }
}

#[test]
fn labels_are_left_out_where_there_is_no_selinux() {
    // Where there is, the kernel gets them.
    let has_labels = fs::metadata("/sys/fs/selinux/enforce").is_ok();
    let day = day();
    for label in [
        "context=system_u:object_r:tmp_t:s0",
        "context=\"system_u:object_r:tmp_t:s0:c127,c456\",ro",
    ] {
        let point = Point::new();
        let mut command = pcapzst();
        command
            .args(["mount", "-o", label])
            .arg(day.source())
            .arg(point.path());
        run(&mut command).ok();
        assert_eq!(names(point.path()), [b"a.pcap"]);
        let options = mount_entry(point.path()).unwrap().options;
        let is_shown = options.iter().any(|option| option.contains("tmp_t"));
        assert_eq!(is_shown, has_labels, "{label}: {options:?}");
    }
}

/// Mounts an autofs trap on a folder, as systemd does for an automount unit, and answers the kernel's request with the
/// command given: in the same process group, as systemd starts mount(8). Whoever looks meanwhile waits.
const AUTOMOUNT: &str = r#"
import fcntl, os, struct, subprocess, sys
point, command = sys.argv[1], sys.argv[2:]
requests, kernel = os.pipe()
data = f"fd={kernel},pgrp={os.getpgrp()},minproto=5,maxproto=5,direct"
subprocess.run(["mount", "-i", "-t", "autofs", "-o", data, "trap", point], check=True, pass_fds=[kernel])
# The folder as the automounter has it open: a path leads to what is mounted over it.
trap = os.open(point, os.O_RDONLY)
os.close(kernel)
look = subprocess.Popen(["ls", point], stdout=subprocess.PIPE, text=True, start_new_session=True)
# struct autofs_v5_packet (linux/auto_fs.h): protocol, type, token, ...
packet = os.read(requests, 304)
protocol, kind, token = struct.unpack_from("=iiI", packet)
assert (protocol, kind) == (5, 5), (protocol, kind)
outcome = subprocess.run(command, timeout=30).returncode
# AUTOFS_IOC_READY, AUTOFS_IOC_FAIL
fcntl.ioctl(trap, 0x9360 if outcome == 0 else 0x9361, token)
print(outcome, look.communicate(timeout=30)[0].strip())
"#;

#[test]
fn an_automounter_gets_its_mount_and_whoever_looked_sees_it() {
    let (day, folder) = (day(), scratch());
    let point = Point::new();
    let program = folder.path().join("mount.pcapzst");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_pcapzst"), &program).unwrap();
    let script = r#"
        trap 'umount -l "$2" || :; umount -l "$2" || :' EXIT
        python3 -c "$@""#;
    let mut command = apart(script);
    command.arg(AUTOMOUNT).arg(point.path()).arg(&program);
    command
        .args([day.source().as_path(), point.path()])
        .args(["-o", WORDS]);
    let ran = run(&mut command).ok();
    assert_eq!(ran.text(), "0 a.pcap\n", "{}", ran.stderr);
}
