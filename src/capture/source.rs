//! The one type that the floors above hold: a capture, raw or compressed, final or partial, read at source offsets.
//!
//! Never panics, whatever the bytes. A read gives the source's bytes or an error, never a guess.

mod frame;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use super::Engine;
use super::bytes::{Bytes, Pieces};
use super::error::Error;
use super::prefetch::{Keeps, Pattern};
use super::raw::Raw;
use super::reach::Reach;
use super::read_at::ReadAt;
pub use super::state::{Form, Progress, State};
use super::zst::Zst;
use crate::format::pcap::GlobalHeader;
use crate::format::{Fault, FileId};

/// A file that becomes shorter while it is walked is looked at again, so often.
const SHRINKS_MOST: usize = 10;

/// What is known of a capture, at one moment.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Where it stands.
    pub state: State,
    /// Bytes it shows: the source frontier; behind a fault in the walk, also the physical bytes that were not mapped.
    pub size: u64,
    /// Source bytes that were mapped at some time: what is not taken back.
    pub frontier: u64,
    /// Length of the physical file in bytes.
    pub physical_len: u64,
    /// Data frames that carry bytes; 0 for a raw capture.
    pub frames: u64,
    /// Physical bytes behind the source frontier that may still become a frame or a record.
    pub torn_bytes: u64,
    /// Provisional until the first record is there.
    pub file_id: FileId,
    /// The pcap global header; `None` if there is none yet, or none that is valid.
    pub header: Option<GlobalHeader>,
    /// The first fault found. A raw capture that is no pcap has one too, and is served all the same.
    pub error: Option<Fault>,
    /// The physical file was written over with another capture: nothing of it is shown any more.
    pub is_replaced: bool,
}

/// What was known of a capture when it was closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// The size that was shown, in source bytes.
    pub size: u64,
    /// Its id.
    pub file_id: FileId,
    /// Its global header.
    pub header: Option<GlobalHeader>,
}

/// What a read gives whose range holds a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFault {
    /// The error, whatever bytes come before: a page-cached reader takes a short answer for the end of the file.
    Fail,
    /// The bytes before the fault; the next read meets it at its first byte and fails.
    ServeGood,
}

/// An open capture. Shared between threads; every method blocks at most on the disk and on decoding.
pub struct Source {
    engine: Arc<Engine>,
    kind: Kind,
    is_final: AtomicBool,
}

enum Kind {
    Raw(Raw),
    Zst(Arc<Zst>),
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source")
            .field("form", &self.form())
            .field("progress", &self.progress())
            .finish_non_exhaustive()
    }
}

impl Source {
    /// Opens the capture that `file` stores in `form`, and walks what is there.
    ///
    /// A file of another format is no error here: its facts say [`State::Refused`].
    ///
    /// # Errors
    /// IO and memory only.
    pub fn open(
        engine: Arc<Engine>,
        file: Box<dyn ReadAt>,
        form: Form,
        progress: Progress,
    ) -> Result<Self, Error> {
        Self::open_known(engine, file, form, progress, Known::default())
    }

    /// As [`Self::open`], for a partial file that was open before: what was shown of it is not taken back, and another
    /// capture in it is told from the one that was known.
    pub fn open_known(
        engine: Arc<Engine>,
        file: Box<dyn ReadAt>,
        form: Form,
        progress: Progress,
        known: Known,
    ) -> Result<Self, Error> {
        let file: Arc<dyn ReadAt> = Arc::from(file);
        let may_be_kept = progress == Progress::Final && known == Known::default();
        let kind = match form {
            Form::Raw => Kind::Raw(Raw::new(file, known)),
            Form::Zst => Kind::Zst(Arc::new(Zst::new(&engine, file, known))),
        };
        let source = Self {
            engine,
            kind,
            is_final: AtomicBool::new(progress == Progress::Final),
        };
        match &source.kind {
            Kind::Zst(zst) if may_be_kept => source.open_complete(zst)?,
            _ => source.refresh()?,
        }
        Ok(source)
    }

