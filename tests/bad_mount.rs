//! One real mount that holds every odd input of the table (`odd/`): the good part is served, the bad part fails.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "a failed step of a test is a panic"
)]

mod common;
mod odd;

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

use common::frames::Marked;
use common::mounted::Mounted;
use common::pcap::{Magic, Pcap};
use common::sys::attribute;
use common::{assert_same, names};
use nix::errno::Errno;
use odd::{Odd, Served, on_disk};

/// The page cache may stop a reader this much before a frame that does not decode (PRODUCT.md, `damaged`).
const PAGE: usize = 4096;

#[test]
fn one_mount_serves_the_good_part_of_every_odd_input() {
    let table = odd::table();
    let folder = on_disk(&table);
    let good = Pcap::random(Magic::BeNs, 7, 300);
    let good_path = folder.path().join("a-good-one.pcap.zst");
    fs::write(good_path, Marked::pack(&good, 16_384).physical).unwrap();
    let mounted = Mounted::new(folder.path(), "");
    let listed = names(mounted.path());
    let mut wanted: Vec<_> = table
        .iter()
        .map(|odd| odd.logical().as_bytes().to_vec())
        .collect();
    wanted.push(b"a-good-one.pcap".to_vec());
    wanted.sort();
    assert_eq!(listed, wanted);

    for odd in &table {
        let cpu = mounted.cpu_centiseconds();
        let path = mounted.join(odd.logical());
        assert_eq!(
            fs::metadata(&path).unwrap().len(),
            odd.size(),
            "{}: size",
            odd.file
        );
        assert_eq!(
            attribute(&path, "user.pcapzst.state").unwrap(),
            odd.state,
            "{}",
            odd.file
        );
        match &odd.served {
            Served::Whole(bytes) => assert_same(&fs::read(&path).unwrap(), bytes, &odd.file),
            Served::Refused(errno) => {
                assert_eq!(errno_of(File::open(&path)), *errno, "{}", odd.file);
            }
            Served::Prefix { good, .. } => check_prefix(&path, good, odd.size()),
            Served::Hole { before, bad, after } => {
                check_hole(&path, before, *bad, after);
                assert_eq!(
                    attribute(&path, "user.pcapzst.state").unwrap(),
                    "damaged",
                    "{}",
                    odd.file
                );
            }
        }
        assert_eq!(
            fs::metadata(&path).unwrap().len(),
            odd.size(),
            "{}: size afterwards",
            odd.file
        );
        let spent = mounted.cpu_centiseconds() - cpu;
        assert!(
            spent < 100,
            "{} cost the mount {spent} hundredths of a second",
            odd.file
        );
        assert_eq!(names(mounted.path()), wanted, "listing after {}", odd.file);
        assert_same(
            &fs::read(mounted.join("a-good-one.pcap")).unwrap(),
            &good.bytes,
            "a-good-one",
        );
    }
    let peak = mounted.peak_kib();
    assert!(peak < (256 + 64) * 1024, "the mount once held {peak} KiB");

    let log = mounted.unmount().log;
    for odd in &table {
        let is_told =
            |line: &&str| names_file(line, odd.logical()) && line.contains("physical offset");
        let told = log.lines().filter(is_told).count();
        match odd.served {
            Served::Whole(_) => assert_eq!(told, 0, "{}: {log}", odd.file),
            Served::Refused(_) => assert!(told <= 1, "{}: {log}", odd.file),
            Served::Prefix { .. } | Served::Hole { .. } => {
                assert_eq!(told, 1, "{} is told once in the log:\n{log}", odd.file);
            }
        }
    }
}

#[test]
fn good_frames_round_a_bad_one_are_read_before_it_is_known() {
    let table = odd::table();
    let folder = on_disk(&table);
    let mounted = Mounted::new(folder.path(), "");
    let hole = |odd: &&Odd| odd.inspect == 0 && matches!(odd.served, Served::Hole { .. });
    for odd in table.iter().filter(hole) {
        let Served::Hole { before, bad, after } = &odd.served else {
            continue;
        };
        let file = File::open(mounted.join(odd.logical())).unwrap();
        let from = before.len() as u64 + bad;
        // Whole pages only: this handle reads through the page cache.
        let page = usize::try_from(from.next_multiple_of(PAGE as u64) - from).unwrap();
        if let Some(rest) = after.get(page..) {
            let mut got = vec![0; rest.len()];
            file.read_exact_at(&mut got, from + page as u64).unwrap();
            assert_same(&got, rest, &odd.file);
        }
        let mut got = vec![0; before.len() / PAGE * PAGE];
        file.read_exact_at(&mut got, 0).unwrap();
        assert_same(&got, &before[..got.len()], &odd.file);
    }
}

/// Whether a log line speaks of this file, and not of one whose name ends alike.
fn names_file(line: &str, name: &str) -> bool {
    let is_alone = |at: usize| !line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '-');
    line.match_indices(name).any(|(at, _)| is_alone(at))
}

/// Reads from `at` until the end or an error.
fn read_on(file: &File, start: u64) -> (Vec<u8>, io::Result<()>) {
    let mut bytes = Vec::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read_at(&mut buffer, start + bytes.len() as u64) {
            Ok(0) => return (bytes, Ok(())),
            Ok(n) => bytes.extend_from_slice(&buffer[..n]),
            Err(error) => return (bytes, Err(error)),
        }
    }
}

#[track_caller]
fn errno_of<T>(result: io::Result<T>) -> Errno {
    match result {
        Ok(_) => panic!("no error"),
        Err(error) => Errno::from_raw(error.raw_os_error().unwrap()),
    }
}

/// The good part in full, then EIO at every place up to the size: never the end of the file.
fn check_prefix(path: &Path, good: &[u8], size: u64) {
    let what = path.display().to_string();
    let mut file = File::open(path).unwrap();
    let (got, end) = read_on(&file, 0);
    assert_same(&got, good, &what);
    assert_eq!(errno_of(end), Errno::EIO, "{what}");
    for at in [
        good.len() as u64,
        u64::midpoint(good.len() as u64, size),
        size - 1,
    ] {
        assert_eq!(
            errno_of(file.read_at(&mut [0], at)),
            Errno::EIO,
            "{what} at {at}"
        );
    }
    let mut stream = Vec::new();
    assert_eq!(
        errno_of(file.read_to_end(&mut stream)),
        Errno::EIO,
        "{what}"
    );
    assert_same(&stream, good, &what);
}

/// The frame's own range fails each time; what stands before and after it is exact once the fault is known.
fn check_hole(path: &Path, before: &[u8], bad: u64, after: &[u8]) {
    let what = path.display().to_string();
    let (first, end) = read_on(&File::open(path).unwrap(), 0);
    assert_eq!(errno_of(end), Errno::EIO, "{what}");
    let early = before
        .len()
        .checked_sub(first.len())
        .unwrap_or_else(|| panic!("{what}: bad bytes were served"));
    assert!(early < PAGE, "{what}: stopped {early} bytes early");
    assert_same(&first, &before[..first.len()], &what);

    let file = File::open(path).unwrap();
    let (got, end) = read_on(&file, 0);
    assert_same(&got, before, &what);
    assert_eq!(errno_of(end), Errno::EIO, "{what}");
    let (from, to) = (before.len() as u64, before.len() as u64 + bad);
    for at in [from, from + 1, u64::midpoint(from, to), to - 1] {
        assert_eq!(
            errno_of(file.read_at(&mut [0], at)),
            Errno::EIO,
            "{what} at {at}"
        );
    }
    let (got, end) = read_on(&file, to);
    assert_same(&got, after, &what);
    end.unwrap();
}
