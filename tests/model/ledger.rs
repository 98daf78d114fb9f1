//! What readers were shown, and what follows from it: which inode a name must lead to, and which sizes it may have.

use std::collections::{HashMap, HashSet};
use std::ops::RangeInclusive;

use super::file::{Form, Physical};
use super::op::NAMES;
use super::reader::{Opened, Stat};
use super::truth::CaptureId;
use super::world::{FileId, World, logical};

pub type BondId = usize;

/// A capture as one inode shows it from one physical file.
#[derive(Clone, Debug)]
pub struct Bond {
    pub ino: u64,
    pub name: usize,
    pub file: FileId,
    /// The file's epoch when it was last seen with the content of this bond.
    pub epoch: usize,
    /// The capture, once a record of it was shown. It never becomes another one.
    pub capture: Option<CaptureId>,
    /// The capture whose global header was shown before any record of it.
    header: Option<CaptureId>,
    /// The most source bytes that were shown.
    pub shown: usize,
    /// The size that was told last, and the largest one: with the bytes behind a fault, which no read gives.
    size: usize,
    size_most: usize,
    /// What the inode showed from another physical file of the same capture before.
    ceiling: usize,
    /// Cuts of the file after which every byte was read and found right.
    pub settled: usize,
    /// Whether a look-up of the name led here since the file has its final name.
    is_told: bool,
    is_forgotten: bool,
}

/// A handle that stays open.
#[derive(Clone, Debug)]
pub struct Handle {
    pub opened: Opened,
    pub bond: BondId,
    pub settled: usize,
    /// How often the file had been written over when it was opened.
    pub overwrites: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Capture(usize, CaptureId),
    /// A file without a first record.
    File(usize, FileId),
}

enum Verdict {
    Same,
    New,
    Either,
}

#[derive(Default)]
pub struct Ledger {
    pub bonds: Vec<Bond>,
    /// What each name led to at the last look-up.
    pub known: [Option<BondId>; NAMES],
    pub handles: Vec<Handle>,
    /// What each number stood for at any time: it stands for nothing else until the end.
    owners: HashMap<u64, Owner>,
    /// The file that each inode was last shown from.
    pub shown_from: HashMap<u64, FileId>,
    /// Inodes whose pages the kernel may still hold, and which were complete ever since.
    pub cached: HashSet<u64>,
}

impl Bond {
    /// Whether the file holds another capture now, or none as yet. By their headers alone captures are told apart only
    /// where these differ.
    pub fn is_finished(&self, world: &World) -> bool {
        let now = world.files[self.file].capture;
        let magic = |capture: CaptureId| world.truth.magic(capture);
        match self.capture {
            Some(capture) => capture != now,
            None => self
                .header
                .is_some_and(|header| magic(header) != magic(now)),
        }
    }

    /// The capture whose bytes the bond shows.
    pub fn truth(&self, world: &World) -> CaptureId {
        let shown = self.capture.or(self.header);
        let now = world.files[self.file].capture;
        shown.filter(|_| self.is_finished(world)).unwrap_or(now)
    }

    /// From here on every read fails.
    pub fn readable(&self, file: &Physical) -> usize {
        file.visible(self.is_told).readable
    }
}

impl Handle {
    /// Whether its file is a compressed one that was written over under its final name since it was opened: only a new
    /// handle is sure to have every byte then, though it be the same capture.
    pub fn is_written_over(&self, world: &World, ledger: &Ledger) -> bool {
        let file = &world.files[ledger.bonds[self.bond].file];
        file.form == Form::Zst && self.overwrites < file.overwrites
    }
}

