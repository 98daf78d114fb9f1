//! Reading ahead: which frames a sequential reader will want next, and which it is done with.
//!
//! Nothing is done for a reader that jumps about, however near. The kernel's own readahead arrives out of order, a few
//! requests at once: what lies near the furthest read still is sequential, as long as the gaps get filled.

use std::ops::Range;
use std::sync::Mutex;

use super::sync::lock;

/// A read this far before the furthest one still belongs to it.
const NEAR_BEFORE: u64 = 3 * 1024 * 1024;
/// A read this far behind the furthest one still belongs to it.
const NEAR_BEHIND: u64 = 3 * 1024 * 1024;
/// Source bytes read in a row before anything is read ahead.
const RUN_LEAST: u64 = 128 * 1024;
/// A run is judged by this much of its end, or by as much as is read ahead where that is more.
const JUDGED: u64 = 8 * 1024 * 1024;
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
    /// The first byte by which this run is judged.
    start: u64,
    /// Behind the furthest byte read in this run.
    end: u64,
    /// Bytes read from `start` to `end`; what was read twice counts twice, up to all of them. 0: nothing was read.
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

impl State {
    fn span(&self) -> u64 {
        self.end - self.start
    }

    /// Takes a read into the run, of which no more than the last `judged` bytes are looked at: those before are taken for read.
    fn extend(&mut self, offset: u64, len: u64, judged: u64) {
        self.start = self.start.min(offset);
        self.end = self.end.max(offset.saturating_add(len));
        let left_behind = self.span().saturating_sub(judged);
        self.start += left_behind;
        self.run = self.run.saturating_add(len).saturating_sub(left_behind);
        self.run = self.run.min(self.span());
    }

    /// Whether more was left out than was read.
    fn skips(&self) -> bool {
        self.run < self.span() / 2
    }
}

impl Pattern {
    /// Notes a read of `len` bytes at `offset`; what follows from it, `None` if nothing does. Reads ahead by `most` bytes at
    /// most.
    pub(super) fn note(&self, offset: u64, len: u64, most: u64) -> Option<Hint> {
        let mut state = lock(&self.0);
        let end = offset.saturating_add(len);
        // What a handle reads first is in a row where it begins with the first byte.
        let is_near = (state.run > 0 || offset == 0)
            && offset.saturating_add(NEAR_BEFORE) >= state.end
            && offset <= state.end.saturating_add(NEAR_BEHIND);
        if is_near {
            state.extend(offset, len, most.max(JUDGED));
        }
        if !is_near || state.skips() && state.span() > NEAR_BEHIND {
            *state = State {
                start: offset,
                end,
                run: len,
                ahead: end,
                passed: offset,
            };
            return None;
        }
        state.ahead = state.ahead.max(state.end);
        if state.run < RUN_LEAST || state.skips() {
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
    fn a_reader_that_jumps_about_within_a_small_capture_gets_nothing_read_ahead() {
        let jumps = (1..200).map(|jump| (jump * 7_654_321) % (2048 * KIB));
        assert_eq!(hints(jumps, 4 * KIB), []);
    }

    #[test]
    fn a_first_read_in_the_middle_or_the_same_one_many_times_gets_nothing_read_ahead() {
        assert_eq!(hints([1024 * KIB], 128 * KIB), []);
        assert_eq!(hints([1024 * KIB; 1000], 4 * KIB), []);
    }

    #[test]
    fn a_reader_that_takes_a_little_of_each_mebibyte_gets_nothing_read_ahead() {
        assert_eq!(hints((0..1000).map(|read| read * 1024 * KIB), 4 * KIB), []);
    }

    #[test]
    fn a_reader_in_a_row_behind_a_jump_nearby_gets_frames_read_ahead_soon() {
        let pattern = Pattern::default();
        pattern.note(0, 4 * KIB, AHEAD_MOST);
        let jump = NEAR_BEHIND - 100 * KIB;
        let ahead = (0..1000)
            .map(|read| jump + read * 4 * KIB)
            .find(|at| pattern.note(*at, 4 * KIB, AHEAD_MOST).is_some());
        assert!(ahead.expect("a sequential reader") <= NEAR_BEHIND + RUN_LEAST);
    }

    #[test]
    fn a_reader_that_begins_to_jump_after_a_long_run_soon_gets_nothing_read_ahead() {
        let pattern = Pattern::default();
        let row = 1000 * 1024 * KIB;
        for read in 0..1000 {
            pattern.note(read * 1024 * KIB, 1024 * KIB, AHEAD_MOST);
        }
        let jumps = (0..1000).map(|jump| row + jump * 1024 * KIB);
        let hints = jumps.filter_map(|at| pattern.note(at, 4 * KIB, AHEAD_MOST));
        assert!(hints.count() <= 5);
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
