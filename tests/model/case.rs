//! One case: steps done one after the other, and after each a look at what is visible.

use std::fs;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use super::file::Form;
use super::ledger::{BondId, Handle, Ledger, check_stat};
use super::op::{Look, NAMES, Op, Step};
use super::reader::{Mode, Opened, Reader};
use super::world::{FileId, World, logical};

/// Handles that stay open at once; the oldest is closed for a new one.
const HANDLES_MOST: usize = 5;

/// What is on disk, what was shown of it, and who looks.
pub struct Case<'a> {
    pub world: World,
    pub ledger: Ledger,
    pub reader: &'a mut dyn Reader,
}

/// Does `steps` in the empty folder at `folder`, which `reader` reads.
///
/// # Errors
/// The first thing that is not as the model says, and the step after which it was seen.
pub fn run(folder: PathBuf, reader: &mut dyn Reader, steps: &[Step]) -> Result<(), String> {
    let mut case = Case {
        world: World::new(folder),
        ledger: Ledger::default(),
        reader,
    };
    for (number, Step(look, op)) in steps.iter().enumerate() {
        case.step(*look, op)
            .map_err(|wrong| format!("after step {number}, {op:?}: {wrong}"))?;
    }
    while !case.ledger.handles.is_empty() {
        case.close(0);
    }
    case.reader.finish()
}

