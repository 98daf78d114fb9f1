//! Passthrough: the kernel reads a raw capture's file by itself. The tree says of which handle; this does it, or the handle
//! stays direct.
//!
//! The kernel knows a file that it may read by a number, a *backing id*. All handles of an inode that it counts as passed
//! must have the same one (fs/fuse/iomode.c), which therefore stays open until the last of them is released. An id holds
//! the file inside the kernel; it takes none of our descriptors.

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

use fuser::{
    BackingId, FileHandle, FopenFlags, INodeNo, InitFlags, KernelConfig, OpenFlags, ReplyOpen,
};
use nix::errno::Errno;
use nix::sys::statfs::{OVERLAYFS_SUPER_MAGIC, statfs};

use crate::capture::sync::lock;
use crate::tree::way::{FileNumber, Passing, Way};
use crate::tree::{Caching, Tree};

/// Backing files may not lie on a stacked file system, and an overlay may still be laid over this mount.
const DEPTH: u32 = 1;
/// They may lie on an overlay; none can be laid over this mount (the kernel stacks two at most).
const DEPTH_OF_OVERLAY: u32 = 2;

/// What the kernel reads by itself.
#[derive(Debug)]
pub struct Passthrough {
    /// Nothing is passed: not wanted, or the kernel or our rights do not allow it.
    is_off: AtomicBool,
    depth: u32,
    backings: Backings<BackingId>,
}

/// The ids that are open. What they are is no matter here, but that one is closed when it is dropped.
#[derive(Debug)]
struct Backings<Id>(Mutex<Known<Id>>);

#[derive(Debug)]
struct Known<Id> {
    /// The id of each inode that has one, and the file behind it.
    of_inode: HashMap<u64, (FileNumber, Weak<Id>)>,
    /// Ids are open as long as a handle has them.
    of_handle: HashMap<u64, Arc<Id>>,
}

impl<Id> Default for Backings<Id> {
    fn default() -> Self {
        Self(Mutex::new(Known {
            of_inode: HashMap::new(),
            of_handle: HashMap::new(),
        }))
    }
}

impl<Id> Backings<Id> {
    /// The id of the inode; where `of` is given, only if it is that file's.
    fn find(&self, ino: u64, of: Option<FileNumber>) -> Option<Arc<Id>> {
        let known = lock(&self.0);
        let (file, id) = known.of_inode.get(&ino)?;
        // Before it is held: that may be the last hold, and dropping it closes the id.
        if of.is_some_and(|of| of != *file) {
            return None;
        }
        id.upgrade()
    }

    /// `id`, from now on that of the inode, with the file `of` behind it.
    fn add(&self, ino: u64, of: FileNumber, id: Id) -> Arc<Id> {
        let id = Arc::new(id);
        let of_inode = (of, Arc::downgrade(&id));
        lock(&self.0).of_inode.insert(ino, of_inode);
        id
    }

    /// Keeps `id` open until [`Self::release`] of `handle`.
    fn keep(&self, handle: u64, id: &Arc<Id>) {
        let id = Arc::clone(id);
        lock(&self.0).of_handle.insert(handle, id);
    }

    /// Lets go of what `handle` has.
    fn release(&self, ino: u64, handle: u64) {
        let closed = lock(&self.0).of_handle.remove(&handle);
        if let Some(closed) = closed {
            self.let_go(ino, closed);
        }
    }

    /// Lets go of `id`, of the inode, which others may have too.
    fn let_go(&self, ino: u64, id: Arc<Id>) {
        // It may be closed here, not under the lock. Of several who let go at one moment, the last one finds it closed below.
        drop(id);
        let mut known = lock(&self.0);
        if let Some((_, id)) = known.of_inode.get(&ino)
            && id.strong_count() == 0
        {
            known.of_inode.remove(&ino);
        }
    }
}

impl Passthrough {
    /// For the captures in `source`; what may be passed is `passing`.
    #[must_use]
    pub fn new(source: &Path, passing: Passing) -> Self {
        let is_overlay =
            statfs(source).is_ok_and(|fs| fs.filesystem_type() == OVERLAYFS_SUPER_MAGIC);
        Self {
            is_off: AtomicBool::new(passing == Passing::Off),
            depth: if is_overlay { DEPTH_OF_OVERLAY } else { DEPTH },
            backings: Backings::default(),
        }
    }

    /// Asks the kernel for it, before anything is opened.
    pub(super) fn ask(&self, config: &mut KernelConfig) {
        if self.is_off() {
            return;
        }
        if config
            .add_capabilities(InitFlags::FUSE_PASSTHROUGH)
            .is_err()
            || config.set_max_stack_depth(self.depth).is_err()
        {
            self.turn_off("this kernel does not offer it");
        }
    }

