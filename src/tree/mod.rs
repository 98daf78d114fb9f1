//! The mounted tree: names, inodes, handles and attributes over captures, in our own types.
//!
//! All that FUSE asks for is a method of [`Tree`], which tests call without a mount; errors become an errno in [`errno`].

pub mod attr;
pub mod capture_node;
pub mod census;
pub mod errno;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub mod handle;
pub mod idle;
pub mod inode;
pub mod name;
pub mod opened;
pub mod origin;
pub mod place;
mod read;
mod resolve;
pub mod scan;
pub mod stats;
pub mod way;

use std::ffi::OsStr;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use nix::errno::Errno;
use nix::sys::statvfs::Statvfs;

use attr::{Attributes, Lifetime, Overrides};
pub use capture_node::Caching;
use capture_node::CaptureNode;
use census::{Asker, Census};
use errno::Failure;
use handle::{FileHandle, FolderEntry, FolderHandle, Handles};
use idle::{Idle, Told};
pub use inode::ROOT;
use inode::{Node, NodeKind, Nodes};
use name::Naming;
pub use origin::Links;
use origin::{Origin, join};
use scan::{Listed, Shown};
use stats::{Event, Gauges, Stats};
use way::Passing;

use crate::capture::sync::lock;
use crate::capture::{Engine, State};

/// How the tree shows its source.
#[derive(Clone, Debug)]
pub struct Options {
    /// How names are read.
    pub naming: Naming,
    /// What is shown beside captures and folders.
    pub shown: Shown,
    /// Rights that replace the physical files'.
    pub overrides: Overrides,
    /// Captures kept open while nobody reads them: descriptors.
    pub idle_files: usize,
    /// The most open handles: the rest of the descriptors is for look-ups.
    pub open_files: usize,
    /// What the kernel may be given to read by itself.
    pub passing: Passing,
    /// Whose symbolic links are followed.
    pub links: Links,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            naming: Naming::default(),
            shown: Shown::Captures,
            overrides: Overrides::default(),
            idle_files: 64,
            open_files: 512,
            passing: Passing::Off,
            links: Links::Everybodys,
        }
    }
}

/// The tree over one source folder. Shared between threads.
#[derive(Debug)]
pub struct Tree {
    origin: Origin,
    options: Options,
    engine: Arc<Engine>,
    nodes: Nodes,
    files: Handles<FileHandle>,
    folders: Handles<FolderHandle>,
    idle: Idle,
    told: Told,
    stats: Stats,
}

/// From where an `lseek` looks, and for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seek {
    /// The next byte of data.
    Data,
    /// The next hole: the end, as captures have none.
    Hole,
}

impl Tree {
    /// The tree over the folder at `source`.
    pub fn open(source: &Path, engine: Arc<Engine>, options: Options) -> Result<Self, Errno> {
        let origin = Origin::open(source, options.links)?;
        Ok(Self {
            nodes: Nodes::new(origin.id()?),
            idle: Idle::new(options.idle_files),
            origin,
            options,
            engine,
            files: Handles::default(),
            folders: Handles::default(),
            told: Told::default(),
            stats: Stats::default(),
        })
    }

    /// What requests about `name` in the folder `parent` have in common: the number of the inode that the name is known to
    /// lead to, else one computed from both.
    #[must_use]
    pub fn key_of(&self, parent: u64, name: &OsStr) -> u64 {
        self.nodes.known_id(parent, name).unwrap_or_else(|| {
            let mut hasher = DefaultHasher::new();
            (parent, name).hash(&mut hasher);
            hasher.finish()
        })
    }

    /// The attributes of `name` in the folder `parent`; counts one look-up that [`Self::forget`] takes back.
    pub fn lookup(&self, parent: u64, name: &OsStr) -> Result<Attributes, Failure> {
        self.stats.count(Event::Lookup);
        let parent = self.node(parent)?;
        let (node, stat) = self.resolve(&parent, name)?;
        let capture = node.capture();
        let (facts, stat) = match capture.map(|capture| (capture, capture.opened())) {
            Some((capture, Some(opened))) if opened.changes() => {
                let (facts, stat) = capture.sized(&opened)?;
                (Some(facts), stat)
            }
            _ => (capture.map(CaptureNode::facts), stat),
        };
        let counted = self.nodes.count_lookup(&node);
        if !self.is_same_folder(&counted, &node) {
            self.nodes.forget(counted.id, 1);
            return Err(Failure::Stale);
        }
        let node = counted;
        let overrides = &self.options.overrides;
        let attributes = Attributes::new(&node, &stat, facts.as_ref(), overrides);
        note_told(&node, &attributes);
        Ok(attributes)
    }

    /// Takes back `lookups` counted look-ups of the inode.
    pub fn forget(&self, id: u64, lookups: u64) {
        self.nodes.forget(id, lookups);
    }

    /// The attributes of the inode, live: whole frames that are on disk now count.
    pub fn getattr(&self, id: u64, handle: Option<u64>) -> Result<Attributes, Failure> {
        let node = self.node(id)?;
        let attributes = self.look(&node, handle)?;
        note_told(&node, &attributes);
        Ok(attributes)
    }

