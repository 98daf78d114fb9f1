//! How far one step of a walk goes, and how far it came.

/// Physical bytes that one step of a walk covers at most, and the rest of the frame it ends in (format document, section
/// 5.2): so a backlog of gigabytes is walked in many, and who waits for one of them waits shortly.
pub(super) const WALK_STEP: u64 = 8 * 1024 * 1024;

/// How far a step of the walk came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    /// Physical offset where the walk stands.
    position: u64,
    /// Length of the file when it was looked at, in bytes.
    physical_len: u64,
    is_part: bool,
}

impl Reach {
    /// All that can be mapped in a file of `physical_len` bytes is.
    pub(super) fn all(physical_len: u64) -> Self {
        Self::end_at(physical_len, physical_len)
    }

    /// The walk ends at `position` in a file of `physical_len` bytes.
    pub(super) fn end_at(position: u64, physical_len: u64) -> Self {
        Self {
            position,
            physical_len,
            is_part: false,
        }
    }

    /// The walk stands at `position`, and has more to do.
    pub(super) fn part(position: u64, physical_len: u64) -> Self {
        Self {
            position,
            physical_len,
            is_part: true,
        }
    }

    /// Physical offset where the walk stands.
    pub(super) fn position(self) -> u64 {
        self.position
    }

    /// Whether the walk stands before the end that the file had at the look `first`.
    pub(super) fn is_before(self, first: Self) -> bool {
        self.position < first.physical_len
    }

    /// Whether there is more to walk.
    #[must_use]
    pub fn is_part(self) -> bool {
        self.is_part
    }
}
