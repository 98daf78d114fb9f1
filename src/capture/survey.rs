//! The frame walk over a file: feeds [`Walk`] with small positioned reads.
//!
//! One read serves a frame header with the first block header, and one each further block: never more reads than blocks,
//! and a block's body only as far as a small window reaches into it.

use super::error::Error;
use super::read_at::{ReadAt, read_full};
use crate::format::PhysicalOffset;
use crate::format::table::Span;
use crate::format::walk::{Step, Walk, Window};

/// Bytes of the first read: marker, header frame and first data frame's headers come with one.
const FIRST_WINDOW: usize = 4096;
/// Bytes of each further read: one header, and the next ones where frames are tiny.
const WINDOW: usize = 512;

/// A walk, and the bytes it has read last.
#[derive(Debug, Default)]
pub(super) struct Survey {
    walk: Walk,
    window_at: PhysicalOffset,
    window: Vec<u8>,
}

impl Survey {
    /// The walk, standing where the last step left it.
    pub(super) fn walk(&self) -> &Walk {
        &self.walk
    }

    /// Forgets the bytes read: the file may have changed since.
    pub(super) fn forget_window(&mut self) {
        self.window.clear();
    }

    /// The walk's next answer for a file of `physical_len` bytes, never [`Step::Need`]. Blocks on the reads.
    pub(super) fn step(&mut self, file: &dyn ReadAt, physical_len: u64) -> Result<Step, Error> {
        loop {
            let window = Window {
                at: self.window_at,
                bytes: &self.window,
            };
            match self.walk.step(physical_len, window)? {
                Step::Need { at, len } => self.fill(file, at, len)?,
                step => return Ok(step),
            }
        }
    }

    /// The bytes of the frame at `span`, if the window holds all of them.
    pub(super) fn seen(&self, span: &Span) -> Option<&[u8]> {
        let start = usize::try_from(span.phys_start.checked_since(self.window_at)?).ok()?;
        let len = usize::try_from(span.phys_len).ok()?;
        self.window.get(start..)?.get(..len)
    }

    fn fill(&mut self, file: &dyn ReadAt, at: PhysicalOffset, len: usize) -> Result<(), Error> {
        let ahead = if at == PhysicalOffset::ZERO {
            FIRST_WINDOW
        } else {
            WINDOW
        };
        self.window_at = at;
        self.window.resize(ahead.max(len), 0);
        let got = read_full(file, &mut self.window, at.as_u64()).map_err(Error::io("reading"))?;
        self.window.truncate(got);
        if got < len {
            // The file shrank between its length and this read; the next look starts from its new length.
            return Err(Error::Io {
                doing: "reading a file that shrinks",
                errno: libc::EIO,
            });
        }
        Ok(())
    }
}
