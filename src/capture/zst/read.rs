//! Reads of a compressed capture: from source offsets to frames, decoded or cached, and back to bytes.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Zst;
use super::limit::check_limit;
use crate::capture::Engine;
use crate::capture::bytes::{Bytes, Gathered, Pieces};
use crate::capture::cache::Frame;
use crate::capture::error::Error;
use crate::capture::source::{OnFault, Progress};
use crate::capture::sync::{read, write};
use crate::capture::view::{Extent, Place};
use crate::format::table::Span;
use crate::format::{Fault, FrameName, SourceOffset};

impl Zst {
    /// Source bytes from `offset` on, at most `len`; fewer only at the end, or where `on_fault` allows.
    pub(in crate::capture) fn read(
        &self,
        engine: &Engine,
        progress: Progress,
        offset: u64,
        len: usize,
        on_fault: OnFault,
    ) -> Result<Bytes, Error> {
        let attempt = || {
            // A frame that did not decode, and its fault.
            let mut bad = None;
            let outcome = self.gather(offset, len, on_fault, |place| {
                self.frame(engine, place).inspect_err(|error| {
                    bad = error.fault().map(|fault| (*place, fault.clone()));
                })
            });
            let bad = bad.filter(|_| outcome.is_err());
            (outcome, bad)
        };
        let (mut outcome, mut bad) = attempt();
        if let Some((place, _)) = &bad
            && self.finds_other_frames(engine, progress, place)?
        {
            (outcome, bad) = attempt();
        }
        if let Some((place, fault)) = &bad {
            self.note_bad_frame(place, fault);
        }
        outcome
    }

    /// Whether the frame at `place`, which was not there or did not decode, may be another now: before it is called damaged,
    /// what a restarted writer framed anew between two looks is walked again, and so is a file whose table was kept.
    fn finds_other_frames(
        &self,
        engine: &Engine,
        progress: Progress,
        place: &Place,
    ) -> Result<bool, Error> {
        if self.was_partial.load(Ordering::Relaxed) {
            self.walk_again(engine, progress, place)
        } else if engine.index.is_some() {
            self.walk_past_index(engine, place)
        } else {
            Ok(false)
        }
    }

    /// As [`Self::read`], without putting together what lies in several frames where they fit the cache together.
    pub(in crate::capture) fn read_pieces(
        &self,
        engine: &Engine,
        progress: Progress,
        offset: u64,
        len: usize,
        on_fault: OnFault,
    ) -> Result<Pieces, Error> {
        let places = self.places(&(offset..offset.saturating_add(len as u64)));
        // One after the other and none held meanwhile, as the cache demands; a fault is met again below.
        if places.len() > 1
            && engine.cache.may_hold_together(len as u64)
            && places.iter().all(|place| self.frame(engine, place).is_ok())
        {
            let find = |place: &Place| engine.cache.find_again(place.key());
            if let Some(pieces) = self.pieces(offset, len, find) {
                return Ok(pieces);
            }
        }
        let bytes = self.read(engine, progress, offset, len, on_fault)?;
        Ok(Pieces::from(bytes))
    }

    /// Remembers that the frame at `place` does not decode, if the table still is the one that it was found in.
    pub(super) fn note_bad_frame(&self, place: &Place, fault: &Fault) {
        let mut view = write(&self.view);
        if view.generation == place.generation {
            view.bad_frames.note(place.index, fault);
        }
    }

    /// As [`Self::read`], if that needs no IO and no decode; `None` otherwise.
    pub(in crate::capture) fn read_cached(
        &self,
        engine: &Engine,
        offset: u64,
        len: usize,
    ) -> Option<Pieces> {
        self.pieces(offset, len, |place| engine.cache.find(place.key()))
    }

    /// Source bytes from `offset` on, `len` or up to the end, in frames that `find` finds; `None` if it misses one.
    fn pieces(
        &self,
        offset: u64,
        len: usize,
        find: impl Fn(&Place) -> Option<Arc<Frame>>,
    ) -> Option<Pieces> {
        let extent = read(&self.view).extent();
        let wanted = extent.within(offset, len);
        let mut fetch = |place: &Place| find(place).ok_or(Miss);
        let mut pieces = Pieces::default();
        while pieces.len() < wanted {
            let at = offset + pieces.len() as u64;
            let part = self.part(&extent, at, wanted - pieces.len(), &mut fetch);
            pieces.push(part.ok()?);
        }
        Some(pieces)
    }

    pub(super) fn gather<E: From<Error>>(
        &self,
        offset: u64,
        len: usize,
        on_fault: OnFault,
        mut fetch: impl FnMut(&Place) -> Result<Arc<Frame>, E>,
    ) -> Result<Bytes, E> {
        let extent = read(&self.view).extent();
        let wanted = extent.within(offset, len);
        if wanted == 0 {
            return Ok(Bytes::default());
        }
        let first = self.part(&extent, offset, wanted, &mut fetch)?;
        // A request within one frame is answered from the frame itself.
        if first.len() == wanted {
            return Ok(first);
        }
        let mut out = Gathered::with_room(wanted)?;
        out.append(&first);
        drop(first);
        while out.len() < wanted {
            let at = offset + out.len() as u64;
            match self.part(&extent, at, wanted - out.len(), &mut fetch) {
                Ok(part) => out.append(&part),
                Err(_) if on_fault == OnFault::ServeGood => break,
                Err(error) => return Err(error),
            }
        }
        Ok(Bytes::from(out))
    }

