//! One capture on disk: its bytes at source offsets, its true size, its state, and the writer that makes one.
//!
//! [`source::Source`] is the one type that the floors above hold. What captures share (the cache of decoded frames, the
//! decoders, the limits) is the [`Engine`].

mod bad_frame;
pub mod batch;
mod bytes;
pub mod cache;
pub mod decode;
pub mod error;
pub mod follow;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub mod index;
pub mod live;
pub mod medium;
pub mod prefetch;
mod raw;
mod reach;
pub mod read_at;
pub mod records;
pub mod report;
mod route;
pub mod source;
pub mod stamp;
mod state;
mod survey;
pub(crate) mod sync;
mod view;
pub mod watch;
pub mod writer;
mod zst;

use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::lane::Lane;
pub use bytes::{Bytes, Pieces};
pub use error::Error;
pub use reach::Reach;
pub use source::{Facts, Form, Known, OnFault, Progress, Source, State};

/// The default of the cache's budget in bytes: 256 MiB.
pub const CACHE_SIZE: u64 = 256 * 1024 * 1024;
/// The default of the largest frame that is decoded, in source bytes: 64 MiB.
pub const MAX_FRAME_SIZE: u64 = 64 * 1024 * 1024;

/// One reader has this part of the cache read ahead at most,
const AHEAD_SHARE: u64 = 16;
/// and this many source bytes for each core: more would only leave the processor's cache before it is read.
const AHEAD_PER_CORE: u64 = 2 * 1024 * 1024;
/// Frames that wait for each core to be read ahead.
const AHEAD_WAITING_PER_CORE: usize = 16;

/// What the captures of one mount, or one command, share.
#[derive(Debug)]
pub struct Engine {
    cache: cache::Cache,
    decoder: decode::Decoder,
    max_frame_size: u64,
    next_generation: AtomicU64,
    /// Tables that outlive the mount.
    index: Option<index::Index>,
    /// Decodes what sequential readers will want next; `None` where only callers' own threads work.
    ahead: Option<Lane>,
    /// The most source bytes read ahead of one reader.
    ahead_most: u64,
    /// The most frames that wait to be read ahead.
    ahead_waiting: usize,
}

impl Engine {
    /// An engine that keeps decoded frames in `cache_size` bytes and refuses frames over `max_frame_size` source bytes.
    ///
    /// A frame must fit the cache with what the cache itself takes, so the limit is never more than that.
    #[must_use]
    pub fn new(cache_size: u64, max_frame_size: u64) -> Self {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        Self {
            ahead: Some(Lane::new("pcapzst-ahead", cores)),
            ahead_most: (cache_size / AHEAD_SHARE).min(cores as u64 * AHEAD_PER_CORE),
            ahead_waiting: cores * AHEAD_WAITING_PER_CORE,
            cache: cache::Cache::new(cache_size),
            decoder: decode::Decoder::default(),
            max_frame_size: max_frame_size.min(cache::largest_frame(cache_size)),
            next_generation: AtomicU64::new(0),
            index: None,
        }
    }

    /// The same engine, with frame tables of complete captures kept in `index`, and taken from it.
    #[must_use]
    pub fn with_index(self, index: Option<index::Index>) -> Self {
        Self { index, ..self }
    }

    /// The same engine, which starts no threads: nothing is decoded before it is asked for.
    #[must_use]
    pub fn without_threads(self) -> Self {
        Self {
            ahead: None,
            ..self
        }
    }

    /// Counters of the kept frame tables; zeros where none are kept.
    #[must_use]
    pub fn index_stats(&self) -> index::IndexStats {
        self.index
            .as_ref()
            .map(index::Index::stats)
            .unwrap_or_default()
    }

    /// Waits until what is to be kept is on its way to the disk, but not for longer than `patience`.
    pub fn finish(&self, patience: Duration) {
        if let Some(index) = &self.index {
            index.finish(patience);
        }
    }

    /// Has buffers made ready for the next decodes, if they run short. Never blocks.
    fn prepare(self: &Arc<Self>) {
        if self.ahead.is_some() && self.cache.is_short() {
            let engine = Arc::clone(self);
            self.run_ahead(move || engine.cache.prepare());
        }
    }

    /// Has `job` done by another thread, if there is one and few others wait; whether it will be.
    fn run_ahead(&self, job: impl FnOnce() + Send + 'static) -> bool {
        self.ahead
            .as_ref()
            .is_some_and(|ahead| ahead.run_within(self.ahead_waiting, job))
    }

    /// Counters of the frame cache.
    #[must_use]
    pub fn cache_stats(&self) -> cache::CacheStats {
        self.cache.stats()
    }

    fn next_generation(&self) -> u64 {
        self.next_generation.fetch_add(1, Ordering::Relaxed)
    }
}

impl Default for Engine {
    fn default() -> Self {
        Self::new(CACHE_SIZE, MAX_FRAME_SIZE)
    }
}
