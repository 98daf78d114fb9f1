//! The folder on disk: which physical files lie there under which names, and what writers do to them.

use std::fs;
use std::path::PathBuf;

use super::file::{Form, Physical, Tail};
use super::op::{NAMES, Place};
use super::truth::{CaptureId, Truth};
use crate::common::pcap::Magic;

/// A physical file of a case, by number; unlinked ones keep theirs.
pub type FileId = usize;

/// Endings of the physical names, the one that wins first.
const ENDINGS: [&str; 4] = ["", ".zst", ".partial", ".zst.partial"];

/// What is on disk.
pub struct World {
    pub folder: PathBuf,
    pub truth: Truth,
    pub files: Vec<Physical>,
    /// The file under each name and ending.
    pub(super) names: [[Option<FileId>; 4]; NAMES],
}

/// The logical name number `name`.
pub fn logical(name: usize) -> String {
    format!("{}.pcap", ["a", "b", "c"][name])
}

pub(super) fn ending(form: Form, is_final: bool) -> usize {
    match (form, is_final) {
        (Form::Raw, true) => 0,
        (Form::Zst, true) => 1,
        (Form::Raw, false) => 2,
        (Form::Zst, false) => 3,
    }
}

pub(super) fn form(at: Place) -> Form {
    if (at.name + 1 == NAMES) == at.is_foreign {
        Form::Zst
    } else {
        Form::Raw
    }
}

impl World {
    pub fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            truth: Truth::default(),
            files: Vec::new(),
            names: [[None; 4]; NAMES],
        }
    }

    /// The file that a name leads to: final before partial, then raw before compressed.
    pub fn winner(&self, name: usize) -> Option<FileId> {
        self.names[name].iter().copied().flatten().next()
    }

    /// The physical name of the file that a name leads to.
    pub fn winner_name(&self, name: usize) -> Option<String> {
        let place = self.names[name].iter().position(Option::is_some)?;
        Some(logical(name) + ENDINGS[place])
    }

    pub(super) fn path(&self, name: usize, ending: usize) -> PathBuf {
        self.folder.join(logical(name) + ENDINGS[ending])
    }

    pub(super) fn slot(&self, at: Place, is_final: bool) -> Option<FileId> {
        self.names[at.name][ending(form(at), is_final)]
    }

    /// The partial file at `at`, if its writer can go on there.
    pub(super) fn partial(&self, at: Place) -> Option<FileId> {
        self.slot(at, false)
            .filter(|id| !matches!(self.files[*id].tail, Tail::Garbage(_)))
    }

    /// As `partial`; where there is nothing at all under the name, a new file.
    pub(super) fn partial_or_new(&mut self, at: Place) -> Option<FileId> {
        if self.winner(at.name).is_none() {
            let capture = self.new_capture();
            self.create(at.name, form(at), capture);
        }
        self.partial(at)
    }

    pub(super) fn new_capture(&mut self) -> CaptureId {
        let magic = Magic::ALL[self.files.len() % 4];
        self.truth.add(magic)
    }

    pub(super) fn create(&mut self, name: usize, form: Form, capture: CaptureId) -> FileId {
        let ending = ending(form, false);
        let path = self.path(name, ending);
        self.files.push(Physical::create(&path, form, capture));
        let id = self.files.len() - 1;
        self.names[name][ending] = Some(id);
        id
    }

    pub(super) fn rename_to_final(&mut self, at: Place, id: FileId) {
        let (from, to) = (ending(form(at), false), ending(form(at), true));
        fs::rename(self.path(at.name, from), self.path(at.name, to)).unwrap();
        self.names[at.name][from] = None;
        self.names[at.name][to] = Some(id);
        self.files[id].is_final = true;
    }

    pub(super) fn unlink_winner(&mut self, name: usize) -> Option<FileId> {
        let ending = self.names[name].iter().position(Option::is_some)?;
        fs::remove_file(self.path(name, ending)).unwrap();
        self.names[name][ending].take()
    }
}
