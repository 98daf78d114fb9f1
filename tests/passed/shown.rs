//! A mounted folder whose captures' ways are told by counters, and what the tests do to its files.

use std::fs::{self, File, FileTimes, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::common::assert_same;
use crate::common::day::scratch;
use crate::common::mounted::{Mounted, free};
use nix::mount::{MsFlags, mount};
use tempfile::TempDir;

/// Longer ago than a file must be at rest to be passed.
pub const LONG_AGO: Duration = Duration::from_hours(1);

/// Puts the time of the last write back: nobody has written to the file for long.
pub fn rest(file: &Path) {
    let times = FileTimes::new().set_modified(SystemTime::now() - LONG_AGO);
    let file = OpenOptions::new().write(true).open(file).unwrap();
    file.set_times(times).unwrap();
}

pub fn append(file: &Path, bytes: &[u8]) {
    let mut file = OpenOptions::new().append(true).open(file).unwrap();
    file.write_all(bytes).unwrap();
}

/// Everything from the start to the end.
#[track_caller]
pub fn all_of(file: &File) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read_at(&mut buffer, bytes.len() as u64).unwrap() {
            0 => return bytes,
            len => bytes.extend_from_slice(&buffer[..len]),
        }
    }
}

/// A mounted folder in which the capture `x.pcap` lies in one form after the other.
pub struct Shown {
    pub mounted: Mounted,
    source: Source,
}

/// The folder, and what is mounted on it.
pub struct Source(pub TempDir);

impl Source {
    /// A tmpfs of its own.
    pub fn tmpfs() -> Self {
        let source = Self(scratch());
        let (name, flags) = (Some("tmpfs"), MsFlags::empty());
        mount(name, source.0.path(), name, flags, Some("size=16m")).unwrap();
        source
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        free(self.path());
    }
}

impl Shown {
    pub fn new() -> Self {
        Self::with("")
    }

    pub fn with(options: &str) -> Self {
        Self::of(Source(scratch()), options)
    }

    pub fn of(source: Source, options: &str) -> Self {
        Self {
            mounted: Mounted::new(source.path(), options),
            source,
        }
    }

    /// The physical file `x.pcap` and this ending.
    pub fn at(&self, ending: &str) -> PathBuf {
        self.source.path().join(format!("x.pcap{ending}"))
    }

    /// Writes the physical file, at rest.
    pub fn put(&self, ending: &str, bytes: &[u8]) {
        fs::write(self.at(ending), bytes).unwrap();
        rest(&self.at(ending));
    }

    pub fn path(&self) -> PathBuf {
        self.mounted.join("x.pcap")
    }

    #[track_caller]
    pub fn open(&self) -> File {
        File::open(self.path()).unwrap()
    }

    /// Opens, and whether the kernel was given the file.
    #[track_caller]
    pub fn opened(&self) -> (File, bool) {
        let before = self.mounted.counter("passthrough_opens");
        let file = self.open();
        (file, self.mounted.counter("passthrough_opens") > before)
    }

    #[track_caller]
    pub fn open_passed(&self) -> File {
        let (file, is_passed) = self.opened();
        assert!(is_passed, "not passed");
        file
    }

    #[track_caller]
    pub fn open_unpassed(&self) -> File {
        let (file, is_passed) = self.opened();
        assert!(!is_passed, "passed");
        file
    }

    /// All bytes of the handle, of which this must be the first look; whether the program was asked for any.
    #[track_caller]
    pub fn read(&self, file: &File) -> (Vec<u8>, bool) {
        let before = self.mounted.counter("reads");
        let bytes = all_of(file);
        (bytes, self.mounted.counter("reads") > before)
    }

    /// Checks that the kernel gives these bytes without a question.
    #[track_caller]
    pub fn assert_passed(&self, file: &File, wanted: &[u8], what: &str) {
        let (bytes, is_asked) = self.read(file);
        assert_same(&bytes, wanted, what);
        assert!(!is_asked, "{what}: the program was asked");
    }

    /// Checks that the program gives these bytes.
    #[track_caller]
    pub fn assert_asked(&self, file: &File, wanted: &[u8], what: &str) {
        let (bytes, is_asked) = self.read(file);
        assert_same(&bytes, wanted, what);
        assert!(is_asked, "{what}: the program was not asked");
    }

    /// Waits until the program has heard of every close: the kernel tells it later.
    pub fn await_closed(&self) {
        while self.mounted.counter("open_files") > 0 {}
    }

    /// Descriptors that the program has open.
    pub fn descriptors(&self) -> usize {
        let folder = format!("/proc/{}/fd", self.mounted.pid());
        fs::read_dir(folder).unwrap().count()
    }
}
