//! The ways in which bytes come to the handles of an inode: from here, or by the kernel from the physical file itself.
//!
//! A final raw capture is shown as its file is, so the kernel may read that file without asking (*passthrough*). It then
//! has to for all handles of the inode: while one is passed, no other may be page-cached or direct, and while one of those
//! is open none should be passed, for it could no longer be mapped (fs/fuse/iomode.c, `fuse_file_io_open`; fs/fuse/file.c,
//! `fuse_file_mmap`). [`Ways`] counts them. A handle is counted before the kernel hears of it and until after the kernel
//! has closed it, so the kernel never has one that is not counted.

use std::fs::File;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::sys::stat::FileStat;

use super::attr::Attributes;
use super::capture_node::Caching;
use super::errno::Failure;
use super::handle::FileHandle;
use super::opened::Opened;
use super::stats::Event;
use super::{State, Tree};
use crate::capture::sync::lock;
use crate::capture::{Form, Progress};

/// How long nobody has written to a file that is passed. A passed handle cannot be told that another capture was written
/// over its file, so what a writer has just been at is read through here, where each read looks.
const REST: Duration = Duration::from_secs(10);

/// What the kernel may be given to read by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Passing {
    /// Nothing.
    #[default]
    Off,
    /// The files of final raw captures.
    Raw,
}

/// Device and inode number of a physical file.
pub type FileNumber = (u64, u64);

/// How bytes come to a handle.
#[derive(Clone, Debug)]
pub enum Way {
    /// By reads that come here, or from pages that they filled.
    Own,
    /// The kernel reads this file, if it can.
    Passed(Arc<File>, FileNumber),
    /// By reads that come here; but other handles of the inode are passed, so the kernel must take this one for such.
    Beside,
}

/// What the open handles of an inode do.
#[derive(Debug, Default)]
pub struct Ways(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    own: usize,
    /// Passed, or beside such.
    passed: usize,
    /// The file that is passed, while one is.
    file: FileNumber,
}

/// A handle's place in the counts, which it leaves when it is dropped.
#[derive(Debug)]
pub struct Seat {
    ways: Arc<Ways>,
    kind: Mutex<Kind>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Own,
    Passed,
    Beside,
}

impl Ways {
    /// The place of a new handle; `file` is its file, where that may be passed.
    #[must_use]
    pub fn seat(self: &Arc<Self>, file: Option<FileNumber>) -> Seat {
        let mut counts = lock(&self.0);
        let kind = match file {
            Some(file) if counts.passed > 0 && counts.file == file => Kind::Passed,
            _ if counts.passed > 0 => Kind::Beside,
            Some(file) if counts.own == 0 => {
                counts.file = file;
                Kind::Passed
            }
            _ => Kind::Own,
        };
        match kind {
            Kind::Own => counts.own += 1,
            Kind::Passed | Kind::Beside => counts.passed += 1,
        }
        Seat {
            ways: Arc::clone(self),
            kind: Mutex::new(kind),
        }
    }
}

impl Seat {
    fn kind(&self) -> Kind {
        *lock(&self.kind)
    }

    /// Changes the way to [`Kind::Own`].
    fn keep_own(&self) {
        let before = std::mem::replace(&mut *lock(&self.kind), Kind::Own);
        if before != Kind::Own {
            let mut counts = lock(&self.ways.0);
            counts.passed -= 1;
            counts.own += 1;
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let kind = self.kind();
        let mut counts = lock(&self.ways.0);
        // Each was raised for this seat, and is lowered once.
        match kind {
            Kind::Own => counts.own -= 1,
            Kind::Passed | Kind::Beside => counts.passed -= 1,
        }
    }
}

impl Tree {
    /// Opens the capture for reading: the handle's number, and how the kernel is to read it, unless [`Self::way`] says more.
    ///
    /// # Errors
    /// [`Failure::Refused`] for a file that is not in this format, or broken from its start.
    pub fn open_file(&self, id: u64) -> Result<(u64, Caching), Failure> {
        let node = self.node(id)?;
        if self.files.count() >= self.options.open_files {
            return Err(Failure::TooManyOpen);
        }
        let opened = self.opened(&node)?;
        let capture = node.capture().ok_or(Failure::IsFolder)?;
        let facts = opened.source.facts();
        if let (State::Refused, Some(fault)) = (facts.state, &facts.error) {
            return Err(Failure::Refused(fault.clone()));
        }
        let overrides = &self.options.overrides;
        let shown = Attributes::new(&node, &opened.stat()?, Some(&facts), overrides);
        if capture.is_told_otherwise(&shown) {
            return Err(Failure::Stale);
        }
        self.stats.count(Event::Open);
        self.idle.keep(id, &opened);
        let passable = match self.options.passing {
            Passing::Off => None,
            Passing::Raw => passable(&opened),
        };
        let seat = capture.ways().seat(passable);
        let caching = match seat.kind() {
            Kind::Own => capture.caching(),
            Kind::Passed | Kind::Beside => Caching::Direct,
        };
        let stamp = capture.stamp();
        let number = self.files.open(FileHandle {
            node,
            opened,
            is_direct: caching == Caching::Direct,
            stamp,
            size: facts.size,
            pattern: Arc::default(),
            seat,
        });
        Ok((number, caching))
    }

