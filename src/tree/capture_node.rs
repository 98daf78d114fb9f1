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
use super::way::Ways;
use crate::capture::sync::lock;
use crate::capture::{Facts, Form, Known, Progress, Source, State};

/// The smallest unit of the page cache.
const PAGE: u64 = 4096;

/// Looks at a file that is being written, until one finds size and times together.
const SIZED_ATTEMPTS: u32 = 4;

/// An open physical file and the capture in it.
#[derive(Debug)]
pub struct Opened {
    /// The capture.
    pub source: Source,
    pub(super) file: Arc<File>,
    /// The status of a file that no longer grows, before and after what is known of it was walked; `None` while it grows,
    /// or when it changed meanwhile.
    settled: Mutex<Option<Stamp>>,
}

impl Opened {
    /// `source`, which reads `file` and was walked after its status was `before`.
    #[must_use]
    pub fn new(source: Source, file: Arc<File>, before: &FileStat) -> Self {
        let opened = Self {
            source,
            file,
            settled: Mutex::new(None),
        };
        opened.settle(Stamp::of(before));
        opened
    }

    /// Looks at the file again: walks what has come, knowing whether its name was seen to be final.
    pub fn look(&self, progress: Progress) -> Result<(), Failure> {
        if progress == Progress::Final {
            self.source.rename_seen();
        }
        self.refresh()
    }

    /// Looks at the file again under the name it was last seen with.
    pub fn refresh(&self) -> Result<(), Failure> {
        let before = Stamp::of(&self.stat()?);
        self.source.refresh()?;
        self.settle(before);
        Ok(())
    }

    /// Whether the file may change and still be this capture: it grows, or is a raw one, which may be written to under its
    /// final name too.
    #[must_use]
    pub fn changes(&self) -> bool {
        self.source.may_grow() || self.source.form() == Form::Raw
    }

    /// What is known of the capture, and the status that the file had at that length: every size has its own times.
    ///
    /// A writer that is faster than this leaves them a moment apart.
    pub fn sized(&self) -> Result<(Facts, FileStat), Failure> {
        let mut attempts = 1..SIZED_ATTEMPTS;
        loop {
            let (facts, stat) = (self.source.facts(), self.stat()?);
            let is_one = u64::try_from(stat.st_size) == Ok(facts.physical_len);
            if is_one || !self.changes() || attempts.next().is_none() {
                return Ok((facts, stat));
            }
            self.refresh()?;
        }
    }

    /// Notes for which status the file was walked, once nothing more may come. From here on every read compares it: so it
    /// must be known before the first one, or what was written over the file until then would be taken for the capture.
    fn settle(&self, before: Stamp) {
        let is_still = |stat| Stamp::of(&stat) == before;
        if !self.source.may_grow() && self.stat().is_ok_and(is_still) {
            lock(&self.settled).get_or_insert(before);
        }
    }

    /// The physical file's status now, wherever it has been renamed to.
    pub fn stat(&self) -> Result<FileStat, Failure> {
        Ok(fstat(&self.file)?)
    }

    /// Whether no name leads to the file any more, so that only its descriptor keeps it on disk.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.stat().is_ok_and(|stat| stat.st_nlink == 0)
    }

    /// Whether the file still holds this capture, as far as can be told now: what a new handle may be given.
    pub fn is_current(&self) -> Result<bool, Failure> {
        if self.source.may_grow() {
            self.refresh()?;
            return Ok(!self.source.facts().is_replaced);
        }
        match self.check_unchanged() {
            Err(Failure::Stale) => Ok(false),
            outcome => outcome.map(|()| true),
        }
    }

    /// Whether a file that no longer grows still holds what was walked.
    ///
    /// # Errors
    /// [`Failure::Stale`] when it was written over: what would be read now is not what this capture was.
    pub fn check_unchanged(&self) -> Result<(), Failure> {
        let now = Stamp::of(&self.stat()?);
        let settled = *lock(&self.settled);
        match settled {
            Some(settled) if settled == now => return Ok(()),
            Some(settled) if self.source.form() == Form::Zst && !settled.is_written_as(&now) => {
                return Err(Failure::Stale);
            }
            // Renamed, its rights changed, or written over with the time of the last write put back; or it changed while it
            // was walked; or a raw file that is written to under its final name.
            _ if !self.source.is_as_walked()? => return Err(Failure::Stale),
            _ => {}
        }
        *lock(&self.settled) = Some(now);
        Ok(())
    }
}

