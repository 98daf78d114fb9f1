//! The commands: arguments in, data on stdout, talk on stderr, an exit code with a meaning.

pub mod args;
mod cat;
pub mod exit;
mod feed;
mod input;
mod inspect;
mod mount;
mod pack;
mod progress;
mod status;
mod stop;
mod stream;
mod verify;

use std::ffi::OsString;
use std::fmt::Display;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;

use args::{Args, Command};
use exit::Exit;
use mount::Called;

use crate::capture::Error;
use crate::plain::Plain;
use crate::sink;

/// Runs the command in `arguments`, the program's own name first.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    sink::install();
    let arguments = match mount::as_called(arguments.into_iter().collect()) {
        Called::Directly(arguments) => arguments,
        Called::Fake => return Exit::Done.into(),
    };
    let args = match Args::try_parse_from(arguments) {
        Ok(args) => args,
        Err(error) => {
            // Help and version are no errors, and go to stdout.
            let shown = error.print();
            let exit = if error.use_stderr() {
                Exit::Usage
            } else {
                printed(shown)
            };
            return exit.into();
        }
    };
    let exit = match args.command {
        Command::Mount(args) => mount::mount(&args),
        Command::Umount(args) => mount::umount(&args),
        Command::Status(args) => status::status(&args),
        Command::Inspect(args) => inspect::inspect(&args),
        Command::Verify(args) => verify::verify(&args),
        Command::Pack(args) => pack::pack(&args),
        Command::Cat(args) => cat::cat(&args),
        Command::Completions(args) => args::completions(&args),
    };
    exit.into()
}

/// Tells on stderr what went wrong with `path`.
fn complain(path: &Path, problem: impl Display) {
    say(format_args!("{}: {problem}", path.display()));
}

/// How printing to stdout ended. A reader who has closed the pipe has seen enough: no failure of ours.
fn printed(outcome: io::Result<()>) -> Exit {
    match outcome {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            say(Error::io("writing to standard output")(error));
            Exit::Failed
        }
        _ => Exit::Done,
    }
}

/// Says something on stderr, on one line.
fn say(what: impl Display) {
    // At once, or lines of several programs mix. Nobody may listen any more, which is no reason to panic.
    let line = format!("pcapzst: {}\n", Plain(what));
    let _ = io::stderr().write_all(line.as_bytes());
}
