//! How the reads of a walk reach the disk: from header to header, or straight through.
//!
//! A walk wants a few bytes every 100 KB or so. On a disk without moving parts it reads just those, and says so first: left
//! to itself the kernel takes it for a reader in a row, since one body is read for the FileId, and where its readahead is
//! large it reads everything. Where each read costs a round trip, or a disk has to turn, reading all that lies between costs
//! less than skipping it. Over a network the kernel is told to bring what the walk will pass, [`AHEAD`] bytes at a time, many
//! requests at once; of a disk that turns the walk reads what it passes, as a copy does. What was measured is in
//! docs/PERFORMANCE.md, "Walking cold disks".
//!
//! What a read gives does not depend on the route, and neither does what memory answers.

use std::io;
use std::mem;
use std::ops::Range;
use std::time::{Duration, Instant};

use super::medium::Medium;
use super::read_at::{Advice, ReadAt, read_full};

/// Bytes brought ahead of the walk. Of a store 20 ms away that gives 100 MB/s, half of it does not come up to that.
pub(super) const AHEAD: u64 = 4 * 1024 * 1024;
/// Bytes asked for at once. The kernel cuts a larger request off at its readahead, which is 128 KiB unless somebody raised
/// it (mm/readahead.c, `force_page_cache_ra`).
const PIECE: u64 = 128 * 1024;
/// Bytes read at once where the walk reads what it passes: enough for the kernel's readahead to go on, whatever its size.
const PASS: usize = 256 * 1024;
/// Reads after which a medium that was not known is judged.
const TRIAL_READS: u32 = 32;
/// Bytes a second that the walk must pass while it waits for these reads. Below what a disk that turns gives when it is
/// read through, reading through is no loss; the double of that leaves room for what virtual disks give.
const PASSED_LEAST: u64 = 512 * 1024 * 1024;

/// The route of one walk.
#[derive(Debug, Default)]
pub(super) enum Route {
    /// Nothing was read yet, or the walk has rested.
    #[default]
    Open,
    /// From header to header.
    Sparse,
    /// From header to header, until that is found slow.
    Tried(Trial),
    /// Straight through, many requests at a time; what lies before this physical offset was asked for, or is behind the walk.
    Through(u64),
    /// Straight through, as a reader in a row.
    Reading(Reader),
}

/// Reads what a walk passes, for the kernel's readahead to work as it does for a copy.
#[derive(Debug)]
pub(super) struct Reader {
    /// Physical offset up to which it was read, or from which on it will be.
    read: u64,
    scratch: Vec<u8>,
}

/// What the last reads took on a medium that is not known.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Trial {
    reads: u32,
    /// Physical offset of the first of them.
    start: u64,
    waited: Duration,
    /// The one that took longest. It does not count: virtual disks stop for some milliseconds now and then.
    longest: Duration,
}

impl Route {
    /// Fills `buf` from physical offset `at` on, as far as the file reaches, which has `physical_len` bytes; the number read.
    /// Blocks on the disk.
    pub(super) fn read(
        &mut self,
        file: &dyn ReadAt,
        buf: &mut [u8],
        at: u64,
        physical_len: u64,
    ) -> io::Result<usize> {
        if matches!(self, Self::Open) {
            *self = match file.medium() {
                Medium::Solid => Self::Sparse,
                Medium::Remote => Self::Through(at),
                Medium::Unknown => Self::Tried(Trial::default()),
            };
            if !matches!(self, Self::Through(_)) {
                file.advise(Advice::Random);
            }
        }
        // With the first bytes it may be enough: the file is small, or its table was kept.
        if at == 0 {
            return read_full(file, buf, at);
        }
        if let Self::Tried(trial) = self {
            if !trial.is_slow(at) {
                let begin = Instant::now();
                let got = read_full(file, buf, at);
                trial.note(begin.elapsed());
                return got;
            }
            file.advise(Advice::Normal);
            *self = Self::Reading(Reader::new(at));
        }
        match self {
            Self::Through(asked) => *asked = bring(file, *asked, at, physical_len),
            Self::Reading(reader) => reader.pass(file, at + buf.len() as u64),
            Self::Open | Self::Sparse | Self::Tried(_) => {}
        }
        read_full(file, buf, at)
    }

    /// The walk has come to the end of what is there: the next reads are readers'.
    pub(super) fn rest(&mut self, file: &dyn ReadAt) {
        if let Self::Sparse | Self::Tried(_) = mem::take(self) {
            file.advise(Advice::Normal);
        }
    }
}

impl Trial {
    /// Whether the reads since the last answer passed fewer bytes than a disk reads through in that time; the next one is at
    /// `at`. `false` before there were enough.
    fn is_slow(&mut self, at: u64) -> bool {
        let is_whole = self.reads == TRIAL_READS;
        let passed = at.checked_sub(self.start);
        let is_slow = is_whole
            && passed.is_some_and(|passed| {
                u128::from(passed) * Duration::from_secs(1).as_nanos()
                    < u128::from(PASSED_LEAST) * self.waited.saturating_sub(self.longest).as_nanos()
            });
        // A walk that went back starts over, too.
        if self.reads == 0 || is_whole || passed.is_none() {
            *self = Self {
                start: at,
                ..Self::default()
            };
        }
        is_slow
    }

