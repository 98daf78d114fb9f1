//! Inodes: which content a number stands for, how long the kernel knows it, and which number a name leads to now.
//!
//! A number is computed from the logical path and what the content is (its `FileId`), so it is the same after a remount
//! and through a rename or compression, and another capture under the same name gets another one. Folders and files have
//! numbers of different ranges. A node lives as long as the kernel's lookup count, or an open handle, holds it.

mod named;

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use lru::LruCache;

use self::named::{InFolder, Named};
use super::capture_node::CaptureNode;
use super::origin::{FolderId, join};
use crate::capture::sync::lock;
use crate::format::FileId;
use crate::sys;

/// The root folder's number, given by FUSE.
pub const ROOT: u64 = 1;
/// Set in every file's number, clear in every folder's: bit 62, so that the number stays positive as a signed one.
const FILE_BIT: u64 = 1 << 62;
/// Set in every folder's number but the root's: keeps it clear of small numbers with a meaning of their own.
const FOLDER_BIT: u64 = 1 << 61;

/// Numbers that were promoted in place and are kept though the kernel forgot them, some hundred bytes each; the longest
/// unused goes first.
const PROMOTED_MOST: usize = 4096;
/// So many nodes at least were known at a time before it is worth while to give memory back to the system.
const GIVEN_BACK_LEAST: usize = 4096;

/// What a number stands for, beside the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Identity {
    /// A folder: the path alone, so that it is the same after a remount. Where another folder has come to lie there, the
    /// next number is taken while the first is known.
    Folder,
    /// A capture with a first record.
    Capture(FileId),
    /// A file that has no FileId (yet): device, inode and time of the last write of the physical file.
    Physical((u64, u64), (i64, i64)),
}

/// One inode.
#[derive(Debug)]
pub struct Node {
    /// Its number.
    pub id: u64,
    /// `None` for the root.
    pub parent: Option<Arc<Node>>,
    /// The name in the parent folder, logical for a capture.
    pub name: OsString,
    /// What it is.
    pub kind: NodeKind,
}

/// What an inode is.
#[derive(Debug)]
pub enum NodeKind {
    /// A folder; which one of SOURCE it was when it was found.
    Folder(FolderId),
    /// A capture, or with `all` another regular file, which is read the same way.
    File(Box<CaptureNode>),
}

impl Node {
    /// The path relative to SOURCE, as logical names.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        match &self.parent {
            None => PathBuf::new(),
            Some(parent) => join(&parent.path(), &self.name),
        }
    }

    /// The capture, if it is one.
    #[must_use]
    pub fn capture(&self) -> Option<&CaptureNode> {
        match &self.kind {
            NodeKind::File(capture) => Some(capture),
            NodeKind::Folder(_) => None,
        }
    }

    /// The `FileId` of a capture whose number is not the one computed from it: it was given before there was a first record.
    fn promoted(&self) -> Option<FileId> {
        let file_id = self.capture()?.facts().file_id;
        let computed = || number(self.path().as_os_str(), Identity::Capture(file_id));
        (!file_id.is_provisional() && computed() != self.id).then_some(file_id)
    }

    /// Whether a folder with this device and inode number lies on the way from the root to here, this one included.
    #[must_use]
    pub fn is_within(&self, folder: (u64, u64)) -> bool {
        matches!(&self.kind, NodeKind::Folder(own) if own.number == folder)
            || self
                .parent
                .as_ref()
                .is_some_and(|parent| parent.is_within(folder))
    }
}

/// All inodes that somebody knows.
#[derive(Debug)]
pub struct Nodes {
    known: Mutex<Known>,
    root: Arc<Node>,
}

#[derive(Debug)]
struct Known {
    by_id: HashMap<u64, Counted>,
    /// The node that a name leads to now. Older ones of the same name live on in `by_id` only.
    by_name: HashSet<Named>,
    /// Of forgotten nodes that were promoted in place: number and `FileId`, by parent and name.
    promoted: LruCache<(u64, OsString), (u64, FileId)>,
    /// The most nodes known at a time since memory was given back.
    most: usize,
}