/// The capture behind an inode.
#[derive(Debug)]
pub struct CaptureNode {
    seen: Mutex<Seen>,
    /// Somebody reads the growing capture through the page cache: by mmap, splice or sendfile.
    is_mapped: AtomicBool,
    ways: Arc<Ways>,
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
    /// The size that the kernel was last told.
    told_size: u64,
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
                told_size: 0,
            }),
            is_mapped: AtomicBool::new(false),
            ways: Arc::default(),
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

    /// What its open handles do.
    pub(super) fn ways(&self) -> &Arc<Ways> {
        &self.ways
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

    /// What a source that is opened again for `found` has to know: of the same partial file, what was shown of it.
    #[must_use]
    pub fn known_for(&self, found: &Found) -> Known {
        let seen = lock(&self.seen);
        let is_same_file = seen.stamp.file == Stamp::of(&found.stat).file;
        if is_same_file && seen.form == found.form && seen.progress == Progress::Partial {
            Known {
                size: seen.facts.frontier,
                file_id: seen.facts.file_id,
                header: seen.facts.header,
            }
        } else {
            Known::default()
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
        if facts.is_replaced {
            return false;
        }
        let seen = lock(&self.seen);
        let stamp = Stamp::of(stat);
        match (
            seen.facts.file_id.is_provisional(),
            facts.file_id.is_provisional(),
        ) {
            (true, _) => {
                // A raw file that is no pcap never gets an id, and may be written to under its final name.
                seen.stamp.file == stamp.file
                    && (seen.progress == Progress::Partial
                        || seen.facts.state == State::Draining
                        || seen.form == Form::Raw
                        || seen.stamp.content() == stamp.content())
            }
            // What had a first record and has none is not what it was.
            (false, true) => false,
            (false, false) => seen.facts.file_id == facts.file_id,
        }
    }

    /// Takes over what `opened`, found as `found`, shows now.
    pub fn update(&self, found: &Found, opened: &Arc<Opened>) {
        let mut seen = lock(&self.seen);
        // Under the lock: what a slower thread saw earlier must not replace what was told since.
        let facts = opened.source.facts();
        seen.physical.clone_from(&found.physical);
        seen.form = found.form;
        seen.progress = found.progress;
        seen.stamp = Stamp::of(&found.stat);
        seen.facts = facts;
        seen.opened = Arc::downgrade(opened);
    }

    /// Takes over what `opened` shows now, if it still is the file that the name led to last.
    pub fn update_facts(&self, opened: &Arc<Opened>) {
        let mut seen = lock(&self.seen);
        if std::ptr::eq(seen.opened.as_ptr(), Arc::as_ptr(opened)) {
            // Under the lock, as in `update`.
            seen.facts = opened.source.facts();
        }
    }

    /// [`Opened::sized`], and takes over what it told: that is not taken back when the file is opened again.
    pub fn sized(&self, opened: &Arc<Opened>) -> Result<(Facts, FileStat), Failure> {
        let sized = opened.sized()?;
        self.update_facts(opened);
        Ok(sized)
    }

    /// Whether the facts are those of the file with status `stat`.
    #[must_use]
    pub fn holds_for(&self, stat: &FileStat) -> bool {
        lock(&self.seen).stamp == Stamp::of(stat)
    }

    /// How a new handle is to be read: until reads have come through the page cache, each drops what it held before.
    #[must_use]
    pub fn caching(&self) -> Caching {
        let seen = lock(&self.seen);
        // A raw file may be written to under its final name too: nothing tells whether it is.
        if seen.facts.state != State::Complete || seen.form == Form::Raw {
            Caching::Direct
        } else if seen.cached == Some(seen.stamp) {
            Caching::Keep
        } else {
            Caching::Fresh
        }
    }

    /// Notes that the kernel reads through its page cache what the file with `stamp` holds: the pages of what was there
    /// before are gone, for the open that dropped them was answered before this read was sent.
    pub fn note_cached(&self, stamp: Stamp) {
        let mut seen = lock(&self.seen);
        if seen.stamp == stamp {
            seen.cached = Some(stamp);
        }
    }

    /// The stamp of the file that was last seen.
    #[must_use]
    pub fn stamp(&self) -> Stamp {
        lock(&self.seen).stamp
    }

    /// Notes that the kernel has read this capture into its page cache though the handle is direct.
    pub fn note_mapped(&self) {
        self.is_mapped.store(true, Ordering::Relaxed);
    }

    /// Whether the kernel holds pages that have to go before it is told a larger size, or other content.
    #[must_use]
    pub fn is_mapped(&self) -> bool {
        self.is_mapped.load(Ordering::Relaxed)
    }

    /// The offset from which on the kernel has to drop its pages before it is told `size`; `None` if it need not.
    ///
    /// When a size grows, the kernel zeroes the rest of the page that held the old end, and a reader of a page that came
    /// meanwhile sees those zeros (docs/SEMANTICS.md, growing captures). So the page goes first. Calls and the replies that
    /// follow them must come in one order, from one thread.
    #[must_use]
    pub fn pages_to_drop(&self, size: u64) -> Option<u64> {
        let mut seen = lock(&self.seen);
        let told = std::mem::replace(&mut seen.told_size, size);
        (size > told).then_some(told - told % PAGE)
    }
}
