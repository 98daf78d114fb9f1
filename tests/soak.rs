//! The soak: writers at fifty frames a second over eight files, sixteen readers, every byte checked.
//!
//! `PCAPZST_SOAK_SECS` says how long; five seconds otherwise. `scripts/soak` builds and runs it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "a failed step of a test is a panic"
)]

mod common;
#[path = "soak/mod.rs"]
mod soak;

use std::collections::BTreeMap;
use std::fs::File;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use common::day::Day;
use common::mounted::{Mounted, free};
use soak::daemon::Vitals;
use soak::field::Field;
use soak::latency::{Delays, measure};
use soak::reader::{Reader, TASKS, Task};
use soak::writer::Writer;

const WRITERS: usize = 8;
const READERS: usize = 16;
/// The frame cache of the mount: small, so that it is full soon.
const CACHE_MIB: u64 = 32;
/// What the program may have resident beside its cache (`PRODUCT.md`, section 5).
const BESIDE_CACHE_MIB: u64 = 64;
/// Descriptors of captures that nobody reads, which the mount may keep.
const IDLE_DESCRIPTORS: usize = 256;
/// Threads of the mount, which come as they are needed: two lanes of sixteen; one each for pages, the index, signals and the
/// log; the program's own and the session's. For each processor, of at least two, there is one that takes requests and one
/// that reads ahead.
const THREADS_BESIDE: usize = 32 + 4 + 2;
/// Whoever has not ended this long after the end is stuck.
const PATIENCE: Duration = Duration::from_secs(20);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    // What cargo-nextest asks of a test program of its own making, and what libtest makes of a filter.
    if has("--list") {
        if !has("--ignored") {
            println!("soak: test");
        }
        return ExitCode::SUCCESS;
    }
    let filter = arguments.iter().find(|argument| !argument.starts_with('-'));
    if has("--ignored") || filter.is_some_and(|filter| !"soak".contains(filter.as_str())) {
        return ExitCode::SUCCESS;
    }
    let secs = common::number("PCAPZST_SOAK_SECS", 5);
    let faults = soak_for(Duration::from_secs(secs));
    if faults.is_empty() {
        println!("soak: nothing wrong");
        return ExitCode::SUCCESS;
    }
    for (fault, times) in &faults {
        println!("soak: FAULT ({times} times): {fault}");
    }
    ExitCode::FAILURE
}

/// What was found wrong, and how often.
fn soak_for(time: Duration) -> BTreeMap<String, u64> {
    let day = Day::new();
    let lifetime = time + Duration::from_mins(5);
    let options = format!("cache_size={CACHE_MIB}M");
    let mounted = Mounted::launch_for(lifetime, common::pcapzst(), &day.source(), &options);
    let at_first = Vitals::of(mounted.pid());
    let field = Field::new(day.source(), mounted.path().to_path_buf(), WRITERS);
    let (looks, delays, early) = work(&field, &mounted, time);
    look_round(&field);
    settle(&mounted, &field);
    let at_last = Vitals::of(mounted.pid());
    judge(&field, &at_first, &at_last);
    report(&field, time, &looks, &delays);
    println!("  at first  {at_first}\n  half way  {early}\n  at last   {at_last}");
    // It checks that the program ends well, and that it did not panic.
    let ended = mounted.unmount();
    if !ended.log.lines().all(is_expected) {
        field.fail(format!("the mount's log: {}", ended.log));
    }
    field.faults()
}

/// A line that a good mount may write.
fn is_expected(line: &str) -> bool {
    line.starts_with("pcapzst: serving ") || line.ends_with(" is unmounted: from outside")
}

