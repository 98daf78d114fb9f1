//! A compressed capture: its frame table, and reads at source offsets through it.
//!
//! One thread at a time extends the table ([`Zst::refresh`]); it publishes whole frames, and what is published never
//! changes. Readers take a look at the published view without waiting for it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, RwLock};

use super::Engine;
use super::cache::{Frame, Key};
use super::error::Error;
use super::read_at::ReadAt;
use super::source::{Bytes, Facts, OnFault, Progress, State};
use super::survey::Survey;
use super::sync::{Taken, Turn, lock, read, write};
use super::view::{Ending, Extent, Header, View};
use crate::format::pcap::{GLOBAL_HEADER_LEN, GlobalHeader, RECORD_HEADER_LEN};
use crate::format::table::Span;
use crate::format::walk::{Step, Torn};
use crate::format::{Fault, FaultKind, FileId, FrameName, SourceOffset};

/// Frames published at once: a long walk shows its progress, and takes the lock seldom.
const BATCH: usize = 1024;
/// Bad frames remembered, so that they are not decoded again and again. More are decoded again: slower, not wrong.
const BAD_FRAMES_MOST: usize = 1024;

/// A compressed capture on disk, or in memory.
pub(super) struct Zst {
    id: u64,
    file: Box<dyn ReadAt>,
    survey: Turn<Survey>,
    view: RwLock<View>,
    bad_frames: Mutex<BadFrames>,
}

#[derive(Default)]
struct BadFrames {
    /// The first that was found, for the attribute `error`.
    first: Option<Fault>,
    by_frame: BTreeMap<u64, Fault>,
}

impl Zst {
    pub(super) fn new(id: u64, file: Box<dyn ReadAt>) -> Self {
        Self {
            id,
            file,
            survey: Turn::new(Survey::default()),
            view: RwLock::default(),
            bad_frames: Mutex::default(),
        }
    }

    /// Walks what is on disk and not yet in the table. Blocks on small reads, and while another thread does the same.
    pub(super) fn refresh(&self, engine: &Engine, progress: Progress) -> Result<(), Error> {
        let mut survey = self.survey.take();
        if read(&self.view).has_broken_header() {
            return Ok(());
        }
        survey.forget_window();
        let physical_len = self.file.len().map_err(Error::io("reading the length"))?;
        let mut batch = Vec::new();
        let ending = loop {
            match survey.step(&*self.file, physical_len) {
                Ok(Step::DataFrame(span)) => {
                    if let Err(fault) = check_limit(engine, &survey, &span) {
                        lock(&self.bad_frames).first.get_or_insert(fault);
                    }
                    batch.push(span);
                    if batch.len() == BATCH {
                        self.publish(&mut batch);
                    }
                }
                Ok(Step::HeaderFrame(span)) => match self.read_header(engine, &survey, &span) {
                    Ok(header) => write(&self.view).header = Some(header),
                    Err(Error::Fault(fault)) => break Ending::Fault(fault),
                    Err(error) => return Err(error),
                },
                Ok(Step::Skipped | Step::Need { .. }) => {}
                Ok(Step::End) => break Ending::Boundary,
                Ok(Step::Torn(Torn::Zeros)) if progress == Progress::Final => {
                    break Ending::Fault(Fault {
                        kind: FaultKind::NotAFrame { got: [0; 4] },
                        frame: survey.walk().frame_name(),
                        at: survey.walk().position(),
                    });
                }
                Ok(Step::Torn(_)) => break Ending::Torn,
                Err(Error::Fault(fault)) => break Ending::Fault(fault),
                Err(error) => {
                    self.publish(&mut batch);
                    return Err(error);
                }
            }
        };
        self.publish(&mut batch);
        self.conclude(&survey, physical_len, ending);
        self.look_for_file_id(engine)
    }

    fn publish(&self, batch: &mut Vec<Span>) {
        let mut view = write(&self.view);
        for span in batch.drain(..) {
            view.table.append(&span);
        }
    }

    fn conclude(&self, survey: &Taken<'_, Survey>, physical_len: u64, ending: Ending) {
        let mut view = write(&self.view);
        view.physical_len = physical_len;
        view.unmapped = physical_len.saturating_sub(survey.walk().position().as_u64());
        view.ending = ending;
    }