impl Ledger {
    /// Notes that `name`, which leads to `file`, was shown as `ino`.
    pub fn note_inode(
        &mut self,
        world: &World,
        name: usize,
        file_id: FileId,
        ino: u64,
    ) -> Result<BondId, String> {
        let file = &world.files[file_id];
        let known = self.known[name].map(|bond| self.bonds[bond].clone());
        let verdict = known
            .as_ref()
            .map_or(Verdict::Either, |bond| verdict(world, bond, file_id));
        let is_same = known.as_ref().is_some_and(|bond| bond.ino == ino);
        match verdict {
            Verdict::Same if !is_same => {
                return Err(format!("{}: the inode changed", logical(name)));
            }
            Verdict::New if is_same => {
                return Err(format!(
                    "{}: the inode of another capture stays",
                    logical(name)
                ));
            }
            _ => {}
        }
        let owner = if file.is_identified() {
            Owner::Capture(name, file.capture)
        } else {
            Owner::File(name, file_id)
        };
        match self.owners.get(&ino) {
            // It has got its first record since.
            Some(Owner::File(of, file)) if (*of, *file) == (name, file_id) => {
                self.owners.insert(ino, owner);
            }
            Some(other) if *other != owner && !is_same => {
                return Err(format!(
                    "{}: number {ino} stood for {other:?} before, now for {owner:?}",
                    logical(name)
                ));
            }
            Some(Owner::Capture(..)) => {}
            _ => {
                self.owners.insert(ino, owner);
            }
        }
        let ceiling = known.filter(|_| is_same).map_or(0, |bond| bond.shown);
        let bond = self.bond(world, name, file_id, ino, ceiling);
        self.bonds[bond].is_told |= file.is_final;
        self.known[name] = Some(bond);
        self.shown_from.insert(ino, file_id);
        Ok(bond)
    }

    fn bond(
        &mut self,
        world: &World,
        name: usize,
        file_id: FileId,
        ino: u64,
        ceiling: usize,
    ) -> BondId {
        let file = &world.files[file_id];
        let fits = |bond: &Bond| bond.ino == ino && bond.file == file_id && !bond.is_forgotten;
        let bond = self.bonds.iter().position(fits).unwrap_or_else(|| {
            self.bonds.push(Bond {
                ino,
                name,
                file: file_id,
                epoch: file.epoch(),
                capture: None,
                header: None,
                shown: 0,
                size: 0,
                size_most: 0,
                ceiling,
                settled: file.cuts.len(),
                is_told: false,
                is_forgotten: false,
            });
            self.bonds.len() - 1
        });
        self.promote(world, bond);
        bond
    }

    /// Notes that the first record of the file was to be seen, if it is there.
    pub fn promote(&mut self, world: &World, bond: BondId) {
        let bond = &mut self.bonds[bond];
        let file = &world.files[bond.file];
        if bond.capture.is_none() && !bond.is_finished(world) {
            if bond.epoch != file.epoch() {
                bond.epoch = file.epoch();
                bond.ceiling = bond.ceiling.max(bond.shown);
            }
            if file.is_identified() {
                bond.capture = Some(file.capture);
            }
        }
    }

    /// The sizes that the bond may show now: one, but for files whose writer restarted.
    pub fn sizes(&self, world: &World, bond: BondId) -> RangeInclusive<usize> {
        let bond = &self.bonds[bond];
        let file = &world.files[bond.file];
        if bond.is_finished(world) {
            let most = bond.size.max(file.highs[bond.epoch]);
            return bond.shown..=most.max(bond.shown);
        }
        let told = file.visible(bond.is_told).size;
        // A reader may have learnt of the rename or not, where no look-up of the name led to the file since.
        let named = file.visible(file.is_final).size;
        let high = file.highs[bond.epoch..].iter().copied().max().unwrap_or(0);
        let most = told.max(named).max(high).max(bond.ceiling);
        // A restart between two looks is met by a read at the latest: until all was read, new frames may not show.
        let least = if bond.settled < file.cuts.len() {
            bond.shown
        } else {
            told.min(named).max(bond.shown)
        };
        least..=most
    }

    /// The sizes that the handle may show. Of a compressed file that was written over since it was opened, it keeps the old.
    pub fn handle_sizes(&self, world: &World, handle: &Handle) -> RangeInclusive<usize> {
        let sizes = self.sizes(world, handle.bond);
        if handle.is_written_over(world, self) {
            let size_most = self.bonds[handle.bond].size_most;
            *sizes.start()..=size_most.max(*sizes.end())
        } else {
            sizes
        }
    }

    /// As `sizes`, for a reader who sees one size for all handles of the inode.
    pub fn shared_sizes(&self, world: &World, bond: BondId) -> RangeInclusive<usize> {
        let ino = self.bonds[bond].ino;
        let others = (0..self.bonds.len()).filter(|other| {
            let bond = &self.bonds[*other];
            bond.ino == ino && !bond.is_forgotten
        });
        others.fold(self.sizes(world, bond), |all, other| {
            let sizes = self.sizes(world, other);
            *all.start().min(sizes.start())..=*all.end().max(sizes.end())
        })
    }

