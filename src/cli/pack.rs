//! `pack`: captures into the format, from files or from a live stream.
//!
//! A reader thread hands over pieces of source bytes; signals come in the same way.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal};

use super::args::Pack;
use super::exit::Exit;
use super::input::open_regular;
use super::{complain, progress};
use crate::capture::sync::lock;
use crate::capture::writer::{Existing, Options, Writer, Written, partial_path};
use crate::capture::{Error, Form, Progress};
use crate::format::frame;
use crate::tree::name::Naming;

/// Bytes of one piece.
const PIECE: usize = 256 * 1024;
/// Pieces that wait for the writer.
const PIECES: usize = 4;
/// The largest window of a plain zstd input: zstd's own limit, so that `--long=31` files can be packed.
const WINDOW_LOG_MAX: u32 = 31;

/// How long a stream is still read after a signal, unless it ends before.
const DRAIN_AFTER_STOP: Duration = Duration::from_millis(500);

/// What comes in.
enum Event {
    Piece(Vec<u8>),
    End,
    Failed(io::Error),
    /// SIGINT or SIGTERM.
    Stop,
}

/// How the input ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// At its own end.
    Whole,
    /// By a signal.
    Stopped,
}

/// Hands a signal to whichever input is packed at the moment.
#[derive(Clone, Default)]
struct Stopper(Arc<Mutex<Stopping>>);

#[derive(Default)]
struct Stopping {
    is_stopped: bool,
    current: Option<SyncSender<Event>>,
}

impl Stopper {
    /// Waits for signals from now on, in a thread of its own.
    fn listen(&self, signals: SigSet) {
        let stopper = self.clone();
        thread::spawn(move || {
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
        });
    }

    /// Sends signals to `events` from now on; whether none has come before.
    fn direct_to(&self, events: SyncSender<Event>) -> bool {
        let mut stopping = lock(&self.0);
        stopping.current = Some(events);
        !stopping.is_stopped
    }
}

/// Packs each input, until a signal comes.
pub(super) fn pack(args: &Pack) -> Exit {
    let mut exit = Exit::Done;
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGINT);
    signals.add(Signal::SIGTERM);
    // Before any thread, so that all of them leave the signals to the one that waits.
    if let Err(errno) = signals.thread_block() {
        eprintln!("pcapzst: blocking signals: {errno}");
        return Exit::Failed;
    }
    let stopper = Stopper::default();
    stopper.listen(signals);
    for input in &args.inputs {
        let Some(out) = output(input, args) else {
            complain(
                input,
                "give the output's name with -o (a folder, for several inputs)",
            );
            return Exit::Usage;
        };
        let outcome = if input == Path::new("-") {
            pack_stream(&out, args, &stopper)
        } else {
            pack_file(input, &out, args, &stopper)
        };
        match outcome {
            Ok((written, ending)) => {
                exit = exit.worse(report(input, &out, written, ending));
                if ending == Ending::Stopped {
                    break;
                }
            }
            Err(problem) => {
                complain(&problem.path, &problem.error);
                exit = exit.worse(Exit::from(&problem.error));
            }
        }
    }
    exit
}

fn report(input: &Path, out: &Path, written: Written, ending: Ending) -> Exit {
    let is_stream = input == Path::new("-");
    if ending == Ending::Stopped && !is_stream {
        complain(input, "stopped by a signal; nothing was left behind");
        return Exit::Failed;
    }
    eprintln!(
        "pcapzst: {}: {} source bytes in {} frames, {} bytes on disk",
        out.display(),
        written.source_bytes,
        written.frames,
        written.physical_bytes
    );
    if written.cut_bytes == 0 {
        return Exit::Done;
    }
    complain(
        input,
        format!(
            "ended within a record; its first {} bytes are left out",
            written.cut_bytes
        ),
    );
    match ending {
        // A signal falls where it falls; a stream that ends there by itself was cut by somebody else.
        Ending::Stopped => Exit::Done,
        Ending::Whole => Exit::Incomplete,
    }
}

/// An error, and the file it is about.
struct Problem {
    path: PathBuf,
    error: Error,
}

impl Problem {
    fn with(path: &Path) -> impl Fn(Error) -> Self {
        move |error| Self {
            path: path.to_owned(),
            error,
        }
    }
}

fn options(args: &Pack) -> Options {
    Options {
        level: args.level,
        frame_target: usize::try_from(args.frame_target).unwrap_or(usize::MAX),
        existing: if args.force {
            Existing::Replace
        } else {
            Existing::Keep
        },
    }
}

/// Packs standard input. It cannot be read again: whatever goes wrong, the whole frames that were written stay, under the
/// partial name.
fn pack_stream(out: &Path, args: &Pack, stopper: &Stopper) -> Result<(Written, Ending), Problem> {
    let of_output = Problem::with(out);
    let mut writer = Writer::create(out, options(args)).map_err(&of_output)?;
    let (events, arriving) = sync_channel(PIECES);
    if stopper.direct_to(events.clone()) {
        read_in_background(io::stdin(), events);
    }
    let flush_after = Some(Duration::from_millis(args.flush_ms));
    let ending = fill(&mut writer, &arriving, flush_after, |_| {});
    if !writer.has_header() {
        // Nothing that anybody could read: the next run is not to stumble over it.
        let outcome = writer.finish().map_err(Problem::with(Path::new("-")));
        writer.abandon().map_err(&of_output)?;
        return outcome.map(|written| (written, Ending::Whole));
    }
    let ending = match ending {
        Ok(ending) => ending,
        Err(error) => {
            // Whole records that came before are not lost; the first error is the one to tell.
            let _ = writer.flush();
            return Err(Problem {
                path: partial_path(out),
                error,
            });
        }
    };
    let written = writer.finish().map_err(of_output)?;
    Ok((written, ending))
}

