//! What counts against the cache's budget, and how room is made within it.

use std::sync::Arc;

use super::{Cache, Flight, Frame, Key, SPARE_MOST, Slot, State};
use crate::capture::sync::lock;

/// Memory around a frame's bytes: map entry, reference counts, allocator. So that millions of tiny frames count too.
pub(super) const OVERHEAD_BYTES: u64 = 256;
/// A spare buffer for physical bytes is this many times as large as needed at most.
const STORED_SLACK: usize = 4;
/// Buffers that lie ready for the next decodes while the budget has room.
const READY: usize = 2;
/// The least step between sizes of buffers.
const SIZE_CLASS_LEAST: usize = 64;

/// Bytes and what they count against the budget.
#[derive(Debug, Default)]
pub(super) struct Buffer {
    /// As long as its size class, and initialised all through: what is used again is not cleared first.
    pub(super) space: Vec<u8>,
    /// Bytes in use, from the start.
    pub(super) len: usize,
    pub(super) charged: u64,
}

impl Buffer {
    pub(super) fn bytes(&self) -> &[u8] {
        self.space.get(..self.len).unwrap_or_default()
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        self.space.get_mut(..self.len).unwrap_or_default()
    }
}

/// What a buffer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    /// A frame's source bytes, which may stay: exactly of the size class.
    Source,
    /// Physical bytes, for the time of one decode: any that is large enough, and not far too large.
    Stored,
}

impl Cache {
    /// Whether [`Self::prepare`] has something to do.
    #[must_use]
    pub fn is_short(&self) -> bool {
        lock(&self.shared.state).short_of.is_some()
    }

    /// Makes buffers for the next decodes, within the budget and without taking anything from anybody: memory that was not
    /// used before costs a page fault for every page, which a reader need not wait for.
    pub fn prepare(&self) {
        let shared = &self.shared;
        loop {
            let capacity = {
                let mut state = lock(&shared.state);
                let Some(capacity) = state.short_of else {
                    return;
                };
                if !state.has_room_for_spare(capacity, shared.budget_bytes) {
                    state.short_of = None;
                    return;
                }
                state.used_bytes += cost(capacity);
                capacity
            };
            let mut buffer = Buffer {
                charged: cost(capacity),
                ..Buffer::default()
            };
            // Without memory it goes back empty, and the next reader is told.
            let is_there = buffer.space.try_reserve_exact(capacity).is_ok();
            if is_there {
                buffer.space.resize(capacity, 0);
            } else {
                lock(&shared.state).short_of = None;
            }
            shared.give_back(buffer);
        }
    }
}

impl State {
    /// Whether one more spare buffer of `capacity` is wanted, and fits the budget beside what is used.
    fn has_room_for_spare(&self, capacity: usize, budget_bytes: u64) -> bool {
        let is_alike = |spare: &&Buffer| spare.space.len() == capacity;
        self.spare.len() < SPARE_MOST
            && self.spare.iter().filter(is_alike).count() < READY
            && self.used_bytes + self.spare_bytes + cost(capacity) <= budget_bytes
    }

    /// Marks the frame as being decoded.
    pub(super) fn begin_flight(&mut self, key: Key) -> Arc<Flight> {
        let flight = Arc::new(Flight::default());
        self.slots.put(key, Slot::Decoding(Arc::clone(&flight)));
        flight
    }

    /// Two buffers, charged, if the budget has room for both.
    pub(super) fn take_both(
        &mut self,
        capacities: [usize; 2],
        budget_bytes: u64,
    ) -> Option<[Buffer; 2]> {
        let spare = [
            self.take_spare(capacities[0], Use::Source),
            self.take_spare(capacities[1], Use::Stored),
        ];
        let charged = |buffer: &Option<Buffer>, capacity| match buffer {
            Some(_) => 0,
            None => cost(capacity),
        };
        let more = charged(&spare[0], capacities[0]) + charged(&spare[1], capacities[1]);
        if self.used_bytes + self.spare_bytes + more > budget_bytes {
            for buffer in spare.into_iter().flatten() {
                self.used_bytes -= buffer.charged;
                self.spare_bytes += buffer.charged;
                self.spare.push(buffer);
            }
            return None;
        }
        self.used_bytes += more;
        self.short_of =
            Some(capacities[0]).filter(|capacity| self.has_room_for_spare(*capacity, budget_bytes));
        let [first, second] = spare;
        let fresh = |capacity| Buffer {
            space: Vec::new(),
            len: 0,
            charged: cost(capacity),
        };
        Some([
            first.unwrap_or_else(|| fresh(capacities[0])),
            second.unwrap_or_else(|| fresh(capacities[1])),
        ])
    }

    /// A spare buffer for `capacity` bytes, a size class, counted as used from now on.
    fn take_spare(&mut self, capacity: usize, what_for: Use) -> Option<Buffer> {
        let most = match what_for {
            Use::Source => capacity,
            Use::Stored => capacity.saturating_mul(STORED_SLACK),
        };
        let fits = |spare: &Buffer| (capacity..=most).contains(&spare.space.len());
        // The last one given back is the likeliest to be in a CPU cache still.
        let index = self.spare.iter().rposition(fits)?;
        let spare = self.spare.swap_remove(index);
        self.spare_bytes -= spare.charged;
        self.used_bytes += spare.charged;
        Some(spare)
    }

    /// Least recently used frames of at least `bytes` in total; fewer if there are no more. Decodes in flight stay.
    pub(super) fn evict(&mut self, bytes: u64) -> Vec<Arc<Frame>> {
        let mut victims = Vec::new();
        let mut freed = 0;
        let mut in_flight = Vec::new();
        while freed < bytes {
            match self.slots.pop_lru() {
                Some((_, Slot::Ready(frame))) => {
                    freed += frame.buffer.charged;
                    victims.push(frame);
                }
                Some(flight) => in_flight.push(flight),
                None => break,
            }
        }
        for (key, slot) in in_flight {
            self.slots.put(key, slot);
        }
        victims
    }
}

/// `len` rounded up to one of eight steps between powers of two, so that frames of nearly one length share buffers.
pub(super) fn size_class(len: usize) -> usize {
    let step = (len.checked_next_power_of_two().unwrap_or(len) / 16).max(SIZE_CLASS_LEAST);
    len.div_ceil(step).saturating_mul(step)
}

/// The largest frame in source bytes that a cache of `budget_bytes` can decode: beside it there must be room for its
/// physical bytes, which are hardly more, and for what rounding up adds.
#[must_use]
pub fn largest_frame(budget_bytes: u64) -> u64 {
    budget_bytes / 5 * 2
}

/// What a buffer of `capacity` counts.
pub(super) fn cost(capacity: usize) -> u64 {
    capacity as u64 + OVERHEAD_BYTES
}
