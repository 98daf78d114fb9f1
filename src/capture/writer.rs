//! The format's writer: marker, header frame, record-aligned data frames, and the rename that completes the file.
//!
//! Writes `OUT.partial` under a lock that the kernel drops with the process, and renames it to `OUT` when it is finished
//! and on disk. Bytes already written are never changed; a frame that could not be written whole is truncated away. What
//! stands under the final name is always complete.

mod finish;
mod leftover;
mod partial;
mod pending;
mod record;

use std::path::{Path, PathBuf};

use zstd::zstd_safe::{self, CCtx, CParameter};

use self::finish::Named;
use self::leftover::{Leftover, PassedOver};
use self::partial::Partial;
pub use self::partial::{PARTIAL_SUFFIX, partial_path};
use self::pending::Pending;
use super::error::Error;
use crate::format::marker;
use crate::format::pcap::{GlobalHeader, RecordFault, RecordFaultKind};
use crate::format::split::Splitter;
use crate::format::{Fault, FaultKind, FrameName, PhysicalOffset, SourceOffset};

/// Default source bytes a frame aims at (format document, section 9).
pub const FRAME_TARGET: usize = 262_144;
/// Default compression level (format document, section 9).
pub const LEVEL: i32 = 2;

/// Source bytes that may wait for a disk that takes nothing: two of the largest frames.
pub const PENDING_MOST: u64 = 2 * super::MAX_FRAME_SIZE;

/// How to write.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// zstd's compression level.
    pub level: i32,
    /// Source bytes a frame aims at.
    pub frame_target: usize,
    /// What to do where OUT or a leftover `OUT.partial` exists.
    pub existing: Existing,
}

/// What a writer does with files that are there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// Refuse to start, and refuse to rename over a file that has come meanwhile.
    Keep,
    /// Replace them.
    Replace,
    /// Go on with a partial file that another writer left, behind its last whole frame; without one, start as with `Keep`.
    ///
    /// What is written then must begin as what is there: that part of it is compared and passed over. With `appends`, a
    /// capture with the same global header and another first record goes on behind what is there: that is a live capture
    /// that was started again.
    Resume {
        /// Whether another capture goes on behind what is there.
        appends: bool,
    },
    /// Go on with a partial file that another writer left, behind its last whole frame: what is written then are the records that
    /// follow. Without one, or with one that has no header yet, start as with `Keep`.
    Append,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            level: LEVEL,
            frame_target: FRAME_TARGET,
            existing: Existing::Keep,
        }
    }
}

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Source bytes in whole frames.
    pub source_bytes: u64,
    /// Physical bytes.
    pub physical_bytes: u64,
    /// Data frames.
    pub frames: u64,
    /// Bytes of a half record at the end of the input, which no frame can hold.
    pub cut_bytes: u64,
}

/// A capture while it is written.
pub struct Writer {
    partial: Partial,
    out: PathBuf,
    options: Options,
    context: CCtx<'static>,
    /// `None` until the global header is there.
    splitter: Option<Splitter>,
    /// What an earlier writer left, while the source's beginning is compared with it.
    leftover: Option<Leftover>,
    is_resumed: bool,
    named: Named,
    pending: Pending,
    /// What is wrong with the source, once something is: nothing is taken of it any more.
    refused: Option<Error>,
    stored: Vec<u8>,
    written: Written,
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer")
            .field("partial", &self.partial.path())
            .field("written", &self.written)
            .finish_non_exhaustive()
    }
}

