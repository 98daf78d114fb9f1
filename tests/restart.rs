//! A file that changes under its reader: writers that restart, reads that fail, files that shrink. Without a mount.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "a failed step of a test is a panic"
)]

mod common;

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use common::frames::{Handmade, Marked, skippable, zstd_frame};
use common::pcap::{Magic, Pcap};
use common::{Rng, assert_same};
use pcapzst::capture::read_at::ReadAt;
use pcapzst::capture::report::verify;
use pcapzst::capture::{Engine, Error, Form, OnFault, Progress, Source, State};

/// A file that the test writes to while it is read.
#[derive(Clone, Default)]
struct Changing(Arc<Inner>);

#[derive(Default)]
struct Inner {
    bytes: Mutex<Vec<u8>>,
    /// Reads from here on fail with EIO; 0 for none.
    bad_from: AtomicU64,
    /// Bytes that the length tells beyond those that are there.
    claimed: AtomicU64,
    reads: AtomicU64,
}

impl Changing {
    fn set(&self, bytes: &[u8]) {
        *self.0.bytes.lock().unwrap() = bytes.to_vec();
    }

    fn open(&self, form: Form, progress: Progress) -> Source {
        let engine = Arc::new(Engine::default());
        Source::open(engine, Box::new(self.clone()), form, progress).unwrap()
    }
}

impl ReadAt for Changing {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.reads.fetch_add(1, Ordering::Relaxed);
        let bad_from = self.0.bad_from.load(Ordering::Relaxed);
        if bad_from != 0 && offset >= bad_from {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        ReadAt::read_at(&*self.0.bytes.lock().unwrap(), buf, offset)
    }

    fn len(&self) -> io::Result<u64> {
        let claimed = self.0.claimed.load(Ordering::Relaxed);
        Ok(self.0.bytes.lock().unwrap().len() as u64 + claimed)
    }
}

fn size(source: &Source) -> usize {
    usize::try_from(source.facts().size).unwrap()
}

#[test]
fn a_writer_that_cut_back_and_framed_anew_shows_the_same_capture() {
    let pcap = Pcap::random(Magic::LeUs, 31, 300);
    let coarse = Marked::pack(&pcap, 9000);
    let file = Changing::default();
    let mut rng = Rng::new(4);
    for _ in 0..60 {
        file.set(&coarse.physical);
        let source = file.open(Form::Zst, Progress::Partial);
        assert_eq!(size(&source), pcap.bytes.len());
        // The writer cuts its file at the end of some frame of the coarse framing; what follows is framed finely.
        let kept = rng.below(coarse.frames.len());
        let (src, phys) = match kept {
            0 => (24, coarse.frames[0].1.start),
            kept => (coarse.frames[kept - 1].0.end, coarse.frames[kept - 1].1.end),
        };
        let mut again = coarse.physical[..phys].to_vec();
        file.set(&again);
        if rng.below(2) == 0 {
            source.refresh().unwrap();
            assert_eq!(size(&source), pcap.bytes.len(), "the published size stays");
            let read = source.read(0, usize::MAX, OnFault::ServeGood).unwrap();
            assert_same(&read, &pcap.bytes[..src], "what is still there");
            let behind = source.read(src as u64, 10, OnFault::Fail);
            assert_eq!(behind.unwrap_err(), Error::CutOff);
        }
        let mut cut = src;
        while cut < pcap.bytes.len() {
            let mut next = pcap.ends.iter().filter(|end| **end > cut);
            let end = *next.nth(1 + rng.below(9)).or(pcap.ends.last()).unwrap();
            again.extend(zstd_frame(&pcap.bytes[cut..end]));
            cut = end;
            if rng.below(3) == 0 {
                file.set(&again);
                source.refresh().unwrap();
                assert_eq!(size(&source), pcap.bytes.len());
            }
        }
        file.set(&again);
        // One look may be needed where the restart was never seen: then a read finds it out by itself.
        let read = source.read(0, usize::MAX, OnFault::Fail);
        let read = read.or_else(|_| {
            source.refresh().unwrap();
            source.read(0, usize::MAX, OnFault::Fail)
        });
        assert_same(&read.unwrap(), &pcap.bytes, "all of it again");
        assert_eq!(source.facts().state, State::Growing);
    }
}

