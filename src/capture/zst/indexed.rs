//! A complete capture whose table was kept by an earlier mount: taken without a walk, and walked after all when it lies.
//!
//! What is checked when a table is taken: the physical file's stamp, its first bytes, and the header frame, which is decoded
//! from them. The frames are checked when they are read. One that is not there, or does not decode, may mean that the kept
//! table is wrong, so the file is walked before anything is called damaged.

use std::mem;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use super::Zst;
use super::limit::check_limit;
use crate::capture::Engine;
use crate::capture::error::Error;
use crate::capture::index::{FRAMES_LEAST, Kept};
use crate::capture::source::{Progress, State};
use crate::capture::stamp::Stamp;
use crate::capture::survey::{FIRST_WINDOW, Survey};
use crate::capture::sync::{lock, read, write};
use crate::capture::view::{Header, Place};
use crate::format::FrameName;
use crate::format::walk::Step;

/// The marker and what else may come before the header frame.
const STEPS_MOST: usize = 4;

impl Zst {
    /// The file's stamp, if a table may be kept for it from a walk that begins now.
    pub(in crate::capture) fn stamp(&self) -> Option<Stamp> {
        self.file.stamp().ok().flatten()
    }

    /// Takes the table that is kept for the file with `stamp`; whether there is one that is good. Blocks on two small reads.
    pub(in crate::capture) fn take_kept(&self, engine: &Engine, stamp: &Stamp) -> bool {
        let Some(index) = &engine.index else {
            return false;
        };
        let mut survey = self.survey.take();
        let found = index.find(stamp, |kept| self.fitting(engine, &mut survey, kept));
        survey.rest(&*self.file);
        let Some((kept, header)) = found else {
            *survey = Survey::default();
            return false;
        };
        let table = &kept.table;
        // Frames that this mount's limits refuse are known from the start, as after a walk.
        let refused: Vec<_> = (0..)
            .zip(table.spans())
            .filter_map(|(index, span)| {
                let fault = check_limit(engine, &span, FrameName::Data(index)).err()?;
                Some((index, fault))
            })
            .collect();
        let physical_len = u64::try_from(stamp.size).unwrap_or(0);
        survey.resume(physical_len, table.end(), table.len() as u64, kept.head);
        let mut view = write(&self.view);
        view.take_kept(kept.table, header, kept.file_id, kept.head, physical_len);
        for (index, fault) in refused {
            view.note_walked(index, &fault);
        }
        drop(view);
        *lock(&self.indexed) = Some(*stamp);
        true
    }

    /// The file's header frame, if the file starts as `kept` says. One read.
    ///
    /// # Errors
    /// The disk's: nothing is known of the table then.
    fn fitting(
        &self,
        engine: &Engine,
        survey: &mut Survey,
        kept: &Kept,
    ) -> Result<Option<Header>, Error> {
        let physical_len = u64::try_from(kept.stamp.size).unwrap_or(0);
        let mut header = || {
            for _ in 0..STEPS_MOST {
                match survey.step(&*self.file, physical_len)? {
                    Step::Skipped => {}
                    Step::HeaderFrame(span) if survey.starts_with(kept.head) => {
                        return self.read_header(engine, survey, &span).map(Some);
                    }
                    _ => break,
                }
            }
            Ok(None)
        };
        match header() {
            Ok(header) => Ok(header
                .filter(|header| header.bytes == kept.header && header.end == kept.header_end)),
            Err(Error::Fault(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Has the table kept, if the file is complete, had `stamp` before it was walked and still has, and is worth it.
    pub(in crate::capture) fn keep(&self, engine: &Engine, stamp: &Stamp) {
        let Some(index) = &engine.index else {
            return;
        };
        let kept = {
            let view = read(&self.view);
            let Some(header) = view.header.as_ref() else {
                return;
            };
            let is_worth_it = view.state(Progress::Final) == State::Complete
                && view.table.len() >= FRAMES_LEAST
                && !view.file_id.is_provisional()
                && header.end.as_u64() <= FIRST_WINDOW as u64;
            if !is_worth_it {
                return;
            }
            // All of it was walked, and so all of its first bytes.
            let Some(head) = view.head else {
                return;
            };
            Kept {
                stamp: *stamp,
                file_id: view.file_id,
                header: header.bytes,
                header_end: header.end,
                head,
                table: view.table.clone(),
            }
        };
        if self.stamp() == Some(*stamp) {
            index.keep(&kept);
        }
    }

    /// Walks the file whose table was kept by another mount, as the frame at `place` was not there or did not decode;
    /// whether readers have another table now.
    ///
    /// Not when the file has changed: then it is no longer what the handle was opened for, whatever the table says.
    pub(super) fn walk_past_index(&self, engine: &Engine, place: &Place) -> Result<bool, Error> {
        let mut survey = self.survey.take();
        if read(&self.view).generation != place.generation {
            // Somebody has walked it meanwhile.
            return Ok(true);
        }
        let Some(stamp) = *lock(&self.indexed) else {
            return Ok(false);
        };
        let is_still = || -> Result<bool, Error> {
            let now = self.file.stamp().map_err(Error::io("looking at it"))?;
            Ok(now == Some(stamp))
        };
        if !is_still()? {
            return Ok(false);
        }
        let is_settled = stamp.is_settled(SystemTime::now());
        // Aside: until the walk has reached the end, others read by the kept table.
        let walked = self.walked_aside(engine)?;
        if !is_still()? {
            return Ok(false);
        }
        let is_right = read(&self.view).is_same_capture(&read(&walked.view));
        *lock(&self.indexed) = None;
        if is_right {
            return Ok(false);
        }
        if let Some(index) = &engine.index {
            index.drop_wrong(&stamp, &"a frame is not where it says");
        }
        if is_settled {
            walked.keep(engine, &stamp);
        }
        *survey = mem::take(&mut *walked.survey.take());
        let view = walked
            .view
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        let before = mem::replace(&mut *write(&self.view), view);
        self.is_corrected.store(true, Ordering::Release);
        drop(before);
        Ok(true)
    }

    /// Whether a kept table was found wrong since this was asked last: size and frames are others.
    pub(in crate::capture) fn take_corrected(&self) -> bool {
        self.is_corrected.load(Ordering::Acquire) && self.is_corrected.swap(false, Ordering::AcqRel)
    }
}
