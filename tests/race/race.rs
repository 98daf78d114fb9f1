//! A race: readers, a writer, and what came of it.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use super::count::{Counts, Kind};
use super::look::{Ground, Looker};
use super::pace::Pace;
use crate::common::growth::Frontier;

/// When a race is over, if the writer has not come to its end before.
pub struct Bounds {
    pub time: Duration,
    pub looks: u64,
    /// Wrong looks that are proof enough.
    pub wrong: u64,
}

/// Races one reader for each of `kinds` against `grow`, which is called at each beat with the step's number and says
/// whether there was one more.
pub fn race(
    ground: &Ground<'_>,
    kinds: &[Kind],
    every: Duration,
    bounds: &Bounds,
    mut grow: impl FnMut(usize) -> bool,
) -> Counts {
    let frontier: &Frontier = ground.frontier;
    thread::scope(|scope| {
        let lookers: Vec<_> = kinds
            .iter()
            .zip(1..)
            .map(|(kind, seed)| Looker::new(ground, *kind, seed))
            .collect();
        let readers: Vec<_> = lookers
            .into_iter()
            .map(|looker| scope.spawn(|| looker.run()))
            .collect();
        // A failed step must not leave the readers racing.
        let _finish = Finish(frontier);
        let started = Instant::now();
        let mut pace = Pace::new(every);
        for step in 0.. {
            pace.beat();
            let is_over = started.elapsed() > bounds.time
                || frontier.looks.load(Ordering::Relaxed) >= bounds.looks
                || frontier.wrong.load(Ordering::Relaxed) >= bounds.wrong
                || readers
                    .iter()
                    .any(std::thread::ScopedJoinHandle::is_finished);
            if is_over || !grow(step) {
                break;
            }
        }
        frontier.finish();
        let mut counts = Counts::default();
        for reader in readers {
            let (kind, count) = reader.join().unwrap();
            counts.add(kind, count);
        }
        counts
    })
}

struct Finish<'a>(&'a Frontier);

impl Drop for Finish<'_> {
    fn drop(&mut self) {
        self.0.finish();
    }
}
