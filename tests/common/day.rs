//! A capture day on disk: each capture once as plain pcap, and once as what the mount is made from.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::frames::Marked;
use super::mounted::Mounted;
use super::pcap::Pcap;

/// `raw/NAME.pcap` holds what `source/NAME.pcap.zst` and its like hold in their own form.
pub struct Day {
    folder: TempDir,
}

impl Day {
    pub fn new() -> Self {
        let folder = tempfile::Builder::new()
            .prefix("pcapzst-day-")
            .tempdir()
            .unwrap();
        fs::create_dir(folder.path().join("raw")).unwrap();
        fs::create_dir(folder.path().join("source")).unwrap();
        fs::create_dir(folder.path().join("out")).unwrap();
        Self { folder }
    }

    /// A day with one capture, `NAME.pcap.zst`.
    pub fn with(name: &str, pcap: &Pcap) -> Self {
        let day = Self::new();
        day.add(name, pcap);
        day
    }

    /// Adds a final compressed capture in frames of 64 KiB.
    pub fn add(&self, name: &str, pcap: &Pcap) {
        let marked = Marked::pack(pcap, 65_536);
        self.add_as(name, ".pcap.zst", &marked.physical, &pcap.bytes);
    }

    /// Adds a capture in any form: the file's whole ending, its bytes, and what a reader must see.
    pub fn add_as(&self, name: &str, ending: &str, physical: &[u8], seen: &[u8]) {
        fs::write(self.source().join(format!("{name}{ending}")), physical).unwrap();
        fs::write(self.raw().join(format!("{name}.pcap")), seen).unwrap();
    }

    pub fn raw(&self) -> PathBuf {
        self.folder.path().join("raw")
    }

    pub fn source(&self) -> PathBuf {
        self.folder.path().join("source")
    }

    /// A folder for what a test writes.
    pub fn out(&self) -> PathBuf {
        self.folder.path().join("out")
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    #[track_caller]
    pub fn mount(&self) -> Mounted {
        Mounted::new(&self.source(), "")
    }
}

/// A folder of the test's own.
pub fn scratch() -> TempDir {
    tempfile::Builder::new()
        .prefix("pcapzst-test-")
        .tempdir()
        .unwrap()
}