impl Default for Known {
    fn default() -> Self {
        Self {
            by_id: HashMap::new(),
            by_name: HashSet::new(),
            promoted: LruCache::unbounded(),
            most: 0,
        }
    }
}

impl Known {
    /// Shrinks to what is left, once most of many nodes are forgotten; whether it did. The kernel forgets when memory is short.
    fn shrink(&mut self) -> bool {
        let is_due = self.most >= GIVEN_BACK_LEAST && self.by_id.len() < self.most / 4;
        if is_due {
            self.most = self.by_id.len();
            self.by_id.shrink_to_fit();
            self.by_name.shrink_to_fit();
        }
        is_due
    }
}

#[derive(Debug)]
struct Counted {
    node: Arc<Node>,
    /// Look-ups the kernel has been answered and not yet forgotten.
    lookups: u64,
}

impl Nodes {
    /// The root alone, which is `folder`.
    #[must_use]
    pub fn new(folder: FolderId) -> Self {
        Self {
            known: Mutex::default(),
            root: Arc::new(Node {
                id: ROOT,
                parent: None,
                name: OsString::new(),
                kind: NodeKind::Folder(folder),
            }),
        }
    }

    /// The node with number `id`.
    #[must_use]
    pub fn node(&self, id: u64) -> Option<Arc<Node>> {
        if id == ROOT {
            return Some(Arc::clone(&self.root));
        }
        let known = lock(&self.known);
        known
            .by_id
            .get(&id)
            .map(|counted| Arc::clone(&counted.node))
    }

    /// The node that `name` in `parent` led to at the last look.
    #[must_use]
    pub fn named(&self, parent: u64, name: &OsStr) -> Option<Arc<Node>> {
        let known = lock(&self.known);
        let named = known.by_name.get(&(parent, name) as &dyn InFolder)?;
        Some(Arc::clone(&named.0))
    }

    /// The number of `name` in `parent` if a node is known for it.
    #[must_use]
    pub fn known_id(&self, parent: u64, name: &OsStr) -> Option<u64> {
        let known = lock(&self.known);
        let named = known.by_name.get(&(parent, name) as &dyn InFolder)?;
        Some(named.0.id)
    }

    /// Counts one more look-up of `node`, whose reply is about to be sent, and makes its name lead to it. What is counted is
    /// given back: another node, where one has come to have the same number meanwhile.
    pub fn count_lookup(&self, node: &Arc<Node>) -> Arc<Node> {
        let mut known = lock(&self.known);
        let counted = known.by_id.entry(node.id).or_insert_with(|| Counted {
            node: Arc::clone(node),
            lookups: 0,
        });
        counted.lookups += 1;
        let node = Arc::clone(&counted.node);
        known.by_name.replace(Named(Arc::clone(&node)));
        known.most = known.most.max(known.by_id.len());
        node
    }

    /// Takes `lookups` back; the node is dropped once none is left.
    pub fn forget(&self, id: u64, lookups: u64) {
        let promoted = self.node(id).and_then(|node| node.promoted());
        let mut known = lock(&self.known);
        let Some(counted) = known.by_id.get_mut(&id) else {
            return;
        };
        counted.lookups = counted.lookups.saturating_sub(lookups);
        if counted.lookups > 0 {
            return;
        }
        let node = known.by_id.remove(&id).map(|counted| counted.node);
        if let Some(node) = node {
            let name = (node.parent_id(), &*node.name);
            let name: &dyn InFolder = &name;
            if known
                .by_name
                .get(name)
                .is_some_and(|named| named.0.id == id)
            {
                known.by_name.remove(name);
            }
            if let Some(file_id) = promoted {
                let name = (node.parent_id(), node.name.clone());
                known.promoted.put(name, (id, file_id));
                if known.promoted.len() > PROMOTED_MOST {
                    known.promoted.pop_lru();
                }
            }
        }
        let is_less = known.shrink();
        drop(known);
        if is_less {
            sys::give_back_memory();
        }
    }

    /// The number that a capture with this identity was given under this name before it had a first record.
    fn promoted(&self, parent: u64, name: &OsStr, identity: Identity) -> Option<u64> {
        let Identity::Capture(wanted) = identity else {
            return None;
        };
        let mut known = lock(&self.known);
        let (id, file_id) = known.promoted.get(&(parent, name.to_owned()))?;
        (*file_id == wanted).then_some(*id)
    }

