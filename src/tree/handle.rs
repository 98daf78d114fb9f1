//! Open handles.

use std::collections::HashMap;
use std::ffi::OsString;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::inode::Node;
use super::opened::Opened;
use super::origin::Stamp;
use super::scan::Listed;
use super::way::Seat;
use crate::capture::Source;
use crate::capture::prefetch::{Keeps, Pattern};
use crate::capture::sync::lock;

/// An open capture.
#[derive(Debug)]
pub struct FileHandle {
    /// Its inode.
    pub node: Arc<Node>,
    /// The capture that was there when it was opened, whatever its name leads to now.
    pub opened: Arc<Opened>,
    /// Whether the kernel passes every read on, so that a short answer is no end of the file.
    pub is_direct: bool,
    /// The file's stamp when it was opened.
    pub stamp: Stamp,
    /// The capture's size when it was opened.
    pub size: u64,
    /// How it has been read.
    pub pattern: Arc<Pattern>,
    /// Its place among the inode's handles.
    pub seat: Seat,
}

impl FileHandle {
    /// Has read ahead what will be wanted after a read of `len` bytes at `offset` of `source`, this handle's.
    pub fn read_ahead(&self, source: &Source, offset: u64, len: usize) {
        // Behind a direct reader others follow; what went through the page cache, the kernel keeps.
        let keeps = if self.is_direct {
            Keeps::Frames
        } else {
            Keeps::Nothing
        };
        source.read_ahead(&self.pattern, offset, len, keeps);
    }

    /// Whether an answer from `offset` on, where the capture has no byte, would make the kernel see zeros: it takes a short answer
    /// for the end only if no other one came before. So what lies wholly behind an end that turns out to be nearer than it
    /// was when the file was opened (a kept frame table was wrong) fails, and the answer that holds the end tells it.
    #[must_use]
    pub fn hides_end(&self, opened: &Opened, offset: u64) -> bool {
        !self.is_direct && offset < self.size && offset > opened.source.size()
    }

    /// The open file that holds this handle's bytes, as far as is known without a look: its own if it is direct, else the
    /// one that its inode was shown from last, if it still is open.
    #[must_use]
    pub fn last_opened(&self) -> Option<Arc<Opened>> {
        match self.node.capture() {
            Some(capture) if !self.is_direct => capture.opened(),
            _ => Some(Arc::clone(&self.opened)),
        }
    }
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
