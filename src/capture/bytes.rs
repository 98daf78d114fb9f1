//! What a read gives: shared with the frame cache where it can be.

use std::ops::{Deref, Range};
use std::sync::Arc;

use super::cache::Frame;

/// A run of source bytes: a part of a decoded frame, or a buffer of its own.
#[derive(Clone, Debug)]
pub struct Bytes(Repr);

#[derive(Clone, Debug)]
enum Repr {
    /// Invariant: the range lies within the frame.
    Frame(Arc<Frame>, Range<usize>),
    Owned(Vec<u8>),
}

impl Bytes {
    /// Up to `len` bytes of `frame` from `start` on.
    pub(super) fn of_frame(frame: Arc<Frame>, start: usize, len: usize) -> Self {
        let all = frame.bytes().len();
        let start = start.min(all);
        let end = start.saturating_add(len).min(all);
        Self(Repr::Frame(frame, start..end))
    }
}

impl Bytes {
    /// The bytes from `start` to `end` (exclusive), as far as they are there.
    #[must_use]
    pub(super) fn part(&self, start: usize, end: usize) -> Self {
        let end = end.min(self.len());
        let start = start.min(end);
        Self(match &self.0 {
            Repr::Frame(frame, range) => {
                Repr::Frame(Arc::clone(frame), range.start + start..range.start + end)
            }
            Repr::Owned(bytes) => Repr::Owned(bytes[start..end].to_vec()),
        })
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Repr::Owned(bytes))
    }
}

impl Default for Bytes {
    fn default() -> Self {
        Self(Repr::Owned(Vec::new()))
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Repr::Frame(frame, range) => &frame.bytes()[range.clone()],
            Repr::Owned(bytes) => bytes,
        }
    }
}