/// Has everybody work for this long; looks by task, delays, and the program's state half way.
fn work(field: &Field, mounted: &Mounted, time: Duration) -> (BTreeMap<Task, u64>, Delays, Vitals) {
    let (done, ended) = channel();
    thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS).map(|it| Writer::new(field, it)).collect();
        for (number, writer) in writers.into_iter().enumerate() {
            let done = Done(format!("writer {number}"), done.clone());
            scope.spawn(move || {
                let _done = done;
                writer.run();
            });
        }
        let readers: Vec<_> = (0..READERS)
            .map(|number| {
                let task = TASKS[number % TASKS.len()];
                let done = Done(format!("{task:?} {number}"), done.clone());
                scope.spawn(move || {
                    let _done = done;
                    (task, Reader::new(field, task, number as u64).run())
                })
            })
            .collect();
        let clock = Done("clock".to_owned(), done.clone());
        let clock = scope.spawn(move || {
            let _done = clock;
            measure(field)
        });
        field.is_over_within(time / 2);
        let early = Vitals::of(mounted.pid());
        field.is_over_within(time / 2);
        field.finish();

        drop(done);
        let deadline = Instant::now() + PATIENCE;
        let mut working = WRITERS + READERS + 1;
        while working > 0 {
            let Ok(_) = ended.recv_timeout(deadline.saturating_duration_since(Instant::now()))
            else {
                field.fail(format!("{working} threads are stuck"));
                free(mounted.path());
                break;
            };
            working -= 1;
        }
        let mut looks = BTreeMap::new();
        for reader in readers {
            let (task, count) = reader.join().unwrap();
            *looks.entry(task).or_default() += count;
        }
        (looks, clock.join().unwrap(), early)
    })
}

/// Says that its thread has ended, by a panic too.
struct Done(String, std::sync::mpsc::Sender<String>);

impl Drop for Done {
    fn drop(&mut self) {
        // Nobody listens after a failure.
        let _ = self.1.send(std::mem::take(&mut self.0));
    }
}

/// Opens every capture that is left, several times: with each the mount looks at one of those that it keeps open, in turn, and
/// lets go of what was removed. Of a removal in the very last moment nothing else would tell it.
fn look_round(field: &Field) {
    for _ in 0..4 {
        for capture in (0..WRITERS).flat_map(|writer| field.of(writer)) {
            if let Err(error) = File::open(field.mnt.join(&capture.name)) {
                field.fail(format!("{}: {error}", capture.name));
            }
        }
    }
}

/// Lets the kernel's last releases come in: a close does not wait for them.
fn settle(mounted: &Mounted, field: &Field) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let stats = common::sys::attribute(mounted.path(), "user.pcapzst.stats").unwrap();
        let stats: serde_json::Value = serde_json::from_str(&stats).unwrap();
        if stats["open_files"] == 0 {
            return;
        }
        if Instant::now() > deadline {
            field.fail(format!("files stay open: {stats}"));
            return;
        }
        thread::yield_now();
    }
}

fn judge(field: &Field, at_first: &Vitals, at_last: &Vitals) {
    if at_last.descriptors > at_first.descriptors + IDLE_DESCRIPTORS {
        field.fail(format!("descriptors: {at_last}"));
    }
    // Their disk space is not free before they are let go of.
    if at_last.removed > 0 {
        field.fail(format!("{} removed files are held open", at_last.removed));
    }
    if at_last.peak_kib > (CACHE_MIB + BESIDE_CACHE_MIB) * 1024 {
        field.fail(format!("memory: {at_last}"));
    }
    let processors = thread::available_parallelism().unwrap().get().max(2);
    if at_last.threads > THREADS_BESIDE + 2 * processors || at_last.stuck > 0 {
        field.fail(format!("threads: {at_last}"));
    }
    // The finished captures, once more and whole.
    for writer in 0..WRITERS {
        for capture in field.of(writer) {
            let path = field.mnt.join(&capture.name);
            let looked = std::fs::read(&path)
                .map_err(|error| error.to_string())
                .and_then(|got| capture.check(&got, 0, capture.growth.truth.len()));
            if let Err(fault) = looked {
                field.fail(format!("{} in the end: {fault}", capture.name));
            }
        }
    }
}

fn report(field: &Field, time: Duration, looks: &BTreeMap<Task, u64>, delays: &Delays) {
    let totals = &field.totals;
    let of = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    println!("soak: {WRITERS} writers, {READERS} readers, {time:?}");
    println!(
        "  written   {} frames ({} a second and file), {} torn pieces; {} captures finished, {} removed",
        of(&totals.frames),
        of(&totals.paced_frames) / time.as_secs().max(1) / WRITERS as u64,
        of(&totals.torn),
        of(&totals.finished),
        of(&totals.removed)
    );
    println!(
        "  looks     {looks:?}, {} MiB checked",
        of(&totals.checked_bytes) >> 20
    );
    println!(
        "  seen by stat after write(): median {:?}, 99 % {:?}, worst {:?} ({} frames)",
        delays.quantile(500),
        delays.quantile(990),
        delays.quantile(1000),
        delays.len()
    );
}
