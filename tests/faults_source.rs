//! A SOURCE that goes away under a mount, or that cannot be opened for want of descriptors: a clear errno, no hang, the mount
//! goes on with what it can, and ends well.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "a failed step of a test is a panic"
)]

mod common;
#[path = "faults/tmpfs.rs"]
mod tmpfs;

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use common::day::{Day, scratch};
use common::frames::Marked;
use common::mounted::Mounted;
use common::pcap::{Magic, Pcap};
use common::{assert_same, names, pcapzst, run, tool};
use tmpfs::Tmpfs;

fn capture(seed: u64) -> Marked {
    Marked::pack(&Pcap::of_size(Magic::LeUs, seed, 300_000), 65_536)
}

#[track_caller]
fn errno<T>(outcome: io::Result<T>) -> i32 {
    let error = outcome.err().expect("it did not fail");
    error.raw_os_error().unwrap()
}

/// All of an open capture.
#[track_caller]
fn check_open(file: &File, marked: &Marked) {
    let mut got = vec![0; marked.source.len()];
    file.read_exact_at(&mut got, 0).unwrap();
    assert_same(&got, &marked.source, "by an open handle");
}

/// The names of descriptors that the mount's program has open.
fn descriptors(mounted: &Mounted) -> usize {
    let folder = format!("/proc/{}/fd", mounted.pid());
    fs::read_dir(folder).unwrap().count()
}

/// All of a capture, once what was closed before is: the kernel does not wait for the answer to a close.
fn read_once_closed(path: &Path) -> Vec<u8> {
    loop {
        match fs::read(path) {
            Err(error) if error.raw_os_error() == Some(libc::EMFILE) => {}
            outcome => return outcome.unwrap(),
        }
    }
}

/// `pcapzst` with at most so many open files.
fn with_descriptors(most: usize) -> Command {
    let mut prlimit = tool("prlimit");
    prlimit.args([&format!("--nofile={most}"), "--"]);
    prlimit.arg(env!("CARGO_BIN_EXE_pcapzst"));
    prlimit
}

#[test]
fn out_of_descriptors_opens_fail_alone_and_after_closing_all_works_again() {
    const FILES: usize = 60;
    const MOST: usize = 40;
    let day = Day::new();
    let captures: Vec<_> = (0..FILES)
        .map(|number| {
            let pcap = Pcap::random(Magic::LeUs, 2000 + number as u64, 20);
            day.add(&format!("{number:02}"), &pcap);
            pcap.bytes
        })
        .collect();
    let mounted = Mounted::launch(with_descriptors(MOST), &day.source(), "");
    let path = |number: usize| mounted.join(format!("{number:02}.pcap"));
    for _ in 0..3 {
        let mut open = Vec::new();
        let refused = loop {
            match File::open(path(open.len())) {
                Ok(file) => open.push(file),
                Err(error) => break error.raw_os_error().unwrap(),
            }
        };
        assert_eq!(refused, libc::EMFILE, "{} were open", open.len());
        // Half of them is for open files.
        assert!(
            (MOST / 4..=MOST / 2).contains(&open.len()),
            "{}",
            open.len()
        );
        assert_eq!(errno(File::open(path(FILES - 1))), libc::EMFILE);
        // Nobody else notices.
        assert_eq!(names(mounted.path()).len(), FILES);
        for (number, bytes) in captures.iter().enumerate() {
            let size = fs::metadata(path(number)).unwrap().len();
            assert_eq!(size, bytes.len() as u64);
        }
        run(pcapzst().arg("status").arg(mounted.path())).ok();
        for (file, bytes) in open.iter().zip(&captures) {
            let mut got = vec![0; bytes.len()];
            file.read_exact_at(&mut got, 0).unwrap();
            assert_same(&got, bytes, "while others cannot be opened");
        }
        assert!(descriptors(&mounted) <= MOST);
        drop(open);
        for (number, bytes) in captures.iter().enumerate() {
            let got = read_once_closed(&path(number));
            assert_same(&got, bytes, "after closing");
        }
    }
    mounted.unmount();
}

