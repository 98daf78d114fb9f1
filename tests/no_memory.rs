//! Where memory ends: in a process of its own, since its address space is limited. One test alone, for the same reason.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "a failed step of a test is a panic"
)]

mod common;

use std::fs::{self, File};
use std::sync::Arc;

use common::day::scratch;
use common::frames::Marked;
use common::pcap::Pcap;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use pcapzst::capture::follow::{Follower, Next};
use pcapzst::capture::live::Live;
use pcapzst::capture::records::{NextPacket, Records};
use pcapzst::capture::{Engine, Error, Form};

/// Far more than anything else that a reader asks for.
const FRAME: usize = 48 << 20;
const STEP: u64 = 4 << 20;

/// Bytes of address space in use.
fn space() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let mut words = status
        .lines()
        .find_map(|line| line.strip_prefix("VmSize:"))
        .unwrap()
        .split_whitespace();
    words.next().unwrap().parse::<u64>().unwrap() * 1024
}

/// Calls `deed` with no more address space than `most` bytes.
fn within<T>(most: u64, deed: impl FnOnce() -> T) -> T {
    let (before, hard) = getrlimit(Resource::RLIMIT_AS).unwrap();
    setrlimit(Resource::RLIMIT_AS, most, hard).unwrap();
    let outcome = deed();
    setrlimit(Resource::RLIMIT_AS, before, hard).unwrap();
    outcome
}

#[test]
fn a_frame_for_which_there_was_no_memory_comes_again_whole() {
    let mut pcap = Pcap::zeros(1);
    while pcap.bytes.len() < FRAME {
        pcap.push(1_700_000_000, 7, 200_000, &vec![0; 200_000]);
    }
    pcap.push(1_700_000_001, 8, 60, &[1; 60]);
    let mut marked = Marked::new(pcap.header());
    // A small frame, a large one, and another small one.
    let ends = &pcap.ends;
    for range in [0..1, 1..ends.len() - 2, ends.len() - 2..ends.len() - 1] {
        marked.data(&pcap.bytes[ends[range.start]..ends[range.end]]);
    }
    assert_eq!(marked.source.len(), pcap.bytes.len());
    let folder = scratch();
    let path = folder.path().join("x.pcap.zst");
    fs::write(&path, &marked.physical).unwrap();
    drop(marked);

    let engine = Arc::new(Engine::default().without_threads());
    let live = Live::open(&engine, File::open(&path).unwrap(), Form::Zst, None).unwrap();
    let mut records = Records::new(Follower::new(Arc::new(live), 24));
    let mut take = || match records.take_next() {
        Ok(NextPacket::Packet(packet)) => Ok(Some(packet.offset)),
        Ok(NextPacket::Ending(Next::Complete)) => Ok(None),
        Ok(ending) => panic!("{ending:?}"),
        Err(error) => Err(error),
    };
    assert_eq!(take(), Ok(Some(24)));
    // First there is no memory to decode the next frame; then for that, and none for the copy of it; then for both.
    let base = space();
    let mut failures = 0;
    let first = loop {
        failures += 1;
        match within(base + failures * STEP, &mut take) {
            Err(Error::NoMemory(_)) => {}
            outcome => break outcome,
        }
    };
    assert_eq!(first, Ok(Some(pcap.ends[1] as u64)));
    let decodes = engine.cache_stats().decodes;
    assert!(
        decodes > 2,
        "it was never decoded in vain: {failures} failures"
    );
    for end in &pcap.ends[2..pcap.ends.len() - 1] {
        assert_eq!(take(), Ok(Some(*end as u64)));
    }
    assert_eq!(take(), Ok(None));
}
