//! Walking anew: what a restarted writer has cut off and framed otherwise.

use super::Zst;
use crate::capture::Engine;
use crate::capture::error::Error;
use crate::capture::source::Progress;
use crate::capture::survey::Survey;
use crate::capture::sync::{read, write};
use crate::capture::view::Place;
use crate::format::PhysicalOffset;

impl Zst {
    /// Walks anew from the last boundary in the table within the first `physical_len` bytes.
    pub(super) fn rewind(&self, engine: &Engine, survey: &mut Survey, physical_len: u64) {
        // Copied under the readers' lock. The turn is ours, so nobody appends meanwhile.
        let (table, boundary) = read(&self.view).table_before(PhysicalOffset::new(physical_len));
        match boundary {
            Some(boundary) => survey.rewind(boundary, table.end(), table.len() as u64),
            None => *survey = Survey::default(),
        }
        write(&self.view).begin_anew(table, boundary, engine.next_generation());
    }

    /// Walks the frame at `place`, which did not decode, and all behind it again; whether that was worth trying: the file
    /// may have changed since.
    pub(super) fn walk_again(
        &self,
        engine: &Engine,
        progress: Progress,
        place: &Place,
    ) -> Result<bool, Error> {
        if let Some(is_worth_it) = self.is_settled(place) {
            return Ok(is_worth_it);
        }
        {
            let mut survey = self.survey.take();
            // Somebody may have had the turn before.
            if let Some(is_worth_it) = self.is_settled(place) {
                return Ok(is_worth_it);
            }
            let is_begun = read(&self.view).is_begun_anew();
            if !is_begun {
                // When the file was framed anew, the boundary before the frame may be none any more: from the start, then.
                // So it is where another capture took the place, though its frames may lie where those of this one lay.
                let is_same =
                    !survey.has_other_head(&*self.file)? && self.is_frame_there(place.index)?;
                let boundary = if is_same {
                    place.span.phys_start.as_u64()
                } else {
                    0
                };
                self.rewind(engine, &mut survey, boundary);
            }
        }
        // To its end: before that, readers have the old table.
        while self.refresh_step(engine, progress)?.is_part() {}
        Ok(true)
    }

    /// Whether reading the frame at `place` once more makes sense, where that is known without a walk.
    fn is_settled(&self, place: &Place) -> Option<bool> {
        let view = read(&self.view);
        if view.generation != place.generation {
            // Somebody has walked it again meanwhile.
            return Some(true);
        }
        // Somebody has tried before, and it is still what it was. Of very many bad frames some are not remembered.
        let is_known = view.bad_frames.find(place.index).is_some() || view.bad_frames.is_full();
        is_known.then_some(false)
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
    pub(super) fn is_last_frame_there(&self) -> Result<bool, Error> {
        let frames = read(&self.view).walked().len() as u64;
        self.is_frame_there(frames)
    }
}
