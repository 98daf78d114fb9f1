//! Decoded frames, kept within a byte budget, each decoded once however many readers ask for it at the same moment.
//!
//! What counts against the budget: every buffer that holds a frame, in the cache or only in a reader's hands, being
//! decoded or kept for reuse, and the buffer its physical bytes are read into while it is decoded, plus `OVERHEAD_BYTES`
//! each. A reader that finds no room waits until others let go. So a reader must not ask for a frame while it holds another
//! one: then somebody always can go on. The budget must hold the largest frame.
//!
//! Lock order: the state's mutex, then a flight's. Neither is held over a decode, and no frame is dropped under them.

mod budget;
mod flight;
mod stats;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Condvar, Mutex};

pub use budget::largest_frame;
use budget::{Buffer, cost, size_class};
use flight::{Flight, Landing, Outcome};
use lru::LruCache;
pub use stats::CacheStats;
use stats::Counters;

use super::error::Error;
use super::sync::{lock, wait};

/// Buffers kept for reuse: about what one sequential reader gives up and has decoded ahead meanwhile.
const SPARE_MOST: usize = 64;

/// A request over several frames takes no more than this part of the budget to be answered from all of them at once.
const TOGETHER_SHARE: u64 = 32;

/// A frame of an open source: the source's id and the frame's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// Unique to one opening of one physical file.
    pub source: u64,
    /// Index in that source's frame table.
    pub frame: u64,
}

/// The cache; shared by all captures of a mount.
#[derive(Debug)]
pub struct Cache {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    budget_bytes: u64,
    state: Mutex<State>,
    /// Notified when bytes go back to the budget.
    freed: Condvar,
    counters: Counters,
}

#[derive(Debug)]
struct State {
    slots: LruCache<Key, Slot>,
    /// Bytes of all live frames and of those being decoded, overhead included.
    used_bytes: u64,
    /// Buffers of dropped frames, and what they are charged in total.
    spare: Vec<Buffer>,
    spare_bytes: u64,
    /// The size class of which buffers run short while the budget has room.
    short_of: Option<usize>,
}

#[derive(Clone, Debug)]
enum Slot {
    Ready(Arc<Frame>),
    Decoding(Arc<Flight>),
}

/// What to do where the budget has no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Room {
    /// Wait until others let go.
    Awaited,
    /// Do without the frame: it was not asked for.
    Found,
}

/// One decoded frame's source bytes. Its buffer goes back to the budget when the last holder drops it.
#[derive(Debug)]
pub struct Frame {
    buffer: Buffer,
    home: Arc<Shared>,
    /// It was decoded ahead, and nobody has asked for it yet.
    is_unasked: AtomicBool,
}

impl Frame {
    /// The frame's source bytes, all of them.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.buffer.bytes()
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        self.home.counters.drop_frame(self);
        let buffer = std::mem::take(&mut self.buffer);
        self.home.give_back(buffer);
    }
}

impl Drop for Cache {
    /// Lets go of the frames: each holds the place that its buffer goes back to, which holds the frames.
    fn drop(&mut self) {
        let none = LruCache::unbounded();
        // The lock ends with the statement: a frame that is dropped takes it.
        let frames = std::mem::replace(&mut lock(&self.shared.state).slots, none);
        drop(frames);
    }
}

impl Cache {
    /// An empty cache of `budget_bytes`.
    #[must_use]
    pub fn new(budget_bytes: u64) -> Self {
        Self {
            shared: Arc::new(Shared {
                budget_bytes,
                state: Mutex::new(State {
                    slots: LruCache::unbounded(),
                    used_bytes: 0,
                    spare: Vec::new(),
                    spare_bytes: 0,
                    short_of: None,
                }),
                freed: Condvar::new(),
                counters: Counters::default(),
            }),
        }
    }

    /// The frame, if it is decoded already. Never blocks on a decode.
    #[must_use]
    pub fn find(&self, key: Key) -> Option<Arc<Frame>> {
        match lock(&self.shared.state).slots.get(&key) {
            Some(Slot::Ready(frame)) => Some(self.shared.counters.hit(frame)),
            _ => None,
        }
    }

    /// The frame of `len` source bytes: from the cache, from a decode in flight, or by `decode`, which fills its first
    /// buffer, of exactly `len` bytes, by way of its second, of `stored_len`.
    ///
    /// Blocks while the frame is decoded elsewhere, and for room. A failure is handed to all who joined and is not kept.
    pub fn frame(
        &self,
        key: Key,
        len: u64,
        stored_len: u64,
        decode: impl FnOnce(&mut [u8], &mut [u8]) -> Result<(), Error>,
    ) -> Result<Arc<Frame>, Error> {
        let counters = &self.shared.counters;
        let flight = loop {
            let mut state = lock(&self.shared.state);
            match state.slots.get(&key).cloned() {
                None => break state.begin_flight(key),
                Some(Slot::Ready(frame)) => return Ok(counters.hit(&frame)),
                Some(Slot::Decoding(flight)) => {
                    drop(state);
                    counters.join();
                    if let Some(outcome) = flight.join() {
                        return outcome.inspect(|frame| counters.ask(frame));
                    }
                }
            }
        };
        let outcome = self.fly(key, &flight, [len, stored_len], Room::Awaited, decode);
        // Room was awaited, so there is an outcome.
        outcome.unwrap_or(Err(Error::NoMemory(len)))
    }

