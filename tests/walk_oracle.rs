//! The header-only walk and the whole-frame decode against zstd itself, and against how the bytes arrive.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "a failed step of a test is a panic"
)]

mod common;

use std::fs;
use std::ops::Range;
use std::sync::Arc;

use common::frames::{Handmade, Marked, skippable, zstd_frame};
use common::pcap::{Magic, Pcap};
use common::{Rng, assert_same, run, tool};
use pcapzst::capture::{Engine, Form, OnFault, Progress, Source, State};
use pcapzst::format::PhysicalOffset;
use pcapzst::format::table::Span;
use pcapzst::format::walk::{Step, Walk, Window};
use zstd::zstd_safe;

/// A capture in frames of all kinds: zstd's own at several levels, raw and RLE blocks, many blocks, empty and skippable.
fn motley() -> Marked {
    let pcap = Pcap::random(Magic::BeNs, 11, 900);
    let mut marked = Marked::new(pcap.header());
    let mut rng = Rng::new(5);
    for (number, chunk) in pcap.chunks(30_000).into_iter().enumerate() {
        let content = &pcap.bytes[chunk];
        match number % 6 {
            0 => marked.frame(&Handmade::raw(content).build(), content),
            1 => {
                marked.append(&zstd_frame(&[]));
                marked.data(content);
            }
            2 => {
                let noise = rng.bytes(number);
                marked.append(&skippable(u8::try_from(number % 16).unwrap(), &noise));
                marked.data(content);
            }
            _ => marked.data(content),
        }
    }
    let zeros = vec![0; 700_000];
    marked.data(&zeros);
    marked.frame(&Handmade::rle(0, 300_000).build(), &zeros[..300_000]);
    marked
}

/// All steps of a walk over `bytes`, of which each window shows `window` bytes from where the walk asks.
fn steps(walk: &mut Walk, bytes: &[u8], window: usize) -> Vec<Step> {
    let mut at = 0;
    let mut len = 0;
    let mut steps = Vec::new();
    loop {
        let step = walk
            .step(
                bytes.len() as u64,
                Window {
                    at: PhysicalOffset::new(at as u64),
                    bytes: &bytes[at..at + len],
                },
            )
            .expect("a valid file");
        match step {
            Step::Need {
                at: wanted,
                len: least,
            } => {
                at = usize::try_from(wanted.as_u64()).unwrap();
                assert!(at + least <= bytes.len(), "asks for bytes behind the end");
                assert!(least > 0 && least <= 64, "asks for a body");
                len = window.max(least).min(bytes.len() - at);
            }
            Step::End | Step::Torn(_) => {
                steps.push(step);
                return steps;
            }
            step => steps.push(step),
        }
    }
}

fn spans(steps: &[Step]) -> Vec<Span> {
    steps
        .iter()
        .filter_map(|step| match step {
            Step::DataFrame(span) => Some(*span),
            _ => None,
        })
        .collect()
}

fn physical(span: &Span) -> Range<usize> {
    let start = usize::try_from(span.phys_start.as_u64()).unwrap();
    start..start + usize::try_from(span.phys_len).unwrap()
}

#[test]
fn every_frame_measures_as_zstd_measures_it() {
    let marked = motley();
    let found = spans(&steps(&mut Walk::new(), &marked.physical, 1));
    assert_eq!(found.len(), marked.frames.len());
    for (span, (source, stored)) in found.iter().zip(&marked.frames) {
        assert_eq!(physical(span), *stored);
        assert_eq!(span.src_start.as_u64(), source.start as u64);
        let rest = &marked.physical[stored.start..];
        assert_eq!(
            zstd_safe::find_frame_compressed_size(rest).unwrap() as u64,
            span.phys_len
        );
        assert_eq!(
            zstd_safe::get_frame_content_size(rest).unwrap(),
            Some(span.src_len)
        );
    }
}

#[test]
fn the_walk_does_not_depend_on_how_the_bytes_arrive() {
    let marked = motley();
    let bytes = &marked.physical;
    let whole = steps(&mut Walk::new(), bytes, bytes.len());
    for window in [1, 2, 3, 5, 17, 64, 1000, 70_000] {
        assert_eq!(steps(&mut Walk::new(), bytes, window), whole, "{window}");
    }
    // The file itself arrives in pieces: byte by byte where it is small, at random cuts elsewhere.
    let mut rng = Rng::new(77);
    for round in 0..40 {
        let mut walk = Walk::new();
        let mut seen = Vec::new();
        let mut end = 0;
        while end < bytes.len() {
            end = (end + 1 + rng.below(1 << (round % 20))).min(bytes.len());
            let mut part = steps(&mut walk, &bytes[..end], 1 + rng.below(300));
            part.pop();
            seen.extend(part);
        }
        seen.push(Step::End);
        assert_eq!(seen, whole, "round {round}");
    }
}

#[test]
fn every_prefix_is_torn_or_whole_frames_never_an_error() {
    let pcap = Pcap::random(Magic::LeUs, 3, 12);
    let mut marked = Marked::new(pcap.header());
    for chunk in pcap.chunks(1500) {
        marked.data(&pcap.bytes[chunk]);
        marked.append(&skippable(3, b"between"));
        marked.append(&zstd_frame(&[]));
    }
    for cut in 0..=marked.physical.len() {
        let prefix = &marked.physical[..cut];
        let mut walk = Walk::new();
        let found = spans(&steps(&mut walk, prefix, 16));
        let whole = marked.frames.iter().filter(|frame| frame.1.end <= cut);
        assert_eq!(found.len(), whole.count(), "cut at {cut}");
        let source = open(prefix, Progress::Partial);
        assert_eq!(source.facts().state, State::Growing, "cut at {cut}");
        let size = usize::try_from(source.facts().size).unwrap();
        let read = source.read(0, usize::MAX, OnFault::Fail).unwrap();
        assert_same(&read, &marked.source[..size], "the good prefix");
    }
}

fn open(bytes: &[u8], progress: Progress) -> Source {
    let engine = Arc::new(Engine::default());
    Source::open(engine, Box::new(bytes.to_vec()), Form::Zst, progress)
        .expect("memory does not fail")
}

#[test]
fn a_decode_equals_zstd_dc() {
    let marked = motley();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.pcap.zst");
    fs::write(&file, &marked.physical).unwrap();
    let by_zstd = run(tool("zstd").args(["-dc", "--"]).arg(&file)).ok().stdout;
    assert_same(&by_zstd, &marked.source, "the builder against zstd");

    let source = open(&marked.physical, Progress::Final);
    assert_eq!(source.facts().state, State::Complete);
    let whole = source.read(0, usize::MAX, OnFault::Fail).unwrap();
    assert_same(&whole, &by_zstd, "read at once");
    for (index, (range, _)) in marked.frames.iter().enumerate() {
        let (_, frame) = source.frame(index).expect("walked");
        assert_same(&frame.unwrap(), &by_zstd[range.clone()], "frame by frame");
    }
}

#[test]
fn reads_at_random_ranges_equal_the_source() {
    let marked = motley();
    let source = open(&marked.physical, Progress::Final);
    let all = &marked.source;
    let mut rng = Rng::new(9);
    for _ in 0..2000 {
        let offset = rng.below(all.len() + 10);
        let scale = rng.below(20);
        let len = rng.below(1 << scale);
        let read = source.read(offset as u64, len, OnFault::Fail).unwrap();
        let start = offset.min(all.len());
        let end = (start + len).min(all.len());
        assert_same(&read, &all[start..end], "random range");
    }
}
