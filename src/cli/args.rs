//! The command line, as clap reads it. Help texts, completions and man pages come from here.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;

use super::exit::Exit;
use super::printed;
use crate::capture::MAX_FRAME_SIZE;
use crate::capture::writer::{FRAME_TARGET, LEVEL};
use crate::fuse::options::table;

fn exit_codes() -> String {
    let codes = Exit::ALL.map(|exit| format!("  {}  {}", exit as u8, exit.meaning()));
    format!("Exit codes:\n{}", codes.join("\n"))
}

/// Compressed and still growing packet captures as ordinary .pcap files.
#[derive(Debug, Parser)]
#[command(name = "pcapzst", version, after_help = exit_codes())]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show a folder of captures as ordinary .pcap files, read-only.
    Mount(Mount),
    /// End a mount; open files are served until they are closed.
    Umount(Umount),
    /// Show a mount's counters.
    Status(Status),
    /// Tell what a file is, without decoding its body.
    Inspect(Inspect),
    /// Decode everything and check it.
    Verify(Verify),
    /// Write captures in the format, from .pcap, .pcap.gz, plain .pcap.zst or standard input.
    Pack(Pack),
    /// Write the source bytes of a capture to standard output.
    Cat(Cat),
    /// Print a shell's completions.
    Completions(Completions),
}

/// Arguments of `mount`.
#[derive(Debug, clap::Args)]
#[command(after_help = table::help())]
pub struct Mount {
    /// Stay in the foreground, and log to standard error; in the background the log goes to syslog.
    #[arg(short, long)]
    pub foreground: bool,
    /// Append the log to this file, outside SOURCE; the same as `-o log_file=FILE`.
    #[arg(long, value_name = "FILE")]
    pub log_file: Option<PathBuf>,
    /// Mount options, comma-separated; may be given several times.
    #[arg(short, value_name = "OPT[,OPT…]")]
    pub options: Vec<String>,
    /// Show other regular files too, byte for byte; the same as `-o all`.
    #[arg(long)]
    pub all: bool,
    /// The folder of captures.
    pub source: PathBuf,
    /// An existing folder, neither within SOURCE nor above it.
    pub mountpoint: PathBuf,
}

/// Arguments of `umount`.
#[derive(Debug, clap::Args)]
pub struct Umount {
    /// Where the captures are mounted.
    pub mountpoint: PathBuf,
}

/// Arguments of `status`.
#[derive(Debug, clap::Args)]
pub struct Status {
    /// One JSON object on one line.
    #[arg(long)]
    pub json: bool,
    /// Where the captures are mounted.
    pub mountpoint: PathBuf,
}

/// Arguments of `inspect`.
#[derive(Debug, clap::Args)]
pub struct Inspect {
    /// One JSON object a file, each on one line.
    #[arg(long)]
    pub json: bool,
    /// The frame table too.
    #[arg(long)]
    pub frames: bool,
    /// Captures in any form.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
}

/// Arguments of `verify`.
#[derive(Debug, clap::Args)]
pub struct Verify {
    /// One JSON object a file, each on one line.
    #[arg(long)]
    pub json: bool,
    /// Captures in any form, and folders: all captures in them.
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<PathBuf>,
}

/// Arguments of `pack`.
#[derive(Debug, clap::Args)]
pub struct Pack {
    /// The capture to write, or a folder to write into. Default: beside the input, `x.pcap` to `x.pcap.zst`.
    #[arg(short, long, value_name = "OUT")]
    pub output: Option<PathBuf>,
    /// zstd's compression level.
    #[arg(long, default_value_t = LEVEL, value_parser = clap::value_parser!(i32).range(-7..=22), allow_hyphen_values = true)]
    pub level: i32,
    /// Source bytes a frame aims at.
    #[arg(long, value_name = "BYTES", default_value_t = FRAME_TARGET as u64, value_parser = clap::value_parser!(u64).range(1..=MAX_FRAME_SIZE))]
    pub frame_target: u64,
    /// Standard input only: records wait this long at most for a frame to fill.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=3_600_000))]
    pub flush_ms: u64,
    /// Go on with a partial file that another writer left behind; without one, start anew.
    #[arg(long)]
    pub resume: bool,
    /// Replace the output, and a partial file that another writer left behind.
    #[arg(long, conflicts_with = "resume")]
    pub force: bool,
    /// Captures; `-` is standard input. They are never removed.
    #[arg(required = true, value_name = "INPUT")]
    pub inputs: Vec<PathBuf>,
}

/// Arguments of `cat`.
#[derive(Debug, clap::Args)]
pub struct Cat {
    /// Go on as the capture grows, and end when it is complete.
    #[arg(short, long)]
    pub follow: bool,
    /// Source offset of the first byte.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub offset: u64,
    /// Source bytes at most; all that follow by default.
    #[arg(long, value_name = "N")]
    pub length: Option<u64>,
    /// A capture in any form, by its physical or its logical name.
    pub file: PathBuf,
}

/// Arguments of `completions`.
#[derive(Debug, clap::Args)]
pub struct Completions {
    /// Whose.
    pub shell: Shell,
}

/// Prints the completions.
pub(super) fn completions(args: &Completions) -> Exit {
    // Into memory first: clap_complete panics where it cannot write.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Args::command(), "pcapzst", &mut script);
    let mut out = io::stdout().lock();
    printed(out.write_all(&script).and_then(|()| out.flush()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }
}
