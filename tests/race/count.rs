//! Counts of looks by their kind.

use std::collections::BTreeMap;
use std::fmt;

/// How a reader looks at the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// `read()` on one handle from the start to the end and on, as `tail -f` does.
    Follow,
    /// `pread()` round the end on one handle.
    PreadOld,
    /// open, `pread()` round the end, close.
    PreadNew,
    /// stat by path, and fstat.
    Stat,
    /// `lseek(SEEK_END)`. The kernel asks, and drops the answer where that to another thread's question, even an older
    /// one, came first (fuse/inode.c, `attr_version`): it may be late or go back.
    SeekEnd,
    /// A shared map of the whole file, made once; its last page.
    MapOld,
    /// A private map of the last page, made each time.
    MapNew,
    /// `splice()` from round the end into a pipe.
    Splice,
    /// `sendfile()` from round the end into a pipe.
    Sendfile,
}

impl Kind {
    pub const READS: [Self; 3] = [Self::Follow, Self::PreadOld, Self::PreadNew];
    /// Must be right and up to date.
    pub const UNCACHED: [Self; 4] = [Self::Follow, Self::PreadOld, Self::PreadNew, Self::Stat];
    /// Answered from the page cache whatever the handle's mode, and nobody is asked for the size: it may be late, and a
    /// page behind the size that the kernel knows is an error.
    pub const CACHED: [Self; 4] = [Self::MapOld, Self::MapNew, Self::Splice, Self::Sendfile];
}

/// What came of the looks of one kind.
#[derive(Clone, Debug, Default)]
pub struct Count {
    pub looks: u64,
    pub wrong: u64,
    pub late: u64,
    /// Errors; of maps: pages that gave SIGBUS.
    pub failed: u64,
    /// The first wrong one, in words.
    pub first_wrong: Option<String>,
    /// The first late or failed one.
    pub first_other: Option<String>,
}

impl Count {
    fn add(&mut self, other: Self) {
        self.looks += other.looks;
        self.wrong += other.wrong;
        self.late += other.late;
        self.failed += other.failed;
        self.first_wrong = self.first_wrong.take().or(other.first_wrong);
        self.first_other = self.first_other.take().or(other.first_other);
    }
}

/// Counts of a race, by kind.
#[derive(Clone, Debug, Default)]
pub struct Counts(pub BTreeMap<Kind, Count>);

impl Counts {
    pub fn add(&mut self, kind: Kind, count: Count) {
        self.0.entry(kind).or_default().add(count);
    }

    pub fn merge(&mut self, other: Self) {
        for (kind, count) in other.0 {
            self.add(kind, count);
        }
    }

    /// The sum over some kinds.
    pub fn total(&self, kinds: &[Kind]) -> Count {
        let mut total = Count::default();
        for (kind, count) in &self.0 {
            if kinds.contains(kind) {
                total.add(count.clone());
            }
        }
        total
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (kind, count) in &self.0 {
            let name = format!("{kind:?}");
            writeln!(
                f,
                "  {name:<9} {:>9} looks {:>6} wrong {:>6} late {:>6} failed",
                count.looks, count.wrong, count.late, count.failed
            )?;
            for first in [&count.first_wrong, &count.first_other]
                .into_iter()
                .flatten()
            {
                writeln!(f, "            {first}")?;
            }
        }
        Ok(())
    }
}
