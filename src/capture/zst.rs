//! A compressed capture: its frame table, kept up with a file that grows and whose writer may restart.
//!
//! One thread at a time extends the table ([`Zst::refresh`]); it publishes whole frames, and readers take a look at the
//! published view without waiting for it.
//!
//! A restarted writer cuts its file back to a frame boundary and appends again, with the same content in other frames
//! (format document, section 7.7). The file is walked anew then, into a table aside that takes the old one's place when
//! the walk has reached the end: frames that were cut off leave it, the published size stays, and what was decoded is
//! forgotten, because numbers stand for other frames. When what is there again is another capture, this one is *replaced*:
//! it publishes nothing any more.

mod ahead;
mod identity;
mod indexed;
mod limit;
mod read;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, RwLock};

use self::limit::check_limit;
use super::Engine;
use super::error::Error;
use super::reach::{Reach, WALK_STEP};
use super::read_at::ReadAt;
use super::source::{Facts, Known, Progress, State};
use super::stamp::Stamp;
use super::survey::Survey;
use super::sync::{Turn, read, write};
use super::view::{Ending, Place, View};
use crate::format::table::Span;
use crate::format::walk::{Step, Torn};
use crate::format::{Fault, FaultKind, FrameName, PhysicalOffset};

/// Frames published at once: a long walk shows its progress, and takes the lock seldom.
const BATCH: usize = 1024;

/// A compressed capture on disk, or in memory.
pub(super) struct Zst {
    file: Arc<dyn ReadAt>,
    survey: Turn<Survey>,
    view: RwLock<View>,
    /// It was seen under a partial name: a writer may have framed anew what was walked before its last rename.
    was_partial: AtomicBool,
    /// The file for which the table was kept, as long as nobody has walked it.
    indexed: Mutex<Option<Stamp>>,
    /// A kept table was wrong, and another is in its place.
    is_corrected: AtomicBool,
}

