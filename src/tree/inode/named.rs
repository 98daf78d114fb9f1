//! A node found by its name: the set of names holds the nodes themselves, and no name twice.

use std::borrow::Borrow;
use std::ffi::OsStr;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::Node;

/// A node, equal to whatever has its parent's number and its name.
#[derive(Debug)]
pub(super) struct Named(pub(super) Arc<Node>);

/// What has a name in a folder.
pub(super) trait InFolder {
    /// The folder's number, and the name.
    fn place(&self) -> (u64, &OsStr);
}

impl InFolder for Named {
    fn place(&self) -> (u64, &OsStr) {
        (self.0.parent_id(), &self.0.name)
    }
}

impl InFolder for (u64, &OsStr) {
    fn place(&self) -> (u64, &OsStr) {
        *self
    }
}

impl Hash for dyn InFolder + '_ {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.place().hash(state);
    }
}

impl PartialEq for dyn InFolder + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.place() == other.place()
    }
}

impl Eq for dyn InFolder + '_ {}

impl<'a> Borrow<dyn InFolder + 'a> for Named {
    fn borrow(&self) -> &(dyn InFolder + 'a) {
        self
    }
}

// As `Borrow` demands: by the same rules as the borrowed form.

impl Hash for Named {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.place().hash(state);
    }
}

impl PartialEq for Named {
    fn eq(&self, other: &Self) -> bool {
        self.place() == other.place()
    }
}

impl Eq for Named {}
