//! `pack`: captures into the format, from files or from a live stream.
//!
//! A file that cannot be packed whole leaves nothing behind; of a stream, which cannot be had again, whole frames stay.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::{self, Seek};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use nix::sys::signal::{SigSet, Signal};

use super::args::Pack;
use super::exit::Exit;
use super::feed::{Ending, Event, Failure, PIECES, fill, read_file, send_in_background};
use super::stop::Stopper;
use super::stream::Stream;
use super::{complain, progress, say};
use crate::capture::writer::{Existing, Options, Writer, Written, partial_path};
use crate::capture::{Error, Form, Progress};
use crate::tree::name::Naming;
use crate::tree::place::open_regular;

/// Packs each input, until a signal comes.
pub(super) fn pack(args: &Pack) -> Exit {
    let mut exit = Exit::Done;
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGINT);
    signals.add(Signal::SIGTERM);
    // Before any thread, so that all of them leave the signals to the one that waits.
    if let Err(errno) = signals.thread_block() {
        say(format_args!("blocking signals: {errno}"));
        return Exit::Failed;
    }
    let stopper = match Stopper::listen(signals) {
        Ok(stopper) => stopper,
        Err(error) => {
            say(&error);
            return Exit::Failed;
        }
    };
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
                exit = exit.worse(report(input, &out, args, written, ending));
                if ending == Ending::Stopped {
                    break;
                }
            }
            Err(problem) => {
                complain(
                    &problem.path,
                    format!("{}{}", problem.error, problem.advice),
                );
                exit = exit.worse(Exit::from(&problem.error));
            }
        }
    }
    exit
}

fn report(input: &Path, out: &Path, args: &Pack, written: Written, ending: Ending) -> Exit {
    let is_stream = input == Path::new("-");
    if ending == Ending::Stopped && !is_stream {
        let left = if args.resume {
            "what was packed is in the partial file"
        } else {
            "nothing was left behind"
        };
        complain(input, format!("stopped by a signal; {left}"));
        return Exit::Failed;
    }
    say(format_args!(
        "{}: {} source bytes in {} frames, {} bytes on disk",
        out.display(),
        written.source_bytes,
        written.frames,
        written.physical_bytes
    ));
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
    /// Which option helps.
    advice: &'static str,
}

impl Problem {
    fn with(path: &Path) -> impl Fn(Error) -> Self {
        move |error| Self {
            path: path.to_owned(),
            error,
            advice: "",
        }
    }

    /// A writer of `out` that could not go on with `input`. Of a file, what the writer does not take is the input's fault; a
    /// stream is gone by then, and what was written is what one can look at.
    fn feeding(input: &Path, out: &Path) -> impl Fn(Failure) -> Self {
        let is_stream = input == Path::new("-");
        move |failure| match failure {
            Failure::Writing(error) if is_stream || matches!(error, Error::Io { .. }) => {
                Self::with(&partial_path(out))(error)
            }
            Failure::Reading(error) | Failure::Writing(error) => Self::with(input)(error),
        }
    }

    /// A writer of `out` that could not finish: over an input that ended too early, or over `out`.
    fn finishing(input: &Path, out: &Path) -> impl Fn(Error) -> Self {
        move |error| match error {
            Error::Fault(_) | Error::NotResumable(_) => Self::with(input)(error),
            _ => Self::with(out)(error),
        }
    }

    /// A writer of `out` that did not start: over a fault in what another one left, or over `out` itself.
    fn starting(out: &Path) -> impl Fn(Error) -> Self {
        move |error| Self {
            path: match error {
                Error::Fault(_) => partial_path(out),
                _ => out.to_owned(),
            },
            advice: match error {
                Error::Exists(_) => " (--force replaces it)",
                Error::LeftBehind => " (--resume goes on with it, --force replaces it)",
                _ => "",
            },
            error,
        }
    }
}

/// `is_stream`: of a live capture that was started again, what comes now goes behind what is there.
fn options(args: &Pack, is_stream: bool) -> Options {
    Options {
        level: args.level,
        frame_target: usize::try_from(args.frame_target).unwrap_or(usize::MAX),
        existing: match args {
            Pack { force: true, .. } => Existing::Replace,
            Pack { resume: true, .. } => Existing::Resume { appends: is_stream },
            _ => Existing::Keep,
        },
    }
}

