//! Captures kept open though no handle is, and what has been told already: both bounded.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use lru::LruCache;

use super::capture_node::Opened;
use crate::capture::sync::lock;

/// Memory for frame tables of captures that nobody has open.
const TABLE_BYTES_MOST: usize = 16 * 1024 * 1024;
/// Inodes whose fault is remembered as told.
const TOLD_MOST: usize = 4096;

/// Captures kept open for the next reader, least recently used dropped first: bounded in descriptors and table memory.
#[derive(Debug)]
pub struct Idle {
    most: usize,
    /// Counts the captures kept.
    turn: AtomicUsize,
    kept: Mutex<LruCache<u64, Arc<Opened>>>,
}

impl Idle {
    /// A list of at most `most` captures.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self {
            most,
            turn: AtomicUsize::new(0),
            kept: Mutex::new(LruCache::unbounded()),
        }
    }

    /// Keeps `opened`, the capture of the inode with number `id`, as the most recently used.
    pub fn keep(&self, id: u64, opened: &Arc<Opened>) {
        let mut dropped = Vec::new();
        {
            let mut kept = lock(&self.kept);
            dropped.extend(kept.put(id, Arc::clone(opened)));
            let mut table_bytes: usize = kept
                .iter()
                .map(|(_, opened)| opened.source.table_bytes())
                .sum();
            // One is looked at each time, in turn: what was removed in SOURCE does not stay on disk for our sake.
            let turn = self.turn.fetch_add(1, Ordering::Relaxed) % kept.len();
            let looked_at = kept.iter().nth(turn);
            let gone = looked_at.and_then(|(id, opened)| opened.is_gone().then_some(*id));
            dropped.extend(gone.and_then(|id| kept.pop(&id)));
            // One stays whatever its table takes: it is in use at this moment, and would be walked again at once.
            while kept.len() > self.most || kept.len() > 1 && table_bytes > TABLE_BYTES_MOST {
                let Some((_, oldest)) = kept.pop_lru() else {
                    break;
                };
                table_bytes = table_bytes.saturating_sub(oldest.source.table_bytes());
                dropped.push(oldest);
            }
        }
        // Descriptors are closed here, not under the lock.
        drop(dropped);
    }

    /// Lets go of all: descriptors are short.
    pub fn clear(&self) {
        let kept = std::mem::replace(&mut *lock(&self.kept), LruCache::unbounded());
        drop(kept);
    }
}

/// What was logged once and need not be again. Forgets the oldest, so that it stays small.
#[derive(Debug)]
pub struct Told(Mutex<LruCache<u64, ()>>);

impl Default for Told {
    fn default() -> Self {
        Self(Mutex::new(LruCache::unbounded()))
    }
}

impl Told {
    /// Whether `what` was not told before; from now on it was.
    pub fn is_first(&self, what: u64) -> bool {
        let mut told = lock(&self.0);
        let is_first = told.put(what, ()).is_none();
        if told.len() > TOLD_MOST {
            told.pop_lru();
        }
        is_first
    }
}
