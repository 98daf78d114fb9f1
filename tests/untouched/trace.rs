//! System calls of a program, as strace writes them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{called, tool};

/// Calls that change nothing, whatever file they are about. Opening is looked at more closely.
const READING: [&str; 24] = [
    "access",
    "chdir",
    "close",
    "dup",
    "fadvise64",
    "fcntl",
    "fstat",
    "fstatfs",
    "getdents64",
    "inotify_add_watch",
    "ioctl",
    "lseek",
    "mmap",
    "newfstatat",
    "pread64",
    "preadv",
    "preadv2",
    "read",
    "readahead",
    "readlink",
    "readlinkat",
    "statfs",
    "statx",
    // Of SOURCE it is the name alone, for the mount table.
    "mount",
];
/// Words among an open's flags that allow to change something.
const CHANGING: [&str; 6] = [
    "O_WRONLY",
    "O_RDWR",
    "O_CREAT",
    "O_TRUNC",
    "O_APPEND",
    "O_TMPFILE",
];

/// Where a trace is written.
pub struct Trace(PathBuf);

/// What a program asked of the files below one folder.
pub struct Asked {
    /// Calls that were looked at.
    pub calls: usize,
    /// Files and folders that were opened, but for the folder itself.
    pub opens: usize,
    /// Of those, the ones not by openat2 beneath a descriptor.
    pub by_path: usize,
}

impl Trace {
    /// Into `folder`.
    pub fn new(folder: &Path) -> Self {
        Self(folder.join("trace"))
    }

    /// `program` under strace: what is added to the command is its arguments.
    pub fn of(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let strace = tool("strace");
        let mut command = called(strace.get_program());
        // Every call about a path or a descriptor, with the path of each descriptor and no data.
        command.args(["-f", "-qq", "-y", "-s", "0", "--seccomp-bpf"]);
        command.args(["-e", "trace=%file,%desc", "-e", "signal=none", "-o"]);
        command.arg(&self.0).arg("--").arg(program);
        command
    }

    /// Checks that what is below `folder` was only read.
    pub fn only_reads(&self, folder: &Path) -> Asked {
        let text = fs::read(&self.0).unwrap();
        let text = String::from_utf8_lossy(&text);
        let folder = folder.canonicalize().unwrap();
        let folder = folder.to_str().unwrap();
        let mut asked = Asked {
            calls: 0,
            opens: 0,
            by_path: 0,
        };
        // A call that another thread interrupts is written in two parts; the first has the arguments.
        for line in text.lines().filter(|line| line.contains(folder)) {
            let (_, line) = line.trim_start().split_once(' ').unwrap();
            let line = line.trim_start();
            if line.starts_with("<... ") {
                continue;
            }
            let (call, arguments) = line.split_once('(').unwrap();
            asked.calls += 1;
            if !["open", "openat", "openat2"].contains(&call) {
                assert!(READING.contains(&call), "{line}");
                continue;
            }
            for word in CHANGING {
                assert!(!arguments.contains(word), "{line}");
            }
            assert!(
                arguments.contains("O_RDONLY") || arguments.contains("O_PATH"),
                "{line}"
            );
            let is_from_within = arguments.starts_with(&format!("AT_FDCWD<{folder}"));
            assert!(
                !is_from_within,
                "nothing has SOURCE for its working directory: {line}"
            );
            if arguments.contains(&format!("\"{folder}\"")) {
                continue;
            }
            asked.opens += 1;
            if call == "openat2" {
                for word in ["RESOLVE_BENEATH", "RESOLVE_NO_MAGICLINKS"] {
                    assert!(arguments.contains(word), "{line}");
                }
            } else {
                asked.by_path += 1;
            }
        }
        asked
    }
}