/// How a step of the walk went on.
enum Advance {
    More,
    /// A data frame, for the table.
    Frame(Span),
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
            was_partial: AtomicBool::new(false),
            indexed: Mutex::new(None),
            is_corrected: AtomicBool::new(false),
        }
    }

    /// Walks what is on disk and not yet in the table, at most [`WALK_STEP`] physical bytes and the rest of a frame. Blocks on
    /// small reads, and while another thread does the same.
    pub(super) fn refresh_step(&self, engine: &Engine, progress: Progress) -> Result<Reach, Error> {
        let mut survey = self.survey.take();
        if progress == Progress::Partial {
            self.was_partial.store(true, Ordering::Relaxed);
        }
        self.catch_up(engine, &mut survey, progress)
    }

    fn catch_up(
        &self,
        engine: &Engine,
        survey: &mut Survey,
        progress: Progress,
    ) -> Result<Reach, Error> {
        let is_refused = {
            let view = read(&self.view);
            if view.is_replaced {
                return Ok(Reach::all(view.physical_len));
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
            && self.was_partial.load(Ordering::Relaxed)
            && !self.is_last_frame_there()?
        {
            // The walk stood within a frame of a restarted writer's, not at a malformed or torn one.
            self.rewind(engine, survey, 0);
            ending = self.walk(engine, survey, physical_len, progress)?;
        }
        let reach = match ending {
            Advance::More | Advance::Frame(_) => {
                Reach::part(survey.walk().position().as_u64(), physical_len)
            }
            Advance::Done(_) | Advance::Replaced => Reach::all(physical_len),
        };
        let may_grow =
            progress == Progress::Partial || matches!(ending, Advance::Done(Ending::Torn));
        self.conclude(survey, physical_len, ending);
        if may_grow && survey.is_head_short() {
            survey.has_other_head(&*self.file)?;
        }
        self.remember_head(survey);
        self.look_for_split_record(engine)?;
        Ok(reach)
    }

    /// Steps to the end of what is there, or as far as one look goes. Nothing of another capture is published.
    fn walk(
        &self,
        engine: &Engine,
        survey: &mut Survey,
        physical_len: u64,
        progress: Progress,
    ) -> Result<Advance, Error> {
        let start = survey.walk().position();
        let mut batch = Vec::new();
        let advance = loop {
            match self.step(engine, survey, physical_len, progress) {
                Ok(Advance::More) => {}
                Ok(Advance::Frame(span)) => batch.push(span),
                Ok(advance) => break Ok(advance),
                Err(error) => break Err(error),
            }
            if batch.len() == BATCH {
                self.publish(&mut batch);
            }
            if survey.walk().position().since(start) >= WALK_STEP {
                break Ok(Advance::More);
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
                    write(&self.view).note_walked(index, &fault);
                }
                Advance::Frame(span)
            }
        })
    }

    fn publish(&self, batch: &mut Vec<Span>) {
        write(&self.view).append(batch.drain(..));
    }

    fn conclude(&self, survey: &Survey, physical_len: u64, advance: Advance) {
        let mut view = write(&self.view);
        view.physical_len = physical_len;
        view.unmapped = physical_len.saturating_sub(survey.walk().position().as_u64());
        match advance {
            Advance::More | Advance::Frame(_) => {}
            Advance::Done(ending) => {
                view.finish_anew();
                view.ending = ending;
            }
            Advance::Replaced => view.replace(),
        }
    }

    /// Tells readers how the file starts by which they know frames of the table for this capture's. Not while it is walked anew:
    /// the old table's belong to the start that there was.
    fn remember_head(&self, survey: &Survey) {
        let mut view = write(&self.view);
        if !view.is_begun_anew() {
            view.head = survey.head();
        }
    }

    /// Walks anew from the last boundary in the table within the first `physical_len` bytes.
    fn rewind(&self, engine: &Engine, survey: &mut Survey, physical_len: u64) {
        let mut view = write(&self.view);
        let generation = engine.next_generation();
        match view.begin_anew(PhysicalOffset::new(physical_len), generation) {
            Some(boundary) => {
                let table = view.walked();
                survey.rewind(boundary, table.end(), table.len() as u64);
            }
            None => *survey = Survey::default(),
        }
    }

    /// Walks the frame at `place`, which did not decode, and all behind it again; whether that was worth trying: the file
    /// may have changed since.
    fn walk_again(
        &self,
        engine: &Engine,
        progress: Progress,
        place: &Place,
    ) -> Result<bool, Error> {
        let mut survey = self.survey.take();
        let (is_other_table, is_begun, is_known) = {
            let view = read(&self.view);
            (
                view.generation != place.generation,
                view.is_begun_anew(),
                view.bad_frames.find(place.index).is_some(),
            )
        };
        if is_other_table {
            // Somebody has walked it again meanwhile.
            return Ok(true);
        }
        if is_known {
            // Somebody has tried before, and it is still what it was.
            return Ok(false);
        }
        if !is_begun {
            // When the file was framed anew, the boundary before the frame may be none any more: from the start, then. So it is
            // where another capture took the place, though its frames may lie where those of this one lay.
            let is_same =
                !survey.has_other_head(&*self.file)? && self.is_frame_there(place.index)?;
            let boundary = if is_same {
                place.span.phys_start.as_u64()
            } else {
                0
            };
            self.rewind(engine, &mut survey, boundary);
        }
        // To its end: before that, readers have the old table.
        while self.catch_up(engine, &mut survey, progress)?.is_part() {}
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
        let Some(span) = read(&self.view).walked().span(before) else {
            return Ok(false);
        };
        Survey::still_finds(&*self.file, &span)
    }

    /// Whether the last frame in the table still is where it was walked.
    fn is_last_frame_there(&self) -> Result<bool, Error> {
        let frames = read(&self.view).walked().len() as u64;
        self.is_frame_there(frames)
    }

    /// Whether a new walk finds the same capture in the same frames.
    pub(super) fn is_as_walked(&self, engine: &Engine) -> Result<bool, Error> {
        let again = Self::new(engine, Arc::clone(&self.file), Known::default());
        while again.refresh_step(engine, Progress::Final)?.is_part() {}
        let (before, now) = (read(&self.view), read(&again.view));
        Ok(before.is_same_capture(&now))
    }

    /// Forgets which frames did not decode: the name has become final, and each is tried once more.
    pub(super) fn rename_seen(&self) {
        write(&self.view).bad_frames.forget_from(0);
    }

    pub(super) fn state(&self, progress: Progress) -> State {
        read(&self.view).state(progress)
    }

    pub(super) fn size(&self) -> u64 {
        read(&self.view).size()
    }

    pub(super) fn reachable(&self) -> u64 {
        read(&self.view).extent().frontier
    }

    pub(super) fn facts(&self, progress: Progress) -> Facts {
        let view = read(&self.view);
        Facts {
            state: view.state(progress),
            size: view.size(),
            frontier: view.published(),
            physical_len: view.physical_len,
            frames: view.table.len() as u64,
            torn_bytes: match view.fault() {
                None => view.unmapped,
                Some(_) => 0,
            },
            file_id: view.file_id,
            header: view
                .header
                .as_ref()
                .filter(|_| view.is_vouched)
                .map(|header| header.parsed)
                .or(view.known_header),
            error: view.first_fault().cloned(),
            is_replaced: view.is_replaced,
        }
    }

    /// The fault that ended the walk.
    pub(super) fn walk_fault(&self) -> Option<Fault> {
        read(&self.view).fault().cloned()
    }

    /// Frame number `index`.
    pub(super) fn span(&self, index: usize) -> Option<Span> {
        read(&self.view).table.span(index)
    }

    pub(super) fn table_bytes(&self) -> usize {
        read(&self.view).table.heap_bytes()
    }
}
