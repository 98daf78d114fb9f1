//! A growing capture read by many at once: no byte is ever wrong.
//!
//! The harness is shown to catch the page cache's trap first (the zeros that concurrent readers of a growing cached file
//! get), and then let loose on the product. `PCAPZST_RACE_READS` sets how many looks each form is given.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "a failed step of a test is a panic"
)]

mod common;
#[path = "race/mod.rs"]
mod harness;

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use common::day::Day;
use common::growth::{Form, Frontier, Growth, filler};
use common::mounted::Mounted;
use common::sys::{Sharing, read_by_map};
use common::{Rng, assert_same};
use fuser::FopenFlags;
use harness::count::{Counts, Kind};
use harness::look::Ground;
use harness::race::{Bounds, race};
use harness::trap::Trap;

/// Time between two writes, and the payload lengths that go with it.
const PACES: [(Duration, std::ops::Range<usize>, usize); 3] = [
    (Duration::from_micros(20), 40..900, 20_000),
    (Duration::from_micros(500), 40..6000, 3000),
    (Duration::from_millis(10), 1..65_536, 200),
];

/// Looks at each form that the environment asks for.
fn wanted_looks() -> Option<u64> {
    let looks = std::env::var("PCAPZST_RACE_READS").ok()?;
    Some(looks.parse().expect("PCAPZST_RACE_READS is a number"))
}

/// For the races beside the main one.
fn few_looks() -> Option<u64> {
    wanted_looks().map(|looks| looks / 5)
}

/// Races for the one file of a `Trap`; the counts, and how long it took.
fn spring(flags: FopenFlags, kinds: &[Kind], bounds: &Bounds) -> (Counts, Duration) {
    let truth = Arc::new(filler(1, 0..96 << 20));
    let size = Arc::new(AtomicUsize::new(5000));
    let trap = Trap::mount(Arc::clone(&truth), Arc::clone(&size), flags);
    let frontier = Frontier::default();
    frontier.announce(5000);
    frontier.publish(5000);
    let ground = Ground {
        path: &trap.file(),
        truth: &truth,
        ends: &[],
        frontier: &frontier,
    };
    let mut rng = Rng::new(2);
    let started = Instant::now();
    let every = Duration::from_micros(500);
    let counts = race(&ground, kinds, every, bounds, |_| {
        let next = frontier.least() + 1 + rng.below(1500);
        if next > truth.len() {
            return false;
        }
        frontier.announce(next);
        size.store(next, Ordering::SeqCst);
        frontier.publish(next);
        true
    });
    (counts, started.elapsed())
}

/// The readers that the trap was measured with.
const SPRINGERS: [Kind; 6] = [
    Kind::PreadOld,
    Kind::PreadOld,
    Kind::PreadNew,
    Kind::PreadNew,
    Kind::Stat,
    Kind::Follow,
];

#[test]
fn the_harness_catches_zeros_of_a_page_cached_growing_file() {
    // A long run measures how often; a short one stops at the first.
    let bounds = if let Some(looks) = wanted_looks() {
        Bounds {
            time: Duration::from_secs(30),
            looks,
            wrong: u64::MAX,
        }
    } else {
        Bounds {
            time: Duration::from_mins(1),
            looks: 10_000_000,
            wrong: 1,
        }
    };
    let (counts, took) = spring(FopenFlags::empty(), &SPRINGERS, &bounds);
    println!("page cache, every 500 us, {took:?}:\n{counts}");
    let total = counts.total(&Kind::UNCACHED);
    assert!(
        total.wrong > 0,
        "the trap did not spring, so the harness proves nothing here:\n{counts}"
    );
    let first = total.first_wrong.unwrap();
    assert!(first.contains("is 0x00"), "not the trap's zeros: {first}");
}

#[test]
fn the_harness_finds_nothing_wrong_with_a_direct_growing_file() {
    let bounds = Bounds {
        time: Duration::from_secs(1),
        looks: 1_000_000,
        wrong: 1,
    };
    let (counts, took) = spring(FopenFlags::FOPEN_DIRECT_IO, &SPRINGERS, &bounds);
    println!("direct, every 500 us, {took:?}:\n{counts}");
    let total = counts.total(&Kind::UNCACHED);
    assert_eq!((total.wrong, total.late, total.failed), (0, 0, 0));
    assert!(total.looks > 1000);
}

/// The looks that count towards what was asked for: reads, or the others where nobody reads.
fn main_looks(counts: &Counts) -> u64 {
    match counts.total(&Kind::READS).looks {
        0 => counts.total(&Kind::UNCACHED).looks,
        reads => reads,
    }
}

/// Lets `readers` loose on a capture that grows in the source of a real mount, at each pace, until the looks are done.
fn race_the_product(form: Form, readers: &[Kind], asked: Option<u64>) -> Counts {
    let mut all = Counts::default();
    for (number, (every, payload, records)) in PACES.into_iter().enumerate() {
        let growth = Growth::new(form, 10 + number as u64, records, payload);
        let mut counts = Counts::default();
        let mut looks = 0;
        let wanted = asked.map_or(1, |looks| looks.div_ceil(3));
        let mut round = 0;
        while looks < wanted {
            let left = if asked.is_some() {
                wanted - looks
            } else {
                u64::MAX
            };
            let bounds = Bounds {
                time: Duration::from_millis(1500),
                looks: left,
                wrong: u64::MAX,
            };
            let name = format!("x{round}");
            counts.merge(race_once(&growth, &name, readers, every, &bounds));
            looks = main_looks(&counts);
            round += 1;
        }
        println!("{form:?}, every {every:?}, {round} files:\n{counts}");
        all.merge(counts);
    }
    all
}

