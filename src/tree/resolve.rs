//! From a name to its inode: which physical file holds the capture now, and whether it is the one that was known.

use std::ffi::OsStr;
use std::sync::Arc;

use nix::errno::Errno;
use nix::sys::stat::FileStat;

use super::Tree;
use super::capture_node::CaptureNode;
use super::errno::Failure;
use super::handle::FileHandle;
use super::inode::{Identity, Node, NodeKind};
use super::opened::Opened;
use super::origin::{Folder, Origin, Stamp, is_file};
use super::scan::{Found, Shown, find, other_forms};
use super::stats::Event;
use crate::capture::{Form, Known, Progress, Source, State};

/// Attempts at a name whose files come and go while it is resolved.
const ATTEMPTS: usize = 16;

impl Tree {
    /// The node of `name` in `parent` and the status of its physical file. The kernel's count is the caller's.
    pub(super) fn resolve(
        &self,
        parent: &Arc<Node>,
        name: &OsStr,
    ) -> Result<(Arc<Node>, FileStat), Failure> {
        let NodeKind::Folder(_) = parent.kind else {
            return Err(Failure::NotFolder);
        };
        if self.options.naming.is_logical(name)
            && let Some(resolved) = self.resolve_capture(parent, name)?
        {
            return Ok(resolved);
        }
        self.resolve_other(parent, name)
    }

    fn resolve_capture(
        &self,
        parent: &Arc<Node>,
        name: &OsStr,
    ) -> Result<Option<(Arc<Node>, FileStat)>, Failure> {
        for _ in 0..ATTEMPTS {
            let folder = self.folder(parent)?;
            let find = |_| find(&folder, &self.options.naming, name);
            let Some(found) = self.asking(find)? else {
                return Ok(None);
            };
            match self.settle(parent, name, &folder, &found) {
                // It was renamed or removed between the look and the open: look again.
                Err(Failure::NotFound) => {}
                outcome => return outcome.map(Some),
            }
        }
        Err(Failure::NotFound)
    }

    /// A folder, or with `all` a regular file that is no capture's physical form.
    fn resolve_other(
        &self,
        parent: &Arc<Node>,
        name: &OsStr,
    ) -> Result<(Arc<Node>, FileStat), Failure> {
        let folder = self.folder(parent)?;
        let (stat, own) = self.asking(|_| folder.look(name))?;
        if let Some(own) = own {
            // A link to a folder that holds it would make a tree without end.
            if parent.is_within(own.number) {
                return Err(Failure::NotFound);
            }
            let is_this = |node: &Node| matches!(&node.kind, NodeKind::Folder(told) if self.origin.is_same_folder(told, &own));
            let node = self
                .nodes
                .intern(parent, name, Identity::Folder, is_this, || {
                    NodeKind::Folder(own)
                });
            return Ok((node, stat));
        }
        let is_shown = self.options.shown == Shown::All
            && is_file(&stat)
            && self.options.naming.parse(name).is_none();
        if !is_shown {
            return Err(Failure::NotFound);
        }
        let found = Found {
            form: Form::Raw,
            progress: Progress::Final,
            physical: name.to_owned(),
            stat,
        };
        self.settle(parent, name, &folder, &found)
    }

    /// The node for `found`: the one that its name had, if the capture is still the same, else a new one.
    fn settle(
        &self,
        parent: &Arc<Node>,
        name: &OsStr,
        folder: &Folder<'_>,
        found: &Found,
    ) -> Result<(Arc<Node>, FileStat), Failure> {
        let is_in = |node: &Node| {
            let own = node.parent.as_ref();
            own.is_some_and(|own| self.is_same_folder(own, parent))
        };
        let known = self.nodes.named(parent.id, name).filter(|node| is_in(node));
        let capture = known.as_ref().and_then(|node| node.capture());
        let mut is_replaced = false;
        if let (Some(node), Some(capture)) = (&known, capture) {
            if capture.is_unchanged(found) {
                return Ok((Arc::clone(node), found.stat));
            }
            if let Some(opened) = capture.opened().filter(|_| capture.is_grown(found)) {
                opened.look(found.progress)?;
                let facts = opened.source.facts();
                is_replaced = facts.is_replaced;
                if capture.is_same(&facts, &found.stat) {
                    capture.update(found, &opened);
                    self.idle.keep(node.id, &opened);
                    self.note_fault(node);
                    // Not older than the size: every size has its own time.
                    return Ok((Arc::clone(node), opened.stat()?));
                }
            }
        }
        let shown = capture
            .filter(|_| !is_replaced)
            .map(|capture| capture.known_for(found));
        let (mut opened, mut stat) =
            self.open_physical(folder, found, shown.unwrap_or_default())?;
        if opened.source.facts().is_replaced {
            is_replaced = true;
            (opened, stat) = self.open_physical(folder, found, Known::default())?;
        }
        let found = Found {
            stat,
            ..found.clone()
        };
        let facts = opened.source.facts();
        let node = match (known.as_ref(), capture) {
            (Some(node), Some(capture)) if !is_replaced && capture.is_same(&facts, &found.stat) => {
                capture.update(&found, &opened);
                Arc::clone(node)
            }
            _ => {
                let identity = CaptureNode::identity(&facts, &Stamp::of(&found.stat));
                let is_this = |node: &Node| {
                    known.as_ref().is_none_or(|known| known.id != node.id)
                        && is_in(node)
                        && node
                            .capture()
                            .is_some_and(|capture| capture.is_same(&facts, &found.stat))
                };
                let node = self.nodes.intern(parent, name, identity, is_this, || {
                    NodeKind::File(Box::new(CaptureNode::new(&found, &opened)))
                });
                if let Some(capture) = node.capture() {
                    opened = self.resumed(capture, folder, &found, opened)?;
                    capture.update(&found, &opened);
                }
                self.note_conflict(&node, folder, &found);
                node
            }
        };
        self.idle.keep(node.id, &opened);
        self.note_fault(&node);
        Ok((node, opened.stat()?))
    }

