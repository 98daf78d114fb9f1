//! Many captures with few descriptors, and large captures with few reads.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "a failed step of a test is a panic"
)]

mod common;

use std::collections::HashSet;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};

use common::day::scratch;
use common::frames::{Handmade, Marked};
use common::mounted::Mounted;
use common::pcap::{Magic, Pcap};
use common::{assert_same, names, tool};

/// `pcapzst` with at most 256 open files.
fn with_256_descriptors() -> std::process::Command {
    let mut shell = tool("sh");
    shell.args([
        "-c",
        "ulimit -n 256 && exec \"$0\" \"$@\"",
        env!("CARGO_BIN_EXE_pcapzst"),
    ]);
    shell
}

#[test]
fn twenty_thousand_captures_need_no_more_than_256_descriptors() {
    const FOLDERS: usize = 20;
    const FILES: usize = 1000;
    let source = scratch();
    let header = Pcap::new(Magic::LeUs);
    let capture = |number: usize| {
        let mut pcap = header.clone();
        pcap.push(
            u32::try_from(number).unwrap(),
            0,
            60,
            format!("capture number {number}").as_bytes(),
        );
        pcap.bytes
    };
    let begun = Marked::new(header.header());
    for number in 0..FOLDERS * FILES {
        let folder = source.path().join(format!("day-{:02}", number / FILES));
        if number % FILES == 0 {
            fs::create_dir(&folder).unwrap();
        }
        let body = &capture(number)[24..];
        let physical = [&begun.physical[..], &Handmade::raw(body).build()].concat();
        fs::write(folder.join(format!("{number:05}.pcap.zst")), physical).unwrap();
    }
    let mounted = Mounted::launch(with_256_descriptors(), source.path(), "");
    assert_eq!(names(mounted.path()).len(), FOLDERS);
    let mut inodes = HashSet::new();
    for folder in 0..FOLDERS {
        let path = mounted.join(format!("day-{folder:02}"));
        assert!(inodes.insert(fs::metadata(&path).unwrap().ino()));
        let listed = names(&path);
        let wanted: Vec<_> = (0..FILES)
            .map(|n| format!("{:05}.pcap", folder * FILES + n).into_bytes())
            .collect();
        assert_eq!(listed, wanted);
        for n in 0..FILES {
            let metadata =
                fs::metadata(path.join(format!("{:05}.pcap", folder * FILES + n))).unwrap();
            assert_eq!(metadata.len(), capture(folder * FILES + n).len() as u64);
            assert!(
                inodes.insert(metadata.ino()),
                "inode number {} is used twice",
                metadata.ino()
            );
        }
    }
    // All are known to the kernel now; each is read all the same.
    for number in 0..FOLDERS * FILES {
        let path = mounted.join(format!("day-{:02}/{number:05}.pcap", number / FILES));
        assert_same(&fs::read(&path).unwrap(), &capture(number), "capture");
    }
    let limits = fs::read_to_string(format!("/proc/{}/limits", mounted.pid())).unwrap();
    let open_files = limits
        .lines()
        .find(|line| line.starts_with("Max open files"))
        .unwrap();
    assert_eq!(
        open_files.split_whitespace().nth(4),
        Some("256"),
        "{limits}"
    );
}

#[test]
fn many_open_handles_leave_descriptors_for_everybody_else() {
    const FILES: usize = 300;
    let source = scratch();
    let captures: Vec<_> = (0..FILES)
        .map(|number| Pcap::random(Magic::LeUs, 71 + number as u64, 5))
        .collect();
    for (number, pcap) in captures.iter().enumerate() {
        let physical = Marked::pack(pcap, 2000).physical;
        fs::write(
            source.path().join(format!("{number:03}.pcap.zst")),
            physical,
        )
        .unwrap();
    }
    let mounted = Mounted::launch(with_256_descriptors(), source.path(), "");
    let path = |number: usize| mounted.join(format!("{number:03}.pcap"));
    let mut open = Vec::new();
    for number in 0..FILES {
        match File::open(path(number)) {
            Ok(file) => open.push((number, file)),
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::EMFILE), "{number}"),
        }
    }
    assert!(open.len() >= 64, "only {} handles", open.len());
    for _ in 0..2 {
        assert_eq!(names(mounted.path()).len(), FILES);
        for (number, pcap) in captures.iter().enumerate() {
            let seen = fs::metadata(path(number)).unwrap();
            assert_eq!(seen.len(), pcap.bytes.len() as u64, "{number}");
        }
        for (number, file) in &open {
            let wanted = &captures[*number].bytes;
            let mut got = vec![0; wanted.len()];
            file.read_exact_at(&mut got, 0).unwrap();
            assert_same(&got, wanted, "an open handle");
        }
    }
    drop(open);
    // The kernel tells the closes in its own time.
    let closed = (0..100_000).any(|_| mounted.counter("open_files") == 0);
    assert!(closed, "handles stay open");
    for (number, pcap) in captures.iter().enumerate() {
        assert_same(&fs::read(path(number)).unwrap(), &pcap.bytes, "closed");
    }
}

#[test]
fn a_stat_reads_block_headers_and_never_a_body() {
    let source = scratch();
    let mut rng = common::Rng::new(70);
    let mut marked = Marked::new(Pcap::new(Magic::LeUs).header());
    let mut blocks = 0;
    for _ in 0..64 {
        let mut pcap = Pcap::new(Magic::LeUs);
        // Random bytes do not pack: the file on disk is as large as its source.
        for _ in 0..8 {
            let data = rng.bytes(120_000);
            pcap.push(1_700_000_000, 0, 120_000, &data);
        }
        let body = &pcap.bytes[24..];
        blocks += body.len().div_ceil(128 * 1024) as u64;
        marked.frame(&Handmade::raw(body).build(), body);
    }
    fs::write(source.path().join("large.pcap.zst"), &marked.physical).unwrap();
    let mounted = Mounted::new(source.path(), "");
    let before = mounted.reads();
    let size = fs::metadata(mounted.join("large.pcap")).unwrap().len();
    let after = mounted.reads();
    assert_eq!(size, marked.source.len() as u64);
    let (bytes, calls) = (after.0 - before.0, after.1 - before.1);
    // Besides the blocks: the marker, the header frame, and the requests of the kernel.
    assert!(calls <= blocks + 40, "{calls} reads for {blocks} blocks");
    assert!(
        bytes <= marked.physical.len() as u64 / 20,
        "{bytes} bytes read"
    );

    let again = mounted.reads();
    for _ in 0..100 {
        assert_eq!(
            fs::metadata(mounted.join("large.pcap")).unwrap().len(),
            size
        );
    }
    let calls = mounted.reads().1 - again.1;
    assert!(
        calls < 1000,
        "{calls} reads for 100 looks at an unchanged file"
    );
}
