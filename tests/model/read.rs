//! Reads of a handle, each byte compared with the truth.

use super::case::Case;
use super::file::Form;
use super::ledger::{Bond, Handle};
use super::reader::Mode;
use super::world::{FileId, World};

/// The smallest unit of the page cache.
const PAGE: usize = 4096;

/// What may come back at an offset.
struct Limits {
    /// The end may be met from here on.
    end_from: usize,
    /// No byte is behind it.
    end_most: usize,
    /// From here on a read may fail.
    fails_from: usize,
    /// From here on it may still fail after one more look.
    fails_for_good_from: usize,
    /// From here on zeros are the truth.
    zeros_from: usize,
}

impl Case<'_> {
    /// Reads all that the handle can read; what fails because the writer restarted must be right after one more look.
    pub fn read_all(&mut self, handle: &mut Handle) -> Result<(), String> {
        let most = *self.ledger.sizes(&self.world, handle.bond).end() + 100;
        let failed = self.read(handle, 0, most)?;
        let limits = self.limits(handle);
        let bond = &self.ledger.bonds[handle.bond];
        handle.settled = self.world.files[bond.file].cuts.len();
        if failed.is_some_and(|at| at < limits.fails_for_good_from) {
            let name = bond.name;
            self.look_up(name)?;
            self.reader
                .stat(&handle.opened)
                .map_err(|errno| format!("stat: errno {errno}"))?;
            self.read(handle, 0, most)
                .map_err(|wrong| format!("after one more look: {wrong}"))?;
        }
        Ok(())
    }

    /// Reads up to `len` bytes at `from`: where it failed, if it failed and may.
    pub fn read(
        &mut self,
        handle: &mut Handle,
        from: usize,
        len: usize,
    ) -> Result<Option<usize>, String> {
        let limits = self.limits(handle);
        // What the page cache holds is the inode's: of the newer file, where the same capture was written once more.
        let ends = self.with_successor(handle.bond, limits.end_from..=limits.end_most);
        let (end_from, end_most) = ends.into_inner();
        let bond = &self.ledger.bonds[handle.bond];
        let file = &self.world.files[bond.file];
        let truth = self.world.truth.bytes(bond.truth(&self.world));
        let is_finished = bond.is_finished(&self.world);
        let is_over = handle.is_written_over(&self.world, &self.ledger);
        let is_live = !is_finished && handle.settled == file.cuts.len();
        let (mut at, mut was_short, mut failed) = (from, false, None);
        while at < from + len {
            match self.reader.read(&handle.opened, at, from + len - at) {
                Ok(bytes) if bytes.is_empty() => {
                    if at < end_from {
                        return Err(format!("ends at {at}, wanted {end_from}"));
                    }
                    break;
                }
                Ok(bytes) => {
                    compare(&bytes, at, truth, limits.zeros_from)?;
                    if was_short && is_live {
                        return Err(format!("a short read before {at}"));
                    }
                    at += bytes.len();
                    was_short = true;
                    if at > end_most {
                        return Err(format!("bytes up to {at}, the end is {end_most}"));
                    }
                }
                Err(libc::EIO | libc::ESTALE)
                    if at >= limits.fails_from
                        && (at < limits.end_most || is_finished || is_over) =>
                {
                    failed = Some(at);
                    break;
                }
                Err(errno) => return Err(format!("errno {errno} at {at}")),
            }
        }
        if at > from {
            self.ledger.note_shown(&self.world, handle.bond, at);
        }
        if at >= 40 && at > from {
            self.ledger.promote(&self.world, handle.bond);
        }
        Ok(failed)
    }

    fn limits(&self, handle: &Handle) -> Limits {
        let bond = &self.ledger.bonds[handle.bond];
        let file = &self.world.files[bond.file];
        let sizes = self.ledger.handle_sizes(&self.world, handle);
        let mut limits = Limits {
            end_from: *sizes.start(),
            end_most: *sizes.end(),
            fails_from: fails_from(bond, &self.world, handle.settled),
            fails_for_good_from: fails_from(bond, &self.world, file.cuts.len()),
            zeros_from: usize::MAX,
        };
        if file.form == Form::Raw && !bond.is_finished(&self.world) {
            let high = file.highs.last().copied().unwrap_or(0);
            limits.zeros_from = file.true_len().max(high);
        }
        let is_over = handle.is_written_over(&self.world, &self.ledger);
        let is_current = self.world.winner(bond.name) == Some(bond.file);
        let is_cached = matches!(handle.opened.mode, Mode::Fresh | Mode::Keep);
        if is_over && !(is_cached && is_current) {
            limits.fails_from = 0;
            limits.fails_for_good_from = 0;
        }
        // What fills the page cache comes from the file that the inode was shown from last, a page at a time.
        let is_elsewhere = |file: &FileId| *file != bond.file;
        let last = self.ledger.shown_from.get(&bond.ino).copied();
        if let Some(last) = last.filter(is_elsewhere)
            && handle.opened.mode != Mode::Direct
        {
            let other = &self.world.files[last];
            let visible = other.visible(other.is_final);
            if visible.readable < visible.size || !other.cuts.is_empty() {
                let from = other
                    .cuts
                    .iter()
                    .copied()
                    .fold(visible.readable, usize::min);
                let from = from - from % PAGE;
                limits.fails_from = limits.fails_from.min(from);
                limits.fails_for_good_from = limits.fails_for_good_from.min(from);
            }
        }
        if self.reader.has_one_size() {
            limits.end_from = *self.ledger.shared_sizes(&self.world, handle.bond).start();
        }
        limits
    }
}

/// The source offset from which on a read may fail, for a reader who has read all since so many cuts.
fn fails_from(bond: &Bond, world: &World, settled: usize) -> usize {
    if bond.is_finished(world) {
        return 0;
    }
    let file = &world.files[bond.file];
    let cuts = file.cuts.get(settled..).unwrap_or_default();
    let readable = bond.readable(file);
    cuts.iter().copied().fold(readable, usize::min)
}

fn compare(bytes: &[u8], at: usize, truth: &[u8], zeros_from: usize) -> Result<(), String> {
    for (offset, got) in (at..).zip(bytes) {
        let wanted = if offset >= zeros_from {
            Some(&0)
        } else {
            truth.get(offset)
        };
        if wanted != Some(got) {
            return Err(format!("byte {offset} is {got:#04x}, wanted {wanted:02x?}"));
        }
    }
    Ok(())
}
