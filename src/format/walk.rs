//! Where each frame of a file is: the frame walk (format document, section 5) as a state machine without IO.
//!
//! The caller shows the walk a window of the file and the file's length; the walk answers with the next frame, with the
//! bytes it needs to go on, or with how the file ends. Its position is always a frame boundary, so a walk over a growing
//! file goes on where it stands. The answer never depends on how the bytes arrive, and no bytes make it panic.
//!
//! *Need-more is not wrong*: a frame that is not whole at the end of the file is [`Step::Torn`]. Only a caller that knows
//! the file to be final may make a fault of it.

use super::error::{Fault, FaultKind, FrameName};
use super::frame::{self, Measure, Measured, Start};
use super::marker::{self, Marker};
use super::offset::{PhysicalOffset, SourceOffset};
use super::pcap::GLOBAL_HEADER_LEN;
use super::table::{OFFSET_LIMIT, Span};

/// Bytes of a file that the caller has read: `bytes` start at physical offset `at`.
#[derive(Clone, Copy, Debug)]
pub struct Window<'a> {
    /// Physical offset of the first byte.
    pub at: PhysicalOffset,
    /// The bytes; any number, none included.
    pub bytes: &'a [u8],
}

/// One answer of the walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Call again with a window that holds `len` bytes at `at`; all of them are within the file.
    Need {
        /// Physical offset of the first byte wanted.
        at: PhysicalOffset,
        /// Bytes wanted.
        len: usize,
    },
    /// A frame that carries no source bytes was stepped over: the marker, another skippable frame, an empty frame.
    Skipped,
    /// The header frame, source range `[0, 24)`. Its bytes are for the caller to decode and check.
    HeaderFrame(Span),
    /// The next data frame that carries bytes.
    DataFrame(Span),
    /// The file ends within a frame, or in zero bytes where a frame would start.
    Torn(Torn),
    /// The file ends at the frame boundary where the walk stands.
    End,
}

/// How the bytes behind the last whole frame look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Torn {
    /// The beginning of a frame: a write that has not arrived whole.
    Cut,
    /// Zero bytes, which start no frame and go on with none: a preallocated or sparse tail, in a partial file as good as
    /// torn.
    Zeros,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Marker,
    Header,
    Data,
}

/// The walk over one file.
#[derive(Clone, Debug)]
pub struct Walk {
    stage: Stage,
    /// A frame boundary; everything before it is mapped.
    at: PhysicalOffset,
    /// The source frontier: source bytes in the frames before `at`.
    frontier: SourceOffset,
    /// Data frames that carry bytes, before `at`.
    frames: u64,
    /// The frame at `at` while its blocks are measured. Never kept when the file ends within the frame: a writer that
    /// restarts may frame those bytes anew.
    measure: Option<Measure>,
}

impl Default for Walk {
    fn default() -> Self {
        Self::new()
    }
}

impl Walk {
    /// A walk that stands at the start of a file.
    #[must_use]
    pub fn new() -> Self {
        Self {
            stage: Stage::Marker,
            at: PhysicalOffset::ZERO,
            frontier: SourceOffset::ZERO,
            frames: 0,
            measure: None,
        }
    }

    /// The frame boundary where the walk stands: everything before it is mapped (exclusive end).
    #[must_use]
    pub fn position(&self) -> PhysicalOffset {
        self.at
    }

    /// The source frontier: source bytes in all frames before [`Self::position`].
    #[must_use]
    pub fn frontier(&self) -> SourceOffset {
        self.frontier
    }

    /// Data frames that carry bytes, before [`Self::position`].
    #[must_use]
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// Forgets what was measured of a frame that is not whole yet: its bytes may have changed.
    pub fn forget_frame(&mut self) {
        self.measure = None;
    }

    /// Goes to `boundary`, behind the header frame, with `frames` data frames and source frontier `frontier` before it.
    pub fn rewind(&mut self, boundary: PhysicalOffset, frontier: SourceOffset, frames: u64) {
        *self = Self {
            stage: Stage::Data,
            at: boundary,
            frontier,
            frames,
            measure: None,
        };
    }

    /// The name of the frame that would start at [`Self::position`].
    #[must_use]
    pub fn frame_name(&self) -> FrameName {
        match self.stage {
            Stage::Marker => FrameName::Marker,
            Stage::Header => FrameName::Header,
            Stage::Data => FrameName::Data(self.frames),
        }
    }

