//! A compressed capture: its frame table, kept up with a file that grows and whose writer may restart.
//!
//! One thread at a time extends the table ([`Zst::refresh`]); it publishes whole frames, and readers take a look at the
//! published view without waiting for it.
//!
//! A restarted writer cuts its file back to a frame boundary and appends again, with the same content in other frames
//! (format document, section 7.7). Frames that were cut off leave the table; the published size stays; what was decoded
//! of them is forgotten, because their numbers will stand for other frames. When what is there again is another capture,
//! this one is *replaced*: it publishes nothing any more.

mod identity;
mod read;

use std::sync::{Arc, Mutex, RwLock};

use super::Engine;
use super::bad_frame::BadFrames;
use super::error::Error;
use super::read_at::ReadAt;
use super::source::{Facts, Known, Progress, State};
use super::survey::Survey;
use super::sync::{Turn, lock, read, write};
use super::view::{Ending, View};
use crate::format::table::Span;
use crate::format::walk::{Step, Torn};
use crate::format::{Fault, FaultKind, FrameName, PhysicalOffset};

/// Frames published at once: a long walk shows its progress, and takes the lock seldom.
const BATCH: usize = 1024;

/// Physical bytes that a frame may take beyond its source bytes: block headers of a writer that flushes often.
const PADDING_MOST: u64 = 64 * 1024;
/// A compressed capture on disk, or in memory.
pub(super) struct Zst {
    file: Arc<dyn ReadAt>,
    survey: Turn<Survey>,
    view: RwLock<View>,
    bad_frames: Mutex<BadFrames>,
}

/// How a step of the walk went on.
enum Advance {
    More,
    Done(Ending),
    /// The file holds another capture now.
    Replaced,
}

impl Zst {
    pub(super) fn new(engine: &Engine, file: Arc<dyn ReadAt>, known: Known) -> Self {
        Self {
            file,
            survey: Turn::new(Survey::default()),
            view: RwLock::new(View::new(engine.next_generation(), known)),
            bad_frames: Mutex::default(),
        }
    }

    /// Walks what is on disk and not yet in the table. Blocks on small reads, and while another thread does the same.
    pub(super) fn refresh(&self, engine: &Engine, progress: Progress) -> Result<(), Error> {
        let mut survey = self.survey.take();
        self.catch_up(engine, &mut survey, progress)
    }

    fn catch_up(
        &self,
        engine: &Engine,
        survey: &mut Survey,
        progress: Progress,
    ) -> Result<(), Error> {
        let is_refused = {
            let view = read(&self.view);
            if view.is_replaced {
                return Ok(());
            }
            view.has_broken_header()
        };
        let physical_len = self.file.len().map_err(Error::io("reading the length"))?;
        // The header frame was no good, or the file is shorter than what was walked, or starts otherwise: its writer has
        // started over. From the first byte, so that another capture is told by its header and first record.
        if is_refused
            || physical_len < survey.walk().position().as_u64()
            || survey.has_other_head(&*self.file)?
        {
            self.rewind(engine, survey, 0);
        }
        survey.forget_window();
        let mut ending = self.walk(engine, survey, physical_len, progress)?;
        if matches!(ending, Advance::Done(Ending::Fault(_) | Ending::Torn))
            && progress == Progress::Partial
            && !self.is_last_frame_there()?
        {
            // The walk stood within a frame of a restarted writer's, not at a malformed or torn one.
            self.rewind(engine, survey, 0);
            ending = self.walk(engine, survey, physical_len, progress)?;
        }
        let may_grow =
            progress == Progress::Partial || matches!(ending, Advance::Done(Ending::Torn));
        self.conclude(survey, physical_len, ending);
        if may_grow && survey.is_head_short() {
            survey.has_other_head(&*self.file)?;
        }
        write(&self.view).head = survey.head();
        self.look_for_split_record(engine)
    }

