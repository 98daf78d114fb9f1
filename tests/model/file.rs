//! A physical file as its writer knows it: what is in it, what is whole, and what the writer can do next.

use std::fs::{self, File, FileTimes};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use super::truth::{CaptureId, Truth};
use crate::common::frames::{Handmade, MARKER, skippable, zstd_frame};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Raw,
    Zst,
}

/// How the capture is cut into frames: a restarted writer cuts it differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// zstd's own frames.
    Packed,
    /// Frames of raw blocks: other physical lengths for the same content.
    Stored,
}

/// What lies behind the last whole frame or record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tail {
    None,
    /// The first `written` bytes of what will become `unit`.
    Torn {
        bytes: Vec<u8>,
        written: usize,
        unit: Unit,
    },
    /// So many zero bytes: preallocated.
    Zeros(usize),
    /// Bytes that can never become a frame.
    Garbage(usize),
}

/// A frame, or in a raw file the header or a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    pub phys_len: usize,
    pub src_len: usize,
}

/// A physical file, whatever its name is now, also after it was unlinked.
pub struct Physical {
    pub form: Form,
    pub capture: CaptureId,
    file: File,
    units: Vec<Unit>,
    pub tail: Tail,
    pub framing: Framing,
    pub is_final: bool,
    /// Most source bytes that were ever whole, by epoch. A new epoch begins with other content.
    pub highs: Vec<usize>,
    /// Source offsets from which on frames were cut off or written anew, in the order of the restarts.
    pub cuts: Vec<usize>,
    /// How often it was written over under its final name.
    pub overwrites: usize,
}

impl Physical {
    /// An empty partial file at `path`.
    pub fn create(path: &Path, form: Form, capture: CaptureId) -> Self {
        let file = File::create_new(path).unwrap();
        Self {
            form,
            capture,
            file,
            units: Vec::new(),
            tail: Tail::None,
            framing: Framing::Packed,
            is_final: false,
            highs: vec![0],
            cuts: Vec::new(),
            overwrites: 0,
        }
    }

    pub fn epoch(&self) -> usize {
        self.highs.len() - 1
    }

    /// Source bytes in whole frames or records.
    pub fn frontier(&self) -> usize {
        self.units.iter().map(|unit| unit.src_len).sum()
    }

    /// Whole records.
    pub fn records(&self, truth: &Truth) -> usize {
        truth.records_within(self.capture, self.frontier())
    }

    /// Physical bytes in whole frames or records.
    fn mapped(&self) -> usize {
        self.units.iter().map(|unit| unit.phys_len).sum()
    }

    pub fn tail_len(&self) -> usize {
        match &self.tail {
            Tail::None => 0,
            Tail::Torn { written, .. } => *written,
            Tail::Zeros(len) | Tail::Garbage(len) => *len,
        }
    }

    pub fn physical_len(&self) -> usize {
        self.mapped() + self.tail_len()
    }

    /// Data frames that carry bytes; 0 for a raw file.
    pub fn data_frames(&self) -> usize {
        let data = self.units.iter().skip(2).filter(|unit| unit.src_len > 0);
        if self.form == Form::Zst {
            data.count()
        } else {
            0
        }
    }

    /// Whether marker and header frame, or the raw header, are whole.
    pub fn has_header(&self) -> bool {
        self.frontier() >= 24
    }

    pub fn metadata(&self) -> fs::Metadata {
        self.file.metadata().unwrap()
    }

    fn header_units(&self) -> usize {
        if self.form == Form::Zst { 2 } else { 1 }
    }

    /// What the writer writes next, when that is `records` records: marker and header come first, one at a time.
    fn next(&self, truth: &mut Truth, records: usize) -> (Vec<u8>, Unit) {
        let start = self.frontier();
        let (bytes, src_len) = match (self.form, self.units.len()) {
            (Form::Zst, 0) => (MARKER.to_vec(), 0),
            (Form::Zst, 1) => (zstd_frame(&truth.bytes(self.capture)[..24]), 24),
            (Form::Raw, 0) => (truth.bytes(self.capture)[..24].to_vec(), 24),
            (form, _) => {
                let end = truth.end(self.capture, self.records(truth) + records);
                let content = &truth.bytes(self.capture)[start..end];
                let bytes = match (form, self.framing) {
                    (Form::Raw, _) => content.to_vec(),
                    (Form::Zst, Framing::Packed) => zstd_frame(content),
                    (Form::Zst, Framing::Stored) => Handmade::raw(content).build(),
                };
                (bytes, end - start)
            }
        };
        let unit = Unit {
            phys_len: bytes.len(),
            src_len,
        };
        (bytes, unit)
    }