impl Writer {
    /// Starts `out`: creates and locks `out.partial` and writes the marker, or goes on with what is there.
    ///
    /// # Errors
    /// [`Error::Busy`] when another writer holds it; `EEXIST` when `out` or a leftover partial file is there and may not
    /// be replaced; the fault of a leftover file that is to be gone on with and is not one of a writer's.
    pub fn create(out: &Path, options: Options) -> Result<Self, Error> {
        if out.file_name().is_none() {
            return Err(Error::Io {
                doing: "creating the partial file",
                errno: libc::ENOENT,
            });
        }
        if options.existing != Existing::Replace && out.symlink_metadata().is_ok() {
            return Err(Error::Exists("the output exists already"));
        }
        let partial = Partial::lock(out)?;
        let len = partial.len();
        let leftover = match options.existing {
            Existing::Keep if len > 0 => {
                return Err(Error::LeftBehind);
            }
            Existing::Resume { .. } | Existing::Append => Leftover::open(partial.file())?,
            Existing::Keep | Existing::Replace => None,
        };
        let mut writer = Self {
            partial,
            out: out.to_owned(),
            options,
            context: context(options.level)?,
            splitter: None,
            leftover: None,
            is_resumed: leftover.is_some(),
            named: Named::Partial,
            pending: Pending::default(),
            refused: None,
            stored: Vec::new(),
            written: Written::default(),
        };
        if let Some(leftover) = leftover {
            writer.go_on_behind(&leftover)?;
            writer.leftover = Some(leftover).filter(|_| options.existing != Existing::Append);
        } else {
            if len > 0 {
                // Where this fails, what was left is as whole as it was, and stays.
                writer.partial.cut_to(0)?;
            }
            if let Err(error) = writer.append(&marker::FRAME) {
                // Nothing that anybody could read, or go on with; the first error is the one to tell.
                let _ = writer.abandon();
                return Err(error);
            }
        }
        Ok(writer)
    }

    /// Cuts the file back to what `leftover` holds, and stands behind it.
    fn go_on_behind(&mut self, leftover: &Leftover) -> Result<(), Error> {
        self.written = leftover.written();
        self.splitter = Some(Splitter::new(
            leftover.header(),
            SourceOffset::new(self.written.source_bytes),
            self.options.frame_target,
        ));
        self.partial.cut_to(self.written.physical_bytes)
    }

    /// Takes the next source bytes, in any pieces, and writes the frames that they fill.
    ///
    /// # Errors
    /// A source that is no pcap, a record that the format does not allow: no more is taken then. IO, and others of a frame that
    /// cannot be made or written now: the file ends with the last frame, and what was taken is written by the next call that can.
    /// Nothing is taken while more than [`PENDING_MOST`] bytes wait and cannot be written.
    pub fn write(&mut self, source: &[u8]) -> Result<(), Error> {
        self.write_parts([source])
    }

    /// As [`Self::write`] of one after the other; all of them are taken or none.
    fn write_parts<const N: usize>(&mut self, parts: [&[u8]; N]) -> Result<(), Error> {
        self.check_open()?;
        if let Some(error) = &self.refused {
            return Err(error.clone());
        }
        if self.pending_bytes() > PENDING_MOST {
            self.write_full_frames()?;
        }
        self.pending.add(parts)?;
        self.write_full_frames()
    }

    /// That it does not have its final name yet: what stands there is complete.
    fn check_open(&self) -> Result<(), Error> {
        if self.named != Named::Partial {
            return Err(Error::Exists("the file has its final name already"));
        }
        Ok(())
    }

    /// Writes the header and the frames that are full, those that could not be written before among them; notes what is wrong
    /// with the source.
    fn write_full_frames(&mut self) -> Result<(), Error> {
        let outcome = self.try_full_frames();
        if let Err(error @ (Error::Fault(_) | Error::NotResumable(_))) = &outcome {
            self.refused = Some(error.clone());
        }
        outcome
    }

    fn try_full_frames(&mut self) -> Result<(), Error> {
        if !self.pass_over()? || self.splitter.is_none() && !self.write_header()? {
            return Ok(());
        }
        loop {
            let Some(splitter) = &mut self.splitter else {
                return Ok(());
            };
            match splitter.cut(&self.pending) {
                Ok(Some(len)) => self.write_frame(len)?,
                Ok(None) => return Ok(()),
                Err(record) => return Err(self.record_fault(record)),
            }
        }
    }

    /// Passes over what an earlier writer left; whether that is done.
    fn pass_over(&mut self) -> Result<bool, Error> {
        let Some(mut leftover) = self.leftover.take() else {
            return Ok(true);
        };
        let appends = self.appends();
        match leftover.pass_over(&mut self.pending, appends) {
            Ok(PassedOver::All) => Ok(true),
            Ok(PassedOver::UpToBadFrame) => self.go_on_behind(&leftover).map(|()| true),
            outcome => {
                self.leftover = Some(leftover);
                outcome.map(|_| false)
            }
        }
    }

    /// Whether another capture may go on behind what an earlier writer left.
    fn appends(&self) -> bool {
        self.options.existing == Existing::Resume { appends: true }
    }