    /// What the inode was last shown as.
    pub fn last_of(&self, ino: u64) -> Option<BondId> {
        let file = *self.shown_from.get(&ino)?;
        let is_last = |bond: &Bond| bond.ino == ino && bond.file == file && !bond.is_forgotten;
        self.bonds.iter().position(is_last)
    }

    /// Checks the size in `stat`, and notes that it was shown.
    pub fn note_size(&mut self, world: &World, bond: BondId, size: usize) -> Result<(), String> {
        let sizes = self.sizes(world, bond);
        if !sizes.contains(&size) {
            return Err(format!("size {size}, wanted {sizes:?}"));
        }
        self.note_shown(world, bond, size);
        self.bonds[bond].size = size;
        self.bonds[bond].size_most = size.max(self.bonds[bond].size_most);
        // What the inode showed from another file either stays from now on, or is gone.
        let ceiling = &mut self.bonds[bond].ceiling;
        *ceiling = size.min(*ceiling);
        Ok(())
    }

    /// Notes that source bytes up to `end` were shown.
    pub fn note_shown(&mut self, world: &World, bond: BondId, end: usize) {
        let bond = &mut self.bonds[bond];
        let file = &world.files[bond.file];
        let highs = file.highs[bond.epoch..].iter().copied();
        let mut high = highs.max().unwrap_or(0).max(bond.ceiling);
        if file.form == Form::Raw {
            high = high.max(file.visible(bond.is_told).size);
        }
        bond.shown = bond.shown.max(end.min(high));
        if bond.header.is_none() && bond.shown >= 24 {
            bond.header = Some(file.capture);
        }
    }

    /// Notes that the kernel forgot the inode.
    pub fn note_forgotten(&mut self, ino: u64) {
        for bond in self.bonds.iter_mut().filter(|bond| bond.ino == ino) {
            bond.is_forgotten = true;
        }
        for known in &mut self.known {
            if known.is_some_and(|bond| self.bonds[bond].is_forgotten) {
                *known = None;
            }
        }
        self.cached.remove(&ino);
    }

    /// The inodes of `name` that nobody has open and the kernel has not forgotten.
    pub fn idle_inodes(&self, name: usize) -> Vec<u64> {
        let of_name = |bond: &&Bond| bond.name == name && !bond.is_forgotten;
        let mut inos: Vec<_> = self.bonds.iter().filter(of_name).map(|b| b.ino).collect();
        inos.sort_unstable();
        inos.dedup();
        inos.retain(|ino| {
            let is_open = |handle: &Handle| handle.opened.ino == *ino;
            !self.handles.iter().any(is_open)
        });
        inos
    }
}

/// Which inode the name must lead to, by PRODUCT.md's rules of identity.
fn verdict(world: &World, known: &Bond, file_id: FileId) -> Verdict {
    let file = &world.files[file_id];
    let is_same_file = known.file == file_id;
    match known.capture {
        Some(capture) if file.is_identified() => {
            if capture == file.capture {
                Verdict::Same
            } else {
                Verdict::New
            }
        }
        // Emptied, and its first record not written yet: nothing says yet that it will be another capture. A final file
        // does not wait for one.
        Some(_) if is_same_file && !file.is_final => Verdict::Same,
        Some(_) => Verdict::New,
        None if is_same_file && known.is_finished(world) => {
            if file.has_header() {
                Verdict::New
            } else {
                Verdict::Same
            }
        }
        // A provisional id is promoted in place.
        None if is_same_file && known.epoch == file.epoch() && !file.is_final => Verdict::Same,
        // Nothing was shown yet by which the two could be told apart.
        None => Verdict::Either,
    }
}

/// Checks what does not depend on the content.
pub fn check_stat(file: &Physical, stat: &Stat) -> Result<(), String> {
    let wanted = file.metadata().modified().unwrap();
    if stat.mtime != wanted {
        return Err(format!("mtime {:?}, wanted {wanted:?}", stat.mtime));
    }
    if stat.size > 0 && stat.blocks == 0 {
        return Err("no blocks, but bytes".to_owned());
    }
    Ok(())
}
