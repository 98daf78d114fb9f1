//! Frames by their number, past the cache: decoded into a caller's buffer, or as they are stored.

use super::Zst;
use crate::capture::Engine;
use crate::capture::error::Error;
use crate::capture::read_at::{read_full, read_part};
use crate::capture::sync::read;
use crate::capture::view::Place;
use crate::format::table::Span;
use crate::format::{Fault, FrameName, SourceOffset, frame};

impl Zst {
    /// Decodes frame number `index`, which lies at `span`, into `out`, as long as its source bytes. What does not decode is
    /// remembered.
    pub(in crate::capture) fn decode_into(
        &self,
        engine: &Engine,
        index: usize,
        span: &Span,
        out: &mut [u8],
    ) -> Result<(), Error> {
        let place = self.place_at(index, span)?;
        self.check_known(engine, &place)?;
        let name = FrameName::Data(place.index);
        let decoded = engine.decoder.decode_alone(&*self.file, span, name, out);
        let outcome = self.judge(&place, decoded);
        if let Err(Error::Fault(fault)) = &outcome {
            self.note_bad_frame(&place, fault);
        }
        outcome
    }

    /// Reads the physical bytes of frame number `index`, which lies at `span`, into `out`, as long as they are.
    pub(in crate::capture) fn read_stored(
        &self,
        index: usize,
        span: &Span,
        out: &mut [u8],
    ) -> Result<(), Error> {
        let place = self.place_at(index, span)?;
        let at = span.phys_start.as_u64();
        let whole = out.len();
        let there = read_part(&*self.file, out, at).map_err(Error::io("reading"))?;
        let is_cut = there.len() < whole;
        let wanted = (span.src_len, span.phys_len);
        let now = match frame::measure(there) {
            Ok(measured) => measured.map(|measured| (measured.content_size, measured.len)),
            Err(_) => None,
        };
        if now != Some(wanted) || is_cut {
            return Err(Fault::changed(span, FrameName::Data(place.index), now).into());
        }
        self.check_head(&place)
    }

    /// The entry of frame number `index`, if it still lies at `span`.
    fn place_at(&self, index: usize, span: &Span) -> Result<Place, Error> {
        let place = read(&self.view).place(index);
        place
            .filter(|place| place.span == *span)
            .ok_or_else(|| Fault::changed(span, FrameName::Data(index as u64), None).into())
    }

    /// Where the header frame ends on disk; 0 until it is there.
    pub(in crate::capture) fn prologue_len(&self) -> u64 {
        let view = read(&self.view);
        let is_shown = view.is_vouched && !view.is_replaced;
        let header = view.header.as_ref().filter(|_| is_shown);
        header.map_or(0, |header| header.end.as_u64())
    }

    /// The first bytes on disk, if they are those of the capture that was walked.
    pub(in crate::capture) fn read_prologue(&self, out: &mut [u8]) -> Result<(), Error> {
        let got = read_full(&*self.file, out, 0).map_err(Error::io("reading"))?;
        let head = read(&self.view).head;
        match head {
            _ if got < out.len() => Err(Error::Shrank),
            Some(head) if !head.is_start_of(&*self.file)? => Err(Error::CutOff),
            _ => Ok(()),
        }
    }

    /// The frame that holds source byte `offset`, and its number.
    pub(in crate::capture) fn find(&self, offset: u64) -> Option<(u64, Span)> {
        let view = read(&self.view);
        let place = view
            .find(SourceOffset::new(offset))
            .filter(|_| offset < view.extent().frontier)?;
        Some((place.index, place.span))
    }
}
