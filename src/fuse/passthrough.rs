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
    backings: Mutex<Backings>,
}

#[derive(Debug, Default)]
struct Backings {
    /// The id of each inode that has one, and the file behind it.
    of_inode: HashMap<u64, (FileNumber, Weak<BackingId>)>,
    /// Ids are open as long as a handle has them.
    of_handle: HashMap<u64, Arc<BackingId>>,
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
            backings: Mutex::default(),
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
            Way::Passed(..) | Way::Beside => (self.shared(ino, None), FopenFlags::FOPEN_DIRECT_IO),
        };
        let Some(backing) = backing else {
            tree.keep_own(handle);
            return reply.opened(number, how | FopenFlags::FOPEN_DIRECT_IO);
        };
        if flag.is_empty() {
            tree.count_passed();
        }
        let kept = Arc::clone(&backing);
        lock(&self.backings).of_handle.insert(handle, kept);
        reply.opened_passthrough(number, how | flag, &backing);
    }

    /// Lets go of what `handle` has, once the kernel has closed it.
    pub(super) fn release(&self, ino: INodeNo, handle: u64) {
        let closed = {
            let mut backings = lock(&self.backings);
            let closed = backings.of_handle.remove(&handle);
            if let Some(closed) = &closed
                && Arc::strong_count(closed) == 1
                && let Some((_, of_inode)) = backings.of_inode.get(&ino.0)
                && of_inode.as_ptr() == Arc::as_ptr(closed)
            {
                backings.of_inode.remove(&ino.0);
            }
            closed
        };
        // The id is closed here, not under the lock.
        drop(closed);
    }

    /// The id that other handles of the inode have; where `of` is given, only if it is that file's.
    fn shared(&self, ino: INodeNo, of: Option<FileNumber>) -> Option<Arc<BackingId>> {
        let backings = lock(&self.backings);
        let (file, backing) = backings.of_inode.get(&ino.0)?;
        let is_this = of.is_none_or(|of| of == *file);
        backing.upgrade().filter(|_| is_this)
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
        if let Some(backing) = self.shared(ino, Some(of)) {
            return Some(backing);
        }
        match reply.open_backing(file) {
            Ok(backing) => {
                let backing = Arc::new(backing);
                let of_inode = (of, Arc::downgrade(&backing));
                lock(&self.backings).of_inode.insert(ino.0, of_inode);
                Some(backing)
            }
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
