//! Telling sizes to the kernel: after the pages that must go before are gone.
//!
//! A kernel that holds pages of a growing capture, for mmap or splice, is told a larger size only when the page that held
//! the old end was dropped and the kernel has noted the new one. Dropping waits for reads in flight, so it has a thread of
//! its own, and all sizes of such a capture go through it, in their order.

use std::io;
use std::sync::{Arc, OnceLock};

use fuser::{Errno, INodeNo, Notifier};

use super::reply::errno;
use crate::lane::Lane;
use crate::tree::Tree;
use crate::tree::attr::Attributes;
use crate::tree::errno::Failure;

/// The length that `FUSE_NOTIFY_INVAL_INODE` takes for "all that follows".
const TO_THE_END: i64 = 0;
/// The offset with which `FUSE_NOTIFY_INVAL_INODE` takes attributes only.
const NO_PAGES: i64 = -1;
/// The key of all jobs of the pages' thread: one order.
const ALL: u64 = 0;

/// Tells attributes, in order where the kernel holds pages of a growing capture.
pub(super) struct Teller {
    tree: Arc<Tree>,
    pages: Lane,
    notifier: Arc<OnceLock<Notifier>>,
}

impl Teller {
    pub(super) fn new(tree: &Arc<Tree>, pages: &Lane, notifier: &Arc<OnceLock<Notifier>>) -> Self {
        Self {
            tree: Arc::clone(tree),
            pages: pages.clone(),
            notifier: Arc::clone(notifier),
        }
    }

    /// Has `reply` tell `attributes`; at once where no page is in the way, else by the pages' thread.
    pub(super) fn tell(
        self,
        attributes: Attributes,
        reply: impl FnOnce(&Attributes) + Send + 'static,
    ) {
        let Self {
            tree,
            pages,
            notifier,
        } = self;
        if !attributes.is_mapped {
            return reply(&attributes);
        }
        pages.run_behind(ALL, move || {
            if let Some(from) = tree.pages_to_drop(attributes.id, attributes.size)
                && let Some(notifier) = notifier.get()
                && let Err(error) = announce(&tree, notifier, &attributes, from)
            {
                log::warn!("dropping pages of inode {}: {error}", attributes.id);
            }
            reply(&attributes);
        });
    }
}

/// Has the kernel forget the attributes of `id`. It waits for no page, so any request's thread may do it.
pub(super) fn forget_attributes(notifier: &OnceLock<Notifier>, id: INodeNo) {
    if let Some(notifier) = notifier.get()
        && let Err(error) = notifier.inval_inode(id, NO_PAGES, 0)
    {
        log::warn!("forgetting attributes of inode {id}: {error}");
    }
}

/// The errno for what is refused by the inode `id`. After ESTALE the kernel tries again: not by what it remembers.
pub(super) fn refused(
    notifier: &Arc<OnceLock<Notifier>>,
    id: INodeNo,
) -> impl FnOnce(&Failure) -> Errno + Send + 'static {
    let notifier = Arc::clone(notifier);
    move |failure| {
        if *failure == Failure::Stale {
            forget_attributes(&notifier, id);
        }
        errno(failure)
    }
}

/// Drops the kernel's pages from `from` on, and has it note the size before the reply tells it.
///
/// Told by the reply alone, the size would come late, since a reply to a question from before the pages went is not taken
/// over (fs/fuse/inode.c, `attr_version`); or, where it is taken over, late in the other sense: the kernel zeroes what lies
/// behind an end in its page (`truncate_pagecache`) after it noted the size, maybe long after, when the page holds more. A
/// byte that is stored at the end raises the size, and nothing is zeroed.
fn announce(
    tree: &Tree,
    notifier: &Notifier,
    attributes: &Attributes,
    from: u64,
) -> io::Result<()> {
    let id = INodeNo(attributes.id);
    let Ok(first) = i64::try_from(from) else {
        return Ok(());
    };
    notifier.inval_inode(id, first, TO_THE_END)?;
    match tree.last_byte(attributes.id, attributes.size) {
        Some((offset, byte)) => notifier.store(id, offset, &[byte]),
        None => Ok(()),
    }
}