    /// Takes the table that is kept of a file under its final name; else walks the file, and has its table kept.
    fn open_complete(&self, zst: &Zst) -> Result<(), Error> {
        let Some(stamp) = self.engine.index.as_ref().and_then(|_| zst.stamp()) else {
            return self.refresh();
        };
        // Of a file that was written a moment ago the stamp does not tell what is written the next moment.
        let is_settled = stamp.is_settled(SystemTime::now());
        if zst.take_kept(&self.engine, &stamp) {
            return Ok(());
        }
        self.refresh()?;
        if is_settled {
            zst.keep(&self.engine, &stamp);
        }
        Ok(())
    }

    /// Whether a kept table was found wrong since this was asked last: size and frames are others than before.
    #[must_use]
    pub fn take_corrected(&self) -> bool {
        match &self.kind {
            Kind::Raw(_) => false,
            Kind::Zst(zst) => zst.take_corrected(),
        }
    }

    /// How the capture is stored.
    #[must_use]
    pub fn form(&self) -> Form {
        match self.kind {
            Kind::Raw(_) => Form::Raw,
            Kind::Zst(_) => Form::Zst,
        }
    }

    /// What the physical name said when it was last told.
    #[must_use]
    pub fn progress(&self) -> Progress {
        if self.is_final.load(Ordering::Acquire) {
            Progress::Final
        } else {
            Progress::Partial
        }
    }

    /// Whether more of the capture may come: a partial name, or a final one with a tail that is not framed yet.
    #[must_use]
    pub fn may_grow(&self) -> bool {
        self.progress() == Progress::Partial || self.state() == State::Draining
    }

    /// Tells that the file now has its final name. There is no way back.
    pub fn rename_seen(&self) {
        if let (Kind::Zst(zst), false) = (&self.kind, self.is_final.swap(true, Ordering::AcqRel)) {
            zst.rename_seen();
        }
    }

    /// Walks what has come since the last look, in steps between which other threads have their turn.
    pub fn refresh(&self) -> Result<(), Error> {
        let first = self.step_whole()?;
        let mut reach = first;
        // Not after a writer that is faster: to where the file ended when this began.
        while reach.is_part() && reach.is_before(first) {
            reach = self.step_whole()?;
        }
        Ok(())
    }

    /// A step that a writer who cuts his file back at this very moment does not spoil.
    fn step_whole(&self) -> Result<Reach, Error> {
        for _ in 1..SHRINKS_MOST {
            match self.refresh_step() {
                Err(Error::Shrank) => {}
                outcome => return outcome,
            }
        }
        self.refresh_step()
    }

    /// Walks the next 8 MiB, rounded up to a frame or record, of what has come since the last look.
    pub fn refresh_step(&self) -> Result<Reach, Error> {
        match &self.kind {
            Kind::Raw(raw) => raw.refresh_step(self.progress()),
            Kind::Zst(zst) => zst.refresh_step(&self.engine, self.progress()),
        }
    }

    /// Whether the file of a complete capture still holds it: the same `FileId` and the same frames in the same places, or
    /// for a raw one the same `FileId`. Blocks on small reads.
    pub fn is_as_walked(&self) -> Result<bool, Error> {
        match &self.kind {
            Kind::Raw(raw) => raw.is_as_opened(),
            Kind::Zst(zst) => zst.is_as_walked(&self.engine),
        }
    }

    /// Where the capture stands, without looking at the disk.
    #[must_use]
    pub fn state(&self) -> State {
        match &self.kind {
            Kind::Raw(_) => Raw::state(self.progress()),
            Kind::Zst(zst) => zst.state(self.progress()),
        }
    }