#[test]
fn a_restart_and_the_rename_between_two_looks_are_no_damage() {
    let pcap = Pcap::random(Magic::LeUs, 37, 300);
    let coarse = Marked::pack(&pcap, 9000);
    for kept in 1..coarse.frames.len() {
        let (src, phys) = &coarse.frames[kept - 1];
        let mut again = coarse.physical[..phys.end].to_vec();
        for end in pcap.ends.iter().filter(|end| **end > src.end) {
            // A frame a record.
            let start = pcap.ends[pcap.ends.binary_search(end).unwrap() - 1];
            again.extend(zstd_frame(&pcap.bytes[start..*end]));
        }
        for walked in kept..=coarse.frames.len() {
            let file = Changing::default();
            file.set(&coarse.physical[..coarse.frames[walked - 1].1.end]);
            let source = file.open(Form::Zst, Progress::Partial);
            file.set(&again);
            source.rename_seen();
            source.refresh().unwrap();
            let read = source.read(0, usize::MAX, OnFault::Fail).unwrap();
            let what = format!("{walked} frames walked, {kept} kept");
            assert_same(&read, &pcap.bytes, &what);
            assert_eq!(source.facts().state, State::Complete, "{what}");
        }
    }
}

#[test]
fn a_read_that_fails_in_the_first_frame_is_made_good_by_the_next_look() {
    let pcap = Pcap::random(Magic::LeUs, 38, 300);
    let marked = Marked::pack(&pcap, 9000);
    let first = marked.frames[0].1.start;
    for step in [1, 2, marked.frames.len()] {
        let file = Changing::default();
        file.set(&marked.physical[..first]);
        let source = file.open(Form::Zst, Progress::Partial);
        file.set(&marked.physical[..marked.frames[step - 1].1.end]);
        for bad_from in [first, first + 1, first + 100] {
            file.0.bad_from.store(bad_from as u64, Ordering::Relaxed);
            // It may or may not reach so far.
            let _ = source.refresh();
        }
        file.0.bad_from.store(0, Ordering::Relaxed);
        file.set(&marked.physical);
        source.refresh().unwrap();
        let read = source.read(0, usize::MAX, OnFault::Fail).unwrap();
        assert_same(&read, &pcap.bytes, &format!("{step} frames, then all"));
        assert!(!source.facts().file_id.is_provisional());
    }
}

#[test]
fn another_capture_in_the_same_file_is_never_shown_as_this_one() {
    let (old, new) = (
        Pcap::random(Magic::LeUs, 32, 200),
        Pcap::random(Magic::LeUs, 33, 200),
    );
    let (before, after) = (Marked::pack(&old, 4000), Marked::pack(&new, 4000));
    for steps in [
        vec![0, 14, 60, 3000],
        vec![before.frames[2].1.end / 2],
        vec![],
    ] {
        let file = Changing::default();
        file.set(&before.physical);
        let source = file.open(Form::Zst, Progress::Partial);
        for step in steps.into_iter().chain([after.physical.len()]) {
            file.set(&after.physical[..step]);
            source.refresh().unwrap();
            assert_eq!(size(&source), old.bytes.len(), "the published size stays");
            for at in [0, 30, 5000, 100_000] {
                if let Ok(read) = source.read(at, 5000, OnFault::ServeGood) {
                    let at = usize::try_from(at).unwrap();
                    let wanted = &old.bytes[at.min(old.bytes.len())..];
                    assert_same(&read, &wanted[..read.len()], "old bytes or an error");
                }
            }
        }
        assert!(source.facts().is_replaced || source.read(24, 10, OnFault::Fail).is_err());
    }
}

