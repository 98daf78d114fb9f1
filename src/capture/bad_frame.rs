//! Frames that do not decode: remembered, so that they are not decoded again and again, and told.

use std::collections::BTreeMap;

use crate::format::Fault;

/// Bad frames remembered. More are decoded again at each read, and not walked again: a file with as many is damaged.
const MOST: usize = 1024;

/// The bad frames of one capture, by number.
#[derive(Debug, Default)]
pub(super) struct BadFrames {
    by_frame: BTreeMap<u64, Fault>,
}

impl BadFrames {
    /// Remembers the fault of frame number `index`. One whose bytes merely are no longer those that were walked is not kept:
    /// the next walk may find it whole.
    pub(super) fn note(&mut self, index: u64, fault: &Fault) {
        if !fault.kind.is_changed() && !self.is_full() {
            self.by_frame.insert(index, fault.clone());
        }
    }

    /// Whether no more can be remembered.
    pub(super) fn is_full(&self) -> bool {
        self.by_frame.len() >= MOST
    }

    /// The fault of frame number `index`.
    pub(super) fn find(&self, index: u64) -> Option<Fault> {
        self.by_frame.get(&index).cloned()
    }

    /// The fault of the first bad frame.
    pub(super) fn first(&self) -> Option<&Fault> {
        self.by_frame.values().next()
    }

    /// Takes over what `others` remembers.
    pub(super) fn append(&mut self, others: Self) {
        for (index, fault) in others.by_frame {
            self.note(index, &fault);
        }
    }

    /// Forgets what decoding found: each is tried once more. What headers say of a frame is told by the walk alone, which does
    /// not come by it again.
    pub(super) fn forget_decoded(&mut self) {
        self.by_frame.retain(|_, fault| fault.kind.is_limit());
    }

    /// Forgets the frames from number `index` on: they are walked again.
    pub(super) fn forget_from(&mut self, index: u64) {
        self.by_frame.split_off(&index);
    }
}
