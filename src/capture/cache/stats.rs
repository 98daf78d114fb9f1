//! What the cache counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Frame, Room};

#[derive(Debug, Default)]
pub(super) struct Counters {
    hits: AtomicU64,
    decodes: AtomicU64,
    joins: AtomicU64,
    ahead: AtomicU64,
    ahead_used: AtomicU64,
    ahead_wasted: AtomicU64,
}

/// What the cache has done and holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheStats {
    /// The budget in bytes.
    pub budget_bytes: u64,
    /// Bytes that count against it now.
    pub used_bytes: u64,
    /// Frames found decoded.
    pub hits: u64,
    /// Frames decoded, failed ones included.
    pub decodes: u64,
    /// Readers that waited for another's decode of the same frame.
    pub joins: u64,
    /// Of [`Self::decodes`]: frames that nobody had asked for yet.
    pub ahead: u64,
    /// Of those, the ones that somebody asked for later.
    pub ahead_used: u64,
    /// Of those, the ones that were let go of before anybody asked.
    pub ahead_wasted: u64,
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Counters {
    /// Counts `frame` as found, for whom the answer is.
    pub(super) fn hit(&self, frame: &Arc<Frame>) -> Arc<Frame> {
        count(&self.hits);
        self.ask(frame);
        Arc::clone(frame)
    }

    /// Notes that somebody has asked for `frame`.
    pub(super) fn ask(&self, frame: &Frame) {
        if frame.is_unasked.swap(false, Ordering::Relaxed) {
            count(&self.ahead_used);
        }
    }

    /// Notes that nobody holds `frame` any more.
    pub(super) fn drop_frame(&self, frame: &Frame) {
        if frame.is_unasked.load(Ordering::Relaxed) {
            count(&self.ahead_wasted);
        }
    }

    /// Counts a decode: of a frame that somebody awaits, or of one read ahead.
    pub(super) fn decode(&self, room: Room) {
        count(&self.decodes);
        if room == Room::Found {
            count(&self.ahead);
        }
    }

    pub(super) fn join(&self) {
        count(&self.joins);
    }

    pub(super) fn stats(&self, budget_bytes: u64, used_bytes: u64) -> CacheStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        CacheStats {
            budget_bytes,
            used_bytes,
            hits: read(&self.hits),
            decodes: read(&self.decodes),
            joins: read(&self.joins),
            ahead: read(&self.ahead),
            ahead_used: read(&self.ahead_used),
            ahead_wasted: read(&self.ahead_wasted),
        }
    }
}
