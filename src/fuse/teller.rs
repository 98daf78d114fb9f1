//! Telling sizes to the kernel: after the pages that must go before are gone.
//!
//! A kernel that holds pages of a growing capture, for mmap or splice, is told a larger size only when the page that held the
//! old end was dropped. Dropping waits for reads in flight, so it has a thread of its own, and all sizes of such a capture
//! go through it, in their order.

use std::sync::{Arc, OnceLock};

use fuser::{INodeNo, Notifier};

use crate::lane::Lane;
use crate::tree::Tree;
use crate::tree::attr::Attributes;

/// The length that `FUSE_NOTIFY_INVAL_INODE` takes for "all that follows".
const TO_THE_END: i64 = 0;
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
        pages.run(move || {
            if let Some(from) = tree.pages_to_drop(attributes.id, attributes.size)
                && let (Some(notifier), Ok(from)) = (notifier.get(), i64::try_from(from))
                && let Err(error) = notifier.inval_inode(INodeNo(attributes.id), from, TO_THE_END)
            {
                log::warn!("dropping pages of inode {}: {error}", attributes.id);
            }
            reply(&attributes);
        });
    }
}