    /// Writes `bytes` behind the last whole frame, over zeros that may be there.
    fn put(&mut self, bytes: &[u8], unit: Unit) {
        let at = self.mapped();
        self.file.write_all_at(bytes, at as u64).unwrap();
        let zeros = match self.tail {
            Tail::Zeros(len) => len.saturating_sub(bytes.len()),
            _ => 0,
        };
        self.tail = if zeros > 0 {
            Tail::Zeros(zeros)
        } else {
            Tail::None
        };
        self.units.push(unit);
        let frontier = self.frontier();
        let high = self.highs.last_mut().unwrap();
        *high = (*high).max(frontier);
    }

    /// Writes the rest of what is torn, if anything is.
    pub fn complete_torn(&mut self) {
        if let Tail::Torn { bytes, unit, .. } = &self.tail {
            let (bytes, unit) = (bytes.clone(), unit.clone());
            self.put(&bytes, unit);
        }
    }

    /// Writes what must come before records: the rest of what is torn, marker and header, up to `units` units in all.
    pub fn advance(&mut self, truth: &mut Truth, units: usize) {
        self.complete_torn();
        while self.units.len() < units.min(self.header_units()) {
            let (bytes, unit) = self.next(truth, 0);
            self.put(&bytes, unit);
        }
    }

    /// Appends `records` records as one whole frame; raw records one by one.
    pub fn append(&mut self, truth: &mut Truth, records: usize) {
        self.advance(truth, usize::MAX);
        let (count, each) = match self.form {
            Form::Zst => (usize::from(records > 0), records),
            Form::Raw => (records, 1),
        };
        for _ in 0..count {
            let (bytes, unit) = self.next(truth, each);
            self.put(&bytes, unit);
        }
    }

    /// Appends the first bytes of the next frame or record: `cut` of them, or all but one if it has not so many.
    pub fn append_torn(&mut self, truth: &mut Truth, records: usize, cut: usize) {
        self.complete_torn();
        self.trim();
        let records = if self.form == Form::Raw {
            1
        } else {
            records.max(1)
        };
        let (bytes, unit) = self.next(truth, records);
        let written = cut.clamp(1, bytes.len() - 1);
        let at = self.mapped() as u64;
        self.file.write_all_at(&bytes[..written], at).unwrap();
        self.tail = Tail::Torn {
            bytes,
            written,
            unit,
        };
    }

    /// Appends a frame that carries no source bytes: an empty one, or a skippable one of `len` bytes.
    pub fn append_filler(&mut self, truth: &mut Truth, len: Option<usize>) {
        self.advance(truth, usize::MAX);
        let bytes = match len {
            None => zstd_frame(&[]),
            Some(len) => skippable(u8::try_from(len % 16).unwrap(), &vec![0xA5; len]),
        };
        self.append_bytes(&bytes);
    }

    /// Appends a whole frame without source bytes.
    pub fn append_bytes(&mut self, bytes: &[u8]) {
        let unit = Unit {
            phys_len: bytes.len(),
            src_len: 0,
        };
        self.put(bytes, unit);
    }

    /// Preallocates `len` zero bytes behind the last whole frame or record.
    pub fn preallocate(&mut self, len: usize) {
        self.complete_torn();
        let len = len.max(self.tail_len());
        self.file.set_len((self.mapped() + len) as u64).unwrap();
        self.tail = Tail::Zeros(len);
    }

    pub fn append_garbage(&mut self, len: usize) {
        self.trim();
        let garbage = vec![b'x'; len];
        self.file
            .write_all_at(&garbage, self.mapped() as u64)
            .unwrap();
        self.tail = Tail::Garbage(len);
    }

    /// Cuts off whatever is behind the last whole frame or record.
    pub fn trim(&mut self) {
        self.tail = Tail::None;
        self.file.set_len(self.mapped() as u64).unwrap();
    }