    fn read_header(&self, engine: &Engine, survey: &Survey, span: &Span) -> Result<Header, Error> {
        let mut bytes = [0; 24];
        let name = FrameName::Header;
        match survey.seen(span) {
            Some(stored) => engine
                .decoder
                .decode_stored(stored, span, name, &mut bytes)?,
            None => engine.decoder.decode(&*self.file, span, name, &mut bytes)?,
        }
        let parsed = GlobalHeader::parse(&bytes).map_err(|magic| Fault {
            kind: FaultKind::NotPcap { magic },
            frame: name,
            at: span.phys_start,
        })?;
        Ok(Header { bytes, parsed })
    }

    /// Computes the FileId once the first record is there (format document, section 6).
    fn look_for_file_id(&self, engine: &Engine) -> Result<(), Error> {
        let (header, span) = {
            let view = read(&self.view);
            match (&view.header, view.table.span(0)) {
                (Some(header), Some(span)) if view.file_id.is_provisional() => (header.bytes, span),
                _ => return Ok(()),
            }
        };
        let record: Option<[u8; RECORD_HEADER_LEN]> =
            match engine.decoder.prefix(&*self.file, &span)? {
                Some(record) => Some(record),
                None => self.first_record(engine),
            };
        if let Some(record) = record {
            write(&self.view).file_id = FileId::new(&header, &record);
        }
        Ok(())
    }

    /// The first record header by whole, checked decodes; `None` where they fail, which the reads will report.
    fn first_record(&self, engine: &Engine) -> Option<[u8; RECORD_HEADER_LEN]> {
        let bytes = self
            .read(engine, GLOBAL_HEADER_LEN, RECORD_HEADER_LEN, OnFault::Fail)
            .ok()?;
        bytes.first_chunk().copied()
    }

    pub(super) fn facts(&self, progress: Progress) -> Facts {
        let view = read(&self.view);
        let walk_fault = view.fault().cloned();
        let error = walk_fault
            .clone()
            .or_else(|| lock(&self.bad_frames).first.clone());
        let state = match (&walk_fault, &error, progress) {
            (Some(fault), _, _) if !matches!(fault.frame, FrameName::Data(_)) => State::Refused,
            (_, Some(_), _) => State::Damaged,
            (_, None, Progress::Partial) => State::Growing,
            (_, None, Progress::Final) if view.is_drained() => State::Complete,
            (_, None, Progress::Final) => State::Draining,
        };
        Facts {
            state,
            size: view.extent().size,
            physical_len: view.physical_len,
            frames: view.table.len() as u64,
            torn_bytes: if walk_fault.is_none() {
                view.unmapped
            } else {
                0
            },
            file_id: view.file_id,
            header: view.header.as_ref().map(|header| header.parsed),
            error,
        }
    }

    /// Frame number `index`.
    pub(super) fn span(&self, index: usize) -> Option<Span> {
        read(&self.view).table.span(index)
    }

    pub(super) fn table_bytes(&self) -> usize {
        read(&self.view).table.heap_bytes()
    }

    /// Source bytes from `offset` on, at most `len`; fewer only at the end, or where `on_fault` allows.
    pub(super) fn read(
        &self,
        engine: &Engine,
        offset: u64,
        len: usize,
        on_fault: OnFault,
    ) -> Result<Bytes, Error> {
        self.gather(offset, len, on_fault, |index, span| {
            self.frame(engine, index, span)
        })
    }

    /// As [`Self::read`], if that needs no IO and no decode; `None` otherwise.
    pub(super) fn read_cached(&self, engine: &Engine, offset: u64, len: usize) -> Option<Bytes> {
        let find = |frame, _: &Span| {
            engine
                .cache
                .find(Key {
                    source: self.id,
                    frame,
                })
                .ok_or(Miss)
        };
        self.gather(offset, len, OnFault::Fail, find).ok()
    }