    /// The next answer for a file of `physical_len` bytes, seen through `window`.
    ///
    /// # Errors
    /// A [`Fault`] when the bytes at the walk's position can never become a frame of this format. The walk stays where it
    /// is and answers the same again.
    pub fn step(&mut self, physical_len: u64, window: Window<'_>) -> Result<Step, Fault> {
        let rest = PhysicalOffset::new(physical_len).since(self.at);
        if rest == 0 {
            self.measure = None;
            return Ok(Step::End);
        }
        let seen = Seen {
            rest,
            at: self.at,
            window,
        };
        let step = match self.stage {
            Stage::Marker => self.marker_step(&seen),
            Stage::Header | Stage::Data => self.frame_step(&seen),
        };
        if !matches!(step, Ok(Step::Need { .. })) {
            self.measure = None;
        }
        step.map_err(|kind| Fault {
            kind,
            frame: self.frame_name(),
            at: self.at,
        })
    }

    fn marker_step(&mut self, seen: &Seen<'_>) -> Result<Step, FaultKind> {
        let bytes = match seen.peek(0, marker::DECIDING) {
            Ok(bytes) => bytes,
            Err(need) => return Ok(need),
        };
        if frame::start(bytes) == Ok(Start::Zeros) {
            return Ok(Step::Torn(Torn::Zeros));
        }
        match marker::check(bytes)? {
            Marker::Valid { len } if len <= seen.rest => {
                self.at = advance(self.at, len)?;
                self.stage = Stage::Header;
                Ok(Step::Skipped)
            }
            Marker::Valid { .. } | Marker::NeedMore => Ok(Step::Torn(Torn::Cut)),
        }
    }

    fn frame_step(&mut self, seen: &Seen<'_>) -> Result<Step, FaultKind> {
        let measure = if let Some(measure) = self.measure {
            measure
        } else {
            // One read serves the frame header and the first block header.
            let bytes = match seen.peek(0, frame::HEADER_LEN_MAX + frame::BLOCK_HEADER_LEN) {
                Ok(bytes) => bytes,
                Err(need) => return Ok(need),
            };
            match frame::start(bytes).map_err(|got| FaultKind::NotAFrame { got })? {
                Start::NeedMore => return Ok(Step::Torn(Torn::Cut)),
                Start::Zeros => return Ok(Step::Torn(Torn::Zeros)),
                Start::Skippable => return self.skip(bytes, seen.rest),
                Start::Zstd => match frame::header(bytes)? {
                    Some(header) => Measure::new(header),
                    None => return Ok(Step::Torn(Torn::Cut)),
                },
            }
        };
        let measured = match self.measure_blocks(measure, seen)? {
            Ok(measured) => measured,
            Err(step) => return Ok(step),
        };
        self.whole_frame(measured)
    }

    /// Steps over blocks until the frame is measured, or the window or the file ends.
    fn measure_blocks(
        &mut self,
        mut measure: Measure,
        seen: &Seen<'_>,
    ) -> Result<Result<Measured, Step>, FaultKind> {
        loop {
            let bytes = match seen.peek(measure.next_block(), frame::BLOCK_HEADER_LEN) {
                Ok(bytes) => bytes,
                Err(need) => {
                    self.measure = Some(measure);
                    return Ok(Err(need));
                }
            };
            let Some(block) = bytes.first_chunk() else {
                return Ok(Err(Step::Torn(Torn::Cut)));
            };
            if measure.is_hollow() {
                return Ok(Err(Step::Torn(Torn::Zeros)));
            }
            if let Some(measured) = measure.block(*block)? {
                return Ok(if measured.len <= seen.rest {
                    Ok(measured)
                } else {
                    Err(Step::Torn(Torn::Cut))
                });
            }
        }
    }

    fn skip(&mut self, bytes: &[u8], rest: u64) -> Result<Step, FaultKind> {
        match frame::skippable_payload_len(bytes) {
            Some(payload_len) if frame::SKIPPABLE_HEADER_LEN + u64::from(payload_len) <= rest => {
                let len = frame::SKIPPABLE_HEADER_LEN + u64::from(payload_len);
                self.at = advance(self.at, len)?;
                Ok(Step::Skipped)
            }
            _ => Ok(Step::Torn(Torn::Cut)),
        }
    }