    /// As [`Self::frame`], for a frame that nobody has asked for yet: without waiting, and not at all if it is there already
    /// or there is no room.
    pub fn prefetch(
        &self,
        key: Key,
        len: u64,
        stored_len: u64,
        decode: impl FnOnce(&mut [u8], &mut [u8]) -> Result<(), Error>,
    ) {
        let flight = {
            let mut state = lock(&self.shared.state);
            if state.slots.contains(&key) {
                return;
            }
            state.begin_flight(key)
        };
        // A failure is met again, and told, by whoever asks for the frame.
        let _ = self.fly(key, &flight, [len, stored_len], Room::Found, decode);
    }

    /// Lets go of a frame, if it is decoded.
    pub fn forget(&self, key: Key) {
        let forgotten = {
            let mut state = lock(&self.shared.state);
            match state.slots.peek(&key) {
                Some(Slot::Ready(_)) => state.slots.pop(&key),
                _ => None,
            }
        };
        drop(forgotten);
    }

    /// As [`Self::find`], for one who has asked for it before and is counted.
    #[must_use]
    pub fn find_again(&self, key: Key) -> Option<Arc<Frame>> {
        match lock(&self.shared.state).slots.peek(&key) {
            Some(Slot::Ready(frame)) => Some(Arc::clone(frame)),
            _ => None,
        }
    }

    /// Whether frames that hold `len` source bytes are likely to be there together, once they were asked for.
    #[must_use]
    pub fn may_hold_together(&self, len: u64) -> bool {
        len <= self.shared.budget_bytes / TOGETHER_SHARE
    }

    /// Whether the frame is decoded, or being decoded.
    #[must_use]
    pub fn contains(&self, key: Key) -> bool {
        lock(&self.shared.state).slots.contains(&key)
    }

    /// Decodes a frame and ends its flight, whatever comes of it.
    fn fly(
        &self,
        key: Key,
        flight: &Flight,
        lens: [u64; 2],
        room: Room,
        decode: impl FnOnce(&mut [u8], &mut [u8]) -> Result<(), Error>,
    ) -> Outcome {
        let landing = Landing::new(&self.shared, key, flight);
        let outcome = self.shared.take_buffers(lens, room).map(|buffers| {
            let [buffer, stored] = buffers?;
            self.shared.counters.decode(room);
            // Both go back to the budget however this ends.
            let frame = |buffer, is_unasked| Frame {
                buffer,
                home: Arc::clone(&self.shared),
                is_unasked: AtomicBool::new(is_unasked),
            };
            let (mut frame, mut stored) =
                (frame(buffer, room == Room::Found), frame(stored, false));
            decode(frame.buffer.bytes_mut(), stored.buffer.bytes_mut())?;
            Ok(Arc::new(frame))
        });
        landing.land(outcome.clone());
        outcome
    }

    /// What the cache has done and holds now.
    #[must_use]
    pub fn stats(&self) -> CacheStats {
        let used_bytes = {
            let state = lock(&self.shared.state);
            state.used_bytes + state.spare_bytes
        };
        self.shared
            .counters
            .stats(self.shared.budget_bytes, used_bytes)
    }
}

impl Shared {
    /// Buffers of exactly `lens` bytes, counted against the budget. Evicts, then waits, until there is room for both:
    /// nobody holds the one while it waits for the other.
    fn take_buffers(&self, lens: [u64; 2], room: Room) -> Option<Result<[Buffer; 2], Error>> {
        let no_memory = || Error::NoMemory(lens[0]);
        let sizes = lens.map(|len| usize::try_from(len).unwrap_or(usize::MAX));
        let charge = sizes.map(|size| cost(size_class(size)));
        if charge[0].saturating_add(charge[1]) > self.budget_bytes {
            return Some(Err(no_memory()));
        }
        let mut buffers = self.reserve(sizes.map(size_class), room)?;
        for (buffer, size) in buffers.iter_mut().zip(sizes) {
            if buffer.space.is_empty() {
                let class = size_class(size);
                if buffer.space.try_reserve_exact(class).is_err() {
                    for buffer in buffers {
                        self.give_back(buffer);
                    }
                    return Some(Err(no_memory()));
                }
                buffer.space.resize(class, 0);
            }
            buffer.len = size;
        }
        Some(Ok(buffers))
    }

    /// Room for two buffers: spare ones that fit, or empty ones that are charged already; `None` if it was not to be waited
    /// for.
    fn reserve(&self, capacities: [usize; 2], room: Room) -> Option<[Buffer; 2]> {
        let mut dropped = Vec::new();
        let mut state = lock(&self.state);
        loop {
            if let Some(buffers) = state.take_both(capacities, self.budget_bytes) {
                drop(state);
                return Some(buffers);
            }
            if let Some(spare) = state.spare.pop() {
                state.spare_bytes -= spare.charged;
                dropped.push(spare);
                continue;
            }
            let wanted = capacities.map(cost).iter().sum();
            let victims = state.evict(wanted);
            if victims.is_empty() && !dropped.is_empty() {
                // They count no more, so they are freed before anybody waits.
                drop(state);
                dropped.clear();
                state = lock(&self.state);
            } else if victims.is_empty() && room == Room::Found {
                return None;
            } else if victims.is_empty() {
                state = wait(&self.freed, state);
            } else {
                drop(state);
                // Each gives its bytes back, unless a reader still holds it: then that reader does.
                drop(victims);
                dropped.clear();
                state = lock(&self.state);
            }
        }
    }

    fn give_back(&self, buffer: Buffer) {
        {
            let mut state = lock(&self.state);
            state.used_bytes -= buffer.charged;
            if state.spare.len() < SPARE_MOST && !buffer.space.is_empty() {
                state.spare_bytes += buffer.charged;
                state.spare.push(buffer);
            }
        }
        self.freed.notify_all();
    }
}

#[cfg(test)]
mod tests;