    fn gather<E: From<Error>>(
        &self,
        offset: u64,
        len: usize,
        on_fault: OnFault,
        mut fetch: impl FnMut(u64, &Span) -> Result<Arc<Frame>, E>,
    ) -> Result<Bytes, E> {
        let extent = read(&self.view).extent();
        let rest = usize::try_from(extent.size.saturating_sub(offset)).unwrap_or(usize::MAX);
        let wanted = len.min(rest);
        if wanted == 0 {
            return Ok(Bytes::default());
        }
        let mut out = Vec::new();
        while out.len() < wanted {
            let at = offset + out.len() as u64;
            let part = match self.part(&extent, at, wanted - out.len(), &mut fetch) {
                Ok(part) => part,
                Err(_) if on_fault == OnFault::ServeGood && !out.is_empty() => break,
                Err(error) => return Err(error),
            };
            // A request within one frame is answered from the frame itself.
            if part.len() == wanted {
                return Ok(part);
            }
            if out.is_empty() {
                out.try_reserve_exact(wanted)
                    .map_err(|_| Error::NoMemory(wanted as u64))?;
            }
            out.extend_from_slice(&part);
        }
        Ok(Bytes::from(out))
    }

    /// Source bytes from `at` on, at most `len`, within the frame that holds `at`; never empty.
    fn part<E: From<Error>>(
        &self,
        extent: &Extent,
        at: u64,
        len: usize,
        fetch: &mut impl FnMut(u64, &Span) -> Result<Arc<Frame>, E>,
    ) -> Result<Bytes, E> {
        if at >= extent.frontier {
            let fault = extent.fault.clone().map_or(
                Error::Io {
                    doing: "reading behind the source frontier",
                    errno: libc::EIO,
                },
                Error::Fault,
            );
            return Err(fault.into());
        }
        let (found, header) = {
            let view = read(&self.view);
            let header = view.header.as_ref().map(|header| header.bytes);
            (view.table.find(SourceOffset::new(at)), header)
        };
        let Some((index, span)) = found else {
            // Below the frontier and before the first frame: the global header.
            let header = header.unwrap_or_default();
            let start = usize::try_from(at).unwrap_or(usize::MAX);
            let part = header.get(start..).unwrap_or_default();
            return Ok(Bytes::from(part[..part.len().min(len)].to_vec()));
        };
        let frame = fetch(index as u64, &span)?;
        let start = usize::try_from(at - span.src_start.as_u64()).unwrap_or(usize::MAX);
        Ok(Bytes::of_frame(frame, start, len))
    }

    /// Frame number `index`, decoded and checked.
    pub(super) fn frame(
        &self,
        engine: &Engine,
        index: u64,
        span: &Span,
    ) -> Result<Arc<Frame>, Error> {
        let name = FrameName::Data(index);
        check_span(engine, span, name)?;
        if let Some(fault) = lock(&self.bad_frames).by_frame.get(&index) {
            return Err(fault.clone().into());
        }
        let key = Key {
            source: self.id,
            frame: index,
        };
        engine
            .cache
            .frame(key, span.src_len, |out| {
                engine.decoder.decode(&*self.file, span, name, out)
            })
            .inspect_err(|error| self.note_bad_frame(index, error))
    }

    fn note_bad_frame(&self, index: u64, error: &Error) {
        let Some(fault) = error.fault().filter(|_| !error.is_changed()) else {
            return;
        };
        let mut bad = lock(&self.bad_frames);
        bad.first.get_or_insert_with(|| fault.clone());
        if bad.by_frame.len() < BAD_FRAMES_MOST {
            bad.by_frame.insert(index, fault.clone());
        }
    }
}

/// A cache look-up that found nothing.
struct Miss;

impl From<Error> for Miss {
    fn from(_: Error) -> Self {
        Self
    }
}

/// Whether the frame that was just walked is one that [`Zst::frame`] will decode.
fn check_limit(engine: &Engine, survey: &Survey, span: &Span) -> Result<(), Fault> {
    // The walk counts the frame already.
    let index = match survey.walk().frame_name() {
        FrameName::Data(next) => next.saturating_sub(1),
        FrameName::Marker | FrameName::Header => 0,
    };
    check_span(engine, span, FrameName::Data(index))
}

fn check_span(engine: &Engine, span: &Span, frame: FrameName) -> Result<(), Fault> {
    let limit = engine.max_frame_size;
    // Incompressible content grows by a few bytes a block; more than twice the limit is padding with empty blocks.
    let is_padded = span.phys_len > limit.saturating_mul(2);
    if span.src_len > limit || is_padded {
        return Err(Fault {
            kind: FaultKind::OverLimit {
                declared: span.src_len.max(if is_padded { span.phys_len } else { 0 }),
                limit,
            },
            frame,
            at: span.phys_start,
        });
    }
    Ok(())
}
