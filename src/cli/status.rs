//! `status`: a mount's counters, asked of the mount itself.

use std::ffi::OsStr;
use std::fmt;
use std::io::{self, Write};

use serde_json::{Map, Value};

use super::args::Status;
use super::exit::Exit;
use super::{complain, printed};
use crate::plain::Plain;
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
    printed(match (&parsed, args.json) {
        (Value::Object(counters), false) => print_text(&mut out, counters),
        (_, false) => writeln!(out, "{}", Plain(parsed)),
        (_, true) => writeln!(out, "{parsed}"),
    })
}

/// One line for each counter, what counts by kind in one too; then one for each fault.
fn print_text(out: &mut impl Write, counters: &Map<String, Value>) -> io::Result<()> {
    let mut line = |text: fmt::Arguments<'_>| writeln!(out, "{}", Plain(text));
    for (name, value) in counters {
        match value {
            Value::Array(_) => {}
            Value::Object(kinds) => {
                let kinds: Vec<_> = kinds
                    .iter()
                    .map(|(kind, value)| format!("{kind} {value}"))
                    .collect();
                line(format_args!("{name:22}{}", kinds.join(", ")))?;
            }
            _ => line(format_args!("{name:22}{value}"))?,
        }
    }
    let faults = counters.get("faults").and_then(Value::as_array);
    for fault in faults.into_iter().flatten() {
        let text = |key| fault.get(key).and_then(Value::as_str).unwrap_or_default();
        // In quotes, as JSON writes it: a name may hold blanks, and look like the rest of the line.
        let name = fault.get("name").unwrap_or(&Value::Null);
        line(format_args!("{} {name}: {}", text("state"), text("error")))?;
    }
    Ok(())
}
