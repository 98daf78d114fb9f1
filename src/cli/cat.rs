//! `cat`: a capture's source bytes on standard output.

use std::io::{self, Write};
use std::sync::Arc;

use super::args::Cat;
use super::complain;
use super::exit::Exit;
use super::input::Input;
use crate::capture::report::Verdict;
use crate::capture::{Engine, Error, OnFault};

/// Source bytes written in one step.
const STEP: usize = 1024 * 1024;

/// Writes the bytes.
pub(super) fn cat(args: &Cat) -> Exit {
    let engine = Arc::new(Engine::default());
    let outcome = Input::open(&engine, &args.file).and_then(|input| write(&input, args));
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
        out.write_all(&bytes)
            .map_err(Error::io("writing to standard output"))?;
        at += bytes.len() as u64;
        left -= bytes.len() as u64;
    }
    out.flush()
        .map_err(Error::io("writing to standard output"))?;
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
