//! What tells one content of one physical file from another, without a look into it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::sys::stat::FileStat;

/// File systems stamp with the time of the last clock tick: 10 ms at most on Linux.
pub const TICK: Duration = Duration::from_millis(20);
/// What FAT stamps with; others without nanoseconds have a second.
const COARSE_TICK: Duration = Duration::from_secs(2);

/// What tells one content of one physical file from another: any write changes it, and so does a copy over it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stamp {
    /// Device and inode number of the physical file.
    pub file: (u64, u64),
    /// Its length in bytes.
    pub size: i64,
    /// Time of the last write: seconds and nanoseconds.
    pub mtime: (i64, i64),
    /// Time of the last change of any kind: seconds and nanoseconds.
    pub ctime: (i64, i64),
}

impl Stamp {
    /// The stamp in `stat`.
    #[must_use]
    pub fn of(stat: &FileStat) -> Self {
        Self {
            file: (stat.st_dev, stat.st_ino),
            size: stat.st_size,
            mtime: (stat.st_mtime, stat.st_mtime_nsec),
            ctime: (stat.st_ctime, stat.st_ctime_nsec),
        }
    }

    /// The part that survives a change of rights or a rename: file and time of the last write.
    #[must_use]
    pub fn content(&self) -> ((u64, u64), (i64, i64)) {
        (self.file, self.mtime)
    }

    /// Whether size and time of the last write are those of `other`: a rename, a change of rights, or a write that has put
    /// the time back.
    #[must_use]
    pub fn is_written_as(&self, other: &Self) -> bool {
        self.content() == other.content() && self.size == other.size
    }

    /// Whether every write from `now` on will give another stamp: the clock has ticked since the last change.
    #[must_use]
    pub fn is_settled(&self, now: SystemTime) -> bool {
        let (secs, nanos) = self.ctime;
        let (Ok(secs), Ok(nanos)) = (u64::try_from(secs), u32::try_from(nanos)) else {
            return false;
        };
        let tick = if nanos == 0 { COARSE_TICK } else { TICK };
        let changed = UNIX_EPOCH.checked_add(Duration::new(secs, nanos));
        // A time in the future says as little as a recent one.
        changed
            .and_then(|changed| now.duration_since(changed).ok())
            .is_some_and(|age| age > tick)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_settled_once_the_clock_has_ticked() {
        let at = |secs, nanos| Stamp {
            file: (1, 2),
            size: 3,
            mtime: (0, 0),
            ctime: (secs, nanos),
        };
        let now = UNIX_EPOCH + Duration::new(1000, 500_000_000);
        assert!(at(1000, 400_000_000).is_settled(now));
        assert!(!at(1000, 490_000_000).is_settled(now));
        assert!(!at(1000, 600_000_000).is_settled(now), "in the future");
        assert!(!at(999, 0).is_settled(now), "a clock of seconds");
        assert!(at(998, 0).is_settled(now));
        assert!(!at(-1, 5).is_settled(now));
        assert!(!at(i64::MAX, 5).is_settled(now));
    }
}