    /// A restart of the writer: cuts the file off behind so many units, and will frame anew what it writes again.
    pub fn cut(&mut self, units: usize) {
        if units < self.units.len() {
            self.units.truncate(units);
            self.cuts.push(self.frontier());
        }
        self.trim();
        self.framing = match self.framing {
            Framing::Packed => Framing::Stored,
            Framing::Stored => Framing::Packed,
        };
    }

    /// Whether a restart took away what is not back yet.
    pub fn is_shrunk(&self) -> bool {
        let high = self.highs.last().copied();
        Some(self.frontier()) < high || (self.epoch() > 0 && !self.is_identified())
    }

    pub fn unit_count(&self) -> usize {
        self.units.len()
    }

    /// A restart of the writer with another capture: the file is empty then.
    pub fn restart_as(&mut self, capture: CaptureId) {
        self.cut(0);
        self.begin_epoch(capture);
    }

    fn begin_epoch(&mut self, capture: CaptureId) {
        self.capture = capture;
        self.highs.push(0);
        self.cuts.push(0);
    }

    /// Writes over the file what `new` holds, and gives it back the times it had if `keep_times`.
    pub fn copy_over(&mut self, new: &Self, keep_times: bool) {
        let before = self.metadata();
        let mut bytes = vec![0; new.physical_len()];
        new.file.read_exact_at(&mut bytes, 0).unwrap();
        self.file.write_all_at(&bytes, 0).unwrap();
        self.file.set_len(bytes.len() as u64).unwrap();
        self.overwrites += usize::from(self.is_final);
        self.units.clone_from(&new.units);
        self.tail = new.tail.clone();
        if self.capture == new.capture {
            self.cuts.push(0);
        } else {
            self.begin_epoch(new.capture);
        }
        let frontier = self.frontier();
        let high = self.highs.last_mut().unwrap();
        *high = (*high).max(frontier);
        // Where the file system's clock is coarse, the change must not fall into the tick of the last one: only ctime tells.
        let times = FileTimes::new();
        let times = times.set_modified(before.modified().unwrap());
        let ctime = |metadata: &fs::Metadata| (metadata.ctime(), metadata.ctime_nsec());
        while ctime(&self.metadata()) == ctime(&before) {
            self.file.set_times(times).unwrap();
        }
        if keep_times {
            self.file.set_times(times).unwrap();
        }
    }

    /// What a reader sees of it while it has its present name: the size, and how much of that can be read.
    ///
    /// `as_final`: whether the reader knows of the final name.
    pub fn visible(&self, as_final: bool) -> Visible {
        let (frontier, tail) = (self.frontier(), self.tail_len());
        let fails = match (self.form, &self.tail) {
            (Form::Raw, _) if as_final => {
                return Visible {
                    size: frontier + tail,
                    readable: frontier + tail,
                };
            }
            (Form::Zst, Tail::Garbage(_)) => tail,
            (Form::Zst, Tail::Zeros(_)) if as_final => tail,
            _ => 0,
        };
        Visible {
            size: frontier + fails,
            readable: frontier,
        }
    }

    /// Whether the FileId can be told from what is there.
    pub fn is_identified(&self) -> bool {
        self.visible(self.is_final).readable.min(self.true_len()) >= 40
    }

    /// Source bytes that are the capture's own; behind them a raw file shows zeros.
    pub fn true_len(&self) -> usize {
        match (&self.form, &self.tail) {
            (Form::Raw, Tail::Torn { written, .. }) => self.frontier() + written,
            _ => self.frontier(),
        }
    }

    /// The state that the attribute shows; `None` where the documents leave it open.
    pub fn state(&self) -> Option<&'static str> {
        let is_damaged = self.form == Form::Zst
            && match self.tail {
                Tail::Garbage(_) => true,
                Tail::Zeros(_) => self.is_final,
                _ => false,
            };
        match (self.form, self.is_final, &self.tail) {
            _ if is_damaged => Some("damaged"),
            (_, false, _) => Some("growing"),
            (Form::Zst, true, _) if !self.has_header() => None,
            (Form::Zst, true, Tail::Torn { .. }) => Some("draining"),
            _ => Some("complete"),
        }
    }
}

/// What a reader sees of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visible {
    pub size: usize,
    /// From here to the size every read fails.
    pub readable: usize,
}
