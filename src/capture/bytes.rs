//! What a read gives: shared with the frame cache where it can be, else in a buffer that is used again.

use std::ops::{Deref, Range};
use std::sync::{Arc, Mutex};

use super::cache::Frame;
use super::error::Error;
use super::sync::lock;

/// Buffers kept for the next reads: as many as are answered at once on a small machine. 8 MiB in all.
const SPARE_MOST: usize = 8;
/// The largest buffer kept: the kernel's largest request.
const SPARE_BYTES_MOST: usize = 1024 * 1024;

/// A run of source bytes: a part of a decoded frame, or a buffer of its own.
#[derive(Clone, Debug)]
pub struct Bytes(Repr);

#[derive(Clone, Debug)]
enum Repr {
    /// Invariant: the range lies within the frame.
    Frame(Arc<Frame>, Range<usize>),
    Gathered(Arc<Gathered>, Range<usize>),
}

impl Bytes {
    /// Up to `len` bytes of `frame` from `start` on.
    pub(super) fn of_frame(frame: Arc<Frame>, start: usize, len: usize) -> Self {
        let range = within(frame.bytes().len(), start, len);
        Self(Repr::Frame(frame, range))
    }

    /// The bytes from `start` to `end` (exclusive), as far as they are there.
    #[must_use]
    pub(super) fn part(&self, start: usize, end: usize) -> Self {
        let part = within(self.len(), start, end.saturating_sub(start));
        let of = |range: &Range<usize>| range.start + part.start..range.start + part.end;
        Self(match &self.0 {
            Repr::Frame(frame, range) => Repr::Frame(Arc::clone(frame), of(range)),
            Repr::Gathered(gathered, range) => Repr::Gathered(Arc::clone(gathered), of(range)),
        })
    }
}

/// Source bytes in a row, each run where it was decoded: nothing is copied.
#[derive(Clone, Debug, Default)]
pub struct Pieces {
    runs: Vec<Bytes>,
    len: usize,
}

impl Pieces {
    pub(super) fn push(&mut self, run: Bytes) {
        self.len += run.len();
        self.runs.push(run);
    }

    /// Bytes in all runs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no byte.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The runs, in order.
    #[must_use]
    pub fn runs(&self) -> &[Bytes] {
        &self.runs
    }

    /// All bytes put together.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let runs: Vec<&[u8]> = self.runs.iter().map(|run| &**run).collect();
        runs.concat()
    }
}

impl From<Bytes> for Pieces {
    fn from(bytes: Bytes) -> Self {
        let mut pieces = Self::default();
        pieces.push(bytes);
        pieces
    }
}

/// Up to `len` places from `start` on, among `all`.
fn within(all: usize, start: usize, len: usize) -> Range<usize> {
    let start = start.min(all);
    start..start.saturating_add(len).min(all)
}

impl From<Gathered> for Bytes {
    fn from(gathered: Gathered) -> Self {
        let range = 0..gathered.len;
        Self(Repr::Gathered(Arc::new(gathered), range))
    }
}

impl Default for Bytes {
    fn default() -> Self {
        Self::from(Gathered::default())
    }
}

impl Deref for Bytes {
    type Target = [u8];

    #[expect(
        clippy::indexing_slicing,
        reason = "the range was made within these bytes (`within`, or all of them), which nobody changes any more"
    )]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Repr::Frame(frame, range) => &frame.bytes()[range.clone()],
            Repr::Gathered(gathered, range) => &gathered.space[range.clone()],
        }
    }
}

/// Bytes put together from several places. Its memory is used again: a fresh buffer costs a page fault for every page.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    /// Initialised all through.
    space: Vec<u8>,
    /// Bytes in use, from the start.
    len: usize,
}

static SPARE: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

impl Gathered {
    /// An empty one with room for `room` bytes.
    pub(super) fn with_room(room: usize) -> Result<Self, Error> {
        let no_memory = |_| Error::NoMemory(room as u64);
        let mut space = lock(&SPARE).pop().unwrap_or_default();
        let more = room.saturating_sub(space.len());
        space.try_reserve_exact(more).map_err(no_memory)?;
        space.resize(space.len() + more, 0);
        Ok(Self { space, len: 0 })
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Appends `bytes`, for which there is room.
    #[expect(
        clippy::indexing_slicing,
        reason = "room: the caller made it, and `len` counts what is filled of it"
    )]
    pub(super) fn append(&mut self, bytes: &[u8]) {
        self.space[self.len..][..bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    /// Appends what `fill` writes into the next `len` bytes, for which there is room; it tells how many those were.
    #[expect(
        clippy::indexing_slicing,
        reason = "room: the caller made it, and `len` counts what is filled of it"
    )]
    pub(super) fn append_with<E>(
        &mut self,
        len: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<usize, E> {
        let filled = fill(&mut self.space[self.len..][..len])?;
        self.len += filled.min(len);
        Ok(filled)
    }
}

impl Drop for Gathered {
    fn drop(&mut self) {
        let space = std::mem::take(&mut self.space);
        if !(1..=SPARE_BYTES_MOST).contains(&space.len()) {
            return;
        }
        let mut kept = lock(&SPARE);
        if kept.len() < SPARE_MOST {
            kept.push(space);
        }
    }
}
