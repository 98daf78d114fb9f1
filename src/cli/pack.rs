//! `pack`: captures into the format, from files or from a live stream.
//!
//! A reader thread hands over pieces of source bytes; signals come in the same way. A file that cannot be packed whole
//! leaves nothing behind; a stream cannot be read again, so what came of it is kept.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal};

use super::args::Pack;
use super::exit::Exit;
use super::input::open_regular;
use super::{complain, progress};
use crate::capture::Error;
use crate::capture::writer::{Existing, Options, Writer, Written};
use crate::format::frame;

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

/// Packs each input.
pub(super) fn pack(args: &Pack) -> Exit {
    let mut exit = Exit::Done;
    let mut stopping = SigSet::empty();
    stopping.add(Signal::SIGINT);
    stopping.add(Signal::SIGTERM);
    if let Err(errno) = stopping.thread_block() {
        eprintln!("pcapzst: blocking signals: {errno}");
        return Exit::Failed;
    }
    for input in &args.inputs {
        let Some(out) = output(input, args) else {
            complain(
                input,
                "give the output's name with -o (a folder, for several inputs)",
            );
            return Exit::Usage;
        };
        exit = exit.worse(pack_one(input, &out, args, &stopping));
    }
    exit
}

fn pack_one(input: &Path, out: &Path, args: &Pack, stopping: &SigSet) -> Exit {
    let is_stream = input == Path::new("-");
    match transfer(input, out, args, stopping, is_stream) {
        Ok((written, ending)) => {
            if !is_stream && ending == Ending::Stopped {
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
            if written.cut_bytes > 0 {
                // A signal falls where it falls; a stream that ends there by itself was cut by somebody else.
                let is_expected = ending == Ending::Stopped;
                complain(
                    input,
                    format!(
                        "ended within a record; its first {} bytes are left out",
                        written.cut_bytes
                    ),
                );
                if !is_expected {
                    return Exit::Incomplete;
                }
            }
            Exit::Done
        }
        Err((path, error)) => {
            complain(&path, &error);
            Exit::from(&error)
        }
    }
}

/// An error, and the file it is about.
type Problem = (PathBuf, Error);

fn transfer(
    input: &Path,
    out: &Path,
    args: &Pack,
    stopping: &SigSet,
    is_stream: bool,
) -> Result<(Written, Ending), Problem> {
    let of_input = |error| (input.to_owned(), error);
    let of_output = |error| (out.to_owned(), error);
    let file = if is_stream {
        None
    } else {
        let file = open_regular(input).map_err(|error| of_input(Error::io("opening")(error)))?;
        let before = file
            .metadata()
            .map_err(|error| of_input(Error::io("opening")(error)))?;
        let input_file = (before.dev(), before.ino());
        if out
            .metadata()
            .is_ok_and(|out| (out.dev(), out.ino()) == input_file)
        {
            return Err(of_output(Error::Io {
                doing: "packing a file onto itself",
                errno: libc::EEXIST,
            }));
        }
        Some((file, before))
    };
    let options = Options {
        level: args.level,
        frame_target: usize::try_from(args.frame_target).unwrap_or(usize::MAX),
        existing: if args.force {
            Existing::Replace
        } else {
            Existing::Keep
        },
    };
    let mut writer = Writer::create(out, options).map_err(of_output)?;
    let (events, arriving) = sync_channel(PIECES);
    stop_on_signal(*stopping, events.clone());
    let filled = match &file {
        None => {
            read_in_background(io::stdin(), events);
            fill(
                &mut writer,
                &arriving,
                Some(Duration::from_millis(args.flush_ms)),
                |_| {},
            )
        }
        Some((file, before)) => {
            let bar = progress::bar(before.len(), input.to_string_lossy().into_owned());
            read_file(file, events)
                .and_then(|()| fill(&mut writer, &arriving, None, |bytes| bar.inc(bytes)))
                .and_then(|ending| check_whole(&writer, file, before, ending))
        }
    };
    match (filled, &file) {
        (Ok(Ending::Stopped), Some(_)) => {
            let written = writer.written();
            writer.abandon().map_err(of_output)?;
            Ok((written, Ending::Stopped))
        }
        (Ok(ending), _) => match writer.finish() {
            Ok(written) => Ok((written, ending)),
            Err(error) => Err(of_output(error)),
        },
        (Err(error), Some(_)) => {
            // The input is still there; the first error is the one to tell.
            let _ = writer.abandon();
            Err(of_input(error))
        }
        (Err(error), None) => {
            // What came before the fault is good, and cannot be had again.
            if let Err(second) = writer.finish() {
                complain(out, second);
            }
            Err(of_input(error))
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
        let ending = if stop_at.is_some() {
            Ending::Stopped
        } else {
            Ending::Whole
        };
        match event {
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
            Ok(Event::End) | Err(RecvTimeoutError::Disconnected) => return Ok(ending),
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
        return Err(Error::Io {
            doing: "packing a file that is being written",
            errno: libc::EAGAIN,
        });
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

fn stop_on_signal(stopping: SigSet, events: SyncSender<Event>) {
    thread::spawn(move || {
        if stopping.wait().is_ok() {
            // Nobody listens any more once the file is finished: then the signal has come too late.
            let _ = events.send(Event::Stop);
        }
    });
}

/// Where `input` is to be packed to; `None` where that cannot be told.
fn output(input: &Path, args: &Pack) -> Option<PathBuf> {
    let beside = || {
        let name = input.file_name()?.as_bytes();
        let name = name
            .strip_suffix(b".gz")
            .or(name.strip_suffix(b".zst"))
            .unwrap_or(name);
        let mut name = name.to_vec();
        name.extend(b".zst");
        Some(PathBuf::from(OsStr::from_bytes(&name)))
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
