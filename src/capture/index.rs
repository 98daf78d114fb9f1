//! Frame tables of complete compressed captures, kept between mounts: a look at one that has not changed needs no walk.
//!
//! An entry belongs to one state of one physical file: device, inode number, size and times. What is found is never
//! trusted: an entry that is wrong in itself, or does not fit the file's first bytes, is dropped and the file is walked. Each
//! frame read through it is measured anew and checked as always, and one that is not there makes the file be walked after
//! all. Entries are written by a thread of their own, nothing waits for it, and no failure of the folder is an error.

mod entry;
mod folder;
#[cfg(any(test, fuzzing))]
pub mod fuzz;

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use self::entry::ENTRY_MOST;
pub(super) use self::entry::Kept;
use self::folder::Folder;
use super::error::Error;
use super::stamp::Stamp;
use super::sync::lock;
use crate::lane::Lane;

/// The default of the most bytes that all entries take together: 1 GiB are 262,144 captures of up to 600 frames each, or 160
/// million frames: 37,000 captures of 1 GiB.
pub const INDEX_BYTES: u64 = 1024 * 1024 * 1024;
/// Frames that make an entry worth its file: a warm walk over fewer takes less than reading, checking and writing one, and
/// on a cold disk the walk reads no more places than a few readaheads cover.
pub(super) const FRAMES_LEAST: usize = 64;
/// Bytes of entries that wait to be written. Beyond that entries are left out: the next look at the file tries again.
const WAITING_BYTES_MOST: u64 = ENTRY_MOST;
/// Entries that wait to be written; below the number at which a lane has its caller do the work.
const WAITING_MOST: usize = 2048;

/// Kept frame tables in a folder.
#[derive(Debug)]
pub struct Index {
    shared: Arc<Shared>,
    /// One thread: it writes small files, and the order does not matter.
    writing: Lane,
}

#[derive(Debug)]
struct Shared {
    folder: Folder,
    hits: AtomicU64,
    misses: AtomicU64,
    drops: AtomicU64,
    waiting: Mutex<Waiting>,
    /// Notified when nothing waits any more.
    written: Condvar,
    has_complained: AtomicBool,
}

#[derive(Debug, Default)]
struct Waiting {
    entries: usize,
    bytes: u64,
}

/// Counters of an index; each only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexStats {
    /// Captures that were opened without a walk.
    pub hits: u64,
    /// Captures for which there was no good entry.
    pub misses: u64,
    /// Entries dropped because they were wrong: for another state of the file, of another version, or damaged.
    pub drops: u64,
}

impl Index {
    /// The index in the folder at `path`, which is made if it is not there. All entries together take `bytes_most` bytes at
    /// most.
    ///
    /// # Errors
    /// The folder cannot be made, or nothing can be written into it.
    pub fn open(path: &Path, bytes_most: u64) -> io::Result<Self> {
        Ok(Self {
            shared: Arc::new(Shared {
                folder: Folder::open(path, bytes_most)?,
                hits: AtomicU64::new(0),
                misses: AtomicU64::new(0),
                drops: AtomicU64::new(0),
                waiting: Mutex::default(),
                written: Condvar::new(),
                has_complained: AtomicBool::new(false),
            }),
            writing: Lane::new("pcapzst-index", 1),
        })
    }

    /// The counters.
    #[must_use]
    pub fn stats(&self) -> IndexStats {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        IndexStats {
            hits: of(&self.shared.hits),
            misses: of(&self.shared.misses),
            drops: of(&self.shared.drops),
        }
    }

    /// What is kept of the file with `stamp`, if it is good and `fits` says that it fits the file. One that is wrong is
    /// dropped; where the file's disk fails, it is not known to be. Blocks on one small file.
    pub(super) fn find<T>(
        &self,
        stamp: &Stamp,
        fits: impl FnOnce(&Kept) -> Result<Option<T>, Error>,
    ) -> Option<(Kept, T)> {
        let found = self.shared.read(stamp).and_then(|kept| match fits(&kept) {
            Ok(Some(fit)) => Some((kept, fit)),
            Ok(None) => {
                self.drop_wrong(stamp, &"it does not fit the file's first bytes");
                None
            }
            Err(_) => None,
        });
        let counter = match found {
            Some(_) => &self.shared.hits,
            None => &self.shared.misses,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        found
    }

    /// Drops the entry of the file with `stamp`: it is wrong.
    pub(super) fn drop_wrong(&self, stamp: &Stamp, why: &dyn std::fmt::Display) {
        self.shared.drop_wrong(stamp, why);
    }

    /// Has `kept` written, soon, if there is room for it. Never blocks.
    pub(super) fn keep(&self, kept: &Kept) {
        let Some(bytes) = kept.encode() else {
            return;
        };
        let len = bytes.len() as u64;
        {
            let mut waiting = lock(&self.shared.waiting);
            if waiting.entries >= WAITING_MOST || waiting.bytes + len > WAITING_BYTES_MOST {
                return;
            }
            waiting.entries += 1;
            waiting.bytes += len;
        }
        let name = name_of(&kept.stamp);
        // Counted down when it is dropped: however the job ends.
        let counted = Counted {
            shared: Arc::clone(&self.shared),
            len,
        };
        self.writing.run(move || {
            let shared = &counted.shared;
            if let Err(error) = shared.folder.replace(&name, &bytes) {
                shared.complain(&error);
            }
        });
    }

    /// Waits until what is to be written is, but not for longer than `patience`.
    pub fn finish(&self, patience: Duration) {
        let waiting = lock(&self.shared.waiting);
        let is_busy = |waiting: &mut Waiting| waiting.entries > 0;
        let written = &self.shared.written;
        drop(
            written
                .wait_timeout_while(waiting, patience, is_busy)
                .unwrap_or_else(PoisonError::into_inner),
        );
    }
}

impl Shared {
    fn read(&self, stamp: &Stamp) -> Option<Kept> {
        let name = name_of(stamp);
        let kept = match self.folder.entry(&name) {
            Ok(None) => return None,
            Ok(Some((file, len))) => Kept::decode(file, len, stamp),
            // Short of descriptors: nothing is wrong with the entry.
            Err(error) if is_shortage(&error) => return None,
            Err(error) => Err(error),
        };
        kept.inspect_err(|error| self.drop_wrong(stamp, error)).ok()
    }

    fn drop_wrong(&self, stamp: &Stamp, why: &dyn std::fmt::Display) {
        let name = name_of(stamp);
        log::debug!("index: entry {name} is dropped: {why}");
        self.drops.fetch_add(1, Ordering::Relaxed);
        if let Err(error) = self.folder.remove(&name) {
            self.complain(&error);
        }
    }

    /// Logs the first failure: those that follow have the same reason.
    fn complain(&self, error: &io::Error) {
        if !self.has_complained.swap(true, Ordering::Relaxed) {
            log::warn!("index: {error}; frame tables may not be kept");
        }
    }
}

/// An entry that waits to be written.
struct Counted {
    shared: Arc<Shared>,
    len: u64,
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut waiting = lock(&self.shared.waiting);
        waiting.entries -= 1;
        waiting.bytes -= self.len;
        if waiting.entries == 0 {
            self.shared.written.notify_all();
        }
    }
}

fn is_shortage(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM)
    )
}

/// An entry's name: by the file alone, so that one for its next state takes the place.
fn name_of(stamp: &Stamp) -> String {
    let (device, inode) = stamp.file;
    format!("{device:x}-{inode:x}")
}