    /// Steps to the end of what is there. Nothing of another capture is published.
    fn walk(
        &self,
        engine: &Engine,
        survey: &mut Survey,
        physical_len: u64,
        progress: Progress,
    ) -> Result<Advance, Error> {
        let mut batch = Vec::new();
        let advance = loop {
            match self.step(engine, survey, physical_len, progress, &mut batch) {
                Ok(Advance::More) => {}
                Ok(advance) => break Ok(advance),
                Err(error) => break Err(error),
            }
            if batch.len() == BATCH {
                self.publish(&mut batch);
            }
        };
        self.publish(&mut batch);
        advance
    }

    fn step(
        &self,
        engine: &Engine,
        survey: &mut Survey,
        physical_len: u64,
        progress: Progress,
        batch: &mut Vec<Span>,
    ) -> Result<Advance, Error> {
        let step = match survey.step(&*self.file, physical_len) {
            Err(Error::Fault(fault)) => return Ok(Advance::Done(Ending::Fault(fault))),
            outcome => outcome?,
        };
        Ok(match step {
            Step::Skipped | Step::Need { .. } => Advance::More,
            Step::End => Advance::Done(Ending::Boundary),
            Step::Torn(Torn::Zeros) if progress == Progress::Final => {
                let frame = survey.walk().frame_name();
                Advance::Done(Ending::Fault(Fault {
                    kind: match frame {
                        FrameName::Marker => FaultKind::NotMarked,
                        _ => FaultKind::NotAFrame { got: [0; 4] },
                    },
                    frame,
                    at: survey.walk().position(),
                }))
            }
            Step::Torn(_) => Advance::Done(Ending::Torn),
            Step::HeaderFrame(span) => match self.read_header(engine, survey, &span) {
                Ok(header) => self.take_header(header),
                Err(Error::Fault(fault)) => Advance::Done(Ending::Fault(fault)),
                Err(error) => {
                    // The walk has passed the header frame, but nobody has seen it: start over next time.
                    *survey = Survey::default();
                    return Err(error);
                }
            },
            Step::DataFrame(span) => {
                // The walk counts the frame already.
                let index = survey.walk().frames().saturating_sub(1);
                if index == 0
                    && let Err(replaced) = self.take_first_frame(engine, &span)?
                {
                    return Ok(replaced);
                }
                if let Err(fault) = check_limit(engine, &span, FrameName::Data(index)) {
                    lock(&self.bad_frames).note(index, &fault);
                }
                batch.push(span);
                Advance::More
            }
        })
    }

    fn publish(&self, batch: &mut Vec<Span>) {
        let mut view = write(&self.view);
        for span in batch.drain(..) {
            view.table.append(&span);
        }
    }

    fn conclude(&self, survey: &Survey, physical_len: u64, advance: Advance) {
        let mut view = write(&self.view);
        view.physical_len = physical_len;
        view.unmapped = physical_len.saturating_sub(survey.walk().position().as_u64());
        match advance {
            Advance::More => {}
            Advance::Done(ending) => view.ending = ending,
            Advance::Replaced => view.replace(),
        }
    }

    /// Takes the frames out of the table that reach past `physical_len`, and walks on from the boundary before them.
    fn rewind(&self, engine: &Engine, survey: &mut Survey, physical_len: u64) {
        let mut view = write(&self.view);
        let kept = view.cut_back(PhysicalOffset::new(physical_len));
        match kept {
            Some(boundary) => survey.rewind(boundary, view.table.end(), view.table.len() as u64),
            None => *survey = Survey::default(),
        }
        lock(&self.bad_frames).forget_from(view.table.len() as u64);
        view.generation = engine.next_generation();
    }