    /// Answers the open that made `handle`, which the kernel is to read as `caching` says, or as the tree's [`Way`] does.
    pub(super) fn answer(
        &self,
        tree: &Tree,
        (ino, handle): (INodeNo, u64),
        caching: Caching,
        flags: OpenFlags,
        reply: ReplyOpen,
    ) {
        let number = FileHandle(handle);
        let how = FopenFlags::FOPEN_NOFLUSH;
        // With O_DIRECT the file itself may want reads aligned; here they need not be.
        let wants_aligned = flags.0 & libc::O_DIRECT != 0;
        let (backing, flag) = match tree.way(handle) {
            Way::Own => {
                let flag = match caching {
                    Caching::Direct => FopenFlags::FOPEN_DIRECT_IO,
                    Caching::Fresh => FopenFlags::empty(),
                    Caching::Keep => FopenFlags::FOPEN_KEEP_CACHE,
                };
                return reply.opened(number, how | flag);
            }
            Way::Passed(file, of) if !wants_aligned => {
                (self.backing(ino, &file, of, &reply), FopenFlags::empty())
            }
            // FOPEN_DIRECT_IO goes before: reads come here, and what is mapped is the file.
            Way::Passed(..) | Way::Beside => {
                (self.backings.find(ino.0, None), FopenFlags::FOPEN_DIRECT_IO)
            }
        };
        let Some(backing) = backing else {
            tree.keep_own(handle);
            return reply.opened(number, how | FopenFlags::FOPEN_DIRECT_IO);
        };
        if flag.is_empty() {
            tree.count_passed();
        }
        self.backings.keep(handle, &backing);
        reply.opened_passthrough(number, how | flag, &backing);
        // The handle may be released already.
        self.backings.let_go(ino.0, backing);
    }

    /// Lets go of what `handle` has, once the kernel has closed it.
    pub(super) fn release(&self, ino: INodeNo, handle: u64) {
        self.backings.release(ino.0, handle);
    }

    /// The id for `file`, which has the number `of`, of the inode; `None` where it cannot be had.
    fn backing(
        &self,
        ino: INodeNo,
        file: &File,
        of: FileNumber,
        reply: &ReplyOpen,
    ) -> Option<Arc<BackingId>> {
        if self.is_off() {
            return None;
        }
        // One of another file belongs to handles that the kernel has closed, else the tree would not pass this one.
        if let Some(backing) = self.backings.find(ino.0, Some(of)) {
            return Some(backing);
        }
        match reply.open_backing(file) {
            Ok(backing) => Some(self.backings.add(ino.0, of, backing)),
            Err(error) => {
                match error.raw_os_error().map(Errno::from_raw) {
                    // ELOOP: this file lies on a stacked file system. Others may not.
                    Some(Errno::EPERM | Errno::ENOTTY | Errno::ENOSYS) => {
                        self.turn_off(&error.to_string());
                    }
                    _ => log::debug!("passthrough of inode {ino}: {error}"),
                }
                None
            }
        }
    }

    fn is_off(&self) -> bool {
        self.is_off.load(Ordering::Relaxed)
    }

    fn turn_off(&self, why: &str) {
        if !self.is_off.swap(true, Ordering::Relaxed) {
            log::info!("raw captures are read without passthrough: {why}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INODE: u64 = 7;
    const FILE: FileNumber = (1, 2);

    fn known(backings: &Backings<()>) -> [usize; 2] {
        let known = lock(&backings.0);
        [known.of_inode.len(), known.of_handle.len()]
    }

    #[test]
    fn of_an_inode_nothing_stays_behind_when_the_last_who_has_its_id_lets_go_whoever_that_is() {
        let backings = Backings::default();
        // Two handles are released at one moment: the one has let go of the lock and not yet of the id.
        let id = backings.add(INODE, FILE, ());
        for handle in [1, 2] {
            backings.keep(handle, &id);
        }
        drop(id);
        let taken = lock(&backings.0).of_handle.remove(&1).expect("kept");
        backings.release(INODE, 2);
        assert_eq!(known(&backings), [1, 0]);
        backings.let_go(INODE, taken);
        assert_eq!(known(&backings), [0, 0]);

        // The open is answered, and the handle released before the answer's own hold is gone.
        let answered = backings.add(INODE, FILE, ());
        backings.keep(1, &answered);
        backings.release(INODE, 1);
        assert_eq!(known(&backings), [1, 0]);
        assert!(backings.find(INODE, Some(FILE)).is_some());
        backings.let_go(INODE, answered);
        assert_eq!(known(&backings), [0, 0]);

        // Another file's id has taken the place of one that is still let go of.
        let old = backings.add(INODE, FILE, ());
        let new = backings.add(INODE, (1, 3), ());
        backings.let_go(INODE, old);
        assert!(backings.find(INODE, Some((1, 3))).is_some());
        backings.let_go(INODE, new);
        assert_eq!(known(&backings), [0, 0]);
    }
}
