//! A partial file that an earlier writer left: what of it stands, and whether a source is the same capture.

use std::fs::File;
use std::sync::Arc;

use super::Written;
use super::pending::Pending;
use crate::capture::error::Error;
use crate::capture::read_at::read_part;
use crate::capture::report::check_frame;
use crate::capture::source::{Form, OnFault, Progress, Source};
use crate::capture::{Engine, MAX_FRAME_SIZE};
use crate::format::pcap::{GLOBAL_HEADER_LEN, GlobalHeader, RECORD_HEADER_LEN};
use crate::format::{Fault, FaultKind, FileId, FrameName, PhysicalOffset};

/// [`GLOBAL_HEADER_LEN`], as the length of an array.
const HEADER_LEN: usize = 24;
/// Memory for decoded frames: one of the largest that are decoded, and what it takes on disk.
const CACHE_SIZE: u64 = 3 * MAX_FRAME_SIZE;

/// Physical bytes that the start of a header frame may take: as of one that is read (`zst/identity`).
const HEADER_FRAME_MOST: u64 = 4096;
/// Bytes that are looked at at once where there should be none.
const PIECE: usize = 64 * 1024;

/// The file up to its last good frame.
pub(super) struct Leftover {
    source: Source,
    header: GlobalHeader,
    header_bytes: [u8; HEADER_LEN],
    file_id: FileId,
    /// What of the file stands.
    written: Written,
    /// Source bytes that were found the same in the source that is packed; `None` before that was begun.
    passed: Option<u64>,
}

/// How far a source was compared.
pub(super) enum PassedOver {
    /// More of it is needed.
    Part,
    /// What is pending goes behind the leftover file.
    All,
    /// A frame of the leftover file does not decode: it ends before that one now, and what is pending goes there.
    UpToBadFrame,
}

impl Leftover {
    /// Walks what is in `file`; `None` when there is not even a global header, nor anything else, so that nothing is lost by
    /// starting anew.
    ///
    /// Frames at the end that do not decode are left out, as a torn one is: a machine that lost its power may have kept the
    /// length of a file and not its bytes.
    ///
    /// # Errors
    /// The fault of a file that is in another format or malformed; IO.
    pub(super) fn open(file: &File) -> Result<Option<Self>, Error> {
        let own = file.try_clone().map_err(Error::io("opening"))?;
        let engine = Arc::new(Engine::new(CACHE_SIZE, MAX_FRAME_SIZE));
        let source = Source::open(engine, Box::new(own), Form::Zst, Progress::Partial)?;
        if let Some(fault) = source.walk_fault() {
            return Err(fault.into());
        }
        let facts = source.facts();
        let Some(header) = facts.header else {
            check_headless(file, facts.physical_len, facts.torn_bytes)?;
            return Ok(None);
        };
        let bytes = source.read(0, HEADER_LEN, OnFault::Fail)?;
        let Some(header_bytes) = bytes.first_chunk() else {
            return Ok(None);
        };
        let mut leftover = Self {
            header,
            header_bytes: *header_bytes,
            file_id: facts.file_id,
            written: Written {
                source_bytes: facts.frontier,
                physical_bytes: facts.physical_len - facts.torn_bytes,
                frames: facts.frames,
                cut_bytes: 0,
            },
            passed: None,
            source,
        };
        leftover.leave_out_bad_end()?;
        Ok(Some(leftover))
    }

