//! A walk over bytes that are not in memory: what it asks for on each medium, counted.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "a failed step of a test is a panic"
)]

mod common;

use std::collections::HashSet;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use common::frames::{BLOCK_MAX, Handmade, Marked};
use common::pcap::{Magic, Pcap};
use pcapzst::capture::medium::Medium;
use pcapzst::capture::prefetch::Keeps;
use pcapzst::capture::read_at::{Advice, ReadAt};
use pcapzst::capture::{Engine, Facts, Form, OnFault, Progress, Source, State};

/// The most that a walk has brought ahead of itself.
const AHEAD: u64 = 4 << 20;
/// One frame's source: two blocks and a bit.
const CONTENT: usize = 2 * BLOCK_MAX + 50_000;
const FRAMES: u64 = 100;
const PAGE: u64 = 4096;

/// A capture whose bytes are in memory only once they were read, or brought.
struct Cold {
    bytes: Vec<u8>,
    medium: Medium,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    /// Pages in memory.
    warm: HashSet<u64>,
    /// Reads that memory did not answer, and ranges that were asked for, in order.
    reads: Vec<Range<u64>>,
    brought: Vec<Range<u64>>,
    asked_what: usize,
    /// Other advice than to bring bytes.
    advice: Vec<Advice>,
    /// How far ahead of a walk's read it was brought.
    ahead_most: u64,
}

impl Seen {
    fn has(&self, range: &Range<u64>) -> bool {
        pages(range).all(|page| self.warm.contains(&page))
    }

    fn read_bytes(&self) -> u64 {
        self.reads.iter().map(|read| read.end - read.start).sum()
    }
}

fn pages(range: &Range<u64>) -> Range<u64> {
    range.start / PAGE..range.end.div_ceil(PAGE)
}

impl Cold {
    fn new(bytes: Vec<u8>, medium: Medium) -> Arc<Self> {
        Arc::new(Self {
            bytes,
            medium,
            seen: Mutex::default(),
        })
    }

    fn range(&self, offset: u64, len: usize) -> Range<u64> {
        let end = offset + len as u64;
        offset..end.min(self.bytes.len() as u64)
    }

    fn source(self: &Arc<Self>) -> Source {
        let engine = Arc::new(Engine::default());
        let file = Box::new(Arc::clone(self));
        Source::open(engine, file, Form::Zst, Progress::Final).unwrap()
    }

    fn open(self: &Arc<Self>) -> Facts {
        self.source().facts()
    }

    /// What is brought for one who reads the first `len` source bytes in a row.
    fn brought_for_reader(self: &Arc<Self>, len: u64) -> Vec<Range<u64>> {
        const STEP: usize = 64 * 1024;
        let source = self.source();
        *self.seen.lock().unwrap() = Seen::default();
        let pattern = Arc::default();
        for offset in (0..len).step_by(STEP) {
            source.read_ahead(&pattern, offset, STEP, Keeps::Frames);
            source.read(offset, STEP, OnFault::Fail).unwrap();
        }
        std::mem::take(&mut self.seen.lock().unwrap().brought)
    }
}

impl ReadAt for Cold {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let range = self.range(offset, buf.len());
        let mut seen = self.seen.lock().unwrap();
        // The walk's own reads are small.
        if buf.len() <= 512 {
            let brought = seen.brought.last().map_or(0, |last| last.end);
            seen.ahead_most = seen.ahead_most.max(brought.saturating_sub(offset));
        }
        if !seen.has(&range) {
            seen.warm.extend(pages(&range));
            seen.reads.push(range);
        }
        self.bytes.read_at(buf, offset)
    }

    fn medium(&self) -> Medium {
        self.seen.lock().unwrap().asked_what += 1;
        self.medium
    }

    fn advise(&self, advice: Advice) {
        let mut seen = self.seen.lock().unwrap();
        let Advice::WillNeed { offset, len } = advice else {
            seen.advice.push(advice);
            return;
        };
        let range = offset..offset + len;
        seen.warm.extend(pages(&range));
        seen.brought.push(range);
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes.len() as u64)
    }
}

