//! Whatever copies, maps or moves a mounted capture gets every byte of it.
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
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::thread;

use common::day::Day;
use common::frames::Marked;
use common::mounted::Mounted;
use common::pcap::{Magic, Pcap};
use common::sys::{self, Sharing};
use common::{assert_same, run, tool};
use nix::errno::Errno;
use nix::unistd::{Whence, lseek};

/// A capture of random packets, one with long runs of zeros, a raw one, and one in a folder.
fn captures() -> (Day, Vec<(&'static str, Vec<u8>)>) {
    let day = Day::new();
    let (web, zeros, raw) = (
        Pcap::random(Magic::LeUs, 40, 1500),
        Pcap::zeros(40),
        Pcap::random(Magic::BeNs, 41, 200),
    );
    day.add("web", &web);
    day.add("zeros", &zeros);
    day.add_as("raw", ".pcap", &raw.bytes, &raw.bytes);
    fs::create_dir(day.source().join("sub")).unwrap();
    let deep = Marked::pack(&raw, 5000);
    fs::write(day.source().join("sub/deep.pcap.zst"), &deep.physical).unwrap();
    let all = vec![
        ("web.pcap", web.bytes),
        ("zeros.pcap", zeros.bytes),
        ("raw.pcap", raw.bytes.clone()),
        ("sub/deep.pcap", raw.bytes),
    ];
    (day, all)
}

fn assert_copied(folder: &Path, all: &[(&str, Vec<u8>)], how: &str) {
    for (name, bytes) in all {
        assert_same(
            &fs::read(folder.join(name)).unwrap(),
            bytes,
            &format!("{how} {name}"),
        );
    }
}

#[test]
fn cp_copies_all_bytes_whatever_its_way() {
    let (day, all) = captures();
    let mounted = day.mount();
    let out = day.out().join("copy.pcap");
    for way in [
        "--sparse=auto",
        "--sparse=always",
        "--sparse=never",
        "--reflink=auto",
    ] {
        for (name, bytes) in &all {
            run(tool("cp").arg(way).arg(mounted.join(name)).arg(&out)).ok();
            assert_same(&fs::read(&out).unwrap(), bytes, &format!("cp {way} {name}"));
        }
    }
}

#[test]
fn one_request_gets_the_bytes_of_all_its_frames_in_their_order() {
    let day = Day::new();
    let pcap = Pcap::random(Magic::LeUs, 47, 4000);
    assert!(pcap.bytes.len() > 2 << 20);
    // Up to thousands of frames for a request of 1 MiB: more than one call of the kernel takes pieces.
    let targets = [300, 9000, 40_000, 300_000];
    for target in targets {
        let physical = Marked::pack(&pcap, target).physical;
        for ending in ["zst", "zst.partial"] {
            let name = day.source().join(format!("{ending}{target}.pcap.{ending}"));
            fs::write(name, &physical).unwrap();
        }
    }
    let mounted = day.mount();
    for name in targets.map(|target| format!("zst.partial{target}.pcap")) {
        // Direct: the kernel passes each request on as it is. The second time all frames are decoded already.
        let file = File::open(mounted.join(&name)).unwrap();
        for start in [0, 0, 777] {
            let mut got = vec![0; 1 << 20];
            let len = file.read_at(&mut got, start).unwrap();
            let start = usize::try_from(start).unwrap();
            assert_same(&got[..len], &pcap.bytes[start..][..1 << 20], &name);
        }
    }
    for name in targets.map(|target| format!("zst{target}.pcap")) {
        assert_same(&fs::read(mounted.join(&name)).unwrap(), &pcap.bytes, &name);
    }
}

#[test]
fn busybox_cp_copies_all_bytes() {
    let (day, all) = captures();
    let mounted = day.mount();
    for (name, bytes) in &all {
        let out = day.out().join("copy.pcap");
        run(tool("busybox").arg("cp").arg(mounted.join(name)).arg(&out)).ok();
        assert_same(&fs::read(&out).unwrap(), bytes, name);
    }
}

#[test]
fn cp_a_copies_the_tree_and_no_attribute() {
    let (day, all) = captures();
    let mounted = day.mount();
    let out = day.out().join("tree");
    let ran = run(tool("cp").arg("-a").arg(mounted.path()).arg(&out)).ok();
    assert_eq!(ran.stderr, "");
    assert_copied(&out, &all, "cp -a");
    let attributes = run(tool("getfattr").args(["-R", "-d", "-m", "-"]).arg(&out)).ok();
    assert_eq!(attributes.text(), "");
    let (seen, copied) = (
        fs::metadata(mounted.join("web.pcap")).unwrap(),
        fs::metadata(out.join("web.pcap")).unwrap(),
    );
    assert_eq!(
        (seen.mtime(), seen.mtime_nsec()),
        (copied.mtime(), copied.mtime_nsec())
    );
}

#[test]
fn a_second_rsync_copies_nothing() {
    let (day, all) = captures();
    let mounted = day.mount();
    let from = format!("{}/", mounted.path().display());
    let first = run(tool("rsync").args(["-aX", &from]).arg(day.out())).ok();
    assert_eq!(first.stderr, "");
    assert_copied(&day.out(), &all, "rsync -aX");
    for options in ["-ai", "-aXi", "-aci"] {
        let again = run(tool("rsync").args([options, &from]).arg(day.out())).ok();
        assert_eq!(again.text(), "", "rsync {options}");
    }
    mounted.unmount();
    let mounted = day.mount();
    let from = format!("{}/", mounted.path().display());
    let again = run(tool("rsync").args(["-ai", &from]).arg(day.out())).ok();
    assert_eq!(again.text(), "", "rsync after another mount");
}

#[test]
fn tar_with_holes_packs_and_unpacks_all_bytes() {
    let (day, all) = captures();
    let mounted = day.mount();
    let archive = day.out().join("all.tar");
    let ran = run(tool("tar")
        .args(["-S", "-c", "-f"])
        .arg(&archive)
        .arg("-C")
        .arg(mounted.path())
        .arg("."))
    .ok();
    assert_eq!(ran.stderr, "");
    let out = day.out().join("unpacked");
    fs::create_dir(&out).unwrap();
    run(tool("tar")
        .args(["-S", "-x", "-f"])
        .arg(&archive)
        .arg("-C")
        .arg(&out))
    .ok();
    assert_copied(&out, &all, "tar -S");
}

#[test]
fn memory_maps_private_and_shared_hold_all_bytes() {
    let (day, all) = captures();
    let partial = Pcap::random(Magic::LeUs, 42, 100);
    let growing = Marked::pack(&partial, 5000).physical;
    day.add_as("growing", ".pcap.zst.partial", &growing, &partial.bytes);
    let mounted = day.mount();
    for sharing in [Sharing::Private, Sharing::Shared] {
        for (name, bytes) in all
            .iter()
            .map(|(name, bytes)| (*name, bytes))
            .chain([("growing.pcap", &partial.bytes)])
        {
            let file = File::open(mounted.join(name)).unwrap();
            let seen = sys::read_by_map(&file, sharing)
                .unwrap_or_else(|error| panic!("{sharing:?} {name}: {error}"));
            assert_same(&seen, bytes, &format!("{sharing:?} {name}"));
        }
    }
}

#[test]
fn copy_file_range_copies_all_or_says_that_it_cannot() {
    let (day, all) = captures();
    let mounted = day.mount();
    for (name, bytes) in &all {
        let out = day.out().join("copy.pcap");
        let (from, to) = (
            File::open(mounted.join(name)).unwrap(),
            File::create(&out).unwrap(),
        );
        match sys::copy_file_range(&from, &to, bytes.len()) {
            // Between two file systems the kernel may refuse (copy_file_range(2), since Linux 5.19); then nobody is
            // left with an empty copy.
            Err(error) => assert_eq!(error.raw_os_error(), Some(Errno::EXDEV as i32), "{name}"),
            Ok(mut copied) => {
                while copied < bytes.len() {
                    let more = sys::copy_file_range(&from, &to, bytes.len() - copied).unwrap();
                    assert!(more > 0, "{name}: an early end");
                    copied += more;
                }
                assert_same(&fs::read(&out).unwrap(), bytes, name);
            }
        }
        // std's copy takes copy_file_range first and falls back as programs do.
        let copied = io::copy(
            &mut File::open(mounted.join(name)).unwrap(),
            &mut File::create(&out).unwrap(),
        );
        assert_eq!(copied.unwrap(), bytes.len() as u64);
        assert_same(&fs::read(&out).unwrap(), bytes, name);
    }
}

#[test]
fn sendfile_and_splice_move_all_bytes() {
    let (day, all) = captures();
    let mounted = day.mount();
    for (name, bytes) in &all {
        for way in ["sendfile", "splice"] {
            let moved = through_a_pipe(&mounted, name, |file, pipe| match way {
                "sendfile" => sys::sendfile(file, pipe, 1 << 20),
                _ => sys::splice(file, pipe, 1 << 20),
            });
            assert_same(&moved, bytes, &format!("{way} {name}"));
        }
    }
}

fn through_a_pipe(
    mounted: &Mounted,
    name: &str,
    step: impl Fn(&File, i32) -> io::Result<usize>,
) -> Vec<u8> {
    let file = File::open(mounted.join(name)).unwrap();
    let (mut reader, writer) = io::pipe().unwrap();
    let collector = thread::spawn(move || {
        let mut moved = Vec::new();
        reader.read_to_end(&mut moved).map(|_| moved)
    });
    while step(&file, writer.as_raw_fd()).unwrap() > 0 {}
    drop(writer);
    collector.join().unwrap().unwrap()
}

#[test]
fn seek_data_and_seek_hole_see_one_run_of_data() {
    let (day, all) = captures();
    let mounted = day.mount();
    for (name, bytes) in &all {
        let file = File::open(mounted.join(name)).unwrap();
        let size = i64::try_from(bytes.len()).unwrap();
        for at in [0, 1, size / 2, size - 1] {
            assert_eq!(
                lseek(&file, at, Whence::SeekData),
                Ok(at),
                "{name}: SEEK_DATA {at}"
            );
            assert_eq!(
                lseek(&file, at, Whence::SeekHole),
                Ok(size),
                "{name}: SEEK_HOLE {at}"
            );
        }
        for at in [size, size + 1, size + 100_000] {
            assert_eq!(
                lseek(&file, at, Whence::SeekData),
                Err(Errno::ENXIO),
                "{name}: SEEK_DATA {at}"
            );
            assert_eq!(
                lseek(&file, at, Whence::SeekHole),
                Err(Errno::ENXIO),
                "{name}: SEEK_HOLE {at}"
            );
        }
        assert_eq!(
            lseek(&file, 0, Whence::SeekEnd),
            Ok(size),
            "{name}: SEEK_END"
        );
    }
}

#[test]
fn reads_round_the_end_are_short_and_no_error() {
    let (day, all) = captures();
    let mounted = day.mount();
    for (name, bytes) in &all {
        let file = File::open(mounted.join(name)).unwrap();
        let mut buffer = vec![0xEE; 1 << 20];
        let size = bytes.len() as u64;
        assert_eq!(file.read_at(&mut buffer, size - 1).unwrap(), 1, "{name}");
        assert_eq!(buffer[0], *bytes.last().unwrap());
        for at in [size, size + 1, size + (1 << 40)] {
            assert_eq!(file.read_at(&mut buffer, at).unwrap(), 0, "{name} at {at}");
        }
        assert_eq!(file.read_at(&mut [], 0).unwrap(), 0, "{name}");
    }
}

#[test]
fn attributes_are_answered_by_name_and_not_listed() {
    let (day, _) = captures();
    let mounted = day.mount();
    let listed = run(tool("getfattr")
        .args(["-R", "-d", "-m", "-"])
        .arg(mounted.path()))
    .ok();
    assert_eq!(listed.text(), "");
    let web = mounted.join("web.pcap");
    let asked = run(tool("getfattr")
        .args(["--only-values", "-n", "user.pcapzst.state"])
        .arg(&web))
    .ok();
    assert_eq!(asked.text(), "complete");
    let value = |name: &str| sys::attribute(&web, &format!("user.pcapzst.{name}")).unwrap();
    let physical = fs::metadata(day.source().join("web.pcap.zst")).unwrap();
    let head = &fs::read(day.raw().join("web.pcap")).unwrap()[..40];
    assert_eq!(value("format"), "zst");
    assert_eq!(value("physical_name"), "web.pcap.zst");
    assert_eq!(value("physical_size"), physical.len().to_string());
    assert_eq!(value("torn_bytes"), "0");
    let id = format!(
        "{}-{:08x}",
        1_700_000_000_000_001_000_u64,
        crc32fast::hash(head)
    );
    assert_eq!(value("file_id"), id);
    assert!(value("frames").parse::<u64>().unwrap() > 5);
    assert_eq!(
        sys::attribute(&mounted.join("raw.pcap"), "user.pcapzst.format").unwrap(),
        "raw"
    );
    let absent = sys::attribute(&web, "user.pcapzst.nonsense").unwrap_err();
    assert_eq!(absent.raw_os_error(), Some(Errno::ENODATA as i32));
    let stats = sys::attribute(mounted.path(), "user.pcapzst.stats").unwrap();
    assert!(
        serde_json::from_str::<serde_json::Value>(&stats)
            .unwrap()
            .is_object(),
        "{stats}"
    );
}

#[test]
fn many_readers_of_one_capture_all_get_its_bytes() {
    let (day, all) = captures();
    let mounted = day.mount();
    let (name, bytes) = &all[0];
    thread::scope(|scope| {
        for reader in 0..16_usize {
            let path = mounted.join(name);
            scope.spawn(move || {
                let file = File::open(path).unwrap();
                let mut rng = common::Rng::new(reader as u64 + 1);
                for _ in 0..60 {
                    let at = rng.below(bytes.len());
                    let mut buffer = vec![0; 1 + rng.below(200_000)];
                    let wanted = &bytes[at..(at + buffer.len()).min(bytes.len())];
                    let got = file.read_at(&mut buffer, at as u64).unwrap();
                    assert_same(&buffer[..got], wanted, &format!("reader {reader} at {at}"));
                }
            });
        }
    });
}