    /// Writes all whole records that are pending, the last of them as a frame of their own; nothing if there are none.
    ///
    /// # Errors
    /// As of [`Self::write`]. Of a record that is not allowed only the first time; those before it are written.
    pub fn flush(&mut self) -> Result<(), Error> {
        self.check_open()?;
        let mut outcome = Ok(());
        if self.refused.is_none() {
            outcome = self.write_full_frames();
            if outcome.is_err() && self.refused.is_none() {
                return outcome;
            }
        }
        match self.splitter.as_ref().map(Splitter::whole) {
            None | Some(0) => outcome,
            Some(len) => self.write_frame(len).and(outcome),
        }
    }

    /// The first bytes of a record of which the rest never came: the fault, if there are any.
    #[must_use]
    pub fn cut_record(&mut self) -> Option<Fault> {
        let splitter = self.splitter.as_mut().filter(|_| self.leftover.is_none())?;
        let whole = splitter.whole_records(&self.pending);
        let at = splitter.offset(whole);
        let got = self.pending.len().saturating_sub(whole) as u64;
        (got > 0).then(|| {
            self.fault(FaultKind::Record(RecordFault {
                at,
                kind: RecordFaultKind::Cut { got },
            }))
        })
    }

    /// Whether it goes on with what an earlier writer left.
    #[must_use]
    pub fn is_resumed(&self) -> bool {
        self.is_resumed
    }

    /// Whether the header frame was written: what there is can be read.
    #[must_use]
    pub fn has_header(&self) -> bool {
        self.splitter.is_some()
    }

    /// What was written so far.
    #[must_use]
    pub fn written(&self) -> Written {
        self.written
    }

    /// Writes the header frame once the pcap global header is whole; whether it is.
    fn write_header(&mut self) -> Result<bool, Error> {
        let Some(bytes) = self.pending.first_chunk::<24>() else {
            return Ok(false);
        };
        let header =
            GlobalHeader::parse(bytes).map_err(|magic| self.fault(FaultKind::NotPcap { magic }))?;
        self.write_frame(24)?;
        self.splitter = Some(Splitter::new(
            header,
            SourceOffset::new(24),
            self.options.frame_target,
        ));
        Ok(true)
    }

    /// Writes the first `len` pending bytes as one frame.
    #[expect(
        clippy::indexing_slicing,
        reason = "len: what the splitter counted among the pending bytes, or the header that was seen there"
    )]
    fn write_frame(&mut self, len: usize) -> Result<(), Error> {
        let mut stored = std::mem::take(&mut self.stored);
        stored.clear();
        stored
            .try_reserve(zstd_safe::compress_bound(len))
            .map_err(|_| Error::NoMemory(len as u64))?;
        self.context
            .compress2(&mut stored, &self.pending[..len])
            .map_err(|code| Error::Zstd(zstd_safe::get_error_name(code)))?;
        self.append(&stored)?;
        self.stored = stored;
        self.pending.take_out(len);
        self.written.source_bytes += len as u64;
        // Not before the frame is written: what cannot be written now is written the next time.
        if let Some(splitter) = &mut self.splitter {
            splitter.commit();
            self.written.frames += 1;
        }
        Ok(())
    }

    fn append(&mut self, frame: &[u8]) -> Result<(), Error> {
        self.partial.append(frame)?;
        self.written.physical_bytes = self.partial.len();
        Ok(())
    }

    fn record_fault(&self, record: RecordFault) -> Error {
        self.fault(FaultKind::Record(record)).into()
    }

    /// A fault in the frame that would be written next.
    fn fault(&self, kind: FaultKind) -> Fault {
        Fault {
            kind,
            frame: match self.splitter {
                None => FrameName::Header,
                Some(_) => FrameName::Data(self.written.frames),
            },
            at: PhysicalOffset::new(self.written.physical_bytes),
        }
    }
}

/// A compressor whose frames keep the format's invariants: content size declared, checksum present.
fn context(level: i32) -> Result<CCtx<'static>, Error> {
    let mut context = CCtx::create();
    for parameter in [
        CParameter::CompressionLevel(level),
        CParameter::ContentSizeFlag(true),
        CParameter::ChecksumFlag(true),
    ] {
        context
            .set_parameter(parameter)
            .map_err(|code| Error::Zstd(zstd_safe::get_error_name(code)))?;
    }
    Ok(context)
}