    fn note(&mut self, waited: Duration) {
        self.reads += 1;
        self.waited += waited;
        self.longest = self.longest.max(waited);
    }
}

impl Reader {
    fn new(at: u64) -> Self {
        Self {
            read: at,
            scratch: vec![0; PASS],
        }
    }

    /// Reads on up to `end`. What cannot be read is for the walk's own read to tell, if it lies there.
    fn pass(&mut self, file: &dyn ReadAt, end: u64) {
        if end.saturating_sub(self.read) > AHEAD {
            // The walk has jumped.
            self.read = end;
        }
        while self.read < end {
            match read_full(file, &mut self.scratch, self.read) {
                Ok(len) if len > 0 => self.read += len as u64,
                _ => break,
            }
        }
    }
}

/// Has the kernel bring what lies up to [`AHEAD`] bytes behind `at`, and was not `asked` for before; up to where it was now.
fn bring(file: &dyn ReadAt, asked: u64, at: u64, physical_len: u64) -> u64 {
    let end = at.saturating_add(AHEAD).min(physical_len);
    // Behind what was asked for lies a jump ahead; far before it, a walk that went back.
    let asked = if asked < at || asked > end { at } else { asked };
    // Half of it at a time, so that one half is on its way while the walk is in the other.
    if asked - at >= AHEAD / 2 {
        return asked;
    }
    bring_all(file, asked..end);
    end
}

/// Has the kernel bring the bytes of `range`, many requests at once.
pub(super) fn bring_all(file: &dyn ReadAt, range: Range<u64>) {
    let mut asked = range.start;
    while asked < range.end {
        let len = (PIECE - asked % PIECE).min(range.end - asked);
        file.advise(Advice::WillNeed { offset: asked, len });
        asked += len;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STRIDE: u64 = 90_000;

    /// Whether a walk finds a medium slow that takes `wait` for each read.
    fn is_slow(wait: Duration) -> bool {
        let mut trial = Trial::default();
        (0..100).any(|number| {
            let is_slow = trial.is_slow(number * STRIDE);
            trial.note(wait);
            is_slow
        })
    }

    #[test]
    fn a_medium_is_slow_when_it_would_be_read_through_in_the_time() {
        assert!(!is_slow(Duration::from_micros(40)), "flash");
        assert!(!is_slow(Duration::from_micros(150)));
        assert!(is_slow(Duration::from_micros(200)));
        assert!(is_slow(Duration::from_millis(8)), "a disk that turns");
    }

    #[test]
    fn one_long_read_is_no_slow_medium_and_each_trial_stands_alone() {
        let mut trial = Trial::default();
        for number in 0..u64::from(TRIAL_READS) * 4 {
            assert!(!trial.is_slow(number * STRIDE));
            let is_first = number.is_multiple_of(u64::from(TRIAL_READS));
            trial.note(Duration::from_micros(if is_first { 100_000 } else { 100 }));
        }
    }

    /// Bytes without end, and how often each part was read.
    #[derive(Default)]
    struct Noted(std::sync::Mutex<Vec<(u64, usize)>>);

    impl ReadAt for Noted {
        fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
            let mut reads = crate::capture::sync::lock(&self.0);
            reads.push((offset, buf.len()));
            Ok(buf.len())
        }

        fn len(&self) -> io::Result<u64> {
            Ok(u64::MAX)
        }
    }

    #[test]
    fn what_is_passed_is_read_once_in_a_row_and_a_jump_is_not_passed() {
        let file = Noted::default();
        let mut reader = Reader::new(1000);
        for number in 0..20 {
            reader.pass(&file, 1512 + number * STRIDE);
        }
        let reads = file.0.into_inner().expect("no panic");
        let whole = |number: usize| (1000 + (number * PASS) as u64, PASS);
        assert_eq!(reads, (0..reads.len()).map(whole).collect::<Vec<_>>());
        assert_eq!(
            reads.len() as u64,
            (19 * STRIDE + 512).div_ceil(PASS as u64)
        );
        let file = Noted::default();
        reader.pass(&file, 1 << 40);
        assert_eq!(file.0.into_inner().expect("no panic"), []);
        let file = Noted::default();
        reader.pass(&file, (1 << 40) + STRIDE);
        assert_eq!(file.0.into_inner().expect("no panic"), [(1 << 40, PASS)]);
    }

    #[test]
    fn a_walk_that_went_back_is_judged_by_what_comes_then() {
        let mut trial = Trial::default();
        for number in 0..u64::from(TRIAL_READS) {
            assert!(!trial.is_slow((1 << 30) + number * STRIDE));
            trial.note(Duration::from_millis(8));
        }
        assert!(!trial.is_slow(4096), "nothing was passed");
        assert_eq!((trial.reads, trial.start), (0, 4096));
    }
}
