//! One frame's exact source bytes: read whole, measured again, decoded, length and checksum checked.
//!
//! Contexts are reused; there are as many as frames are decoded at once, and what a pool keeps is bounded. A frame whose bytes on disk no longer are what the table says is [`FaultKind::Changed`], never decoded.

use std::sync::Mutex;

use zstd::zstd_safe::{self, DCtx, DParameter, InBuffer, OutBuffer};

use super::error::Error;
use super::read_at::{ReadAt, read_part};
use super::sync::lock;
use crate::format::frame;
use crate::format::table::Span;
use crate::format::{Fault, FaultKind, FrameName};

/// Workers kept for reuse; more than that decode at once only under load.
const KEPT: usize = 8;
/// The largest buffer that a worker keeps: four frames of the default target.
const STORED_KEPT_MOST: usize = 1024 * 1024;
/// The largest window for which [`Decoder::prefix`] streams: 1 MiB, so that its context stays small.
const PREFIX_WINDOW_LOG: u32 = 20;

/// Decodes frames, any number at once.
#[derive(Default)]
pub struct Decoder {
    idle: Mutex<Vec<Worker>>,
}

struct Worker {
    context: DCtx<'static>,
    /// Physical bytes: of one block for [`Decoder::prefix`], of a frame for [`Decoder::decode_alone`].
    stored: Vec<u8>,
}

impl std::fmt::Debug for Decoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decoder").finish_non_exhaustive()
    }
}

impl Decoder {
    /// Reads the frame at `span` into `stored`, as long as `span.phys_len`, and decodes it into `out`, as long as
    /// `span.src_len`.
    ///
    /// Blocks on the read. Both lengths were capped by the caller before it allocated.
    ///
    /// # Errors
    /// [`FaultKind::Changed`] or [`FaultKind::Undecodable`], named `name`; IO and memory.
    pub fn decode(
        &self,
        file: &dyn ReadAt,
        span: &Span,
        name: FrameName,
        out: &mut [u8],
        stored: &mut [u8],
    ) -> Result<(), Error> {
        let there =
            read_part(file, stored, span.phys_start.as_u64()).map_err(Error::io("reading"))?;
        self.decode_stored(there, span, name, out)
    }

    /// As [`Self::decode`], with the physical bytes in a buffer of the decoder's own, that is used again.
    pub fn decode_alone(
        &self,
        file: &dyn ReadAt,
        span: &Span,
        name: FrameName,
        out: &mut [u8],
    ) -> Result<(), Error> {
        let mut worker = self.take();
        let outcome = worker.decode(file, span, name, out);
        self.give_back(worker);
        outcome
    }

    /// Decodes a frame that is in memory already: `stored` are its physical bytes. Errors as in [`Self::decode`].
    pub fn decode_stored(
        &self,
        stored: &[u8],
        span: &Span,
        name: FrameName,
        out: &mut [u8],
    ) -> Result<(), Error> {
        let mut worker = self.take();
        let outcome = decode_stored(&mut worker.context, stored, span, name, out);
        self.give_back(worker);
        outcome
    }

    /// The first `N` source bytes of the frame at `span`, decoding its first blocks only; `None` if that takes a large
    /// window or the blocks do not decode: then only the whole decode can tell.
    ///
    /// Reads up to one block (128 KiB). The bytes are *not* covered by the checksum.
    pub fn prefix<const N: usize>(
        &self,
        file: &dyn ReadAt,
        span: &Span,
    ) -> Result<Option<[u8; N]>, Error> {
        let mut worker = self.take();
        let outcome = worker.prefix(file, span);
        self.give_back(worker);
        outcome
    }

    fn take(&self) -> Worker {
        let idle = lock(&self.idle).pop();
        idle.unwrap_or_else(|| Worker {
            context: DCtx::create(),
            stored: Vec::new(),
        })
    }

    fn give_back(&self, mut worker: Worker) {
        if worker.stored.len() > STORED_KEPT_MOST {
            worker.stored = Vec::new();
        }
        let mut idle = lock(&self.idle);
        if idle.len() < KEPT {
            idle.push(worker);
        }
    }
}

impl Worker {
    /// Reads `len` physical bytes of the frame into the worker's buffer; fewer if the file ends before. The context beside.
    fn read(
        &mut self,
        file: &dyn ReadAt,
        span: &Span,
        len: u64,
    ) -> Result<(&[u8], &mut DCtx<'static>), Error> {
        let too_large = || Error::NoMemory(len);
        let len = usize::try_from(len).map_err(|_| too_large())?;
        if self.stored.len() < len {
            self.stored
                .try_reserve_exact(len - self.stored.len())
                .map_err(|_| too_large())?;
            self.stored.resize(len, 0);
        }
        // It is as long, by now.
        let buf = self.stored.get_mut(..len).ok_or_else(too_large)?;
        let there = read_part(file, buf, span.phys_start.as_u64()).map_err(Error::io("reading"))?;
        Ok((there, &mut self.context))
    }

    fn decode(
        &mut self,
        file: &dyn ReadAt,
        span: &Span,
        name: FrameName,
        out: &mut [u8],
    ) -> Result<(), Error> {
        let (stored, context) = self.read(file, span, span.phys_len)?;
        decode_stored(context, stored, span, name, out)
    }

    fn prefix<const N: usize>(
        &mut self,
        file: &dyn ReadAt,
        span: &Span,
    ) -> Result<Option<[u8; N]>, Error> {
        let first_block =
            frame::HEADER_LEN_MAX as u64 + frame::BLOCK_HEADER_LEN as u64 + frame::BLOCK_SOURCE_MAX;
        let len = span.phys_len.min(first_block);
        let (stored, context) = self.read(file, span, len)?;
        let mut prefix = [0; N];
        // A failed init leaves no state behind: the next decode starts a session of its own.
        if context.init().is_err()
            || context
                .set_parameter(DParameter::WindowLogMax(PREFIX_WINDOW_LOG))
                .is_err()
        {
            return Ok(None);
        }
        let mut input = InBuffer::around(stored);
        let mut output = OutBuffer::around(&mut prefix[..]);
        while output.pos() < N && input.pos < stored.len() {
            if context.decompress_stream(&mut output, &mut input).is_err() {
                break;
            }
        }
        let is_whole = output.pos() == N;
        Ok(is_whole.then_some(prefix))
    }
}

/// Decodes `stored`, the physical bytes at `span`, if they still are the frame that was walked there.
fn decode_stored(
    context: &mut DCtx<'_>,
    stored: &[u8],
    span: &Span,
    name: FrameName,
    out: &mut [u8],
) -> Result<(), Error> {
    let fault = |kind| Fault {
        kind,
        frame: name,
        at: span.phys_start,
    };
    let now = frame::measure(stored)
        .map_err(fault)?
        .map(|measured| (measured.content_size, measured.len));
    let wanted = (span.src_len, span.phys_len);
    if now != Some(wanted) || stored.len() as u64 != span.phys_len {
        return Err(Fault::changed(span, name, now).into());
    }
    let undecodable = |zstd: String| {
        fault(FaultKind::Undecodable {
            declared: span.src_len,
            zstd,
        })
    };
    match context.decompress(out, stored) {
        Ok(decoded) if decoded == out.len() => Ok(()),
        Ok(decoded) => Err(undecodable(format!("decoded {decoded}")).into()),
        Err(code) => Err(undecodable(zstd_safe::get_error_name(code).to_owned()).into()),
    }
}