/// Packs standard input. It cannot be read again: whatever goes wrong, the whole frames that were written stay, under the
/// partial name.
fn pack_stream(out: &Path, args: &Pack, stopper: &Stopper) -> Result<(Written, Ending), Problem> {
    let (of_input, of_output) = (Problem::with(Path::new("-")), Problem::with(out));
    let mut writer = Writer::create(out, options(args, true)).map_err(Problem::starting(out))?;
    let (events, arriving) = sync_channel(PIECES);
    let flush_after = Some(Duration::from_millis(args.flush_ms));
    let ending = read_stream(stopper, events)
        .map_err(Failure::Reading)
        .and_then(|()| fill(&mut writer, &arriving, flush_after, |_| {}));
    if !writer.has_header() {
        // Nothing that anybody could read: the next run is not to stumble over it.
        let outcome = match ending {
            Ok(_) => writer.finish().map_err(of_input),
            Err(Failure::Writing(error @ Error::Fault(_))) => Err(of_input(error)),
            Err(failure) => Err(Problem::feeding(Path::new("-"), out)(failure)),
        };
        let abandoned = writer.abandon();
        let written = outcome?;
        return abandoned
            .map(|()| (written, Ending::Whole))
            .map_err(of_output);
    }
    let ending = match ending {
        Ok(ending) => ending,
        Err(failure) => {
            // Whole records that came before are not lost; the first error is the one to tell.
            let _ = writer.flush();
            return Err(Problem::feeding(Path::new("-"), out)(failure));
        }
    };
    let finished = match ending {
        Ending::Whole => writer.finish(),
        Ending::Stopped => writer.finish_stopped(),
    };
    let finished = finished.map_err(Problem::finishing(Path::new("-"), out))?;
    Ok((finished, ending))
}

/// Reads standard input in the background, to its end or as far as a signal lets it go.
fn read_stream(stopper: &Stopper, events: SyncSender<Event>) -> Result<(), Error> {
    // By its descriptor alone: what is buffered could not be waited for.
    let input = io::stdin().as_fd().try_clone_to_owned();
    let input = File::from(input.map_err(Error::io("opening"))?);
    let mut stream = Stream::new(input, stopper.told()?);
    send_in_background(move || stream.next(), events)
}

/// Packs a file. Whatever goes wrong, nothing is left behind (the input is still there), but what [`give_up`] keeps.
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
    let mut writer = Writer::create(out, options(args, false)).map_err(Problem::starting(out))?;
    let (events, arriving) = sync_channel(PIECES);
    let bar = progress::bar(before.len(), input.to_string_lossy().into_owned());
    let filled = if stopper.direct_to(events.clone()) {
        read_file(&file, events)
            .map_err(Failure::Reading)
            .and_then(|()| fill(&mut writer, &arriving, None, |bytes| bar.inc(bytes)))
            .and_then(|ending| {
                check_whole(&mut writer, &file, &before, ending).map_err(Failure::Reading)
            })
            .map_err(Problem::feeding(input, out))
    } else {
        Ok(Ending::Stopped)
    };
    let finished = match filled {
        Ok(Ending::Whole) => writer.finish().map_err(Problem::finishing(input, out)),
        Ok(Ending::Stopped) => {
            let written = writer.written();
            if !args.resume {
                writer.abandon().map_err(of_output)?;
            }
            return Ok((written, Ending::Stopped));
        }
        Err(problem) => Err(problem),
    };
    match finished {
        Ok(written) => Ok((written, Ending::Whole)),
        Err(problem) => {
            // The first error is the one to tell.
            let _ = give_up(writer, args, &problem.error);
            Err(problem)
        }
    }
}

/// Leaves nothing behind, but what was there before and what the next run with `--resume` can go on with.
fn give_up(writer: Writer, args: &Pack, error: &Error) -> Result<(), Error> {
    let is_input_at_fault = matches!(error, Error::Fault(_));
    if writer.is_resumed() || args.resume && writer.has_header() && !is_input_at_fault {
        Ok(())
    } else {
        writer.abandon()
    }
}

/// Whether a file that ended by itself was whole: no half record, and not changed while it was read.
fn check_whole(
    writer: &mut Writer,
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
    // Where the last read stood, whatever was unpacked on the way. A disk that gave nothing before the end is no end.
    let mut file = file;
    let position = file.stream_position().map_err(Error::io("reading"))?;
    if position != after.len() {
        return Err(Error::Shrank);
    }
    match writer.cut_record() {
        Some(fault) => Err(fault.into()),
        None => Ok(ending),
    }
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
