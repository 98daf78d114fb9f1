//! Open handles, and captures kept open though no handle is.

use std::collections::HashMap;
use std::ffi::OsString;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use lru::LruCache;

use super::capture_node::Opened;
use super::inode::Node;
use super::scan::Listed;
use crate::capture::sync::lock;

/// Memory for frame tables of captures that nobody has open.
const IDLE_TABLE_BYTES: usize = 16 * 1024 * 1024;

/// An open capture.
#[derive(Debug)]
pub struct FileHandle {
    /// Its inode.
    pub node: Arc<Node>,
    /// The capture that was there when it was opened, whatever its name leads to now.
    pub opened: Arc<Opened>,
    /// Whether the kernel passes every read on, so that a short answer is no end of the file.
    pub is_direct: bool,
}

/// One name in an open folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolderEntry {
    /// The name.
    pub name: OsString,
    /// What it leads to.
    pub listed: Listed,
    /// The inode's number where it is known without opening the file.
    pub id: Option<u64>,
}

/// An open folder: a listing as it was when it was first read, or rewound.
#[derive(Debug)]
pub struct FolderHandle {
    /// Its inode.
    pub node: Arc<Node>,
    /// `None` until it is read.
    pub listing: Mutex<Option<Arc<Vec<FolderEntry>>>>,
}

/// Handles of one kind by number. A number is never used twice.
#[derive(Debug)]
pub struct Handles<T> {
    next: AtomicU64,
    open: Mutex<HashMap<u64, Arc<T>>>,
}

impl<T> Default for Handles<T> {
    fn default() -> Self {
        Self {
            next: AtomicU64::new(1),
            open: Mutex::default(),
        }
    }
}

impl<T> Handles<T> {
    /// The number of the new handle `handle`.
    pub fn open(&self, handle: T) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        lock(&self.open).insert(number, Arc::new(handle));
        number
    }

    /// The handle with this number.
    #[must_use]
    pub fn find(&self, number: u64) -> Option<Arc<T>> {
        lock(&self.open).get(&number).cloned()
    }

    /// Closes the handle.
    pub fn close(&self, number: u64) {
        let closed = lock(&self.open).remove(&number);
        drop(closed);
    }

    /// Handles that are open.
    #[must_use]
    pub fn count(&self) -> usize {
        lock(&self.open).len()
    }
}

/// Captures kept open for the next reader, least recently used dropped first: bounded in descriptors and table memory.
#[derive(Debug)]
pub struct Idle {
    most: usize,
    kept: Mutex<LruCache<u64, Arc<Opened>>>,
}

impl Idle {
    /// A list of at most `most` captures.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self {
            most,
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
            while kept.len() > self.most || table_bytes > IDLE_TABLE_BYTES {
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
