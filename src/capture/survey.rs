//! The frame walk over a file: feeds [`Walk`] with small positioned reads.
//!
//! One read serves a frame header with the first block header, and one each further block: never more reads than blocks,
//! and a block's body only as far as a small window reaches into it. How they reach the disk is decided
//! by the [`Route`].

use std::mem;

use super::error::Error;
use super::read_at::{ReadAt, read_part};
use super::route::Route;
use crate::format::table::Span;
use crate::format::walk::{Step, Walk, Window};
use crate::format::{PhysicalOffset, SourceOffset};

/// Bytes of the first read: marker, header frame and first data frame's headers come with one.
pub(super) const FIRST_WINDOW: usize = 4096;
/// Bytes of each further read: one header, and the next ones where frames are tiny.
const WINDOW: usize = 512;

/// A walk, and the bytes it has read last.
#[derive(Debug, Default)]
pub(super) struct Survey {
    walk: Walk,
    head: Option<Head>,
    /// The first bytes of the file, where this look has read them.
    first: Vec<u8>,
    window_at: PhysicalOffset,
    window: Vec<u8>,
    route: Route,
}

/// The first bytes of the file, all of them within frames that were walked: they never change but by a new writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    len: usize,
    crc32: u32,
}

impl Head {
    /// Of these bytes.
    pub(super) fn of(bytes: &[u8]) -> Self {
        Self {
            len: bytes.len(),
            crc32: crc32fast::hash(bytes),
        }
    }

    /// Length and checksum, to be kept.
    pub(super) fn parts(self) -> (u32, u32) {
        // FIRST_WINDOW at most.
        (u32::try_from(self.len).unwrap_or(u32::MAX), self.crc32)
    }

    /// What [`Self::parts`] gave.
    pub(super) fn from_parts(len: u32, crc32: u32) -> Self {
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        Self { len, crc32 }
    }

    fn begins(self, bytes: &[u8]) -> bool {
        bytes
            .get(..self.len)
            .is_some_and(|bytes| Self::of(bytes) == self)
    }

    /// Whether `file` still starts like this. Blocks on one small read.
    pub(super) fn is_start_of(self, file: &dyn ReadAt) -> Result<bool, Error> {
        let mut bytes = [0; FIRST_WINDOW];
        let (wanted, _) = bytes.split_at_mut(self.len.min(FIRST_WINDOW));
        let there = read_part(file, wanted, 0).map_err(Error::io("reading"))?;
        Ok(self.begins(there))
    }
}

impl Survey {
    /// Whether the file starts with other bytes than at the last look: a writer has started over, or the file was copied
    /// over, and the walk has to go back. Else remembers the first bytes as far as they were walked. Blocks on one small
    /// read.
    pub(super) fn has_other_head(&mut self, file: &dyn ReadAt) -> Result<bool, Error> {
        let mut bytes = [0; FIRST_WINDOW];
        let (wanted, _) = bytes.split_at_mut(self.head_len().min(FIRST_WINDOW));
        if wanted.is_empty() {
            return Ok(false);
        }
        let there = read_part(file, wanted, 0).map_err(Error::io("reading"))?;
        let is_other = self.head.is_some_and(|head| !head.begins(there));
        if !is_other {
            self.head = Some(Head::of(there));
        }
        Ok(is_other)
    }

