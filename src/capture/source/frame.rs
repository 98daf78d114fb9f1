//! A capture's frames by number and place.

use std::ops::Range;

use super::{Kind, Source};
use crate::capture::bytes::Bytes;
use crate::capture::error::Error;
use crate::format::table::Span;

impl Source {
    /// Data frame number `index`, counted from 0; `None` behind the last and for a raw capture.
    #[must_use]
    pub fn span(&self, index: usize) -> Option<Span> {
        match &self.kind {
            Kind::Raw(_) => None,
            Kind::Zst(zst) => zst.span(index),
        }
    }

    /// Data frame number `index`: where it is, and its source bytes, decoded and checked; `None` behind the last and for a
    /// raw capture.
    #[must_use]
    pub fn frame(&self, index: usize) -> Option<(Span, Result<Bytes, Error>)> {
        match &self.kind {
            Kind::Raw(_) => None,
            Kind::Zst(zst) => {
                let (span, frame) = zst.numbered_frame(&self.engine, index)?;
                let bytes = frame.map(|frame| Bytes::of_frame(frame, 0, usize::MAX));
                Some((span, bytes))
            }
        }
    }

    /// The data frame that holds source byte `offset`: its number, where it is, and its source bytes, decoded and checked;
    /// `None` where there is none now, and for a raw capture.
    #[must_use]
    pub fn frame_at(&self, offset: u64) -> Option<(u64, Span, Result<Bytes, Error>)> {
        match &self.kind {
            Kind::Raw(_) => None,
            Kind::Zst(zst) => {
                let (place, frame) = zst.frame_at(&self.engine, self.progress(), offset)?;
                let bytes = frame.map(|frame| Bytes::of_frame(frame, 0, usize::MAX));
                Some((place.index, place.span, bytes))
            }
        }
    }

    /// Where data frame number `index` is, as [`Self::span`] told, is decoded into `out`, as long as its source bytes; past the
    /// cache.
    ///
    /// # Errors
    /// [`FaultKind::Changed`](crate::format::FaultKind::Changed) when there is another frame by now; IO, memory, damage.
    pub fn decode(&self, index: usize, span: &Span, out: &mut [u8]) -> Result<(), Error> {
        match &self.kind {
            Kind::Raw(_) => Err(Error::CutOff),
            Kind::Zst(zst) => zst.decode_into(&self.engine, index, span, out),
        }
    }

    /// The bytes on disk of data frame number `index`, where [`Self::span`] told, into `out`, as long as they are: for who sends
    /// them on. Headers are checked, the content is not. Errors as in [`Self::decode`].
    pub fn read_stored(&self, index: usize, span: &Span, out: &mut [u8]) -> Result<(), Error> {
        match &self.kind {
            Kind::Raw(_) => Err(Error::CutOff),
            Kind::Zst(zst) => zst.read_stored(index, span, out),
        }
    }

    /// Bytes on disk before the data frames: the marker, the header frame and what may be skipped between them; 0 until they
    /// are there, and for a raw capture.
    #[must_use]
    pub fn prologue_len(&self) -> u64 {
        match &self.kind {
            Kind::Raw(_) => 0,
            Kind::Zst(zst) => zst.prologue_len(),
        }
    }

    /// The first `out.len()` bytes on disk, [`Self::prologue_len`] at most.
    pub fn read_prologue(&self, out: &mut [u8]) -> Result<(), Error> {
        match &self.kind {
            Kind::Raw(_) => Err(Error::CutOff),
            Kind::Zst(zst) => zst.read_prologue(out),
        }
    }

    /// The data frame that holds source byte `offset`, and its number; `None` where there is none now, and for a raw capture.
    #[must_use]
    pub fn find(&self, offset: u64) -> Option<(u64, Span)> {
        match &self.kind {
            Kind::Raw(_) => None,
            Kind::Zst(zst) => zst.find(offset),
        }
    }

    /// Lets go of the decoded frames that lie in `range` of the source.
    pub fn forget(&self, range: Range<u64>) {
        if let Kind::Zst(zst) = &self.kind {
            zst.forget(&self.engine, range);
        }
    }
}
