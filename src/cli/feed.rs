//! What `pack` takes in: pieces of a file, unpacked where need be, or of a stream, and a signal, in one line.

use std::fs::File;
use std::io::{self, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use crate::capture::Error;
use crate::capture::writer::Writer;
use crate::format::frame;

/// Bytes of one piece.
const PIECE: usize = 256 * 1024;
/// Pieces that wait for the writer.
pub(super) const PIECES: usize = 4;
/// The largest window of a plain zstd input: zstd's own limit, so that `--long=31` files can be packed.
const WINDOW_LOG_MAX: u32 = 31;

/// What comes in.
pub(super) enum Event {
    Piece(Vec<u8>),
    End,
    Failed(io::Error),
    /// The end, by SIGINT or SIGTERM.
    Stop,
}

/// What went wrong while a writer was fed, and on which side.
pub(super) enum Failure {
    /// The input cannot be read.
    Reading(Error),
    /// The writer gave up: over what it was given, or over its disk.
    Writing(Error),
}

/// How the input ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// At its own end.
    Whole,
    /// By a signal.
    Stopped,
}

/// Feeds the writer until the input ends; pending records wait `flush_after` at most.
pub(super) fn fill(
    writer: &mut Writer,
    arriving: &Receiver<Event>,
    flush_after: Option<Duration>,
    mut on_bytes: impl FnMut(u64),
) -> Result<Ending, Failure> {
    let mut flush_at: Option<Instant> = None;
    loop {
        let event = match flush_at {
            None => arriving.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(at) => arriving.recv_timeout(at.saturating_duration_since(Instant::now())),
        };
        match event {
            Ok(Event::Piece(piece)) => {
                let frames = writer.written().frames;
                writer.write(&piece).map_err(Failure::Writing)?;
                on_bytes(piece.len() as u64);
                if writer.written().frames > frames {
                    flush_at = None;
                }
                if let Some(flush_after) = flush_after {
                    flush_at.get_or_insert_with(|| Instant::now() + flush_after);
                }
            }
            Ok(Event::End) => return Ok(Ending::Whole),
            Ok(Event::Stop) => return Ok(Ending::Stopped),
            Ok(Event::Failed(error)) => {
                return Err(Failure::Reading(Error::io("reading")(error)));
            }
            // Who reads says how it ends, unless it panicked.
            Err(RecvTimeoutError::Disconnected) => return Err(Failure::Reading(Error::Panicked)),
            Err(RecvTimeoutError::Timeout) => {
                writer.flush().map_err(Failure::Writing)?;
                flush_at = None;
            }
        }
    }
}

/// Reads `file` in the background, unpacked if it is gzip or zstd.
pub(super) fn read_file(file: &File, events: SyncSender<Event>) -> Result<(), Error> {
    let mut magic = [0; 4];
    let magic =
        crate::capture::read_at::read_part(file, &mut magic, 0).map_err(Error::io("reading"))?;
    let file = file.try_clone().map_err(Error::io("opening"))?;
    if magic.starts_with(&[0x1F, 0x8B]) {
        read_in_background(flate2::read::MultiGzDecoder::new(file), events)
    } else if let Ok(frame::Start::Zstd | frame::Start::Skippable) = frame::start(magic) {
        let mut decoder = zstd::stream::read::Decoder::new(file).map_err(Error::io("opening"))?;
        decoder
            .window_log_max(WINDOW_LOG_MAX)
            .map_err(Error::io("opening"))?;
        read_in_background(decoder, events)
    } else {
        read_in_background(file, events)
    }
}

fn read_in_background(
    mut input: impl Read + Send + 'static,
    events: SyncSender<Event>,
) -> Result<(), Error> {
    send_in_background(move || next_piece(&mut input), events)
}

/// Has events that `next` gives sent, up to the last one, or until nobody takes them any more.
pub(super) fn send_in_background(
    mut next: impl FnMut() -> Event + Send + 'static,
    events: SyncSender<Event>,
) -> Result<(), Error> {
    start("pcapzst-input", move || {
        loop {
            let event = next();
            let is_last = !matches!(event, Event::Piece(_));
            if events.send(event).is_err() || is_last {
                return;
            }
        }
    })
}

/// Reads the next piece of `input`.
pub(super) fn next_piece(input: &mut impl Read) -> Event {
    let mut piece = vec![0; PIECE];
    loop {
        return match input.read(&mut piece) {
            Ok(0) => Event::End,
            Ok(len) => {
                piece.truncate(len);
                Event::Piece(piece)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => Event::Failed(error),
        };
    }
}

/// Has `work` done in a thread of its own. That there is none to be had is an error like any other.
pub(super) fn start(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), Error> {
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(work)
        .map_err(Error::io("starting a thread"))?;
    Ok(())
}