    /// How bytes are to come to the open capture. Where that is not possible, [`Self::keep_own`] has to be told.
    #[must_use]
    pub fn way(&self, handle: u64) -> Way {
        let Some(handle) = self.files.find(handle) else {
            return Way::Own;
        };
        let file = &handle.opened.file;
        match (handle.seat.kind(), handle.opened.stat()) {
            (Kind::Passed, Ok(stat)) => Way::Passed(Arc::clone(file), number_of(&stat)),
            (Kind::Passed | Kind::Beside, _) => Way::Beside,
            (Kind::Own, _) => Way::Own,
        }
    }

    /// Notes that the handle is not passed, nor beside one that is.
    pub fn keep_own(&self, handle: u64) {
        if let Some(handle) = self.files.find(handle) {
            handle.seat.keep_own();
        }
    }

    /// Counts a handle whose file the kernel reads.
    pub fn count_passed(&self) {
        self.stats.count(Event::Passed);
    }
}

fn number_of(stat: &FileStat) -> FileNumber {
    (stat.st_dev, stat.st_ino)
}

/// The file's number, if the kernel may show the file itself in place of the capture: a raw one under its final name, whose
/// bytes are the capture's whatever they are, and which nobody has written to lately.
fn passable(opened: &Opened) -> Option<FileNumber> {
    let source = &opened.source;
    if source.form() != Form::Raw || source.progress() != Progress::Final {
        return None;
    }
    let stat = opened.stat().ok()?;
    is_at_rest(&stat, SystemTime::now()).then(|| number_of(&stat))
}

/// Whether the last write was [`REST`] before `now`, or earlier. Not the time of change: a rename is no write.
fn is_at_rest(stat: &FileStat, now: SystemTime) -> bool {
    let Ok(secs) = u64::try_from(stat.st_mtime) else {
        // Before 1970.
        return true;
    };
    let written = UNIX_EPOCH.checked_add(Duration::from_secs(secs));
    // A time in the future says nothing.
    written
        .and_then(|written| now.duration_since(written).ok())
        .is_some_and(|age| age > REST)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: Option<FileNumber> = Some((1, 2));
    const OTHER: Option<FileNumber> = Some((1, 3));

    fn kinds(ways: &Arc<Ways>, files: &[Option<FileNumber>]) -> Vec<Kind> {
        let seats: Vec<_> = files.iter().map(|file| ways.seat(*file)).collect();
        seats.iter().map(Seat::kind).collect()
    }

    #[test]
    fn nothing_is_passed_while_a_handle_of_its_own_is_open() {
        let ways: Arc<Ways> = Arc::default();
        assert_eq!(kinds(&ways, &[None, FILE, FILE]), [Kind::Own; 3]);
        assert_eq!(kinds(&ways, &[FILE]), [Kind::Passed], "all were closed");
    }

    #[test]
    fn one_file_is_passed_and_all_else_is_beside_it_until_the_last_is_closed() {
        let ways: Arc<Ways> = Arc::default();
        let first = ways.seat(FILE);
        let beside = ways.seat(OTHER);
        assert_eq!([first.kind(), beside.kind()], [Kind::Passed, Kind::Beside]);
        drop(first);
        let after = [FILE, None, OTHER];
        assert_eq!(
            kinds(&ways, &after),
            [Kind::Passed, Kind::Beside, Kind::Beside]
        );
        drop(beside);
        assert_eq!(kinds(&ways, &[OTHER, FILE]), [Kind::Passed, Kind::Beside]);
        assert_eq!(kinds(&ways, &[None, OTHER]), [Kind::Own; 2]);
    }

    #[test]
    fn a_handle_that_could_not_be_passed_counts_as_one_of_its_own() {
        let ways: Arc<Ways> = Arc::default();
        let first = ways.seat(FILE);
        first.keep_own();
        first.keep_own();
        assert_eq!(kinds(&ways, &[FILE]), [Kind::Own]);
        drop(first);
        assert_eq!(kinds(&ways, &[FILE]), [Kind::Passed]);
    }

    #[test]
    fn a_file_is_at_rest_some_time_after_its_last_write_and_not_before_it() {
        let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut stat = nix::sys::stat::stat(here).expect("the crate's folder is there");
        let now = UNIX_EPOCH + Duration::from_secs(1000);
        for (secs, is_one) in [
            (-5, true),
            (0, true),
            (989, true),
            (990, false),
            (1000, false),
            (1001, false),
            (i64::MAX, false),
        ] {
            stat.st_mtime = secs;
            assert_eq!(is_at_rest(&stat, now), is_one, "{secs}");
        }
    }
}
