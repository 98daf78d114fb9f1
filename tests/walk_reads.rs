//! What opening a capture costs: positioned reads are counted, and bytes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "a failed step of a test is a panic"
)]

mod common;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use common::Rng;
use common::frames::{BLOCK_MAX, Marked, zstd_frame};
use common::pcap::{Magic, Pcap};
use pcapzst::capture::read_at::ReadAt;
use pcapzst::capture::{Engine, Form, OnFault, Progress, Source, State};

/// A file that starts with `head` and goes on with `frame` again and again, without being there.
struct Repeated {
    head: Vec<u8>,
    frame: Vec<u8>,
    times: u64,
    reads: AtomicU64,
    bytes: AtomicU64,
}

impl ReadAt for Repeated {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let rest = self.len()?.saturating_sub(offset);
        let len = buf.len().min(usize::try_from(rest).unwrap());
        for (at, byte) in (offset..).zip(&mut buf[..len]) {
            let at = usize::try_from(at).unwrap();
            *byte = match at.checked_sub(self.head.len()) {
                None => self.head[at],
                Some(behind) => self.frame[behind % self.frame.len()],
            };
        }
        self.bytes.fetch_add(len as u64, Ordering::Relaxed);
        Ok(len)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.head.len() as u64 + self.times * self.frame.len() as u64)
    }
}

#[test]
fn opening_1_gib_reads_at_most_once_a_block_and_hardly_a_body() {
    let mut pcap = Pcap::new(Magic::LeUs);
    let noise = Rng::new(1).bytes(1000);
    while pcap.bytes.len() < 24 + 256 * 1024 - 2000 {
        pcap.push_udp(&noise);
    }
    let content = &pcap.bytes[24..];
    let blocks = content.len().div_ceil(BLOCK_MAX) as u64;
    assert_eq!(blocks, 2);
    let times = (1 << 30) / content.len() as u64 + 1;
    let file = Arc::new(Repeated {
        head: Marked::new(pcap.header()).physical,
        frame: zstd_frame(content),
        times,
        reads: AtomicU64::new(0),
        bytes: AtomicU64::new(0),
    });
    let source = Source::open(
        Arc::new(Engine::default()),
        Box::new(Arc::clone(&file)),
        Form::Zst,
        Progress::Final,
    )
    .unwrap();
    let facts = source.facts();
    assert_eq!(facts.state, State::Complete);
    assert!(facts.size > 1 << 30);
    assert_eq!(facts.frames, times);
    assert!(!facts.file_id.is_provisional());

    let all_blocks = 1 + times * blocks;
    let reads = file.reads.load(Ordering::Relaxed);
    assert!(reads <= all_blocks, "{reads} reads for {all_blocks} blocks");
    // One block's body, for the FileId; small windows otherwise.
    let bytes = file.bytes.load(Ordering::Relaxed);
    let most = all_blocks * 512 + 4096 + 130 * 1024;
    assert!(bytes <= most, "{bytes} bytes read");
    assert!(source.table_bytes() as u64 <= 16 * times + 64 * 1024);

    // A stat later on costs one small read of a growing file, and a read one frame and the look whether the file still is
    // the capture.
    let before = file.reads.load(Ordering::Relaxed);
    source.refresh().unwrap();
    assert!(file.reads.load(Ordering::Relaxed) <= before + 1);
    let last = source.read(facts.size - 10, 100, OnFault::Fail).unwrap();
    assert_eq!(&last[..], &content[content.len() - 10..]);
    assert!(file.reads.load(Ordering::Relaxed) <= before + 3);
}