    /// Remembers the first bytes as far as they are walked by now: those that the walk itself has read, so that what is
    /// written over them meanwhile is not taken for them. Blocks on one small read where more was walked than was remembered.
    pub(super) fn remember_head(&mut self, file: &dyn ReadAt) -> Result<(), Error> {
        let first = mem::take(&mut self.first);
        match (self.head, first.get(..self.head_len())) {
            (None, Some(walked)) if !walked.is_empty() => self.head = Some(Head::of(walked)),
            (head, _) if head.map_or(0, |head| head.len) < self.head_len() => {
                self.has_other_head(file)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn head_len(&self) -> usize {
        let walked = usize::try_from(self.walk.position().as_u64()).unwrap_or(usize::MAX);
        walked.min(FIRST_WINDOW)
    }

    /// The first bytes of the file, if they are remembered.
    pub(super) fn head(&self) -> Option<Head> {
        self.head
    }

    /// The walk, standing where the last step left it.
    pub(super) fn walk(&self) -> &Walk {
        &self.walk
    }

    /// Goes back to `boundary`, a frame boundary with `frames` data frames and the source frontier `frontier` before it.
    pub(super) fn rewind(&mut self, boundary: PhysicalOffset, frontier: SourceOffset, frames: u64) {
        self.walk.rewind(boundary, frontier, frames);
        self.head = None;
        self.forget_window();
    }

    /// Stands at the end of a file of `physical_len` bytes, with `frames` data frames and the source frontier `frontier`
    /// before it, that starts with `head`.
    pub(super) fn resume(
        &mut self,
        physical_len: u64,
        frontier: SourceOffset,
        frames: u64,
        head: Head,
    ) {
        self.rewind(PhysicalOffset::new(physical_len), frontier, frames);
        self.head = Some(head);
    }

    /// Lets readers of `file` have the system's own readahead again, though the walk has not come to its end.
    pub(super) fn rest(&mut self, file: &dyn ReadAt) {
        self.route.rest(file);
    }

    /// Whether the bytes read last are the first of the file, and start with `head`.
    pub(super) fn starts_with(&self, head: Head) -> bool {
        self.window_at == PhysicalOffset::ZERO && head.begins(&self.window)
    }

    /// Whether the frame at `span` still is there, by its headers. Blocks on one small read a block.
    pub(super) fn still_finds(file: &dyn ReadAt, span: &Span) -> Result<bool, Error> {
        let len = file.len().map_err(Error::io("reading the length"))?;
        let mut survey = Self {
            // One frame is no walk: what lies behind it is not wanted.
            route: Route::Sparse,
            ..Self::default()
        };
        survey.rewind(span.phys_start, span.src_start, 0);
        match survey.step(file, len) {
            Ok(Step::DataFrame(found)) => Ok(found == *span),
            Ok(_) | Err(Error::Fault(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Forgets the bytes read: the file may have changed since.
    pub(super) fn forget_window(&mut self) {
        self.first = Vec::new();
        self.window.clear();
        self.walk.forget_frame();
    }

    /// The walk's next answer for a file of `physical_len` bytes, never [`Step::Need`]. Blocks on the reads.
    pub(super) fn step(&mut self, file: &dyn ReadAt, physical_len: u64) -> Result<Step, Error> {
        loop {
            let window = Window {
                at: self.window_at,
                bytes: &self.window,
            };
            let step = self.walk.step(physical_len, window);
            match step {
                Ok(Step::Need { at, len }) => self.fill(file, at, len, physical_len)?,
                Ok(Step::Skipped | Step::HeaderFrame(_) | Step::DataFrame(_)) => return Ok(step?),
                Ok(Step::Torn(_) | Step::End) | Err(_) => {
                    self.rest(file);
                    return Ok(step?);
                }
            }
        }
    }

    /// The bytes of the frame at `span`, if the window holds all of them.
    pub(super) fn seen(&self, span: &Span) -> Option<&[u8]> {
        let start = usize::try_from(span.phys_start.checked_since(self.window_at)?).ok()?;
        let len = usize::try_from(span.phys_len).ok()?;
        self.window.get(start..)?.get(..len)
    }

    fn fill(
        &mut self,
        file: &dyn ReadAt,
        at: PhysicalOffset,
        len: usize,
        physical_len: u64,
    ) -> Result<(), Error> {
        let ahead = if at == PhysicalOffset::ZERO {
            FIRST_WINDOW
        } else {
            WINDOW
        };
        self.window_at = at;
        self.window.resize(ahead.max(len), 0);
        let got = self
            .route
            .read(file, &mut self.window, at.as_u64(), physical_len)
            .map_err(Error::io("reading"))?;
        self.window.truncate(got);
        if got < len {
            // The file shrank between its length and this read; the next look starts from its new length.
            return Err(Error::Shrank);
        }
        if at == PhysicalOffset::ZERO {
            self.first.clone_from(&self.window);
        }
        Ok(())
    }
}
