//! A bound on the number of log lines: so many at once, then so many in a time.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Lines at once. Each capture's fault is one line, and a day with a thousand bad captures is told in full.
const BURST: u32 = 1000;
/// After that, one line in this time: a megabyte or two in a day.
const PACE: Duration = Duration::from_secs(10);

/// Counts lines against the bound.
#[derive(Debug)]
pub(super) struct Flood(Mutex<State>);

#[derive(Debug)]
struct State {
    /// Lines that may still come at once.
    left: u32,
    /// When one was last added to those; `None` before the first line.
    added: Option<Instant>,
    /// Lines left out since the last one that was allowed.
    missing: u64,
}

impl Flood {
    pub(super) const fn new() -> Self {
        Self(Mutex::new(State {
            left: BURST,
            added: None,
            missing: 0,
        }))
    }

    /// Whether a line may be written `now`. If so, and some before it were not, `tell` is called with their number first.
    pub(super) fn admits(&self, now: Instant, tell: impl FnOnce(u64)) -> bool {
        let missing = self.allows(now);
        if let Some(missing) = missing.filter(|missing| *missing > 0) {
            tell(missing);
        }
        missing.is_some()
    }

    /// Whether a line may be written `now`, and if so, how many before it were not.
    fn allows(&self, now: Instant) -> Option<u64> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let added = *state.added.get_or_insert(now);
        let due = now.saturating_duration_since(added).as_secs() / PACE.as_secs();
        match u32::try_from(due) {
            Ok(due) if due < BURST => {
                state.left = state.left.saturating_add(due).min(BURST);
                state.added = Some(added + PACE * due);
            }
            // Time that brought more than there may be is not kept for later.
            _ => {
                state.left = BURST;
                state.added = Some(now);
            }
        }
        if let Some(left) = state.left.checked_sub(1) {
            state.left = left;
            Some(std::mem::take(&mut state.missing))
        } else {
            state.missing += 1;
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_cut_and_counted_and_a_trickle_goes_on() {
        let flood = Flood::new();
        let start = Instant::now();
        for number in 0..BURST {
            assert_eq!(flood.allows(start), Some(0), "{number}");
        }
        for _ in 0..5000 {
            assert_eq!(flood.allows(start), None);
        }
        assert_eq!(flood.allows(start + PACE), Some(5000));
        assert_eq!(flood.allows(start + PACE), None);
        assert_eq!(flood.allows(start + PACE * 3), Some(1));
        assert_eq!(flood.allows(start + PACE * 3), Some(0));
        assert_eq!(flood.allows(start + PACE * 3), None);
    }

    #[test]
    fn what_was_left_out_is_told_once_before_the_next_line() {
        let flood = Flood::new();
        let start = Instant::now();
        let mut told = Vec::new();
        for _ in 0..BURST {
            assert!(flood.admits(start, |missing| told.push(missing)));
        }
        assert!(!flood.admits(start, |missing| told.push(missing)));
        assert!(flood.admits(start + PACE * 2, |missing| told.push(missing)));
        assert!(flood.admits(start + PACE * 2, |missing| told.push(missing)));
        assert_eq!(told, [1]);
    }

    #[test]
    fn after_a_long_silence_as_much_comes_at_once_as_at_first() {
        let flood = Flood::new();
        let start = Instant::now();
        while flood.allows(start).is_some() {}
        let later = start + PACE * 100_000;
        let allowed = (0..BURST + 10)
            .filter(|_| flood.allows(later).is_some())
            .count();
        assert_eq!(allowed, BURST as usize);
    }
}