fn race_once(
    growth: &Growth,
    name: &str,
    readers: &[Kind],
    every: Duration,
    bounds: &Bounds,
) -> Counts {
    let day = Day::new();
    let last = day.source().join(format!("{name}{}", growth.form.ending()));
    let partial = day
        .source()
        .join(format!("{name}{}.partial", growth.form.ending()));
    let mut file = OpenOptions::new()
        .append(true)
        .create_new(true)
        .open(&partial)
        .unwrap();
    file.write_all(&growth.steps[0].bytes).unwrap();
    let mounted = day.mount();
    let path = mounted.join(format!("{name}.pcap"));
    let frontier = Frontier::default();
    frontier.announce(24);
    frontier.publish(24);
    let ground = Ground {
        path: &path,
        truth: &growth.truth,
        ends: &growth.ends,
        frontier: &frontier,
    };
    let mut written = 1;
    let counts = race(&ground, readers, every, bounds, |_| {
        let Some(step) = growth.steps.get(written) else {
            return false;
        };
        frontier.announce(step.visible);
        file.write_all(&step.bytes).unwrap();
        frontier.publish(step.visible);
        written += 1;
        true
    });
    for step in &growth.steps[written..] {
        file.write_all(&step.bytes).unwrap();
    }
    fs::rename(&partial, &last).unwrap();
    check_finished(&mounted, &path, &growth.truth);
    mounted.unmount();
    counts
}

/// Whatever racing maps and splices left in the page cache, who opens the finished file gets its bytes.
fn check_finished(mounted: &Mounted, path: &Path, truth: &[u8]) {
    assert_same(&fs::read(path).unwrap(), truth, "the finished file");
    for sharing in [Sharing::Private, Sharing::Shared] {
        let file = File::open(path).unwrap();
        let got = read_by_map(&file, sharing).unwrap();
        assert_same(&got, truth, "the finished file through a map");
    }
    let state = common::sys::attribute(path, "user.pcapzst.state").unwrap();
    assert_eq!(state, "complete", "{}", mounted.path().display());
}

fn assert_uncached_right(counts: &Counts, least: u64) {
    let ends = counts.total(&[Kind::SeekEnd]);
    assert_eq!((ends.wrong, ends.failed), (0, 0), "\n{counts}");
    let total = counts.total(&Kind::UNCACHED);
    assert_eq!(
        (total.wrong, total.late, total.failed),
        (0, 0, 0),
        "\n{counts}"
    );
    assert!(total.looks >= least, "only {} looks", total.looks);
}

/// Two of most, as neighbours on one file are what the trap is about.
const READERS: [Kind; 8] = [
    Kind::PreadOld,
    Kind::PreadOld,
    Kind::PreadNew,
    Kind::PreadNew,
    Kind::Follow,
    Kind::Follow,
    Kind::Stat,
    Kind::SeekEnd,
];

#[test]
fn reads_of_a_growing_compressed_capture_are_never_wrong() {
    let counts = race_the_product(Form::Zst, &READERS, wanted_looks());
    assert_uncached_right(&counts, wanted_looks().unwrap_or(1000));
}

#[test]
fn reads_of_a_growing_raw_capture_are_never_wrong() {
    let counts = race_the_product(Form::Raw, &READERS, wanted_looks());
    assert_uncached_right(&counts, wanted_looks().unwrap_or(1000));
}

#[test]
fn sizes_never_go_back_however_many_ask() {
    for form in [Form::Zst, Form::Raw] {
        let counts = race_the_product(form, &[Kind::Stat; 6], few_looks());
        assert_uncached_right(&counts, 1000);
    }
}

/// Maps and splices beside reads: the reads stay right whatever the others leave in the page cache.
const MIXED: [Kind; 7] = [
    Kind::PreadOld,
    Kind::PreadNew,
    Kind::Stat,
    Kind::MapOld,
    Kind::MapNew,
    Kind::Splice,
    Kind::Sendfile,
];

#[test]
fn maps_and_splices_of_a_growing_capture_disturb_no_reader() {
    for form in [Form::Zst, Form::Raw] {
        let counts = race_the_product(form, &MIXED, few_looks());
        let cached = counts.total(&Kind::CACHED);
        println!(
            "{form:?}: maps and splices: {} wrong, {} late, {} failed of {}",
            cached.wrong, cached.late, cached.failed, cached.looks
        );
        let reads = counts.total(&Kind::UNCACHED);
        assert_eq!(
            (reads.wrong, reads.late, reads.failed),
            (0, 0, 0),
            "\n{counts}"
        );
        assert!(cached.looks > 0);
        // The kernel does not drop a page that somebody is just copying or has in a pipe, and who looks at it next may see
        // zeros behind the old end: 4 of 340,000 looks. Without the pages thread it was 449 of 68,000.
        assert!(cached.wrong * 2000 <= cached.looks, "\n{counts}");
    }
}