    /// As [`Self::getattr`], for nobody but this program to know.
    fn look(&self, node: &Arc<Node>, handle: Option<u64>) -> Result<Attributes, Failure> {
        let overrides = &self.options.overrides;
        let Some(capture) = node.capture() else {
            let stat = self.folder(node)?.status()?;
            return Ok(Attributes::new(node, &stat, None, overrides));
        };
        let handle = handle.and_then(|number| self.files.find(number));
        let own = handle.map(|handle| Arc::clone(&handle.opened));
        let Some(opened) = own.or_else(|| capture.opened()) else {
            let stat = self.resolve_again(node)?;
            let facts = capture.facts();
            return Ok(Attributes::new(node, &stat, Some(&facts), overrides));
        };
        // What became of a name is a look-up's business, not a handle's.
        let (facts, stat) = if opened.changes() {
            opened.refresh()?;
            let sized = capture.sized(&opened)?;
            self.note_fault(node);
            sized
        } else {
            opened.sized()?
        };
        let mut attributes = Attributes::new(node, &stat, Some(&facts), overrides);
        let is_nodes = |now: Arc<_>| Arc::ptr_eq(&now, &opened);
        if !capture.opened().is_some_and(is_nodes) {
            // A handle's, and its name leads to another file meanwhile: whose rights they are, is not what the inode's are.
            attributes.lifetime = Lifetime::Live;
        }
        Ok(attributes)
    }

    /// Closes the handle.
    pub fn release(&self, handle: u64) {
        self.files.close(handle);
    }

    /// The next data or hole of the open capture at or behind `offset`.
    pub fn seek(&self, id: u64, handle: u64, offset: u64, seek: Seek) -> Result<u64, Failure> {
        let size = self.look(&self.node(id)?, Some(handle))?.size;
        match seek {
            _ if offset >= size => Err(Failure::NoData),
            Seek::Data => Ok(offset),
            Seek::Hole => Ok(size),
        }
    }

    /// Opens the folder.
    pub fn open_folder(&self, id: u64) -> Result<u64, Failure> {
        let node = self.node(id)?;
        match node.kind {
            NodeKind::Folder(_) => Ok(self.folders.open(FolderHandle {
                node,
                listing: std::sync::Mutex::new(None),
            })),
            NodeKind::File(_) => Err(Failure::NotFolder),
        }
    }

    /// The entries of an open folder, `.` and `..` not among them. Each keeps its place while the handle is open; reading
    /// from the start makes a new listing.
    pub fn list(&self, handle: u64, from_start: bool) -> Result<Arc<Vec<FolderEntry>>, Failure> {
        let handle = self.folders.find(handle).ok_or(Failure::Invalid)?;
        let kept = lock(&handle.listing).clone();
        if let Some(listing) = kept.filter(|_| !from_start) {
            return Ok(listing);
        }
        let (node, naming) = (&handle.node, &self.options.naming);
        let NodeKind::Folder(told) = &node.kind else {
            return Err(Failure::NotFolder);
        };
        let folder = node.path();
        let is_within = |own| node.is_within(own);
        let names = self.asking(|origin| {
            let enter = || origin.folder_to_list(&folder, told);
            scan::list(&enter, naming, self.options.shown, &is_within)
        })?;
        let number = |name: &OsStr| inode::folder_number(join(&folder, name).as_os_str());
        let entries = names.into_iter().map(|(name, listed)| FolderEntry {
            id: match (listed, self.nodes.named(node.id, &name)) {
                (Listed::Folder, Some(known)) if known.capture().is_none() => Some(known.id),
                (Listed::Folder, _) => Some(number(&name)),
                (Listed::Capture | Listed::Other, known) => known.map(|known| known.id),
            },
            name,
            listed,
        });
        let listing = Arc::new(entries.collect());
        *lock(&handle.listing) = Some(Arc::clone(&listing));
        Ok(listing)
    }

    /// The number of the parent folder's inode; the root is its own parent.
    pub fn parent_id(&self, id: u64) -> Result<u64, Failure> {
        let node = self.node(id)?;
        Ok(node.parent.as_ref().map_or(ROOT, |parent| parent.id))
    }

    /// Closes the folder handle.
    pub fn release_folder(&self, handle: u64) {
        self.folders.close(handle);
    }

    /// The value of the attribute `name`, for `asker`: whether the file is theirs to read, the kernel has seen to.
    pub fn attribute(&self, id: u64, name: &OsStr, asker: Asker) -> Result<Vec<u8>, Failure> {
        let node = self.node(id)?;
        let name = name
            .to_str()
            .and_then(|name| name.strip_prefix(attr::PREFIX))
            .ok_or(Failure::NoAttribute)?;
        let Some(capture) = node.capture() else {
            return if id == ROOT && name == "stats" {
                Ok(self.stats_json(asker).into_bytes())
            } else {
                Err(Failure::NoAttribute)
            };
        };
        // As live as the size, and for those who may read it now.
        if capture.is_told_otherwise(&self.look(&node, None)?) {
            return Err(Failure::Stale);
        }
        let physical = capture.physical();
        attr::value(name, &capture.facts(), capture.form(), physical.as_bytes())
            .ok_or(Failure::NoAttribute)
    }

    /// The source file system's figures.
    pub fn statfs(&self) -> Result<Statvfs, Failure> {
        self.asking(Origin::statvfs)
    }

    /// The counters as one JSON object.
    #[must_use]
    pub fn stats_json(&self, asker: Asker) -> String {
        let nodes = self.nodes.all();
        self.stats.to_json(Gauges {
            open_files: self.files.count(),
            inodes: nodes.len(),
            census: Census::of(nodes.iter().map(AsRef::as_ref), asker),
            cache: self.engine.cache_stats(),
            index: self.engine.index_stats(),
        })
    }

    fn node(&self, id: u64) -> Result<Arc<Node>, Failure> {
        // The kernel names only inodes it was given and has not forgotten.
        self.nodes.node(id).ok_or(Failure::Stale)
    }
}

fn note_told(node: &Node, attributes: &Attributes) {
    if let Some(capture) = node.capture() {
        capture.note_told(attributes);
    }
}