/// A capture of raw blocks: as large on disk as its source.
fn capture() -> Vec<u8> {
    let mut pcap = Pcap::new(Magic::LeUs);
    while pcap.bytes.len() < CONTENT {
        pcap.push_udp(&[7; 1400]);
    }
    let content = &pcap.bytes[24..];
    let frame = Handmade::raw(content).build();
    let mut marked = Marked::new(pcap.header());
    for _ in 0..FRAMES {
        marked.frame(&frame, content);
    }
    marked.physical
}

#[track_caller]
fn assert_walked(facts: &Facts) {
    assert_eq!((facts.state, facts.frames), (State::Complete, FRAMES));
}

#[test]
fn a_cold_walk_on_a_solid_disk_reads_headers_and_no_body() {
    let cold = Cold::new(capture(), Medium::Solid);
    assert_walked(&cold.open());
    let seen = cold.seen.lock().unwrap();
    assert_eq!((seen.asked_what, seen.brought.len()), (1, 0));
    // Or the kernel would read the bodies for us; and readers who come behind the walk are to have its readahead.
    assert_eq!(seen.advice, [Advice::Random, Advice::Normal]);
    let blocks = 3 * FRAMES + 1;
    // Besides: one block's body, for the FileId.
    let reads = seen.reads.len() as u64;
    assert!(reads <= blocks + 1, "{reads} reads for {blocks} blocks");
    let bytes = seen.read_bytes();
    assert!(
        bytes <= blocks * 512 + 4096 + 130 * 1024,
        "{bytes} bytes read"
    );
}

#[test]
fn a_cold_walk_on_a_remote_disk_brings_each_byte_once_before_it_comes_there() {
    let cold = Cold::new(capture(), Medium::Remote);
    assert_walked(&cold.open());
    let seen = cold.seen.lock().unwrap();
    assert_eq!((seen.asked_what, &seen.advice[..]), (1, &[][..]));
    let first = seen.brought.first().unwrap().start;
    assert!(first < BLOCK_MAX as u64 + 4096, "{first}");
    let len = cold.bytes.len() as u64;
    assert_eq!(seen.brought.last().unwrap().end, len);
    for pair in seen.brought.windows(2) {
        assert_eq!(pair[0].end, pair[1].start, "a gap, or asked for twice");
    }
    assert!(seen.brought.iter().all(|range| range.end <= len));
    assert!(seen.ahead_most <= AHEAD, "{} bytes", seen.ahead_most);
    assert!(seen.ahead_most > AHEAD / 2, "{} bytes", seen.ahead_most);
    // What the kernel cuts off would never come.
    let most = seen.brought.iter().map(|range| range.end - range.start);
    assert_eq!(most.max(), Some(128 * 1024));
    // The first bytes, and the first block's body.
    assert!(seen.reads.len() <= 2, "{:?}", seen.reads);
}

#[test]
fn frames_ahead_of_a_reader_are_brought_over_a_network_and_from_nowhere_else() {
    let remote = Cold::new(capture(), Medium::Remote);
    let brought = remote.brought_for_reader(1 << 20);
    let furthest = brought.iter().map(|range| range.end).max().unwrap();
    assert!(furthest > 2 << 20, "{furthest}");
    assert!(
        brought
            .iter()
            .all(|range| range.end - range.start <= 128 * 1024)
    );
    for medium in [Medium::Solid, Medium::Unknown] {
        let near = Cold::new(capture(), medium);
        assert_eq!(near.brought_for_reader(1 << 20), [], "{medium:?}");
    }
}

#[test]
fn a_small_or_unfinished_file_has_nothing_brought_that_is_not_there() {
    let whole = capture();
    for len in [24, 100, 4096, 5000, 200_000, 1_000_000] {
        let cold = Cold::new(whole[..len].to_vec(), Medium::Remote);
        let facts = cold.open();
        assert_eq!(facts.state, State::Draining, "{len}");
        let seen = cold.seen.lock().unwrap();
        let end = seen.brought.iter().map(|range| range.end).max();
        assert!(end.unwrap_or(0) <= len as u64, "{len}: {end:?}");
        if len <= 4096 {
            assert_eq!(end, None, "one read gives all of it");
        }
    }
}
