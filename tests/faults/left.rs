//! What a writer that did not come to its end leaves behind, and what comes of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use pcapzst::capture::{Engine, Form, OnFault, Progress, Source};
use tempfile::TempDir;

use crate::common::day::scratch;
use crate::common::pcap::{Magic, Pcap};
use crate::common::{Ran, assert_same, names, pcapzst, run, run_with_input};

/// Small frames, so that a small capture has many.
const TARGET: &str = "20000";

/// A capture and what an undisturbed writer makes of it.
pub struct Scene {
    pub folder: TempDir,
    pub pcap: Pcap,
    pub whole: Vec<u8>,
}

impl Scene {
    /// A capture of this many bytes.
    pub fn new(seed: u64, size: usize) -> Self {
        let folder = scratch();
        let pcap = Pcap::of_size(Magic::LeUs, seed, size);
        let mut scene = Self {
            folder,
            pcap,
            whole: Vec::new(),
        };
        fs::write(scene.input(), &scene.pcap.bytes).unwrap();
        let out = Out::in_folder(&scene.folder.path().join("undisturbed"));
        run(pack().arg(scene.input()).arg("-o").arg(&out.last)).ok();
        scene.whole = fs::read(&out.last).unwrap();
        // No flush timer: frames of a stream are those of the file.
        let out = Out::in_folder(&scene.folder.path().join("stream"));
        scene.pack_stream(&mut pack(), &out.last).ok();
        let stream = fs::read(&out.last).unwrap();
        assert_same(&stream, &scene.whole, "a stream makes the same file");
        scene
    }

    pub fn input(&self) -> PathBuf {
        self.folder.path().join("in.pcap")
    }

    /// Runs `command`, a `pack` with some of its options, on the whole capture as standard input.
    pub fn pack_stream(&self, command: &mut Command, out: &Path) -> Ran {
        let stdin = Stdio::from(fs::File::open(self.input()).unwrap());
        run_with_input(command.arg("-").arg("-o").arg(out), stdin)
    }

    /// What is in the partial file is valid to its last whole frame and a part of this capture; its source bytes.
    #[track_caller]
    pub fn check_left(&self, partial: &Path, what: &str) -> usize {
        let bytes = fs::read(partial).unwrap();
        let engine = Arc::new(Engine::default().without_threads());
        let source = Source::open(engine, Box::new(bytes), Form::Zst, Progress::Partial).unwrap();
        assert_eq!(source.walk_fault(), None, "{what}");
        let size = usize::try_from(source.size()).unwrap();
        let read = source.read(0, usize::MAX, OnFault::Fail);
        let read = read.unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_same(&read, &self.pcap.bytes[..size], what);
        let is_boundary = size == 0 || self.pcap.ends.binary_search(&size).is_ok();
        assert!(is_boundary, "{what}: half a record");
        size
    }

    /// The final file is the one that an undisturbed writer makes, and nothing is beside it.
    #[track_caller]
    pub fn check_done(&self, out: &Out, what: &str) {
        assert_same(&fs::read(&out.last).unwrap(), &self.whole, what);
        assert_eq!(names(&out.folder), [b"out.pcap.zst"], "{what}");
    }
}

/// Where a writer writes to, alone in its folder.
pub struct Out {
    pub folder: PathBuf,
    pub last: PathBuf,
    pub partial: PathBuf,
}

impl Out {
    /// In this folder, which is made if it is not there.
    pub fn in_folder(folder: &Path) -> Self {
        fs::create_dir_all(folder).unwrap();
        Self {
            folder: folder.to_owned(),
            last: folder.join("out.pcap.zst"),
            partial: folder.join("out.pcap.zst.partial"),
        }
    }
}

/// `pack` with frames of a size that the capture alone decides.
pub fn pack() -> Command {
    flushing(pcapzst(), "3600000")
}

/// `pack`, run by `command`, with frames cut after so many milliseconds, too.
pub fn flushing(mut command: Command, millis: &str) -> Command {
    command.args(["pack", "--frame-target", TARGET]);
    command.args(["--flush-ms", millis]);
    command
}

/// `inspect` and `verify` call everything in `folder` incomplete, and find no fault in it; how many files that were.
#[track_caller]
pub fn check_incomplete(folder: &Path, partials: &[PathBuf]) -> usize {
    let verified = run(pcapzst().args(["verify", "--json"]).arg(folder)).exits(5);
    let inspected = run(pcapzst().args(["inspect", "--json"]).args(partials)).exits(5);
    for object in verified.json().iter().chain(&inspected.json()) {
        assert_eq!(object["state"], "growing", "{object:?}");
        assert!(object["error"].is_null(), "{object:?}");
    }
    assert_eq!(verified.json().len(), partials.len());
    partials.len()
}