    fn whole_frame(&mut self, measured: Measured) -> Result<Step, FaultKind> {
        let span = Span {
            src_start: self.frontier,
            src_len: measured.content_size,
            phys_start: self.at,
            phys_len: measured.len,
        };
        let is_header = self.stage == Stage::Header;
        if is_header && measured.content_size != GLOBAL_HEADER_LEN {
            return Err(FaultKind::HeaderSize {
                got: measured.content_size,
            });
        }
        let frontier = self
            .frontier
            .checked_add(measured.content_size)
            .filter(|end| end.as_u64() < OFFSET_LIMIT)
            .ok_or(FaultKind::TooLong)?;
        self.at = advance(self.at, measured.len)?;
        self.frontier = frontier;
        if is_header {
            self.stage = Stage::Data;
            Ok(Step::HeaderFrame(span))
        } else if measured.content_size == 0 {
            Ok(Step::Skipped)
        } else {
            self.frames += 1;
            Ok(Step::DataFrame(span))
        }
    }
}

fn advance(at: PhysicalOffset, len: u64) -> Result<PhysicalOffset, FaultKind> {
    at.checked_add(len)
        .filter(|end| end.as_u64() < OFFSET_LIMIT)
        .ok_or(FaultKind::TooLong)
}

/// The file behind the walk's position, as far as the window shows it.
struct Seen<'a> {
    /// Physical bytes from `at` to the end of the file.
    rest: u64,
    at: PhysicalOffset,
    window: Window<'a>,
}

impl<'a> Seen<'a> {
    /// The bytes `[skip, skip + len)` behind the walk's position, fewer only where the file ends before; else what to read.
    fn peek(&self, skip: u64, len: usize) -> Result<&'a [u8], Step> {
        let in_file = usize::try_from(self.rest.saturating_sub(skip)).unwrap_or(usize::MAX);
        let wanted = len.min(in_file);
        if wanted == 0 {
            return Ok(&[]);
        }
        // Within the file, so below 2^64.
        let at = PhysicalOffset::new(self.at.as_u64() + skip);
        at.checked_since(self.window.at)
            .and_then(|skip| usize::try_from(skip).ok())
            .and_then(|start| self.window.bytes.get(start..)?.get(..wanted))
            .ok_or(Step::Need { at, len: wanted })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk_all(bytes: &[u8]) -> Result<Vec<Step>, Fault> {
        let mut walk = Walk::new();
        let mut steps = Vec::new();
        loop {
            let step = walk.step(
                bytes.len() as u64,
                Window {
                    at: PhysicalOffset::ZERO,
                    bytes,
                },
            )?;
            steps.push(step);
            if matches!(step, Step::End | Step::Torn(_) | Step::Need { .. }) {
                return Ok(steps);
            }
        }
    }

    #[test]
    fn an_empty_file_ends_at_once_and_a_lone_marker_behind_it() {
        assert_eq!(walk_all(&[]), Ok(vec![Step::End]));
        assert_eq!(walk_all(&marker::FRAME), Ok(vec![Step::Skipped, Step::End]));
        assert_eq!(
            walk_all(&marker::FRAME[..13]),
            Ok(vec![Step::Torn(Torn::Cut)])
        );
    }

    #[test]
    fn a_skippable_frame_that_reaches_past_the_end_is_torn_not_read() {
        let mut bytes = marker::FRAME.to_vec();
        bytes.extend([0x50, 0x2A, 0x4D, 0x18, 0xFF, 0xFF, 0xFF, 0xFF]);
        assert_eq!(
            walk_all(&bytes),
            Ok(vec![Step::Skipped, Step::Torn(Torn::Cut)])
        );
    }

    #[test]
    fn zero_bytes_at_a_boundary_are_torn_and_other_bytes_a_fault() {
        let mut bytes = marker::FRAME.to_vec();
        bytes.push(0);
        assert_eq!(
            walk_all(&bytes),
            Ok(vec![Step::Skipped, Step::Torn(Torn::Zeros)])
        );
        bytes[14] = b'x';
        let fault = walk_all(&bytes).expect_err("x starts no frame");
        assert_eq!(fault.at, PhysicalOffset::new(14));
        assert_eq!(fault.frame, FrameName::Header);
    }
}