#[test]
fn a_failed_read_in_a_walk_leaves_no_measure_behind() {
    let pcap = Pcap::of_size(Magic::LeUs, 7, 400_000);
    let mut physical = Marked::new(pcap.header()).physical;
    let header_end = physical.len();
    let file = Changing::default();
    file.set(&physical);
    let source = file.open(Form::Zst, Progress::Partial);
    // A frame of many blocks, of which a later header cannot be read.
    let torn = [&physical[..], &Handmade::raw(&pcap.bytes[24..]).build()].concat();
    file.set(&torn);
    let bad_from = header_end as u64 + 100_000;
    file.0.bad_from.store(bad_from, Ordering::Relaxed);
    assert!(matches!(source.refresh(), Err(Error::Io { .. })));
    // The writer restarts, and frames anew.
    for chunk in pcap.chunks(50_000) {
        physical.extend(zstd_frame(&pcap.bytes[chunk]));
    }
    file.set(&physical);
    file.0.bad_from.store(0, Ordering::Relaxed);
    source.refresh().unwrap();
    let read = source.read(0, usize::MAX, OnFault::Fail).unwrap();
    assert_same(&read, &pcap.bytes, "the capture");
}

#[test]
fn a_partial_file_that_was_refused_is_looked_at_again() {
    let pcap = Pcap::of_size(Magic::LeUs, 7, 4000);
    let good = Marked::pack(&pcap, 1000).physical;
    let bad = [&good[..14], b"junk of a crashed writer"].concat();
    let pcapng_header = [&good[..14], &zstd_frame(&[0x0A; 24])].concat();
    for bad in [bad, pcapng_header, b"not marked at all".to_vec()] {
        let file = Changing::default();
        file.set(&bad);
        let source = file.open(Form::Zst, Progress::Partial);
        assert_eq!(source.facts().state, State::Refused);
        file.set(&good);
        source.refresh().unwrap();
        let read = source.read(0, usize::MAX, OnFault::Fail).unwrap();
        assert_same(&read, &pcap.bytes, "the capture");
    }
}

#[test]
fn a_damaged_partial_recovers_when_its_writer_mends_it() {
    let pcap = Pcap::random(Magic::BeNs, 35, 100);
    let marked = Marked::pack(&pcap, 3000);
    let (_, second) = &marked.frames[1];
    let file = Changing::default();
    file.set(&[&marked.physical[..second.start], b"garbage"].concat());
    let source = file.open(Form::Zst, Progress::Partial);
    assert_eq!(source.facts().state, State::Damaged);
    let frontier = marked.frames[0].0.end;
    assert_eq!(size(&source), frontier + 7);
    assert!(source.read(frontier as u64, 1, OnFault::Fail).is_err());
    file.set(&marked.physical);
    source.refresh().unwrap();
    assert_eq!(source.facts().state, State::Growing);
    let read = source.read(0, usize::MAX, OnFault::Fail).unwrap();
    assert_same(&read, &pcap.bytes, "the capture");
}

#[test]
fn a_hole_behind_a_torn_frame_is_stepped_over_no_further_than_a_little() {
    let pcap = Pcap::random(Magic::LeUs, 36, 40);
    let marked = Marked::pack(&pcap, 3000);
    let whole = marked.frames[1].1.end;
    // A frame header, and then zeros, which read as empty blocks of three bytes each.
    let torn = [
        &marked.physical[..whole],
        &marked.physical[whole..whole + 9],
    ]
    .concat();
    let hole = [&torn[..], &vec![0; 8 << 20]].concat();
    for (progress, state) in [
        (Progress::Partial, State::Growing),
        (Progress::Final, State::Damaged),
    ] {
        let file = Changing::default();
        file.set(&hole);
        let source = file.open(Form::Zst, progress);
        assert_eq!(source.facts().state, state);
        let reads = file.0.reads.load(Ordering::Relaxed);
        assert!(reads < 40, "{reads} reads");
        let read = source
            .read(0, marked.frames[1].0.end, OnFault::Fail)
            .unwrap();
        assert_same(&read, &pcap.bytes[..read.len()], "the whole frames");
    }
}