    /// The open capture for the node that a name leads to again, or for the first time: `opened`, if no other goes on with
    /// what was shown of it.
    fn resumed(
        &self,
        capture: &CaptureNode,
        folder: &Folder<'_>,
        found: &Found,
        opened: Arc<Opened>,
    ) -> Result<Arc<Opened>, Failure> {
        if let Some(before) = capture.opened().filter(|_| capture.is_grown(found)) {
            before.look(found.progress)?;
            // Another capture may have been in the file for a while.
            if !before.source.facts().is_replaced {
                return Ok(before);
            }
        }
        let known = capture.known_for(found);
        if known.size > opened.source.facts().frontier {
            let (again, _) = self.open_physical(folder, found, known)?;
            return Ok(again);
        }
        Ok(opened)
    }

    /// Opens the physical file `found` in `folder`, of whose capture `known` was shown before, and walks it.
    fn open_physical(
        &self,
        folder: &Folder<'_>,
        found: &Found,
        known: Known,
    ) -> Result<(Arc<Opened>, FileStat), Failure> {
        let (file, stat) = self.asking(|_| folder.file(&found.physical))?;
        let file = Arc::new(file);
        let source = Source::open_known(
            Arc::clone(&self.engine),
            Box::new(Arc::clone(&file)),
            found.form,
            found.progress,
            known,
        )?;
        Ok((Arc::new(Opened::new(source, file, &stat)), stat))
    }

    /// Asks the source folder. When descriptors are short, idle ones are given up first.
    pub(super) fn asking<'a, T>(
        &'a self,
        ask: impl Fn(&'a Origin) -> Result<T, Errno>,
    ) -> Result<T, Failure> {
        match ask(&self.origin) {
            Err(Errno::EMFILE | Errno::ENFILE) => {
                self.idle.clear();
                Ok(ask(&self.origin)?)
            }
            outcome => Ok(outcome?),
        }
    }

