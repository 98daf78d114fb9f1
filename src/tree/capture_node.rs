//! What an inode knows of its capture: which physical file holds it now, what was last seen of it, and its open source.
//!
//! Facts of a final file hold as long as its [`Stamp`] does, without a descriptor. An open [`Opened`] is held by handles
//! and by the idle list; the node only points to it.

use std::ffi::OsString;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use nix::sys::stat::FileStat;

use super::attr::{Attributes, Lifetime};
use super::errno::Failure;
use super::inode::Identity;
use super::opened::Opened;
use super::origin::Stamp;
use super::scan::Found;
use super::way::Ways;
use crate::capture::sync::lock;
use crate::capture::{Facts, Form, Known, Progress, State};

/// The smallest unit of the page cache.
const PAGE: u64 = 4096;

/// The capture behind an inode.
#[derive(Debug)]
pub struct CaptureNode {
    seen: Mutex<Seen>,
    /// Somebody reads the growing capture through the page cache: by mmap, splice or sendfile.
    is_mapped: AtomicBool,
    /// Made with the first handle: most captures are looked at and never opened.
    ways: OnceLock<Arc<Ways>>,
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
    /// The kernel has read through its page cache what the file with this stamp holds.
    is_cached: bool,
    /// The size that the kernel was last told.
    told_size: u64,
    /// Mode, owner and group that the kernel was last told, where it may rely on them.
    told_rights: Option<(u16, u32, u32)>,
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
                is_cached: false,
                told_size: 0,
                told_rights: None,
            }),
            is_mapped: AtomicBool::new(false),
            ways: OnceLock::new(),
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
        self.ways.get_or_init(Arc::default)
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

    /// Notes that the kernel is told `attributes`.
    pub fn note_told(&self, attributes: &Attributes) {
        let rights = (attributes.mode, attributes.uid, attributes.gid);
        let is_relied_on = attributes.lifetime != Lifetime::Live;
        lock(&self.seen).told_rights = is_relied_on.then_some(rights);
    }

    /// Whether the kernel may go by rights that are no longer those in `attributes`.
    ///
    /// A path brings new ones with its look-up. A descriptor that is opened again (`/proc/self/fd`) brings none, and it
    /// may have been had without the right to read.
    #[must_use]
    pub fn is_told_otherwise(&self, attributes: &Attributes) -> bool {
        let rights = (attributes.mode, attributes.uid, attributes.gid);
        lock(&self.seen)
            .told_rights
            .is_some_and(|told| told != rights)
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
        let stamp = Stamp::of(&found.stat);
        seen.is_cached &= seen.stamp == stamp;
        seen.stamp = stamp;
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
        } else if seen.is_cached {
            Caching::Keep
        } else {
            Caching::Fresh
        }
    }

    /// Notes that the kernel reads through its page cache what the file with `stamp` holds: the pages of what was there
    /// before are gone, for the open that dropped them was answered before this read was sent.
    pub fn note_cached(&self, stamp: Stamp) {
        let mut seen = lock(&self.seen);
        seen.is_cached |= seen.stamp == stamp;
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