    /// Walks frame number `index`, of which reading met `fault`, and all behind it again; whether that was worth trying: the
    /// file may have changed since.
    fn walk_again(
        &self,
        engine: &Engine,
        progress: Progress,
        index: u64,
        fault: &Fault,
    ) -> Result<bool, Error> {
        let mut survey = self.survey.take();
        if lock(&self.bad_frames).find(index).is_some() {
            // Somebody has tried before, and it is still what it was.
            return Ok(false);
        }
        // When the file was framed anew, the boundary before the frame may be none any more: from the start, then. So it is
        // where another capture took the place, though its frames may lie where those of this one lay.
        let boundary = if !survey.has_other_head(&*self.file)? && self.is_frame_there(index)? {
            fault.at.as_u64()
        } else {
            0
        };
        self.rewind(engine, &mut survey, boundary);
        self.catch_up(engine, &mut survey, progress)?;
        Ok(true)
    }

    /// Whether the frame before number `index` still is the one that was walked; true where there is none.
    fn is_frame_there(&self, index: u64) -> Result<bool, Error> {
        let Some(before) = index
            .checked_sub(1)
            .and_then(|index| usize::try_from(index).ok())
        else {
            return Ok(true);
        };
        let Some(span) = read(&self.view).table.span(before) else {
            return Ok(false);
        };
        Survey::still_finds(&*self.file, &span)
    }

    /// Whether the last frame in the table still is where it was walked.
    fn is_last_frame_there(&self) -> Result<bool, Error> {
        let frames = read(&self.view).table.len() as u64;
        self.is_frame_there(frames)
    }

    /// Whether a new walk finds the same capture in the same frames.
    pub(super) fn is_as_walked(&self, engine: &Engine) -> Result<bool, Error> {
        let again = Self::new(engine, Arc::clone(&self.file), Known::default());
        again.refresh(engine, Progress::Final)?;
        let (before, now) = (read(&self.view), read(&again.view));
        Ok(before.file_id == now.file_id && before.table == now.table)
    }

    /// Forgets which frames did not decode: the name has become final, and each is tried once more.
    pub(super) fn rename_seen(&self) {
        lock(&self.bad_frames).forget_from(0);
    }

    pub(super) fn facts(&self, progress: Progress) -> Facts {
        let view = read(&self.view);
        let walk_fault = view.fault().cloned();
        let error = walk_fault
            .clone()
            .or_else(|| lock(&self.bad_frames).first().cloned());
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
            frontier: view.published(),
            physical_len: view.physical_len,
            frames: view.table.len() as u64,
            torn_bytes: if walk_fault.is_none() {
                view.unmapped
            } else {
                0
            },
            file_id: view.file_id,
            header: view
                .header
                .as_ref()
                .filter(|_| view.is_vouched)
                .map(|header| header.parsed)
                .or(view.known_header),
            error,
            is_replaced: view.is_replaced,
        }
    }

    /// Frame number `index`.
    pub(super) fn span(&self, index: usize) -> Option<Span> {
        read(&self.view).table.span(index)
    }

    pub(super) fn table_bytes(&self) -> usize {
        read(&self.view).table.heap_bytes()
    }
}

/// Whether the frame at `span` is one that this reader decodes: neither too large nor mostly padding.
fn check_limit(engine: &Engine, span: &Span, frame: FrameName) -> Result<(), Fault> {
    let limit = engine.max_frame_size;
    let kind = if span.src_len > limit {
        FaultKind::OverLimit {
            declared: span.src_len,
            limit,
        }
    } else if span.phys_len > stored_most(span.src_len) {
        padded(span)
    } else {
        return Ok(());
    };
    Err(Fault {
        kind,
        frame,
        at: span.phys_start,
    })
}

/// The most physical bytes that a frame of `src_len` source bytes takes without being padded: zstd's own bound
/// (`ZSTD_COMPRESSBOUND`), and room for a writer that flushes often.
fn stored_most(src_len: u64) -> u64 {
    src_len + src_len / 64 + PADDING_MOST
}

fn padded(span: &Span) -> FaultKind {
    FaultKind::Padded {
        got: span.phys_len,
        most: stored_most(span.src_len),
    }
}