    /// The folder that `node` is.
    ///
    /// # Errors
    /// [`Failure::Stale`] when its path leads to another one now, of which the kernel was told other rights.
    pub(super) fn folder(&self, node: &Node) -> Result<Folder<'_>, Failure> {
        let NodeKind::Folder(told) = &node.kind else {
            return Err(Failure::NotFolder);
        };
        let path = node.path();
        self.asking(|origin| origin.folder(&path, told))
    }

    /// Whether what was told of the one node holds for the other, if they are folders.
    pub(super) fn is_same_folder(&self, told: &Node, now: &Node) -> bool {
        match (&told.kind, &now.kind) {
            (NodeKind::Folder(told), NodeKind::Folder(now)) => {
                self.origin.is_same_folder(told, now)
            }
            _ => true,
        }
    }

    /// The open capture of `node`, opened again if need be.
    ///
    /// # Errors
    /// [`Failure::Stale`] when the node's name leads to another capture, or nowhere, and nobody holds this one open.
    pub(super) fn opened(&self, node: &Arc<Node>) -> Result<Arc<Opened>, Failure> {
        let capture = node.capture().ok_or(Failure::IsFolder)?;
        if let Some(opened) = capture.opened()
            && opened.is_current()?
        {
            return Ok(opened);
        }
        let parent = node.parent.as_ref().ok_or(Failure::IsFolder)?;
        for _ in 0..ATTEMPTS {
            let stat = self.resolve_again(node)?;
            if let Some(opened) = capture.opened()
                && opened.is_current()?
            {
                return Ok(opened);
            }
            // Unchanged, so resolving it opened nothing; or the idle list had no room for it.
            let found = capture.found(stat);
            let known = capture.known_for(&found);
            let open = |folder: Folder<'_>| self.open_physical(&folder, &found, known);
            match self.folder(parent).and_then(open) {
                // A file that is being written has another status at each look.
                Ok((opened, now))
                    if capture.holds_for(&now)
                        || opened.source.may_grow() && capture.is_grown(&capture.found(now)) =>
                {
                    capture.update(&found, &opened);
                    self.idle.keep(node.id, &opened);
                    return Ok(opened);
                }
                // Replaced between the look and the open: look again.
                Ok(_) | Err(Failure::NotFound) => {}
                Err(failure) => return Err(failure),
            }
        }
        Err(Failure::Stale)
    }

    /// The open capture for a read of `handle` up to `end`, looked at again: it holds what it did, or more.
    ///
    /// A direct handle has its own. The page cache belongs to the inode, so what fills it must be what the inode is now,
    /// whichever handle asks: after a change of form, or a copy over it, the newer file of the same capture. Once no name
    /// leads to the inode any more, each handle has its own again.
    ///
    /// # Errors
    /// [`Failure::Stale`] when the file was written over.
    pub(super) fn opened_for(&self, handle: &FileHandle, end: u64) -> Result<Arc<Opened>, Failure> {
        if !handle.is_direct {
            match self.opened(&handle.node) {
                Err(Failure::Stale) => {}
                outcome => return outcome,
            }
        }
        let opened = &handle.opened;
        if !opened.source.may_grow() {
            opened.check_unchanged()?;
        } else if end > opened.source.size() {
            opened.refresh()?;
        }
        Ok(Arc::clone(opened))
    }

    /// Resolves the name of `node` anew: the status of its physical file.
    ///
    /// # Errors
    /// [`Failure::Stale`] when it no longer leads to this node.
    pub(super) fn resolve_again(&self, node: &Arc<Node>) -> Result<FileStat, Failure> {
        let parent = node.parent.as_ref().ok_or(Failure::IsFolder)?;
        match self.resolve(parent, &node.name) {
            Ok((resolved, stat)) if resolved.id == node.id => Ok(stat),
            Ok(_) | Err(Failure::NotFound) => Err(Failure::Stale),
            Err(failure) => Err(failure),
        }
    }

    /// Whether reads through `handle` have shown, since this was asked last, that its capture is longer than was told: a kept
    /// frame table was wrong. The kernel has to forget its attributes before it gets what was read, or a reader that comes
    /// to the end it knows stops there. That a capture is shorter it finds out by itself, by an answer that is short, unless it
    /// is told something meanwhile.
    #[must_use]
    pub fn is_longer_than_told(&self, handle: u64) -> bool {
        let handle = self.files.find(handle);
        let opened = handle.as_ref().and_then(|handle| handle.last_opened());
        let (Some(handle), Some(opened)) = (handle, opened) else {
            return false;
        };
        let Some(capture) = handle.node.capture() else {
            return false;
        };
        if !opened.source.take_corrected() {
            return false;
        }
        let told = capture.facts().size;
        capture.update_facts(&opened);
        opened.source.size() > told
    }

    /// Logs and counts the fault of `node`, if it has one that was not told yet.
    pub(super) fn note_fault(&self, node: &Node) {
        let Some(capture) = node.capture() else {
            return;
        };
        let facts = capture.facts();
        let event = match facts.state {
            State::Refused => Event::Refused,
            State::Damaged => Event::Damaged,
            State::Growing | State::Draining | State::Complete => return,
        };
        if let Some(fault) = &facts.error
            && self.told.is_first(node.id)
        {
            self.stats.count(event);
            log::warn!(
                "{}: {}: {fault}",
                node.path().display(),
                facts.state.as_str()
            );
        }
    }

    /// Logs, for a node that is new and was found as `winner`, that its capture lies there in other forms too.
    fn note_conflict(&self, node: &Node, folder: &Folder<'_>, winner: &Found) {
        let others = other_forms(folder, &self.options.naming, &node.name, winner);
        if !others.is_empty() && self.told.is_first(!node.id) {
            log::warn!(
                "{}: stored in {} forms; {} is shown",
                node.path().display(),
                others.len() + 1,
                winner.physical.display()
            );
        }
    }
}
