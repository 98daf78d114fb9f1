//! What an inode knows of its capture: which physical file holds it now, what was last seen of it, and its open source.
//!
//! Facts of a final file hold as long as its [`Stamp`] does, without a descriptor. An open [`Opened`] is held by handles
//! and by the idle list; the node only points to it.

use std::ffi::OsString;
use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

use nix::sys::stat::{FileStat, fstat};

use super::errno::Failure;
use super::inode::Identity;
use super::origin::Stamp;
use super::scan::Found;
use crate::capture::sync::lock;
use crate::capture::{Facts, Form, Progress, Source, State};

/// An open physical file and the capture in it.
#[derive(Debug)]
pub struct Opened {
    /// The capture.
    pub source: Source,
    file: Arc<File>,
}

impl Opened {
    /// `source`, which reads `file`.
    #[must_use]
    pub fn new(source: Source, file: Arc<File>) -> Self {
        Self { source, file }
    }

    /// The physical file's status now, wherever it has been renamed to.
    pub fn stat(&self) -> Result<FileStat, Failure> {
        Ok(fstat(&self.file)?)
    }
}

/// The capture behind an inode.
#[derive(Debug)]
pub struct CaptureNode {
    seen: Mutex<Seen>,
    fault_told: AtomicBool,
}

/// What was last seen.
#[derive(Debug)]
struct Seen {
    physical: OsString,
    form: Form,
    progress: Progress,
    stamp: Stamp,
    facts: Facts,
    opened: Weak<Opened>,
    /// The content for which the kernel was last told to cache pages.
    cached: Option<Stamp>,
}

/// How the kernel is to read an opened capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caching {
    /// Every read comes here: the file grows, or is known to be damaged.
    Direct,
    /// Through the page cache, and what it holds of this inode is dropped first.
    Fresh,
    /// Through the page cache, which still holds this content.
    Keep,
}

impl CaptureNode {
    /// The capture that `opened` holds, found as `found`.
    #[must_use]
    pub fn new(found: &Found, opened: &Arc<Opened>) -> Self {
        Self {
            seen: Mutex::new(Seen {
                physical: found.physical.clone(),
                form: found.form,
                progress: found.progress,
                stamp: Stamp::of(&found.stat),
                facts: opened.source.facts(),
                opened: Arc::downgrade(opened),
                cached: None,
            }),
            fault_told: AtomicBool::new(false),
        }
    }

    /// What identifies the content in `facts` of the file with `stamp`.
    #[must_use]
    pub fn identity(facts: &Facts, stamp: &Stamp) -> Identity {
        if facts.file_id.is_provisional() {
            let (file, mtime) = stamp.content();
            Identity::Physical(file, mtime)
        } else {
            Identity::Capture(facts.file_id)
        }
    }

    /// What was last seen of it.
    #[must_use]
    pub fn facts(&self) -> Facts {
        lock(&self.seen).facts.clone()
    }

    /// How it is stored.
    #[must_use]
    pub fn form(&self) -> Form {
        lock(&self.seen).form
    }

    /// The name of its physical file, within the folder.
    #[must_use]
    pub fn physical(&self) -> OsString {
        lock(&self.seen).physical.clone()
    }

    /// The physical file that was last seen, with `stat` for its status.
    #[must_use]
    pub fn found(&self, stat: FileStat) -> Found {
        let seen = lock(&self.seen);
        Found {
            form: seen.form,
            progress: seen.progress,
            physical: seen.physical.clone(),
            stat,
        }
    }

    /// The open source, if somebody still holds it.
    #[must_use]
    pub fn opened(&self) -> Option<Arc<Opened>> {
        lock(&self.seen).opened.upgrade()
    }

    /// Whether `found` is the very content that was seen, with nothing left to learn about it.
    #[must_use]
    pub fn is_unchanged(&self, found: &Found) -> bool {
        let seen = lock(&self.seen);
        seen.progress == Progress::Final
            && found.progress == Progress::Final
            && seen.form == found.form
            && seen.facts.state != State::Draining
            && seen.stamp == Stamp::of(&found.stat)
    }

    /// Whether `found` is the physical file that was seen, still being written or renamed since.
    #[must_use]
    pub fn is_grown(&self, found: &Found) -> bool {
        let seen = lock(&self.seen);
        let is_settled = seen.progress == Progress::Final && seen.facts.state != State::Draining;
        !is_settled && seen.form == found.form && seen.stamp.file == Stamp::of(&found.stat).file
    }

    /// Whether `facts`, of the physical file `stat`, are of the same capture as what was seen.
    ///
    /// Without a FileId on either side the physical file decides: a provisional id is promoted in place.
    #[must_use]
    pub fn is_same(&self, facts: &Facts, stat: &FileStat) -> bool {
        let seen = lock(&self.seen);
        if seen.facts.file_id.is_provisional() || facts.file_id.is_provisional() {
            seen.stamp.file == Stamp::of(stat).file
                && (seen.progress == Progress::Partial
                    || seen.stamp.content() == Stamp::of(stat).content())
        } else {
            seen.facts.file_id == facts.file_id
        }
    }

    /// Takes over what `opened`, found as `found`, shows now.
    pub fn update(&self, found: &Found, opened: &Arc<Opened>) {
        let facts = opened.source.facts();
        let mut seen = lock(&self.seen);
        seen.physical.clone_from(&found.physical);
        seen.form = found.form;
        seen.progress = found.progress;
        seen.stamp = Stamp::of(&found.stat);
        seen.facts = facts;
        seen.opened = Arc::downgrade(opened);
    }

    /// Takes over what the open source shows now.
    pub fn update_facts(&self, opened: &Opened) {
        let facts = opened.source.facts();
        lock(&self.seen).facts = facts;
    }

    /// Whether the facts are those of the file with status `stat`.
    #[must_use]
    pub fn holds_for(&self, stat: &FileStat) -> bool {
        lock(&self.seen).stamp == Stamp::of(stat)
    }

    /// How a new handle is to be read, and remembers it: only the first one after a change drops the kernel's pages.
    #[must_use]
    pub fn caching(&self) -> Caching {
        let mut seen = lock(&self.seen);
        if seen.facts.state != State::Complete {
            return Caching::Direct;
        }
        let stamp = Some(seen.stamp);
        if seen.cached == stamp {
            Caching::Keep
        } else {
            seen.cached = stamp;
            Caching::Fresh
        }
    }

    /// Whether the fault of this capture is to be logged now: true once.
    #[must_use]
    pub fn tell_fault(&self) -> bool {
        !self.fault_told.swap(true, Ordering::Relaxed)
    }
}