    /// The nodes known, the root not among them, in no order.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Node>> {
        let known = lock(&self.known);
        let nodes = known.by_id.values();
        nodes.map(|counted| Arc::clone(&counted.node)).collect()
    }

    /// A node for `name` in `parent`: the one that has its number already, if `is_this` says so, or a new one; not yet
    /// counted.
    pub fn intern(
        &self,
        parent: &Arc<Node>,
        name: &OsStr,
        identity: Identity,
        is_this: impl Fn(&Node) -> bool,
        kind: impl FnOnce() -> NodeKind,
    ) -> Arc<Node> {
        let computed = || number(join(&parent.path(), name).as_os_str(), identity);
        let mut id = self
            .promoted(parent.id, name, identity)
            .unwrap_or_else(computed);
        loop {
            match self.node(id) {
                None => break,
                Some(node)
                    if node.name == name && node.parent_id() == parent.id && is_this(&node) =>
                {
                    return node;
                }
                // Something else has this number: the next one, as often as it takes.
                Some(_) => id += 1,
            }
        }
        Arc::new(Node {
            id,
            parent: Some(Arc::clone(parent)),
            name: name.to_owned(),
            kind: kind(),
        })
    }
}

impl Node {
    fn parent_id(&self) -> u64 {
        self.parent.as_ref().map_or(0, |parent| parent.id)
    }
}

/// The number of the folder at `path`, known or not: a folder's path is all its identity.
#[must_use]
pub fn folder_number(path: &OsStr) -> u64 {
    number(path, Identity::Folder)
}

fn number(path: &OsStr, identity: Identity) -> u64 {
    // FNV-1a with a finalizer: any hash will do, but it must be the same in every version of this program, for ever.
    let mut hash = 0xCBF2_9CE4_8422_2325u64;
    let mut eat = |bytes: &[u8]| {
        for byte in bytes {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
        }
    };
    eat(path.as_bytes());
    eat(&[0]);
    let bit = match identity {
        Identity::Folder => FOLDER_BIT,
        Identity::Capture(id) => {
            eat(b"c");
            eat(&id.first_packet_ts.to_le_bytes());
            eat(&id.header_crc32.to_le_bytes());
            FILE_BIT
        }
        Identity::Physical((device, inode), (secs, nanos)) => {
            eat(b"p");
            eat(&device.to_le_bytes());
            eat(&inode.to_le_bytes());
            eat(&secs.to_le_bytes());
            eat(&nanos.to_le_bytes());
            FILE_BIT
        }
    };
    hash ^= hash >> 32;
    hash = hash.wrapping_mul(0xD6E8_FEB8_6659_FD93);
    hash ^= hash >> 32;
    // Below both range bits, and room for a few numbers above before they would be reached.
    (hash & (FOLDER_BIT - 1)) | bit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_the_same_for_ever() {
        // Literal on purpose: a change of the hash would change every inode of every mount at the next upgrade.
        assert_eq!(folder_number(OsStr::new("20261129")), GOLDEN_FOLDER);
        let id = FileId {
            first_packet_ts: 1,
            header_crc32: 2,
        };
        assert_eq!(
            number(OsStr::new("a/b.pcap"), Identity::Capture(id)),
            GOLDEN_FILE
        );
    }

    const GOLDEN_FOLDER: u64 = 3_651_602_352_489_184_074;
    const GOLDEN_FILE: u64 = 5_663_574_749_030_275_976;

    #[test]
    fn folders_and_files_never_share_a_number() {
        for number in 0..1000u64 {
            let name = format!("{number}.pcap");
            let folder = folder_number(OsStr::new(&name));
            let file = super::number(OsStr::new(&name), Identity::Physical((1, number), (0, 0)));
            assert_eq!(folder & FILE_BIT, 0);
            assert_eq!(file & FILE_BIT, FILE_BIT);
            assert!(folder > u64::from(u32::MAX) && file > folder);
        }
    }
}
