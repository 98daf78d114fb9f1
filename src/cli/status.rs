//! `status`: a mount's counters, asked of the mount itself.

use std::ffi::OsStr;
use std::io::{self, Write};

use serde_json::Value;

use super::args::Status;
use super::complain;
use super::exit::Exit;
use crate::sys::attribute;

/// The attribute of the mount's root that holds the counters.
const STATS: &str = "user.pcapzst.stats";

/// Prints the counters.
pub(super) fn status(args: &Status) -> Exit {
    let json = match attribute(&args.mountpoint, OsStr::new(STATS)) {
        Ok(json) => json,
        Err(error) => {
            let hint = match error.raw_os_error() {
                Some(libc::ENODATA | libc::EOPNOTSUPP) => " (not the root of a pcapzst mount)",
                _ => "",
            };
            complain(&args.mountpoint, format!("{error}{hint}"));
            return Exit::Failed;
        }
    };
    let parsed: Value = match serde_json::from_slice(&json) {
        Ok(parsed) => parsed,
        Err(error) => {
            complain(&args.mountpoint, error);
            return Exit::Failed;
        }
    };
    let mut out = io::stdout().lock();
    let printed = match (&parsed, args.json) {
        (Value::Object(counters), false) => counters
            .iter()
            .try_for_each(|(name, value)| writeln!(out, "{name:22}{value}")),
        _ => writeln!(out, "{parsed}"),
    };
    match printed {
        Ok(()) => Exit::Done,
        Err(_) => Exit::Failed,
    }
}
