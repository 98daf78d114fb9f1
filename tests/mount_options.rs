//! The options of a mount, those of fstab included.
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

use common::day::{Day, scratch};
use common::mounted::{Mounted, is_mounted, mount_entry};
use common::pcap::{Magic, Pcap};
use common::point::{Point, has_ended};
use common::{assert_same, called, names, pcapzst, run, sys, tool};

fn day() -> (Day, Pcap) {
    let pcap = Pcap::random(Magic::LeUs, 400, 2000);
    (Day::with("a", &pcap), pcap)
}

#[test]
fn the_mount_table_shows_what_it_is() {
    let (day, _) = day();
    let mounted = day.mount();
    let entry = mount_entry(mounted.path()).unwrap();
    assert_eq!(entry.kind, "fuse.pcapzst");
    for option in ["ro", "nosuid", "nodev"] {
        assert!(
            entry.options.iter().any(|given| given == option),
            "{option}: {:?}",
            entry.options
        );
    }
    mounted.unmount();
    let mounted = Mounted::new(&day.source(), "fsname=captures,allow_other,noexec");
    let entry = mount_entry(mounted.path()).unwrap();
    assert_eq!(
        (entry.source.as_str(), entry.kind.as_str()),
        ("captures", "fuse.pcapzst")
    );
    for option in ["allow_other", "noexec"] {
        assert!(
            entry.options.iter().any(|given| given == option),
            "{option}: {:?}",
            entry.options
        );
    }
}

#[test]
fn the_words_of_fstab_are_accepted() {
    let (day, pcap) = day();
    let words = "ro,nofail,_netdev,noauto,user,users,auto,x-systemd.automount,x-gvfs-show,defaults,nosuid,nodev,noexec,noatime";
    let point = Point::new();
    run(pcapzst()
        .args(["mount", "-o", words])
        .arg(day.source())
        .arg(point.path()))
    .ok();
    assert_same(
        &fs::read(point.path().join("a.pcap")).unwrap(),
        &pcap.bytes,
        "a.pcap",
    );
}

#[test]
fn every_option_of_its_own_is_accepted() {
    let (day, pcap) = day();
    for options in [
        "cache_size=67108864,threads=2,max_frame_size=1048576,default_permissions",
        "no_index,no_passthrough,cache_size=1048576",
        "allow_root",
    ] {
        let mounted = Mounted::new(&day.source(), options);
        assert_same(
            &fs::read(mounted.join("a.pcap")).unwrap(),
            &pcap.bytes,
            options,
        );
    }
    let point = Point::new();
    let mut command = pcapzst();
    command
        .args(["mount", "-o", "ro", "-o", "uid=77", "-o", "gid=78,nodev"])
        .arg(day.source())
        .arg(point.path());
    run(&mut command).ok();
    let owner = run(tool("stat")
        .args(["-c", "%u %g"])
        .arg(point.path().join("a.pcap")))
    .ok();
    assert_eq!(owner.text(), "77 78\n");
}

#[test]
fn called_as_a_mount_helper_it_takes_mounts_order() {
    let (day, pcap) = day();
    let helpers = scratch();
    let helper = helpers.path().join("mount.pcapzst");
    symlink(env!("CARGO_BIN_EXE_pcapzst"), &helper).unwrap();
    for options in [
        &["-o", "rw,noauto,uid=5"][..],
        &["-n", "-o", "ro"],
        &["-sn"],
        &["-ns", "-o", "ro"],
        &["-nv"],
        &[],
    ] {
        let point = Point::new();
        run(called(&helper)
            .arg(day.source())
            .arg(point.path())
            .args(options))
        .ok();
        assert_same(
            &fs::read(point.path().join("a.pcap")).unwrap(),
            &pcap.bytes,
            "a.pcap",
        );
        assert_eq!(mount_entry(point.path()).unwrap().kind, "fuse.pcapzst");
    }
}

#[test]
fn a_fake_mount_mounts_nothing_and_is_a_success() {
    let (day, _) = day();
    let helpers = scratch();
    let helper = helpers.path().join("mount.pcapzst");
    symlink(env!("CARGO_BIN_EXE_pcapzst"), &helper).unwrap();
    for options in [&["-f"][..], &["-fn", "-o", "ro"], &["-o", "ro", "-sf"]] {
        let point = Point::new();
        run(called(&helper)
            .arg(day.source())
            .arg(point.path())
            .args(options))
        .ok();
        assert!(!is_mounted(point.path()), "{options:?}");
        assert_eq!(names(point.path()), Vec::<Vec<u8>>::new(), "{options:?}");
        assert!(point.daemons().is_empty(), "{options:?}");
    }
}

#[test]
fn with_auto_unmount_the_command_returns_while_the_mount_serves() {
    let (day, pcap) = day();
    let point = Point::new();
    run(pcapzst()
        .args(["mount", "-o", "auto_unmount,allow_other"])
        .arg(day.source())
        .arg(point.path()))
    .ok();
    assert_same(
        &fs::read(point.path().join("a.pcap")).unwrap(),
        &pcap.bytes,
        "a.pcap",
    );
    // The daemon, and the fusermount3 that watches over it.
    let pids = point.daemons();
    assert!(!pids.is_empty());
    let processes: Vec<_> = pids.iter().map(|pid| sys::pidfd(*pid).unwrap()).collect();
    run(pcapzst().arg("umount").arg(point.path())).ok();
    assert!(!is_mounted(point.path()));
    for (pid, process) in pids.iter().zip(&processes) {
        assert!(has_ended(process, 20_000), "process {pid} still runs");
    }
}
