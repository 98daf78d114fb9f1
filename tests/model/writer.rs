//! What the writers do to the folder, operation by operation.

use std::fs;

use super::file::{Form, Framing, Physical, Tail};
use super::op::{Op, Place, ZEROS_FIRST};
use super::truth::{CaptureId, Truth};
use super::world::{FileId, World, ending, form};
use crate::common::frames::skippable;

impl World {
    /// Does what writers do. What readers do is not done here.
    pub fn apply(&mut self, op: &Op) {
        match *op {
            Op::Create { at, units, records } => self.op_create(at, units, records),
            Op::Append { at, records } => {
                if let Some(id) = self.partial_or_new(at) {
                    self.files[id].append(&mut self.truth, records);
                }
            }
            Op::Tear { at, records, cut } => {
                if let Some(id) = self.partial_or_new(at) {
                    self.files[id].append_torn(&mut self.truth, records, cut);
                }
            }
            Op::Complete { at } => {
                for id in [self.partial(at), self.torn_final(at)]
                    .into_iter()
                    .flatten()
                {
                    self.files[id].complete_torn();
                }
            }
            Op::Filler { at, len } => {
                if let Some(id) = self.partial(at).filter(|_| form(at) == Form::Zst) {
                    self.files[id].append_filler(&mut self.truth, len);
                }
            }
            Op::Preallocate { at, len } => {
                let is_possible = |id: &FileId| ZEROS_FIRST || self.files[*id].unit_count() > 0;
                if let Some(id) = self.partial(at).filter(is_possible) {
                    self.files[id].preallocate(len);
                }
            }
            Op::Garbage { at, len } => self.op_garbage(at, len),
            Op::Finish { at, is_tail_kept } => self.op_finish(at, is_tail_kept),
            Op::Replace { at, records } => self.op_replace(at, records),
            Op::Delete { name } => {
                self.unlink_winner(name);
            }
            Op::Recreate {
                name,
                is_same,
                records,
            } => self.op_recreate(name, is_same, records),
            Op::Pack { name } => self.op_pack(name),
            Op::DropRaw { name } => self.op_drop_raw(name),
            Op::CutTorn { at, records } => self.op_cut_torn(at, records),
            Op::Rewind {
                at,
                to,
                regrow,
                frames,
            } => self.op_rewind(at, to, regrow, frames),
            Op::Restart { at, units, records } => self.op_restart(at, units, records),
            Op::Mend { at } => {
                let damaged = self.slot(at, false);
                if let Some(id) =
                    damaged.filter(|id| matches!(self.files[*id].tail, Tail::Garbage(_)))
                {
                    self.files[id].trim();
                }
            }
            Op::CopyOver {
                name,
                is_same,
                is_size_kept,
                are_times_kept,
            } => self.op_copy_over(name, is_same, is_size_kept, are_times_kept),
            Op::Compress { .. }
            | Op::Lookup { .. }
            | Op::Open { .. }
            | Op::OpenKnown { .. }
            | Op::StatHandle { .. }
            | Op::Read { .. }
            | Op::Close { .. }
            | Op::List
            | Op::Forget { .. } => {}
        }
    }

    fn torn_final(&self, at: Place) -> Option<FileId> {
        self.slot(at, true).filter(|id| {
            self.files[*id].form == Form::Zst && matches!(self.files[*id].tail, Tail::Torn { .. })
        })
    }

    fn begin(&mut self, id: FileId, units: usize, records: usize) {
        self.files[id].advance(&mut self.truth, units);
        if units > 1 {
            self.files[id].append(&mut self.truth, records);
        }
    }

    fn op_create(&mut self, at: Place, units: usize, records: usize) {
        if self.slot(at, false).is_none() {
            let capture = self.new_capture();
            let id = self.create(at.name, form(at), capture);
            self.begin(id, units, records);
        }
    }

    fn op_garbage(&mut self, at: Place, len: usize) {
        let Some(id) = self.partial(at).filter(|_| form(at) == Form::Zst) else {
            return;
        };
        let file = &mut self.files[id];
        if file.has_header() && !file.is_shrunk() {
            file.append_garbage(len);
        }
    }

    fn op_finish(&mut self, at: Place, is_tail_kept: bool) {
        let Some(id) = self.slot(at, false) else {
            return;
        };
        if self.files[id].is_shrunk() {
            self.regrow(id);
        }
        let file = &mut self.files[id];
        if matches!(file.tail, Tail::Zeros(_)) && !(is_tail_kept && file.has_header()) {
            file.trim();
        }
        self.rename_to_final(at, id);
    }

    /// The writer comes to where it was before its last restart, and to a first record if the file had one.
    fn regrow(&mut self, id: FileId) {
        let file = &mut self.files[id];
        let high = *file.highs.last().unwrap();
        let wanted = self.truth.records_within(file.capture, high);
        let wanted = wanted.max(usize::from(file.epoch() > 0));
        let missing = wanted.saturating_sub(file.records(&self.truth));
        file.append(&mut self.truth, missing);
    }