    /// Leaves out frames at the end that do not decode.
    ///
    /// # Errors
    /// A last frame that decodes and does not hold whole records, or that this program would not decode: not a writer's.
    fn leave_out_bad_end(&mut self) -> Result<(), Error> {
        while let Some(index) = self.written.frames.checked_sub(1) {
            let at = usize::try_from(index).unwrap_or(usize::MAX);
            let Some((span, frame)) = self.source.frame(at) else {
                return Err(Error::Shrank);
            };
            match frame {
                Ok(bytes) => {
                    let records = check_frame(&self.header, index, &span, &bytes);
                    return match records.fault {
                        Some((_, fault)) => Err(fault.into()),
                        None => Ok(()),
                    };
                }
                Err(Error::Fault(fault)) if is_lost(&fault) => self.end_before(at)?,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Lets the file end before frame number `index`.
    fn end_before(&mut self, index: usize) -> Result<(), Error> {
        let span = self.source.span(index).ok_or(Error::Shrank)?;
        self.written = Written {
            source_bytes: span.src_start.as_u64(),
            physical_bytes: span.phys_start.as_u64(),
            frames: index as u64,
            cut_bytes: 0,
        };
        Ok(())
    }

    pub(super) fn header(&self) -> GlobalHeader {
        self.header
    }

    /// What of the file stands.
    pub(super) fn written(&self) -> Written {
        self.written
    }

    /// Compares `pending`, the next bytes of a source, with what is there, and takes out of it what is the same.
    ///
    /// # Errors
    /// [`Error::NotResumable`] when the source is another capture.
    pub(super) fn pass_over(
        &mut self,
        pending: &mut Pending,
        appends: bool,
    ) -> Result<PassedOver, Error> {
        let mut passed = match self.passed {
            Some(passed) => passed,
            None => match self.begin(pending, appends)? {
                Begun::NotYet => return Ok(PassedOver::Part),
                Begun::Behind => return Ok(PassedOver::All),
                Begun::Same => GLOBAL_HEADER_LEN,
            },
        };
        let mut done = 0;
        let outcome = loop {
            self.passed = Some(passed);
            if passed >= self.written.source_bytes {
                break Ok(PassedOver::All);
            }
            let Some((index, span, frame)) = self.source.frame_at(passed) else {
                break Err(Error::Shrank);
            };
            let len = usize::try_from(span.src_len).unwrap_or(usize::MAX);
            let Some(same) = pending.get(done..).and_then(|rest| rest.get(..len)) else {
                break Ok(PassedOver::Part);
            };
            match frame {
                Ok(bytes) if *bytes == *same => {}
                Ok(_) => break Err(other_capture()),
                Err(Error::Fault(fault)) if is_lost(&fault) => {
                    let at = usize::try_from(index).unwrap_or(usize::MAX);
                    break self.end_before(at).map(|()| PassedOver::UpToBadFrame);
                }
                Err(error) => break Err(error),
            }
            done += len;
            passed = span.src_end().as_u64();
        };
        // Also before an error: behind one of the disk's the comparison goes on here.
        pending.take_out(done);
        outcome
    }

    /// Tells by the global header and the first record what the source is, and takes the header out of `pending`.
    fn begin(&self, pending: &mut Pending, appends: bool) -> Result<Begun, Error> {
        let Some((header, behind)) = pending.split_first_chunk::<HEADER_LEN>() else {
            return Ok(Begun::NotYet);
        };
        if *header != self.header_bytes {
            return Err(other_capture());
        }
        let begun = if self.written.frames == 0 {
            Begun::Behind
        } else {
            let Some(record) = behind.first_chunk::<RECORD_HEADER_LEN>() else {
                return Ok(Begun::NotYet);
            };
            match FileId::new(header, record) == self.file_id {
                true => Begun::Same,
                false if appends => Begun::Behind,
                false => return Err(other_capture()),
            }
        };
        pending.take_out(HEADER_LEN);
        Ok(begun)
    }

    /// The source has ended, with `pending` not compared: with `appends`, half a record behind a header, if all is well.
    ///
    /// # Errors
    /// [`Error::NotResumable`] when what is there goes on.
    pub(super) fn end(&self, pending: &mut Pending, appends: bool) -> Result<(), Error> {
        if self.passed.is_some() || !appends && self.written.frames > 0 {
            return Err(Error::NotResumable(
                "the input ends before what the partial file holds",
            ));
        }
        let has_header = pending.first_chunk() == Some(&self.header_bytes);
        if !has_header {
            return Err(other_capture());
        }
        pending.take_out(HEADER_LEN);
        Ok(())
    }
}

/// Whether a frame's bytes are not those that were written, so that nothing is lost by writing it again. One that is merely
/// larger than what is decoded here is another matter.
fn is_lost(fault: &Fault) -> bool {
    matches!(
        fault.kind,
        FaultKind::Undecodable { .. } | FaultKind::Changed { .. }
    )
}

/// That a file of `len` bytes without a header frame, the last `torn` of which are no whole frame, holds nothing. A writer
/// leaves the start of its marker or header frame, and a loss of power zeros in their place. Other bytes behind those are
/// another's file, or what is left of a capture that has lost its first block.
///
/// # Errors
/// Their fault; IO.
fn check_headless(file: &File, len: u64, torn: u64) -> Result<(), Error> {
    let end = len.saturating_sub(torn);
    let mut piece = vec![0; PIECE];
    let bytes = read_part(file, &mut piece, end).map_err(Error::io("reading"))?;
    let is_zeros = bytes.first() == Some(&0);
    let mut at = end;
    if !is_zeros {
        at = at.saturating_add(HEADER_FRAME_MOST);
    }
    loop {
        let bytes = read_part(file, &mut piece, at).map_err(Error::io("reading"))?;
        if bytes.is_empty() {
            return Ok(());
        }
        if bytes.iter().any(|byte| *byte != 0) {
            break;
        }
        at = at.saturating_add(bytes.len() as u64);
    }
    let (frame, kind) = match end {
        0 => (FrameName::Marker, FaultKind::NotMarked),
        _ if is_zeros => (FrameName::Header, FaultKind::NotAFrame { got: [0; 4] }),
        _ => {
            let most = HEADER_FRAME_MOST;
            (FrameName::Header, FaultKind::Padded { got: torn, most })
        }
    };
    let at = PhysicalOffset::new(end);
    Err(Fault { kind, frame, at }.into())
}

enum Begun {
    NotYet,
    /// What is pending goes behind what is there.
    Behind,
    /// The source is the capture that is there, from its start.
    Same,
}

fn other_capture() -> Error {
    Error::NotResumable("the partial file holds another capture than the input")
}
