//! A compressed capture: its frame table, kept up with a file that grows and whose writer may restart.
//!
//! One thread at a time extends the table ([`Zst::refresh_step`]); it publishes whole frames, and readers take a look at the
//! published view without waiting for it.
//!
//! A restarted writer cuts its file back to a frame boundary and appends again, with the same content in other frames
//! (format document, section 7.7). The file is walked anew then, into a table aside that takes the old one's place when
//! the walk has reached the end: frames that were cut off leave it, the published size stays, and what was decoded is
//! forgotten, because numbers stand for other frames. When what is there again is another capture, this one is *replaced*:
//! it publishes nothing any more.

mod again;
mod ahead;
mod identity;
mod indexed;
mod limit;
mod numbered;
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
use super::view::{Ending, View};
use crate::format::table::Span;
use crate::format::walk::{Step, Torn};
use crate::format::{Fault, FaultKind, FrameName};

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
            view.stands_behind_broken_header()
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
            Advance::More => Reach::part(survey.walk().position().as_u64(), physical_len),
            Advance::Done(_) | Advance::Replaced => Reach::all(physical_len),
        };
        self.conclude(survey, physical_len, ending);
        survey.remember_head(&*self.file)?;
        self.publish_head(survey);
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
            match self.step(engine, survey, physical_len, progress, &mut batch) {
                Ok(Advance::More) => {}
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
                if index == 0 {
                    match self.take_first_frame(engine, &span) {
                        Ok(Ok(())) => {}
                        Ok(Err(replaced)) => return Ok(replaced),
                        Err(error) => {
                            // As with the header frame: the walk has passed it, and it is in no table.
                            *survey = Survey::default();
                            return Err(error);
                        }
                    }
                }
                if let Err(fault) = check_limit(engine, &span, FrameName::Data(index)) {
                    write(&self.view).note_walked(index, &fault);
                }
                batch.push(span);
                Advance::More
            }
        })
    }

    fn publish(&self, batch: &mut Vec<Span>) {
        write(&self.view).append(batch.drain(..));
    }

    fn conclude(&self, survey: &Survey, physical_len: u64, advance: Advance) {
        let mut view = write(&self.view);
        match advance {
            Advance::Done(ending) => {
                view.finish_anew();
                view.ending = ending;
            }
            Advance::Replaced => view.replace(),
            // Until a walk anew has come to its end, what was there before is shown.
            Advance::More if view.is_begun_anew() => return,
            Advance::More => {}
        }
        view.physical_len = physical_len;
        if !view.is_replaced {
            view.unmapped = physical_len.saturating_sub(survey.walk().position().as_u64());
        }
    }

    /// Tells readers how the file starts by which they know frames of the table for this capture's. Not while it is walked anew:
    /// the old table's belong to the start that there was.
    fn publish_head(&self, survey: &Survey) {
        let mut view = write(&self.view);
        if !view.is_begun_anew() {
            view.head = survey.head();
        }
    }

    /// The file walked to its end once more, as one under its final name of which nothing is known.
    fn walked_aside(&self, engine: &Engine) -> Result<Self, Error> {
        let aside = Self::new(engine, Arc::clone(&self.file), Known::default());
        while aside.refresh_step(engine, Progress::Final)?.is_part() {}
        Ok(aside)
    }

    /// Whether a new walk finds the same capture in the same frames.
    pub(super) fn is_as_walked(&self, engine: &Engine) -> Result<bool, Error> {
        let again = self.walked_aside(engine)?;
        let (before, now) = (read(&self.view), read(&again.view));
        Ok(before.is_same_capture(&now))
    }

    /// Forgets which frames did not decode: the name has become final, and each is tried once more.
    pub(super) fn rename_seen(&self) {
        write(&self.view).bad_frames.forget_decoded();
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

    pub(super) fn is_walked_anew(&self) -> bool {
        read(&self.view).is_begun_anew()
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
        read(&self.view).table_bytes()
    }
}