    /// Source bytes from `at` on, at most `len`, within the frame that holds `at`; never empty.
    fn part<E: From<Error>>(
        &self,
        extent: &Extent,
        at: u64,
        len: usize,
        fetch: &mut impl FnMut(&Place) -> Result<Arc<Frame>, E>,
    ) -> Result<Bytes, E> {
        if at >= extent.frontier {
            return Err(extent
                .fault
                .clone()
                .map_or(Error::CutOff, Error::Fault)
                .into());
        }
        let found = read(&self.view).find(SourceOffset::new(at));
        let Some(place) = found else {
            // The global header comes before the first frame; anything else was cut off since the extent was taken.
            let start = usize::try_from(at).unwrap_or(usize::MAX);
            let part = extent
                .header
                .as_ref()
                .and_then(|header| header.get(start..));
            return match part {
                Some(part) if !part.is_empty() => {
                    let part = part.get(..len).unwrap_or(part);
                    let mut out = Gathered::with_room(part.len())?;
                    out.append(part);
                    Ok(Bytes::from(out))
                }
                _ => Err(Error::CutOff.into()),
            };
        };
        let frame = fetch(&place)?;
        let start = usize::try_from(at - place.span.src_start.as_u64()).unwrap_or(usize::MAX);
        Ok(Bytes::of_frame(frame, start, len))
    }

    /// Frame number `index` and its bytes, decoded and checked; `None` behind the last. What does not decode is remembered.
    pub(in crate::capture) fn numbered_frame(
        &self,
        engine: &Engine,
        index: usize,
    ) -> Option<(Span, Result<Arc<Frame>, Error>)> {
        let place = read(&self.view).place(index)?;
        let frame = self.frame(engine, &place).inspect_err(|error| {
            if let Some(fault) = error.fault() {
                self.note_bad_frame(&place, fault);
            }
        });
        Some((place.span, frame))
    }

    /// The frame that holds source byte `offset`, decoded and checked; `None` where there is none now. What does not decode is
    /// walked again first, as in [`Self::read`].
    pub(in crate::capture) fn frame_at(
        &self,
        engine: &Engine,
        progress: Progress,
        offset: u64,
    ) -> Option<(Place, Result<Arc<Frame>, Error>)> {
        let attempt = || {
            let place = {
                let view = read(&self.view);
                let is_shown = offset < view.extent().frontier;
                view.find(SourceOffset::new(offset)).filter(|_| is_shown)?
            };
            Some((place, self.frame(engine, &place)))
        };
        let (mut place, mut frame) = attempt()?;
        if let Err(Error::Fault(_)) = &frame {
            match self.finds_other_frames(engine, progress, &place) {
                Ok(true) => (place, frame) = attempt()?,
                Ok(false) => {}
                Err(error) => frame = Err(error),
            }
        }
        if let Err(Error::Fault(fault)) = &frame {
            self.note_bad_frame(&place, fault);
        }
        Some((place, frame))
    }

    /// The frame at `place`, decoded and checked.
    pub(super) fn frame(&self, engine: &Engine, place: &Place) -> Result<Arc<Frame>, Error> {
        self.check_known(engine, place)?;
        let span = &place.span;
        engine
            .cache
            .frame(place.key(), span.src_len, span.phys_len, |out, stored| {
                self.decode(engine, place, out, stored)
            })
    }

    /// That the frame at `place` is one to decode, as far as that is known before.
    pub(super) fn check_known(&self, engine: &Engine, place: &Place) -> Result<(), Error> {
        check_limit(engine, &place.span, FrameName::Data(place.index))?;
        let view = read(&self.view);
        let known = view.bad_frames.find(place.index);
        match known.filter(|_| view.generation == place.generation) {
            Some(fault) => Err(fault.into()),
            None => Ok(()),
        }
    }

    /// Decodes the frame at `place` into `out`, by way of `stored`.
    pub(super) fn decode(
        &self,
        engine: &Engine,
        place: &Place,
        out: &mut [u8],
        stored: &mut [u8],
    ) -> Result<(), Error> {
        let (span, name) = (&place.span, FrameName::Data(place.index));
        let decoder = &engine.decoder;
        let outcome = decoder.decode(&*self.file, span, name, out, stored);
        self.judge(place, outcome)
    }

    /// What came of decoding the frame at `place`, if the file still is the capture that was walked: else whatever came of it
    /// says nothing of that one.
    pub(super) fn judge(&self, place: &Place, outcome: Result<(), Error>) -> Result<(), Error> {
        match &outcome {
            Ok(()) | Err(Error::Fault(_)) => self.check_head(place).and(outcome),
            Err(_) => outcome,
        }
    }

    /// That the file still starts as it did when the frame at `place` was walked.
    ///
    /// Behind the decode: a writer that starts over writes the first bytes first. Those of another capture may be good
    /// frames in the same places.
    pub(super) fn check_head(&self, place: &Place) -> Result<(), Error> {
        match place.head {
            Some(head) if !head.is_start_of(&*self.file)? => {
                let name = FrameName::Data(place.index);
                Err(Fault::changed(&place.span, name, None).into())
            }
            _ => Ok(()),
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