/// Packs a file. Whatever goes wrong, nothing is left behind: the input is still there.
fn pack_file(
    input: &Path,
    out: &Path,
    args: &Pack,
    stopper: &Stopper,
) -> Result<(Written, Ending), Problem> {
    let of_input = Problem::with(input);
    let of_output = Problem::with(out);
    let opening = |error| of_input(Error::io("opening")(error));
    let file = open_regular(input).map_err(opening)?;
    let before = file.metadata().map_err(opening)?;
    for written in [out, &partial_path(out)] {
        let is_input =
            |written: Metadata| (written.dev(), written.ino()) == (before.dev(), before.ino());
        if written.metadata().is_ok_and(is_input) {
            return Err(of_input(Error::Exists(
                "a file is not packed onto itself: give another output",
            )));
        }
    }
    let mut writer = Writer::create(out, options(args)).map_err(&of_output)?;
    let (events, arriving) = sync_channel(PIECES);
    let bar = progress::bar(before.len(), input.to_string_lossy().into_owned());
    let filled = if stopper.direct_to(events.clone()) {
        read_file(&file, events)
            .and_then(|()| fill(&mut writer, &arriving, None, |bytes| bar.inc(bytes)))
            .and_then(|ending| check_whole(&writer, &file, &before, ending))
            .map_err(of_input)
    } else {
        Ok(Ending::Stopped)
    };
    let finished = match filled {
        Ok(Ending::Whole) => writer.finish().map_err(&of_output),
        Ok(Ending::Stopped) => {
            let written = writer.written();
            writer.abandon().map_err(of_output)?;
            return Ok((written, Ending::Stopped));
        }
        Err(problem) => Err(problem),
    };
    match finished {
        Ok(written) => Ok((written, Ending::Whole)),
        Err(problem) => {
            // The first error is the one to tell.
            let _ = writer.abandon();
            Err(problem)
        }
    }
}

/// Feeds the writer until the input ends; pending records wait `flush_after` at most.
///
/// After a signal, what is in the pipe already is taken too: with `tcpdump | pcapzst pack`, an interrupt reaches both, and
/// tcpdump's last packets are on their way.
fn fill(
    writer: &mut Writer,
    arriving: &Receiver<Event>,
    flush_after: Option<Duration>,
    mut on_bytes: impl FnMut(u64),
) -> Result<Ending, Error> {
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
                writer.write(&piece)?;
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
            Ok(Event::Failed(error)) => return Err(Error::io("reading")(error)),
            Err(RecvTimeoutError::Timeout) if stop_at.is_some() => return Ok(Ending::Stopped),
            Err(RecvTimeoutError::Timeout) => {
                writer.flush()?;
                flush_at = None;
            }
        }
    }
}

/// Whether a file that ended by itself was whole: no half record, and not changed while it was read.
fn check_whole(
    writer: &Writer,
    file: &File,
    before: &Metadata,
    ending: Ending,
) -> Result<Ending, Error> {
    if ending == Ending::Stopped {
        return Ok(ending);
    }
    let after = file.metadata().map_err(Error::io("reading"))?;
    let stamp = |status: &Metadata| (status.len(), status.mtime(), status.mtime_nsec());
    if stamp(before) != stamp(&after) {
        return Err(Error::InputChanged);
    }
    match writer.cut_record() {
        Some(fault) => Err(fault.into()),
        None => Ok(ending),
    }
}

/// Reads `file` in the background, unpacked if it is gzip or zstd.
fn read_file(file: &File, events: SyncSender<Event>) -> Result<(), Error> {
    let mut magic = [0; 4];
    let len =
        crate::capture::read_at::read_full(file, &mut magic, 0).map_err(Error::io("reading"))?;
    let file = file.try_clone().map_err(Error::io("opening"))?;
    if magic.starts_with(&[0x1F, 0x8B]) {
        read_in_background(flate2::read::MultiGzDecoder::new(file), events);
    } else if let Ok(frame::Start::Zstd | frame::Start::Skippable) = frame::start(&magic[..len]) {
        let mut decoder = zstd::stream::read::Decoder::new(file).map_err(Error::io("opening"))?;
        decoder
            .window_log_max(WINDOW_LOG_MAX)
            .map_err(Error::io("opening"))?;
        read_in_background(decoder, events);
    } else {
        read_in_background(file, events);
    }
    Ok(())
}

fn read_in_background(mut input: impl Read + Send + 'static, events: SyncSender<Event>) {
    // Ends with the input, or when nobody takes the pieces any more.
    thread::spawn(move || {
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
    });
}

/// Where `input` is to be packed to; `None` where that cannot be told.
fn output(input: &Path, args: &Pack) -> Option<PathBuf> {
    let beside = || {
        let name = input.file_name()?;
        let naming = Naming::default();
        let logical = match naming.parse(name) {
            Some(parsed) => parsed.logical,
            None => OsStr::from_bytes(
                name.as_bytes()
                    .strip_suffix(b".gz")
                    .unwrap_or(name.as_bytes()),
            ),
        };
        Some(naming.physical(logical, Form::Zst, Progress::Final))
    };
    match &args.output {
        Some(folder) if folder.is_dir() => {
            (input != Path::new("-")).then(|| Some(folder.join(beside()?)))?
        }
        Some(out) => (args.inputs.len() == 1).then(|| out.clone()),
        None if input == Path::new("-") => None,
        None => Some(input.with_file_name(beside()?)),
    }
}