impl Case<'_> {
    fn step(&mut self, look: Look, op: &Op) -> Result<(), String> {
        if let Op::Compress { name } = *op {
            let at = super::op::Place {
                name,
                is_foreign: name + 1 == NAMES,
            };
            let parts = [
                Op::Pack { name },
                Op::Finish {
                    at,
                    is_tail_kept: false,
                },
                Op::DropRaw { name },
            ];
            return parts.iter().try_for_each(|part| self.step(look, part));
        }
        self.world.apply(op);
        self.ask(op)?;
        match look {
            Look::Nothing => Ok(()),
            Look::NamesFirst => {
                self.look_at_names()?;
                self.look_at_handles()
            }
            Look::HandlesFirst => {
                self.look_at_handles()?;
                self.look_at_names()
            }
        }
    }

    /// What readers do.
    fn ask(&mut self, op: &Op) -> Result<(), String> {
        let count = self.ledger.handles.len();
        match *op {
            Op::Lookup { name } => self.look_up(name).map(|_| ()),
            Op::Open { name } => {
                if let Some(handle) = self.open(name)? {
                    self.keep(handle);
                }
                Ok(())
            }
            Op::OpenKnown { name } => {
                if let Some(handle) = self.open_known(name)? {
                    self.keep(handle);
                }
                Ok(())
            }
            Op::StatHandle { handle } if count > 0 => self.stat_handle(handle % count),
            Op::Read { handle, from, len } if count > 0 => {
                let mut handle = self.ledger.handles[handle % count].clone();
                let most = *self.ledger.sizes(&self.world, handle.bond).end();
                let (from, len) = (most * from / 1000, most * len / 1000 + 1);
                self.read(&mut handle, from, len).map(|_| ())
            }
            Op::Close { handle } if count > 0 => {
                self.close(handle % count);
                Ok(())
            }
            Op::List => self.list(),
            Op::Forget { name } => {
                for ino in self.ledger.idle_inodes(name) {
                    if self.reader.forget(ino) {
                        self.ledger.note_forgotten(ino);
                    }
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn keep(&mut self, handle: Handle) {
        if self.ledger.handles.len() == HANDLES_MOST {
            self.close(0);
        }
        self.ledger.handles.push(handle);
    }

    fn close(&mut self, place: usize) {
        let handle = self.ledger.handles.remove(place);
        self.reader.close(&handle.opened);
    }

    fn look_at_names(&mut self) -> Result<(), String> {
        for name in 0..NAMES {
            let Some(bond) = self.look_up(name)? else {
                continue;
            };
            let mut handle = self
                .open(name)?
                .ok_or_else(|| format!("{}: cannot be opened", logical(name)));
            if self.is_in_gap(bond) && handle.is_err() {
                continue;
            }
            let handle = handle.as_mut().map_err(|wrong| wrong.clone())?;
            let outcome = self.read_all(handle);
            self.reader.close(&handle.opened);
            outcome.map_err(|wrong| format!("{}, new handle: {wrong}", logical(name)))?;
            self.ledger.bonds[handle.bond].settled = handle.settled;
            self.attributes(name, handle.bond)
                .map_err(|wrong| format!("{}: {wrong}", logical(name)))?;
        }
        self.list()
    }

    fn look_at_handles(&mut self) -> Result<(), String> {
        for place in 0..self.ledger.handles.len() {
            self.stat_handle(place)?;
            let mut handle = self.ledger.handles[place].clone();
            let name = self.ledger.bonds[handle.bond].name;
            self.read_all(&mut handle)
                .map_err(|wrong| format!("{}, handle {place}: {wrong}", logical(name)))?;
            let bond = &mut self.ledger.bonds[handle.bond];
            bond.settled = bond.settled.max(handle.settled);
            self.ledger.handles[place] = handle;
        }
        Ok(())
    }

    /// Looks the name up: `None` where nothing is there, which is as it should be.
    pub fn look_up(&mut self, name: usize) -> Result<Option<BondId>, String> {
        let text = logical(name);
        let wrong = |what: String| format!("look-up of {text}: {what}");
        match (self.world.winner(name), self.reader.look_up(&text)) {
            (None, Err(libc::ENOENT)) => Ok(None),
            (Some(file), Ok(stat)) => {
                let bond = self.note(name, file, stat.ino)?;
                self.ledger
                    .note_size(&self.world, bond, stat.size)
                    .map_err(wrong)?;
                check_stat(&self.world.files[file], &stat).map_err(wrong)?;
                Ok(Some(bond))
            }
            (file, outcome) => Err(wrong(format!("{outcome:?} for {file:?}"))),
        }
    }

    /// Notes that the name, whose file is `file`, was shown as inode `ino`.
    fn note(&mut self, name: usize, file: FileId, ino: u64) -> Result<BondId, String> {
        let physical = &self.world.files[file];
        if physical.state() != Some("complete") {
            self.ledger.cached.remove(&ino);
        }
        self.ledger.note_inode(&self.world, name, file, ino)
    }

    /// Whether the file of this bond was emptied, or holds another capture, since records of the bond's were shown.
    fn is_in_gap(&self, bond: BondId) -> bool {
        self.ledger.bonds[bond].is_finished(&self.world)
    }

    /// Opens the name; `None` where that may fail, and did.
    fn open(&mut self, name: usize) -> Result<Option<Handle>, String> {
        let text = logical(name);
        match (self.world.winner(name), self.reader.open(&text)) {
            (None, Err(libc::ENOENT)) => Ok(None),
            (Some(file), Ok(opened)) => {
                let bond = self.note(name, file, opened.ino)?;
                self.check_mode(bond, opened.mode)
                    .map_err(|wrong| format!("open of {text}: {wrong}"))?;
                Ok(Some(self.handle(bond, opened)))
            }
            (Some(_), Err(libc::EIO | libc::ESTALE))
                if self.ledger.known[name].is_some_and(|bond| self.is_in_gap(bond)) =>
            {
                Ok(None)
            }
            (file, outcome) => Err(format!("open of {text}: {outcome:?} for {file:?}")),
        }
    }

    fn handle(&self, bond: BondId, opened: Opened) -> Handle {
        let file = self.ledger.bonds[bond].file;
        Handle {
            opened,
            bond,
            settled: self.ledger.bonds[bond].settled,
            overwrites: self.world.files[file].overwrites,
        }
    }

    /// Opens the inode that the name last led to.
    fn open_known(&mut self, name: usize) -> Result<Option<Handle>, String> {
        let Some(bond) = self.ledger.known[name] else {
            return Ok(None);
        };
        let (file, ino) = (self.ledger.bonds[bond].file, self.ledger.bonds[bond].ino);
        let winner = self.world.winner(name);
        let is_same_capture = winner.is_some_and(|winner| {
            self.ledger.bonds[bond].capture == Some(self.world.files[winner].capture)
        });
        if winner != Some(file) && is_same_capture {
            // Either file may be opened.
            return self.open(name);
        }
        let is_live = winner == Some(file) && !self.is_in_gap(bond);
        match self.reader.open_known(ino) {
            None => self.open(name),
            Some(Ok(opened)) => {
                // Direct is never wrong: nothing may have told yet of the rename.
                if opened.mode != Mode::Direct {
                    self.check_mode(bond, opened.mode)
                        .map_err(|wrong| format!("open of {}: {wrong}", logical(name)))?;
                }
                Ok(Some(self.handle(bond, opened)))
            }
            Some(Err(libc::ESTALE | libc::EIO)) if !is_live => Ok(None),
            Some(Err(errno)) => Err(format!("open of {}: errno {errno}", logical(name))),
        }
    }

    fn check_mode(&mut self, bond: BondId, mode: Mode) -> Result<(), String> {
        let bond = &self.ledger.bonds[bond];
        let file = &self.world.files[bond.file];
        let Some(state) = file.state().filter(|_| !bond.is_finished(&self.world)) else {
            return Ok(());
        };
        // A raw file may be written to under its final name too: never through the page cache.
        let is_cached = state == "complete" && file.form != Form::Raw;
        let is_right = match mode {
            Mode::Unknown => true,
            Mode::Direct => !is_cached,
            Mode::Fresh => is_cached,
            Mode::Keep => is_cached && self.ledger.cached.contains(&bond.ino),
        };
        if matches!(mode, Mode::Fresh | Mode::Keep) {
            self.ledger.cached.insert(bond.ino);
        }
        if is_right {
            Ok(())
        } else {
            Err(format!("{mode:?} for a {state} capture"))
        }
    }

    fn stat_handle(&mut self, place: usize) -> Result<(), String> {
        let handle = self.ledger.handles[place].clone();
        let bond = &self.ledger.bonds[handle.bond];
        let is_finished = bond.is_finished(&self.world);
        let wanted = self.ledger.shared_sizes(&self.world, handle.bond);
        let wanted = self.with_successor(handle.bond, wanted);
        let own = self.ledger.handle_sizes(&self.world, &handle);
        let wanted = *wanted.start()..=*wanted.end().max(own.end());
        let wrong =
            |what: String| format!("{}, stat of handle {place}: {what}", logical(bond.name));
        match self.reader.stat(&handle.opened) {
            Ok(size) if wanted.contains(&size) => {
                // Else it is the size of another file of the same inode.
                let _ = self.ledger.note_size(&self.world, handle.bond, size);
                self.ledger.promote(&self.world, handle.bond);
                Ok(())
            }
            Err(libc::EIO | libc::ESTALE) if is_finished => Ok(()),
            outcome => Err(wrong(format!("{outcome:?}, wanted {wanted:?}"))),
        }
    }

    /// `sizes`, and what the same capture shows in another physical file that the inode was shown from last, or its name
    /// leads to now: one inode, two files.
    pub(super) fn with_successor(
        &self,
        bond: BondId,
        sizes: RangeInclusive<usize>,
    ) -> RangeInclusive<usize> {
        let bond = &self.ledger.bonds[bond];
        let last = self.ledger.last_of(bond.ino);
        let last = last.map(|last| self.ledger.sizes(&self.world, last));
        let winner = self.world.winner(bond.name);
        let winner = winner.map(|winner| &self.world.files[winner]);
        let winner = winner.filter(|file| bond.capture == Some(file.capture));
        let winner = winner.map(|file| file.visible(file.is_final).size);
        let others = last.into_iter().chain(winner.map(|size| size..=size));
        others.fold(sizes, |all, other| {
            *all.start().min(other.start())..=*all.end().max(other.end())
        })
    }

    /// Checks what the attributes say of the name's capture.
    fn attributes(&mut self, name: usize, bond: BondId) -> Result<(), String> {
        let bond = &self.ledger.bonds[bond];
        let file = &self.world.files[bond.file];
        if bond.is_finished(&self.world) {
            return Ok(());
        }
        let is_raw = file.form == Form::Raw;
        let mut wanted = vec![
            ("format", if is_raw { "raw" } else { "zst" }.to_owned()),
            (
                "physical_name",
                self.world.winner_name(name).unwrap_or_default(),
            ),
            ("physical_size", file.physical_len().to_string()),
        ];
        wanted.extend(file.state().map(|state| ("state", state.to_owned())));
        if file.is_identified() {
            wanted.push(("file_id", self.world.truth.file_id(file.capture)));
        } else if bond.capture.is_none() && file.visible(true).size < 40 {
            // Else a raw file: it passes through, and zeros stand where its first record would.
            wanted.push(("file_id", "0-00000000".to_owned()));
        }
        if file.cuts.is_empty() {
            wanted.push(("frames", file.data_frames().to_string()));
            if file.state() != Some("damaged") {
                let is_whole = is_raw && file.is_final;
                let torn = if is_whole { 0 } else { file.tail_len() };
                wanted.push(("torn_bytes", torn.to_string()));
            }
        }
        let ino = bond.ino;
        for (attribute, wanted) in wanted {
            let got = self.reader.attribute(&logical(name), ino, attribute);
            if got.as_ref() != Ok(&wanted) {
                return Err(format!("{attribute} is {got:?}, wanted {wanted}"));
            }
        }
        Ok(())
    }

    fn list(&mut self) -> Result<(), String> {
        let listed = self.reader.list();
        let wanted = (0..NAMES).filter(|name| self.world.winner(*name).is_some());
        let wanted: Vec<_> = wanted.collect();
        let names: Vec<_> = listed.iter().map(|(name, _)| name.clone()).collect();
        if names != wanted.iter().map(|name| logical(*name)).collect::<Vec<_>>() {
            return Err(format!("listing {names:?}, wanted {wanted:?}"));
        }
        for (name, (text, ino)) in wanted.into_iter().zip(&listed) {
            let known = self.ledger.known[name].map(|bond| self.ledger.bonds[bond].ino);
            if ino.is_some() && *ino != known {
                return Err(format!("listing: {text} is {ino:?}, known is {known:?}"));
            }
        }
        let folder = fs::metadata(&self.world.folder).and_then(|folder| folder.modified());
        let (got, wanted) = (self.reader.folder_mtime(), folder.unwrap());
        if got != wanted {
            return Err(format!("mtime of the folder {got:?}, wanted {wanted:?}"));
        }
        Ok(())
    }
}
