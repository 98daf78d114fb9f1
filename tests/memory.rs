//! Frames that are large for the cache: memory stays bounded, and nobody waits for ever.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "a failed step of a test is a panic"
)]

mod common;

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::thread;

use common::day::scratch;
use common::frames::{Handmade, Marked};
use common::mounted::Mounted;
use common::pcap::{Magic, Pcap};
use common::{Rng, assert_same};
use tempfile::TempDir;

const MIB: usize = 1 << 20;

/// `files` captures of `frames` frames, each of this many source bytes or a little more that do not pack.
fn incompressible(files: usize, frames: usize, frame_len: usize) -> (TempDir, Marked) {
    let mut rng = Rng::new(90);
    let mut pcap = Pcap::new(Magic::LeUs);
    while pcap.bytes.len() < frames * frame_len {
        pcap.push(1_700_000_000, 0, 200_000, &rng.bytes(200_000));
    }
    let mut marked = Marked::new(pcap.header());
    for chunk in pcap.chunks(frame_len) {
        let content = &pcap.bytes[chunk];
        marked.frame(&Handmade::raw(content).build(), content);
    }
    let source = scratch();
    for number in 0..files {
        let file = source.path().join(format!("{number}.pcap.zst"));
        fs::write(file, &marked.physical).unwrap();
    }
    (source, marked)
}

#[test]
fn readers_of_large_frames_stay_within_the_cache_and_a_little() {
    let (source, marked) = incompressible(4, 1, 20 * MIB);
    let mounted = Mounted::new(source.path(), "cache_size=64M");
    thread::scope(|scope| {
        for number in 0..4_usize {
            let (path, bytes) = (mounted.join(format!("{number}.pcap")), &marked.source);
            scope.spawn(move || {
                let file = File::open(path).unwrap();
                let mut rng = Rng::new(number as u64 + 1);
                for _ in 0..12 {
                    let at = rng.below(bytes.len() - 65_536);
                    let mut got = vec![0; 65_536];
                    file.read_exact_at(&mut got, at as u64).unwrap();
                    assert_same(&got, &bytes[at..at + got.len()], "a piece");
                }
            });
        }
    });
    let peak = mounted.peak_kib();
    assert!(peak <= (64 + 64) * 1024, "the mount once held {peak} KiB");
}

#[test]
fn readers_that_fit_the_cache_only_one_at_a_time_all_end() {
    let (source, marked) = incompressible(2, 2, 5 * MIB);
    for round in 0..3 {
        // A mount of its own, since the kernel keeps what was read.
        let mounted = Mounted::new(source.path(), "cache_size=16M");
        thread::scope(|scope| {
            for number in 0..2 {
                let (path, bytes) = (mounted.join(format!("{number}.pcap")), &marked.source);
                scope.spawn(move || {
                    let got = fs::read(path).unwrap();
                    assert_same(&got, bytes, &format!("round {round}, file {number}"));
                });
            }
        });
    }
}