    fn op_replace(&mut self, at: Place, records: usize) {
        let capture = self.new_capture();
        let to = ending(form(at), true);
        let path = self.folder.join("temporary");
        let mut file = Physical::create(&path, form(at), capture);
        file.append(&mut self.truth, records);
        fs::rename(path, self.path(at.name, to)).unwrap();
        file.is_final = true;
        self.files.push(file);
        self.names[at.name][to] = Some(self.files.len() - 1);
    }

    fn op_recreate(&mut self, name: usize, is_same: bool, records: usize) {
        if let Some(old) = self.unlink_winner(name) {
            let Physical { form, capture, .. } = self.files[old];
            let capture = if is_same { capture } else { self.new_capture() };
            if self.names[name][ending(form, false)].is_none() {
                let id = self.create(name, form, capture);
                self.begin(id, usize::MAX, records);
            }
        }
    }

    fn op_pack(&mut self, name: usize) {
        let [Some(raw), None, _, None] = self.names[name] else {
            return;
        };
        let Physical { capture, tail, .. } = &self.files[raw];
        let (capture, records) = (*capture, self.files[raw].records(&self.truth));
        if *tail != Tail::None || !self.files[raw].has_header() {
            return;
        }
        let id = self.create(name, Form::Zst, capture);
        self.files[id].append(&mut self.truth, records / 2);
        self.files[id].append(&mut self.truth, records - records / 2);
    }

    fn op_drop_raw(&mut self, name: usize) {
        if let [Some(raw), Some(packed), ..] = self.names[name]
            && self.files[raw].capture == self.files[packed].capture
        {
            self.unlink_winner(name);
        }
    }

    fn op_cut_torn(&mut self, at: Place, records: usize) {
        for id in [self.partial(at), self.torn_final(at)]
            .into_iter()
            .flatten()
        {
            let file = &mut self.files[id];
            if matches!(file.tail, Tail::Torn { .. }) {
                file.cut(file.unit_count());
                if !file.is_final {
                    file.append(&mut self.truth, records);
                }
            }
        }
    }

    fn op_rewind(&mut self, at: Place, to: usize, regrow: usize, frames: usize) {
        let Some(id) = self.slot(at, false) else {
            return;
        };
        let file = &mut self.files[id];
        let had = file.records(&self.truth);
        file.cut(file.unit_count() * to / 1000);
        if regrow == 0 {
            return;
        }
        let missing = had - file.records(&self.truth);
        let mut left = (missing * regrow).div_ceil(1000);
        file.append(&mut self.truth, 0);
        for rest in (1..=frames).rev() {
            file.append(&mut self.truth, left / rest);
            left -= left / rest;
        }
    }

    fn op_restart(&mut self, at: Place, units: usize, records: usize) {
        let Some(id) = self.slot(at, false) else {
            return;
        };
        // Without a record, captures of one header cannot be told apart, and captures of two must not be mixed up.
        let file = &self.files[id];
        let magic = self.truth.magic(file.capture);
        let magic = if file.is_identified() {
            Truth::other_magic(magic)
        } else {
            magic
        };
        let capture = self.truth.add(magic);
        self.files[id].restart_as(capture);
        self.begin(id, units, records);
    }

    fn op_copy_over(&mut self, name: usize, is_same: bool, keep_size: bool, keep_times: bool) {
        let Some(id) = self.winner(name) else {
            return;
        };
        let file = &self.files[id];
        if !file.is_identified() || file.is_shrunk() || matches!(file.tail, Tail::Garbage(_)) {
            return;
        }
        let (form, old) = (file.form, file.capture);
        if is_same && form == Form::Raw && file.tail != Tail::None {
            // What passed through would be gone.
            return;
        }
        let (records, len) = (file.records(&self.truth), file.physical_len());
        let capture = if is_same {
            old
        } else {
            self.truth.add_twin(old)
        };
        let path = self.folder.join("temporary");
        let mut new = self.copy_source(form, capture, records);
        if keep_size && !is_same && form == Form::Zst {
            for fewer in (1..records).rev() {
                if new.physical_len() == len || new.physical_len() + 8 <= len {
                    break;
                }
                fs::remove_file(&path).unwrap();
                new = self.copy_source(form, capture, fewer);
            }
            if let Some(len) = len.checked_sub(new.physical_len() + 8) {
                new.append_bytes(&skippable(0, &vec![0; len]));
            }
        }
        fs::remove_file(&path).unwrap();
        self.files[id].copy_over(&new, keep_times);
    }

    fn copy_source(&mut self, form: Form, capture: CaptureId, records: usize) -> Physical {
        let mut new = Physical::create(&self.folder.join("temporary"), form, capture);
        new.framing = Framing::Stored;
        new.append(&mut self.truth, records - records / 2);
        new.append(&mut self.truth, records / 2);
        new
    }
}
