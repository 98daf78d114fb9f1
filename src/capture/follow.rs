//! A capture's source bytes taken in order, as it grows, to its completion.
//!
//! Bytes are given only when a look behind the read finds the same capture there: a reader may be slow, and the file another
//! one meanwhile.

use std::sync::Arc;

use super::bytes::Bytes;
use super::error::Error;
use super::live::{Live, Outlook};
use super::report::check_frame;
use super::source::{Form, OnFault, Progress};
use crate::format::pcap::GLOBAL_HEADER_LEN;

/// Source bytes of a raw capture taken in one step.
const RAW_STEP: usize = 1024 * 1024;

/// What comes next of a followed capture.
#[derive(Clone, Debug)]
pub enum Next {
    /// Source bytes: a whole frame, or the part of one that was not taken yet; of a raw capture a step that ends anywhere, but
    /// never behind the last whole record of a partial one. Never empty.
    Bytes(Bytes),
    /// Nothing now; more may come.
    NotYet,
    /// Nothing any more: all of a complete capture was taken.
    Complete,
    /// Nothing any more, though it is not whole: see [`Outlook::CutShort`]. All that there is was taken.
    CutShort,
    /// Nothing any more: another capture was written over it.
    Replaced,
}

/// A reader that takes a capture from one source offset on, as it grows.
#[derive(Debug)]
pub struct Follower {
    live: Arc<Live>,
    /// Source offset of the first byte that is wanted.
    from: u64,
    /// Source offset of the next byte to take.
    at: u64,
}

impl Follower {
    /// Follows `live` from source offset `from` on.
    ///
    /// The engine's cache must hold two of the largest frames: a frame that was taken is given when a look behind it, which
    /// may decode another one, finds the same capture.
    #[must_use]
    pub fn new(live: Arc<Live>, from: u64) -> Self {
        Self {
            live,
            from,
            at: from,
        }
    }

    /// The capture and its file.
    #[must_use]
    pub fn live(&self) -> &Live {
        &self.live
    }

    /// Source offset of the next byte to take.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.at
    }

    /// The next bytes. Blocks on the disk and on decoding, never on the writer.
    ///
    /// # Errors
    /// Besides IO, the fault at which following stops: a malformed or broken frame, a record that the format does not allow.
    /// All bytes before it were given. It is met again at every further call.
    pub fn take_next(&mut self) -> Result<Next, Error> {
        let mut is_all_walked = false;
        loop {
            let (taken, changed) = match self.take() {
                // What is there in place of the frame: a look tells.
                Err(Error::Fault(fault)) if fault.kind.is_changed() => (None, Some(fault)),
                outcome => (outcome?, None),
            };
            if taken.is_none() && is_all_walked {
                // Renamed, and all of it taken that a partial file shows: it is looked at once more, as a final one.
                if !self.live.begin_draining() {
                    let ending = self.ending()?;
                    return match changed {
                        // Neither another capture nor a restarted writer's: the frame is broken.
                        Some(fault) if self.is_final() && !matches!(ending, Next::Replaced) => {
                            Err(fault.into())
                        }
                        _ => Ok(ending),
                    };
                }
            }
            is_all_walked = self.live.look()?;
            if let Some(bytes) = taken {
                let source = self.live.source();
                let end = self.at + bytes.len() as u64;
                if end <= source.reachable() {
                    // Nobody comes back for them.
                    source.forget(self.at..end);
                    self.at = end;
                    return Ok(Next::Bytes(bytes));
                }
            }
        }
    }

    /// Has `bytes`, which were taken last, come again with the next call.
    pub(super) fn put_back(&mut self, bytes: &Bytes) {
        // They were added when they were taken.
        self.at = self.at.saturating_sub(bytes.len() as u64);
    }

    /// What there is from `self.at` on, one frame or step of it; `None` if there is nothing now.
    fn take(&self) -> Result<Option<Bytes>, Error> {
        let at = self.at;
        let outcome = match self.live.source().form() {
            Form::Zst if at >= GLOBAL_HEADER_LEN => return self.take_of_frame(),
            Form::Zst => {
                let rest = usize::try_from(GLOBAL_HEADER_LEN - at).unwrap_or(usize::MAX);
                self.live.source().read(at, rest, OnFault::ServeGood)
            }
            Form::Raw => self.live.source().read(at, RAW_STEP, OnFault::ServeGood),
        };
        match outcome {
            Ok(bytes) => Ok(Some(bytes).filter(|bytes| !bytes.is_empty())),
            // A walk fault, which the ending tells, or bytes that the writer has cut off for now.
            Err(Error::Fault(_) | Error::CutOff | Error::Shrank) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The rest of the frame that holds `self.at`, its records checked.
    fn take_of_frame(&self) -> Result<Option<Bytes>, Error> {
        let Some((index, span, frame)) = self.live.source().frame_at(self.at) else {
            return Ok(None);
        };
        let frame = match frame {
            Ok(frame) => frame,
            // The writer is cutting it back.
            Err(Error::CutOff | Error::Shrank) => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut end = span.src_end().as_u64();
        if let Some(header) = self.live.source().facts().header {
            let records = check_frame(&header, index, &span, &frame);
            if let Some((record, fault)) = records.fault {
                end = record.at.as_u64();
                if end <= self.at {
                    return Err(fault.into());
                }
            }
        }
        let within = |at: u64| usize::try_from(at - span.src_start.as_u64()).unwrap_or(usize::MAX);
        Ok(Some(frame.part(within(self.at), within(end))))
    }

    /// How it stands, when all that is there was taken.
    fn ending(&self) -> Result<Next, Error> {
        Ok(match self.live.outlook()? {
            Outlook::NotYet => Next::NotYet,
            Outlook::CutShort => Next::CutShort,
            Outlook::Replaced => Next::Replaced,
            // A writer that cut its file back and called it complete: what was given is more than the capture.
            Outlook::Complete if self.at > self.from.max(self.live.source().reachable()) => {
                return Err(Error::CutOff);
            }
            Outlook::Complete => Next::Complete,
        })
    }

    fn is_final(&self) -> bool {
        self.live.source().progress() == Progress::Final
    }
}

#[cfg(test)]
mod tests;
