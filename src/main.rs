//! The `pcapzst` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    pcapzst::cli::run(std::env::args_os())
}
