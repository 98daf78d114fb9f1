//! Many frames decoded at once, each into a buffer of the caller's.

use std::sync::Mutex;
use std::thread;

use super::error::Error;
use super::source::Source;
use super::sync::lock;
use crate::format::table::Span;

/// Threads started at most, whatever was asked for.
const THREADS_MOST: usize = 256;

/// A frame to decode, and where to.
#[derive(Debug)]
pub struct Slot<'a> {
    /// The frame's number.
    pub index: usize,
    /// Where it is, as [`Source::span`] told.
    pub span: Span,
    /// As long as its source bytes.
    pub out: &'a mut [u8],
}

/// Decodes the frames of all `slots` with `threads` threads, the calling one among them.
///
/// Every slot is tried, whatever becomes of the others, and one that fails is filled with zeros: so buffers and outcome do not
/// depend on the number of threads.
///
/// # Errors
/// The first by slot: its place in `slots`, and why. As [`Source::decode`].
pub fn decode_all(
    source: &Source,
    slots: Vec<Slot<'_>>,
    threads: usize,
) -> Result<(), (usize, Error)> {
    let threads = threads.clamp(1, THREADS_MOST).min(slots.len().max(1));
    let left = Mutex::new(slots.into_iter().enumerate());
    let first_failed: Mutex<Option<(usize, Error)>> = Mutex::new(None);
    let work = || {
        loop {
            let next = lock(&left).next();
            let Some((place, slot)) = next else {
                return;
            };
            if let Err(error) = source.decode(slot.index, &slot.span, slot.out) {
                slot.out.fill(0);
                let mut first = lock(&first_failed);
                if first.as_ref().is_none_or(|(before, _)| place < *before) {
                    *first = Some((place, error));
                }
            }
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads {
            let started = thread::Builder::new().spawn_scoped(scope, work);
            if let Err(error) = started {
                // Those that run do the rest.
                log::debug!("starting a thread: {error}");
                break;
            }
        }
        work();
    });
    let failed = lock(&first_failed).take();
    failed.map_or(Ok(()), Err)
}