#[test]
fn verify_of_a_raw_file_that_shrinks_ends() {
    let pcap = Pcap::random(Magic::LeUs, 1, 20);
    let file = Changing::default();
    file.set(&pcap.bytes);
    file.0.claimed.store(5000, Ordering::Relaxed);
    let source = file.open(Form::Raw, Progress::Final);
    assert!(verify(&source, |_| {}).is_err());
}

#[test]
fn a_raw_partial_that_is_cut_back_and_regrows_keeps_its_size_and_its_bytes() {
    let pcap = Pcap::random(Magic::BeUs, 37, 60);
    let file = Changing::default();
    file.set(&[&pcap.bytes[..], &[0; 4096]].concat());
    let source = file.open(Form::Raw, Progress::Partial);
    assert_eq!(size(&source), pcap.bytes.len());
    for end in [pcap.ends[20], 30, 0, 24, pcap.ends[3] + 7, pcap.bytes.len()] {
        file.set(&pcap.bytes[..end]);
        source.refresh().unwrap();
        assert_eq!(size(&source), pcap.bytes.len());
        match source.read(0, usize::MAX, OnFault::ServeGood) {
            Ok(read) => assert_same(&read, &pcap.bytes[..read.len()], "what is there"),
            Err(error) => assert_eq!((error, end), (Error::CutOff, 0)),
        }
    }
    assert!(!source.facts().is_replaced);
    file.set(&Pcap::random(Magic::BeUs, 38, 9).bytes);
    source.refresh().unwrap();
    assert!(source.facts().is_replaced);
    assert_eq!(
        source.read(0, 10, OnFault::Fail).unwrap_err(),
        Error::CutOff
    );
}

#[test]
fn a_frame_of_padding_is_refused_before_it_is_read() {
    let pcap = Pcap::random(Magic::LeUs, 39, 10);
    let mut marked = Marked::new(pcap.header());
    let body = &pcap.bytes[24..];
    let mut padded = Handmade::raw(body);
    // 900 empty blocks between two that hold something: allowed, if hardly wise.
    for _ in 0..900 {
        padded
            .blocks
            .insert(0, common::frames::Block::Raw(Vec::new()));
    }
    marked.frame(&padded.build(), body);
    marked.append(&skippable(0, b"x"));
    let file = Changing::default();
    file.set(&marked.physical);
    let source = file.open(Form::Zst, Progress::Final);
    assert_eq!(source.facts().state, State::Complete);
    let read = source.read(0, usize::MAX, OnFault::Fail).unwrap();
    assert_same(&read, &pcap.bytes, "the capture");
}

#[test]
fn another_capture_is_told_from_one_that_had_but_a_header_and_an_empty_frame() {
    let (old, new) = (
        Pcap::random(Magic::LeUs, 40, 3),
        Pcap::random(Magic::LeUs, 41, 3),
    );
    let emptied = [&Marked::new(old.header()).physical[..], &zstd_frame(&[])].concat();
    let file = Changing::default();
    file.set(&Marked::pack(&old, 500).physical);
    let source = file.open(Form::Zst, Progress::Partial);
    file.set(&emptied);
    source.refresh().unwrap();
    assert!(!source.facts().is_replaced);
    // The empty frame was walked; now a first frame lies in its place, and goes on behind it.
    file.set(&Marked::pack(&new, 500).physical);
    source.refresh().unwrap();
    assert!(source.facts().is_replaced);
    assert_eq!(size(&source), old.bytes.len(), "the published size stays");
}
