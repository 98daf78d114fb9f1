//! A disk that fails: at every call that there is, in each way that there is, a look, a read, a check and a follower give
//! the right answer or the disk's own error, and the right answer the next time.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "a failed step of a test is a panic"
)]

mod common;
#[path = "faults/disk.rs"]
mod disk;
#[path = "faults/growing.rs"]
mod growing;
#[path = "faults/kept.rs"]
mod kept;
#[path = "faults/whole.rs"]
mod whole;

use std::sync::Arc;

use common::frames::Marked;
use common::pcap::Pcap;
use disk::Disk;
use pcapzst::capture::{Engine, Error, Form, OnFault, Progress, Source, State};

/// Source bytes asked for at once: some within a frame, most over the border of two.
const PIECE: usize = 3000;

fn engine() -> Arc<Engine> {
    Arc::new(Engine::default().without_threads())
}

fn open(disk: &Disk, form: Form, progress: Progress) -> Result<Source, Error> {
    Source::open(engine(), Box::new(disk.clone()), form, progress)
}

/// Reads all of `source` and compares it with `truth`: every byte that comes, and that none is missing where nothing
/// failed.
fn read_all(source: &Source, truth: &[u8], on_fault: OnFault) -> Result<(), Error> {
    let mut at = 0;
    loop {
        let bytes = source.read(at as u64, PIECE, on_fault)?;
        let end = at + bytes.len();
        assert!(
            truth.get(at..end) == Some(&bytes[..]),
            "wrong bytes at {at}"
        );
        if on_fault == OnFault::Fail {
            assert_eq!(bytes.len(), PIECE.min(truth.len() - at), "short at {at}");
        }
        if bytes.is_empty() {
            assert_eq!(at, truth.len(), "the end of the file, early");
            return Ok(());
        }
        at = end;
    }
}

/// What is known of `source` is what is to be known of a capture with these source bytes.
fn check_facts(source: &Source, truth: &[u8], state: State) {
    let facts = source.facts();
    assert_eq!(facts.state, state, "{:?}", facts.error);
    assert_eq!(facts.size, truth.len() as u64);
    assert_eq!(facts.error, None);
    assert!(!facts.is_replaced);
    assert_eq!(facts.torn_bytes, 0);
    assert!(facts.header.is_some());
    assert_eq!(facts.file_id.is_provisional(), truth.len() == 24);
    if truth.len() > 24 {
        assert_eq!(facts.file_id.header_crc32, crc32fast::hash(&truth[..40]));
    }
}

/// A capture in a dozen frames, and the same in other ones.
fn capture(seed: u64) -> (Pcap, Marked, Marked) {
    let pcap = Pcap::random(common::pcap::Magic::LeUs, seed, 40);
    let (coarse, fine) = (Marked::pack(&pcap, 2500), Marked::pack(&pcap, 1200));
    (pcap, coarse, fine)
}
