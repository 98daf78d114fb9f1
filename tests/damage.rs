//! Whatever happens to the bytes on disk: a read gives the source's bytes, or an error, and nothing panics.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "a failed step of a test is a panic"
)]

mod common;

use std::sync::Arc;

use common::Rng;
use common::frames::{Block, Handmade, Marked};
use common::pcap::{Magic, Pcap};
use pcapzst::capture::report::verify;
use pcapzst::capture::{Engine, Error, Form, OnFault, Progress, Source, State};
use proptest::prelude::*;

fn open(bytes: Vec<u8>, form: Form, progress: Progress) -> Source {
    let engine = Arc::new(Engine::new(8 << 20, 4 << 20));
    match Source::open(engine, Box::new(bytes), form, progress) {
        Ok(source) => source,
        Err(error) => panic!("memory does not fail: {error}"),
    }
}

/// Reads all of `source` in pieces, and checks every byte that comes against `truth`.
fn read_against(source: &Source, truth: &[u8], piece: usize) -> Result<u64, Error> {
    let mut at = 0;
    loop {
        let bytes = source.read(at, piece, OnFault::ServeGood)?;
        if bytes.is_empty() {
            return Ok(at);
        }
        let start = usize::try_from(at).unwrap();
        let wanted = truth.get(start..start + bytes.len());
        assert_eq!(wanted, Some(&bytes[..]), "a wrong byte behind {at}");
        at += bytes.len() as u64;
    }
}

#[test]
fn a_frame_that_its_headers_refuse_is_known_behind_the_rename_as_before_it() {
    let over = Handmade::rle(0, (4 << 20) + 1);
    let padded = Handmade {
        blocks: vec![Block::Raw(vec![0]); 25_000],
        ..Handmade::raw(&vec![0; 25_000])
    };
    for refused in [over, padded] {
        let pcap = Pcap::random(Magic::LeNs, 20, 9);
        let mut marked = Marked::pack(&pcap, 4000);
        marked.append(&refused.build());
        let partial = open(marked.physical.clone(), Form::Zst, Progress::Partial);
        let fault = partial.facts().error;
        let kind = fault.as_ref().map(|fault| fault.kind.clone());
        assert!(kind.is_some_and(|kind| kind.is_limit()), "{fault:?}");
        partial.rename_seen();
        for _ in 0..2 {
            let facts = partial.facts();
            assert_eq!((facts.state, facts.error), (State::Damaged, fault.clone()));
            partial.refresh().unwrap();
        }
        let complete = open(marked.physical, Form::Zst, Progress::Final);
        assert_eq!(complete.facts().error, fault);
    }
}

#[test]
fn one_flipped_bit_anywhere_never_shows_a_wrong_byte() {
    let pcap = Pcap::random(Magic::LeNs, 21, 40);
    let marked = Marked::pack(&pcap, 4000);
    let mut failures = 0;
    for at in 0..marked.physical.len() {
        let mut bytes = marked.physical.clone();
        bytes[at] ^= 1 << (at % 8);
        let source = open(bytes, Form::Zst, Progress::Final);
        let size = source.facts().size;
        match read_against(&source, &marked.source, 3000) {
            // A flip can make the tail look torn, or a frame skippable; the rest is then shorter, never wrong.
            Ok(read) => assert_eq!(read, size),
            Err(_) => failures += 1,
        }
    }
    assert!(failures > marked.physical.len() / 2, "{failures} failed");
}

#[test]
fn random_damage_never_shows_a_wrong_byte() {
    let pcap = Pcap::random(Magic::BeUs, 22, 60);
    let marked = Marked::pack(&pcap, 3000);
    let mut rng = Rng::new(8);
    for _ in 0..1500 {
        let mut bytes = marked.physical.clone();
        for _ in 0..=rng.below(4) {
            let at = rng.below(bytes.len());
            match rng.below(4) {
                0 => bytes[at] = u8::try_from(rng.below(256)).unwrap(),
                1 => bytes.truncate(at + 1),
                2 => drop(bytes.drain(at..(at + 1 + rng.below(9)).min(bytes.len()))),
                _ => {
                    let len = 1 + rng.below(9);
                    let noise = rng.bytes(len);
                    bytes.splice(at..at, noise);
                }
            }
        }
        let source = open(bytes, Form::Zst, Progress::Partial);
        // An error is a right answer; a wrong byte fails inside.
        let _ = read_against(&source, &marked.source, 1 + rng.below(9000));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_panic_nowhere(
        bytes in proptest::collection::vec(any::<u8>(), 0..400),
        is_marked in any::<bool>(),
        is_raw in any::<bool>(),
        is_final in any::<bool>(),
    ) {
        let mut file = Vec::new();
        if is_marked {
            file.extend(Marked::new(Pcap::new(Magic::LeUs).header()).physical);
            file.extend([0x28, 0xB5, 0x2F, 0xFD]);
        }
        file.extend(bytes);
        let form = if is_raw { Form::Raw } else { Form::Zst };
        let progress = if is_final { Progress::Final } else { Progress::Partial };
        let source = open(file, form, progress);
        let _ = verify(&source, |_| {});
        let size = source.facts().size;
        for offset in [0, 23, 24, size.saturating_sub(1), size, u64::MAX - 1] {
            if let Ok(bytes) = source.read(offset, 64, OnFault::Fail) {
                prop_assert!(offset + bytes.len() as u64 <= size || bytes.is_empty());
            }
        }
    }
}