    /// [`Facts::size`], without looking at the disk.
    #[must_use]
    pub fn size(&self) -> u64 {
        match &self.kind {
            Kind::Raw(raw) => raw.size(),
            Kind::Zst(zst) => zst.size(),
        }
    }

    /// Source bytes that can be read now, without looking at the disk: less than [`Facts::frontier`] while the writer has cut
    /// some off.
    #[must_use]
    pub fn reachable(&self) -> u64 {
        match &self.kind {
            Kind::Raw(raw) => raw.reachable(self.progress()),
            Kind::Zst(zst) => zst.reachable(),
        }
    }

    /// What is known, without looking at the disk.
    #[must_use]
    pub fn facts(&self) -> Facts {
        match &self.kind {
            Kind::Raw(raw) => raw.facts(self.progress()),
            Kind::Zst(zst) => zst.facts(self.progress()),
        }
    }

    /// Source bytes from source offset `offset` on, at most `len`: fewer only at [`Facts::size`], or, with
    /// [`OnFault::ServeGood`], before a fault. Does not look whether the file has grown.
    pub fn read(&self, offset: u64, len: usize, on_fault: OnFault) -> Result<Bytes, Error> {
        match &self.kind {
            Kind::Raw(raw) => raw.read(self.progress(), offset, len, on_fault),
            Kind::Zst(zst) => {
                let bytes = zst.read(&self.engine, self.progress(), offset, len, on_fault);
                self.engine.prepare();
                bytes
            }
        }
    }

    /// As [`Self::read`], with each run of bytes where it was decoded.
    pub fn read_pieces(&self, offset: u64, len: usize, on_fault: OnFault) -> Result<Pieces, Error> {
        match &self.kind {
            Kind::Raw(_) => self.read(offset, len, on_fault).map(Pieces::from),
            Kind::Zst(zst) => {
                let pieces = zst.read_pieces(&self.engine, self.progress(), offset, len, on_fault);
                self.engine.prepare();
                pieces
            }
        }
    }

    /// As [`Self::read`], if no decode and no disk is needed; `None` otherwise.
    #[must_use]
    pub fn read_cached(&self, offset: u64, len: usize) -> Option<Pieces> {
        match &self.kind {
            Kind::Raw(_) => None,
            Kind::Zst(zst) => zst.read_cached(&self.engine, offset, len),
        }
    }

    /// Has the frames decoded that a sequential reader will want after this read, and lets go of those it is done with,
    /// unless `keeps` says that others may come for them. Never blocks.
    pub fn read_ahead(&self, pattern: &Arc<Pattern>, offset: u64, len: usize, keeps: Keeps) {
        let Kind::Zst(zst) = &self.kind else {
            return;
        };
        let engine = &self.engine;
        if let Some(hint) = pattern.note(offset, len as u64, engine.ahead_most) {
            zst.prefetch(engine, pattern, hint.ahead);
            if keeps == Keeps::Nothing {
                zst.forget(engine, hint.passed);
            }
        }
    }

    /// Whether the file is being walked anew, because its writer restarted: some of its frames are not where they were.
    #[must_use]
    pub fn is_walked_anew(&self) -> bool {
        match &self.kind {
            Kind::Raw(_) => false,
            Kind::Zst(zst) => zst.is_walked_anew(),
        }
    }

    /// The fault behind which nothing can be mapped: one that ended the walk, or a partial raw file that is no pcap.
    #[must_use]
    pub fn walk_fault(&self) -> Option<Fault> {
        match &self.kind {
            Kind::Raw(raw) if self.progress() == Progress::Partial => {
                raw.facts(Progress::Partial).error
            }
            Kind::Raw(_) => None,
            Kind::Zst(zst) => zst.walk_fault(),
        }
    }

    /// Bytes of memory behind the frame table.
    #[must_use]
    pub fn table_bytes(&self) -> usize {
        match &self.kind {
            Kind::Raw(_) => 0,
            Kind::Zst(zst) => zst.table_bytes(),
        }
    }
}
