//! What `pack` takes in: pieces from a file or a stream, unpacked where need be, and signals, in one line.

use std::fs::File;
use std::io::{self, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::SigSet;

use crate::capture::Error;
use crate::capture::sync::lock;
use crate::capture::writer::Writer;
use crate::format::frame;

/// Bytes of one piece.
const PIECE: usize = 256 * 1024;
/// Pieces that wait for the writer.
pub(super) const PIECES: usize = 4;
/// The largest window of a plain zstd input: zstd's own limit, so that `--long=31` files can be packed.
const WINDOW_LOG_MAX: u32 = 31;
/// How long a stream is still read after a signal, unless it ends before.
const DRAIN_AFTER_STOP: Duration = Duration::from_millis(500);

/// What comes in.
pub(super) enum Event {
    Piece(Vec<u8>),
    End,
    Failed(io::Error),
    /// SIGINT or SIGTERM.
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

/// Hands a signal to whichever input is packed at the moment.
#[derive(Clone, Default)]
pub(super) struct Stopper(Arc<Mutex<Stopping>>);

#[derive(Default)]
struct Stopping {
    is_stopped: bool,
    current: Option<SyncSender<Event>>,
}

impl Stopper {
    /// Waits for signals from now on, in a thread of its own.
    pub(super) fn listen(&self, signals: SigSet) -> Result<(), Error> {
        let stopper = self.clone();
        start("pcapzst-signal", move || {
            while signals.wait().is_ok() {
                let current = {
                    let mut stopping = lock(&stopper.0);
                    stopping.is_stopped = true;
                    stopping.current.clone()
                };
                // An input that has ended meanwhile takes no more; the flag holds for the next one.
                if let Some(current) = current {
                    let _ = current.send(Event::Stop);
                }
            }
        })
    }

    /// Sends signals to `events` from now on; whether none has come before.
    pub(super) fn direct_to(&self, events: SyncSender<Event>) -> bool {
        let mut stopping = lock(&self.0);
        stopping.current = Some(events);
        !stopping.is_stopped
    }
}

/// Feeds the writer until the input ends; pending records wait `flush_after` at most.
///
/// After a signal, what is in the pipe already is taken too: with `tcpdump | pcapzst pack`, an interrupt reaches both, and
/// tcpdump's last packets are on their way.
pub(super) fn fill(
    writer: &mut Writer,
    arriving: &Receiver<Event>,
    flush_after: Option<Duration>,
    mut on_bytes: impl FnMut(u64),
) -> Result<Ending, Failure> {
    let mut flush_at: Option<Instant> = None;
    let mut stop_at: Option<Instant> = None;
    loop {
        let event = match stop_at.or(flush_at) {
            None => arriving.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(at) => arriving.recv_timeout(at.saturating_duration_since(Instant::now())),
        };
        match event {
            // Not read on for ever: the pipe may never be empty.
            Ok(Event::Piece(_)) if stop_at.is_some_and(|at| at <= Instant::now()) => {
                return Ok(Ending::Stopped);
            }
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
            Ok(Event::End) | Err(RecvTimeoutError::Disconnected) => {
                return Ok(match stop_at {
                    Some(_) => Ending::Stopped,
                    None => Ending::Whole,
                });
            }
            Ok(Event::Stop) if flush_after.is_none() => return Ok(Ending::Stopped),
            Ok(Event::Stop) => stop_at = Some(Instant::now() + DRAIN_AFTER_STOP),
            Ok(Event::Failed(error)) => {
                return Err(Failure::Reading(Error::io("reading")(error)));
            }
            Err(RecvTimeoutError::Timeout) if stop_at.is_some() => return Ok(Ending::Stopped),
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

pub(super) fn read_in_background(
    mut input: impl Read + Send + 'static,
    events: SyncSender<Event>,
) -> Result<(), Error> {
    // Ends with the input, or when nobody takes the pieces any more.
    start("pcapzst-input", move || {
        loop {
            let mut piece = vec![0; PIECE];
            let event = match input.read(&mut piece) {
                Ok(0) => Event::End,
                Ok(len) => {
                    piece.truncate(len);
                    Event::Piece(piece)
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => Event::Failed(error),
            };
            let is_last = !matches!(event, Event::Piece(_));
            if events.send(event).is_err() || is_last {
                return;
            }
        }
    })
}

/// Has `work` done in a thread of its own. That there is none to be had is an error like any other.
fn start(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), Error> {
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(work)
        .map_err(Error::io("starting a thread"))?;
    Ok(())
}
