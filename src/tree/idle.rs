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
    kept: Mutex<Kept>,
}

#[derive(Debug)]
struct Kept {
    captures: LruCache<u64, Capture>,
    /// Of all captures.
    table_bytes: usize,
}

#[derive(Debug)]
struct Capture {
    opened: Arc<Opened>,
    /// As large as its table was when it was kept last; one that grows is kept again whenever somebody looks.
    table_bytes: usize,
}

impl Default for Kept {
    fn default() -> Self {
        Self {
            captures: LruCache::unbounded(),
            table_bytes: 0,
        }
    }
}

impl Kept {
    fn put(&mut self, id: u64, capture: Capture) -> Option<Capture> {
        self.table_bytes += capture.table_bytes;
        let before = self.captures.put(id, capture);
        self.uncount(before)
    }

    fn pop_lru(&mut self) -> Option<Capture> {
        let oldest = self.captures.pop_lru().map(|(_, capture)| capture);
        self.uncount(oldest)
    }

    fn uncount(&mut self, capture: Option<Capture>) -> Option<Capture> {
        capture.inspect(|capture| self.table_bytes -= capture.table_bytes)
    }
}

impl Idle {
    /// A list of at most `most` captures.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self {
            most,
            turn: AtomicUsize::new(0),
            kept: Mutex::default(),
        }
    }

    /// Keeps `opened`, the capture of the inode with number `id`, as the most recently used.
    pub fn keep(&self, id: u64, opened: &Arc<Opened>) {
        let mut dropped = Vec::new();
        let capture = Capture {
            opened: Arc::clone(opened),
            table_bytes: opened.source.table_bytes(),
        };
        let looked_at = {
            let mut kept = lock(&self.kept);
            dropped.extend(kept.put(id, capture));
            // One stays whatever its table takes: it is in use at this moment, and would be walked again at once.
            while kept.captures.len() > self.most
                || kept.captures.len() > 1 && kept.table_bytes > TABLE_BYTES_MOST
            {
                let Some(oldest) = kept.pop_lru() else {
                    break;
                };
                dropped.push(oldest);
            }
            let turn = self.turn.fetch_add(1, Ordering::Relaxed) % kept.captures.len().max(1);
            let looked_at = kept.captures.iter().nth(turn);
            looked_at.map(|(id, capture)| (*id, Arc::clone(&capture.opened)))
        };
        // One is looked at each time, in turn: what was removed in SOURCE does not stay on disk for our sake.
        if let Some((id, opened)) = looked_at
            && opened.is_gone()
        {
            dropped.extend(self.remove(id, &opened));
        }
        // Descriptors are closed here, not under the lock.
        drop(dropped);
    }

    fn remove(&self, id: u64, opened: &Arc<Opened>) -> Option<Capture> {
        let mut kept = lock(&self.kept);
        let is_this = |capture: &Capture| Arc::ptr_eq(&capture.opened, opened);
        let is_kept = kept.captures.peek(&id).is_some_and(is_this);
        let capture = is_kept.then(|| kept.captures.pop(&id)).flatten();
        kept.uncount(capture)
    }

    /// Lets go of all: descriptors are short.
    pub fn clear(&self) {
        let kept = std::mem::take(&mut *lock(&self.kept));
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
