//! `cat`: a capture's source bytes on standard output, to its end or as it grows.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::sync::Arc;

use super::args::Cat;
use super::complain;
use super::exit::Exit;
use super::input::Input;
use crate::capture::follow::{Follower, Next};
use crate::capture::live::Live;
use crate::capture::report::Verdict;
use crate::capture::watch::{LOOK_AFTER, Watch, Woken};
use crate::capture::{Engine, Error, Form, OnFault, Source, State};
use crate::format::Fault;
use crate::sys::attribute;
use crate::tree::place::Place;

/// Source bytes written in one step.
const STEP: usize = 1024 * 1024;
/// The attribute that captures in a mount have, and no other file.
const STATE: &str = "user.pcapzst.state";

/// Writes the bytes.
pub(super) fn cat(args: &Cat) -> Exit {
    let engine = Arc::new(Engine::default());
    let outcome = if args.follow {
        follow(&engine, args)
    } else {
        Input::open(&engine, &args.file).and_then(|input| write(&input, args))
    };
    match outcome {
        Ok(exit) => exit,
        // The reader has seen enough: no failure of ours.
        Err(Error::Io { errno, .. }) if errno == libc::EPIPE => Exit::Done,
        Err(error) => {
            complain(&args.file, &error);
            Exit::from(&error)
        }
    }
}

fn write(input: &Input, args: &Cat) -> Result<Exit, Error> {
    let facts = input.source.facts();
    let mut out = io::stdout().lock();
    let mut at = args.offset;
    let mut left = args.length.unwrap_or(u64::MAX);
    while left > 0 {
        let len = usize::try_from(left).unwrap_or(usize::MAX).min(STEP);
        let bytes = input.source.read(at, len, OnFault::ServeGood)?;
        if bytes.is_empty() {
            break;
        }
        out.write_all(&bytes).map_err(writing())?;
        at += bytes.len() as u64;
        left -= bytes.len() as u64;
    }
    out.flush().map_err(writing())?;
    if left == 0 {
        return Ok(Exit::Done);
    }
    // All there is was asked for: say so if it is not all there will be.
    let verdict = Verdict::of(&facts, input.source.form());
    if let Some(error) = facts
        .error
        .filter(|_| verdict == Verdict::Damaged || facts.size == 0)
    {
        complain(&args.file, error);
    } else if verdict == Verdict::Incomplete {
        complain(
            &args.file,
            format!(
                "{}: {} torn bytes behind source offset {at}",
                facts.state.as_str(),
                facts.torn_bytes
            ),
        );
    }
    Ok(match verdict {
        // A raw file that is no pcap is passed through like any other.
        Verdict::Foreign if facts.size > 0 => Exit::Done,
        verdict => verdict.into(),
    })
}

fn writing() -> impl Fn(io::Error) -> Error {
    Error::io("writing to standard output")
}

/// Writes what there is and what comes, until the capture is complete.
fn follow(engine: &Arc<Engine>, args: &Cat) -> Result<Exit, Error> {
    let path = &args.file;
    let (file, place) = Place::open(path)?;
    // Of the open file: the name may have led to another one.
    let own = format!("/proc/self/fd/{}", file.as_raw_fd());
    if attribute(Path::new(&own), OsStr::new(STATE)).is_ok() {
        complain(
            path,
            "this is a capture in a mount: follow the physical file, or use `tail -c +1 -f`",
        );
        return Ok(Exit::Usage);
    }
    let names = place.names();
    // Before the first look, so that no change falls between the two.
    let watch = Watch::new(&file);
    let live = Arc::new(Live::open(engine, file, place.form, names)?);
    let mut follower = Follower::new(Arc::clone(&live), args.offset);
    let mut out = io::stdout().lock();
    let mut left = args.length.unwrap_or(u64::MAX);
    let mut is_told = false;
    loop {
        if left == 0 {
            return Ok(Exit::Done);
        }
        let next = match follower.take_next() {
            Err(Error::Fault(fault)) => {
                complain(path, &fault);
                return Ok(exit_of(&fault, place.form));
            }
            outcome => outcome?,
        };
        match next {
            Next::Bytes(bytes) => {
                // All of it where more is wanted than that.
                let most = usize::try_from(left).unwrap_or(usize::MAX);
                let part = bytes.get(..most).unwrap_or(&bytes);
                out.write_all(part).map_err(writing())?;
                out.flush().map_err(writing())?;
                left -= part.len() as u64;
            }
            Next::NotYet => {
                is_told = is_told || tell_draining(path, live.source());
                let woken = watch.wait(Some(out.as_fd()), LOOK_AFTER);
                if woken.map_err(Error::io("waiting"))? == Woken::NobodyReads {
                    return Ok(Exit::Done);
                }
            }
            Next::Complete => return Ok(Exit::Done),
            Next::CutShort => return Ok(cut_short(path, "was removed before it was complete")),
            Next::Replaced => {
                return Ok(cut_short(path, "another capture was written over this one"));
            }
        }
    }
}

/// The exit code for the fault at which following a capture in `form` stopped: the one that `inspect` or `verify` has for it.
fn exit_of(fault: &Fault, form: Form) -> Exit {
    if form == Form::Raw || fault.kind.is_foreign() {
        // A raw capture is followed by its records and has one fault only: it is no pcap.
        Exit::Foreign
    } else {
        Exit::Damaged
    }
}

fn cut_short(path: &Path, why: &str) -> Exit {
    complain(path, why);
    Exit::Incomplete
}

/// Says, of a capture that has its final name and a torn end, what is waited for; whether it did.
fn tell_draining(path: &Path, source: &Source) -> bool {
    let facts = source.facts();
    let is_draining = facts.state == State::Draining;
    if is_draining {
        complain(
            path,
            format!(
                "has its final name, and {} torn bytes at its end: waiting for the rest",
                facts.torn_bytes
            ),
        );
    }
    is_draining
}
