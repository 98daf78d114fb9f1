//! Reading ahead: which frames a sequential reader will want next, and which it is done with.
//!
//! Nothing is done for a reader that jumps about. The kernel's own readahead arrives out of order, a few requests at once:
//! what lies near the furthest read still is sequential.

use std::ops::Range;
use std::sync::Mutex;

use super::sync::lock;

/// A read this far before the furthest one still belongs to it.
const NEAR_BEFORE: u64 = 3 * 1024 * 1024;
/// A read this far behind the furthest one still belongs to it.
const NEAR_BEHIND: u64 = 3 * 1024 * 1024;
/// Source bytes read in a row before anything is read ahead.
const RUN_LEAST: u64 = 128 * 1024;
/// Frames this far before the furthest read are not wanted again.
const PASSED_BY: u64 = 2 * 1024 * 1024;
/// Source bytes that have to come together before frames are looked up.
const STEP: u64 = 64 * 1024;

/// What becomes of frames behind a sequential reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeps {
    /// They stay while there is room: the next reader comes for them again.
    Frames,
    /// They go: the kernel keeps their bytes, or nobody will want them.
    Nothing,
}

/// How one handle has been read so far. Source offsets throughout.
#[derive(Debug, Default)]
pub struct Pattern(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Behind the furthest byte read in this run.
    end: u64,
    /// Bytes read in this run.
    run: u64,
    /// Behind the furthest byte asked for ahead.
    ahead: u64,
    /// Behind the last byte that was given up as passed.
    passed: u64,
}

/// What to do for a reader.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Hint {
    /// Wanted soon: decode the frames that start here.
    pub(super) ahead: Range<u64>,
    /// Not wanted again: the frames that end here.
    pub(super) passed: Range<u64>,
}

impl Pattern {
    /// Notes a read of `len` bytes at `offset`; what follows from it, `None` if nothing does. Reads ahead by `most` bytes at
    /// most.
    pub(super) fn note(&self, offset: u64, len: u64, most: u64) -> Option<Hint> {
        let mut state = lock(&self.0);
        let end = offset.saturating_add(len);
        let is_near = offset.saturating_add(NEAR_BEFORE) >= state.end
            && offset <= state.end.saturating_add(NEAR_BEHIND);
        if !is_near {
            *state = State {
                end,
                run: len,
                ahead: end,
                passed: offset,
            };
            return None;
        }
        state.run += end.saturating_sub(state.end);
        state.end = state.end.max(end);
        state.ahead = state.ahead.max(state.end);
        if state.run < RUN_LEAST {
            return None;
        }
        let mut hint = Hint::default();
        let reach = state.run.saturating_mul(2).min(most);
        let ahead = state.end.saturating_add(reach);
        if ahead >= state.ahead.saturating_add(STEP) {
            hint.ahead = state.ahead..ahead;
            state.ahead = ahead;
        }
        let passed = state.end.saturating_sub(PASSED_BY);
        if passed >= state.passed.saturating_add(STEP) {
            hint.passed = state.passed..passed;
            state.passed = passed;
        }
        (hint != Hint::default()).then_some(hint)
    }

    /// Notes that what lies behind `at` was not read ahead after all.
    pub(super) fn stopped_at(&self, at: u64) {
        let mut state = lock(&self.0);
        state.ahead = state.ahead.min(at);
    }

    /// Whether the reader has not come to `at` yet.
    pub(super) fn is_before(&self, at: u64) -> bool {
        lock(&self.0).end < at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1024;
    const AHEAD_MOST: u64 = 8 * 1024 * KIB;

    /// Everything that is read ahead and given up for reads of `len` bytes at `offsets`.
    fn hints(offsets: impl IntoIterator<Item = u64>, len: u64) -> Vec<Hint> {
        let pattern = Pattern::default();
        offsets
            .into_iter()
            .filter_map(|offset| pattern.note(offset, len, AHEAD_MOST))
            .collect()
    }

    #[test]
    fn a_reader_that_jumps_about_gets_nothing_read_ahead() {
        let jumps = (0..1000).map(|jump| (jump * 7_654_321) % (1 << 30));
        assert_eq!(hints(jumps, 4 * KIB), []);
    }

    #[test]
    fn ranges_ahead_follow_each_other_and_stay_within_their_bound() {
        let reads = (0..4000).map(|read| read * 4 * KIB);
        let hints = hints(reads, 4 * KIB);
        let ahead: Vec<_> = hints.iter().map(|hint| &hint.ahead).collect();
        let ahead: Vec<_> = ahead.iter().filter(|range| !range.is_empty()).collect();
        assert!(ahead.windows(2).all(|pair| pair[0].end == pair[1].start));
        let last = ahead.last().expect("a sequential reader");
        assert!(last.end <= 4000 * 4 * KIB + AHEAD_MOST);
        assert!(last.end >= 4000 * 4 * KIB + AHEAD_MOST - STEP);
    }

    #[test]
    fn requests_of_the_kernels_readahead_out_of_order_are_one_run() {
        let order = [0, 1, 3, 2, 5, 4, 7, 6, 8, 10, 9, 12, 11];
        let hints = hints(order.map(|number| number * 1024 * KIB), 1024 * KIB);
        let furthest = hints.iter().map(|hint| hint.ahead.end).max();
        assert_eq!(furthest, Some(13 * 1024 * KIB + AHEAD_MOST));
    }

    #[test]
    fn what_is_given_up_lies_well_before_the_reader() {
        let pattern = Pattern::default();
        let mut given_up = 0;
        for read in 0..100 {
            let hint = pattern.note(read * 128 * KIB, 128 * KIB, AHEAD_MOST);
            let passed = hint.unwrap_or_default().passed;
            if !passed.is_empty() {
                assert_eq!(passed.start, given_up);
                assert!(passed.end + PASSED_BY <= (read + 1) * 128 * KIB);
                given_up = passed.end;
            }
        }
        assert!(given_up > 60 * 128 * KIB);
    }
}