#[test]
fn with_hardly_any_descriptors_many_readers_at_once_get_right_bytes_or_emfile() {
    const FILES: usize = 60;
    let day = Day::new();
    let captures: Vec<_> = (0..FILES)
        .map(|number| {
            let pcap = Pcap::random(Magic::LeUs, 2200 + number as u64, 20);
            day.add(&format!("{number:02}"), &pcap);
            pcap.bytes
        })
        .collect();
    let mounted = Mounted::launch(with_descriptors(20), &day.source(), "");
    let path = |number: usize| mounted.join(format!("{number:02}.pcap"));
    let refused = AtomicUsize::new(0);
    thread::scope(|threads| {
        for reader in 0..12 {
            let (captures, path, refused) = (&captures, &path, &refused);
            threads.spawn(move || {
                for round in 0..FILES * 3 {
                    let number = (round * 7 + reader * 5) % FILES;
                    match fs::read(path(number)) {
                        Ok(got) => assert_same(&got, &captures[number], "short of descriptors"),
                        Err(error) => {
                            assert_eq!(error.raw_os_error(), Some(libc::EMFILE), "{error}");
                            refused.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
            });
        }
    });
    // Or this was no shortage.
    assert!(refused.into_inner() > 0, "nobody was refused");
    for (number, bytes) in captures.iter().enumerate() {
        assert_same(&read_once_closed(&path(number)), bytes, "one at a time");
    }
    mounted.unmount();
}

#[test]
fn a_source_unmounted_lazily_is_served_as_long_as_the_mount_holds_it() {
    let disk = Tmpfs::new(4096);
    let (one, two) = (capture(2101), capture(2102));
    fs::write(disk.join("one.pcap.zst"), &one.physical).unwrap();
    fs::write(disk.join("two.pcap.zst"), &two.physical).unwrap();
    let mounted = Mounted::new(disk.path(), "");
    let file = File::open(mounted.join("one.pcap")).unwrap();
    disk.detach();
    // The descriptor of the folder keeps the file system: names are found, and read, that nobody has looked at before.
    assert_eq!(names(mounted.path()).len(), 2);
    check_open(&file, &one);
    let got = fs::read(mounted.join("two.pcap")).unwrap();
    assert_same(&got, &two.source, "first opened behind the unmount");
    // What comes to the path is another file system's: it is not shown.
    fs::write(disk.join("three.pcap.zst"), &one.physical).unwrap();
    assert_eq!(
        errno(fs::metadata(mounted.join("three.pcap"))),
        libc::ENOENT
    );
    drop(file);
    mounted.unmount();
}

#[test]
fn a_source_folder_deleted_under_a_mount_is_empty_and_its_open_captures_are_read_on() {
    let folder = scratch();
    let source = folder.path().join("source");
    let (one, grows) = (capture(2103), capture(2104));
    let make = |source: &Path| {
        fs::create_dir_all(source.join("day")).unwrap();
        fs::write(source.join("one.pcap.zst"), &one.physical).unwrap();
        fs::write(source.join("day/grows.pcap.zst.partial"), &grows.physical).unwrap();
    };
    make(&source);
    let mounted = Mounted::new(&source, "");
    let (first, second) = (mounted.join("one.pcap"), mounted.join("day/grows.pcap"));
    let files = [File::open(&first).unwrap(), File::open(&second).unwrap()];
    fs::remove_dir_all(&source).unwrap();
    for path in [&first, &second] {
        assert_eq!(errno(fs::metadata(path)), libc::ENOENT);
        assert_eq!(errno(File::open(path)), libc::ENOENT);
    }
    assert!(names(mounted.path()).is_empty());
    assert!(fs::metadata(mounted.path()).unwrap().is_dir());
    run(tool("stat").arg("-f").arg(mounted.path())).ok();
    check_open(&files[0], &one);
    check_open(&files[1], &grows);
    assert_eq!(
        files[1].metadata().unwrap().len(),
        grows.source.len() as u64
    );
    // A folder that comes to the same path is another one: the mount goes on with the one that it was made over.
    make(&source);
    assert!(names(mounted.path()).is_empty());
    assert_eq!(errno(fs::metadata(&first)), libc::ENOENT);
    drop(files);
    mounted.unmount();
    let again = Mounted::new(&source, "");
    assert_same(
        &fs::read(again.join("one.pcap")).unwrap(),
        &one.source,
        "anew",
    );
}

#[test]
fn a_folder_in_the_source_that_goes_and_comes_back_is_shown_again() {
    let folder = scratch();
    let one = capture(2105);
    let day = folder.path().join("day");
    fs::create_dir(&day).unwrap();
    fs::write(day.join("one.pcap.zst"), &one.physical).unwrap();
    let mounted = Mounted::new(folder.path(), "");
    let path = mounted.join("day/one.pcap");
    let ino = fs::metadata(&path).unwrap().ino();
    let aside = folder.path().join("aside");
    fs::rename(&day, &aside).unwrap();
    assert_eq!(errno(fs::metadata(&path)), libc::ENOENT);
    fs::rename(&aside, &day).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().ino(), ino);
    assert_same(&fs::read(&path).unwrap(), &one.source, "back again");
    // As a file system that is mounted there anew: the same captures, on other files.
    fs::remove_dir_all(&day).unwrap();
    assert_eq!(errno(fs::metadata(&path)), libc::ENOENT);
    fs::create_dir(&day).unwrap();
    fs::write(day.join("one.pcap.zst"), &one.physical).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().ino(), ino, "the same capture");
    assert_same(&fs::read(&path).unwrap(), &one.source, "a copy of it");
}

#[test]
fn what_may_not_be_read_any_more_is_eacces_and_is_back_with_its_rights() {
    let day = Day::new();
    for name in ["one", "two"] {
        day.add(name, &Pcap::of_size(Magic::LeUs, 2106, 300_000));
    }
    let truth = fs::read(day.raw().join("one.pcap")).unwrap();
    // root may read everything, whatever the rights: the program may not.
    let mut setpriv = tool("setpriv");
    let without = "-dac_override,-dac_read_search";
    setpriv.args(["--bounding-set", without, "--inh-caps", without, "--"]);
    setpriv.arg(env!("CARGO_BIN_EXE_pcapzst"));
    let mounted = Mounted::launch(setpriv, &day.source(), "");
    let (one, two) = (mounted.join("one.pcap"), mounted.join("two.pcap"));
    let file = File::open(&one).unwrap();
    let set = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();

    set(&day.source(), 0o000);
    for _ in 0..2 {
        assert_eq!(
            errno(fs::read_dir(mounted.path()).and_then(|mut list| list.next().unwrap())),
            libc::EACCES
        );
        assert_eq!(errno(fs::metadata(&two)), libc::EACCES);
        assert_eq!(errno(File::open(&one)), libc::EACCES);
    }
    // Who has it open reads on.
    let mut got = vec![0; truth.len()];
    file.read_exact_at(&mut got, 0).unwrap();
    assert_same(&got, &truth, "an open handle");
    set(&day.source(), 0o755);
    assert_eq!(names(mounted.path()).len(), 2);
    assert_same(&fs::read(&two).unwrap(), &truth, "with its rights back");

    // One file alone: the others do not notice.
    let below = day.source().join("two.pcap.zst");
    set(&below, 0o000);
    assert_eq!(errno(File::open(&two)), libc::EACCES);
    assert_eq!(names(mounted.path()).len(), 2);
    assert_same(&fs::read(&one).unwrap(), &truth, "its neighbour");
    set(&below, 0o644);
    assert_same(&fs::read(&two).unwrap(), &truth, "with its rights back");
    drop(file);
    mounted.unmount();
}
