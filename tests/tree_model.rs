//! The tree, without FUSE, shows what the reference model says after every step of thousands of random sequences.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::needless_pass_by_value,
    missing_docs,
    unreachable_pub,
    reason = "a failed step of a test is a panic, and `map_err` hands errors over by value"
)]

mod common;
mod model;

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use common::day::scratch;
use model::ideal::Ideal;
use model::op::{Groups, Step};
use model::reader::{Mode, Opened, Reader, Stat};
use model::{case, check};
use pcapzst::capture::{Engine, MAX_FRAME_SIZE};
use pcapzst::tree::attr::{Attributes, Time};
use pcapzst::tree::census::Asker;
use pcapzst::tree::errno::Failure;
use pcapzst::tree::{Caching, Options, ROOT, Tree};

const CASES: u32 = 2000;
const STEPS_MOST: usize = 40;
/// The smallest unit of the page cache.
const PAGE: usize = 4096;
/// Cache budgets in bytes and captures kept open, for one case after the other: plenty, and next to nothing.
const BUDGETS: [(u64, usize); 4] = [
    (256 * 1024 * 1024, 64),
    (256 * 1024 * 1024, 1),
    (512 * 1024, 64),
    (512 * 1024, 0),
];

#[test]
fn growing_renamed_and_replaced_captures_are_as_the_model_says() {
    run(Groups {
        restarts: false,
        in_place: false,
    });
}

#[test]
fn captures_of_restarted_writers_are_as_the_model_says() {
    run(Groups {
        restarts: true,
        in_place: false,
    });
}

#[test]
fn captures_written_over_in_place_are_as_the_model_says() {
    run(Groups {
        restarts: false,
        in_place: true,
    });
}

#[test]
fn captures_of_writers_of_all_kinds_are_as_the_model_says() {
    run(Groups {
        restarts: true,
        in_place: true,
    });
}

#[test]
fn the_model_agrees_with_a_reader_that_decodes_everything_at_every_look() {
    let groups = Groups {
        restarts: true,
        in_place: true,
    };
    check(groups, CASES, STEPS_MOST, |_, steps| {
        let folder = scratch();
        let mut reader = Ideal::new(folder.path().to_path_buf());
        case::run(folder.path().to_path_buf(), &mut reader, steps)
    });
}

#[track_caller]
fn run(groups: Groups) {
    check(groups, CASES, STEPS_MOST, replay);
}

/// Does the steps before a tree of its own, with this of the `BUDGETS`.
fn replay(budget: usize, steps: &[Step]) -> Result<(), String> {
    let folder = scratch();
    let mut reader = TreeReader::new(folder.path(), BUDGETS[budget]);
    case::run(folder.path().to_path_buf(), &mut reader, steps)
}

/// Asks the tree as the kernel would.
struct TreeReader {
    tree: Tree,
    /// Look-ups of each inode that are not forgotten.
    lookups: HashMap<u64, u64>,
    folder: u64,
}

impl TreeReader {
    fn new(folder: &Path, (cache_size, idle_files): (u64, usize)) -> Self {
        let engine = Arc::new(Engine::new(cache_size, MAX_FRAME_SIZE));
        let options = Options {
            idle_files,
            ..Options::default()
        };
        let tree = Tree::open(folder, engine, options).unwrap();
        let folder = tree.open_folder(ROOT).unwrap();
        Self {
            tree,
            lookups: HashMap::new(),
            folder,
        }
    }

    fn counted(&mut self, name: &str) -> Result<Attributes, Failure> {
        let attributes = self.tree.lookup(ROOT, OsStr::new(name))?;
        *self.lookups.entry(attributes.id).or_default() += 1;
        Ok(attributes)
    }

    fn opened(&self, ino: u64) -> Result<Opened, Failure> {
        let (handle, caching) = self.tree.open_file(ino)?;
        let mode = match caching {
            Caching::Direct => Mode::Direct,
            Caching::Fresh => Mode::Fresh,
            Caching::Keep => Mode::Keep,
        };
        Ok(Opened { handle, ino, mode })
    }
}

fn errno(failure: Failure) -> i32 {
    failure.errno()
}

fn time((secs, nanos): Time) -> SystemTime {
    UNIX_EPOCH + Duration::new(secs.try_into().unwrap(), nanos)
}

impl Reader for TreeReader {
    fn look_up(&mut self, name: &str) -> Result<Stat, i32> {
        let attributes = self.counted(name).map_err(errno)?;
        Ok(Stat {
            ino: attributes.id,
            size: attributes.size.try_into().unwrap(),
            blocks: attributes.blocks,
            mtime: time(attributes.mtime),
        })
    }

    fn open(&mut self, name: &str) -> Result<Opened, i32> {
        let ino = self.counted(name).map_err(errno)?.id;
        match self.opened(ino) {
            // The kernel's answer to ESTALE: once more, from the name on.
            Err(Failure::Stale) => {
                let ino = self.counted(name).map_err(errno)?.id;
                self.opened(ino).map_err(errno)
            }
            outcome => outcome.map_err(errno),
        }
    }

    fn open_known(&mut self, ino: u64) -> Option<Result<Opened, i32>> {
        Some(self.opened(ino).map_err(errno))
    }

    fn stat(&mut self, opened: &Opened) -> Result<usize, i32> {
        let attributes = self.tree.getattr(opened.ino, Some(opened.handle));
        Ok(attributes.map_err(errno)?.size.try_into().unwrap())
    }

    fn read(&mut self, opened: &Opened, from: usize, len: usize) -> Result<Vec<u8>, i32> {
        let from = from as u64;
        if let Some(bytes) = self.tree.read_cached(opened.handle, from, len) {
            return Ok(bytes.to_vec());
        }
        let bytes = match self.tree.read(opened.handle, from, len) {
            // Through its page cache the kernel repeats page by page what failed as a whole.
            Err(failure) if failure.errno() == libc::EIO && opened.mode != Mode::Direct => {
                let page = PAGE - usize::try_from(from).unwrap() % PAGE;
                self.tree.read(opened.handle, from, len.min(page))
            }
            outcome => outcome,
        };
        Ok(bytes.map_err(errno)?.to_vec())
    }

    fn close(&mut self, opened: &Opened) {
        self.tree.release(opened.handle);
    }

    fn attribute(&mut self, _: &str, ino: u64, name: &str) -> Result<String, i32> {
        let name = format!("user.pcapzst.{name}");
        let value = self
            .tree
            .attribute(ino, OsStr::new(&name), Asker::Owner)
            .map_err(errno)?;
        Ok(String::from_utf8(value).unwrap())
    }

    fn list(&mut self) -> Vec<(String, Option<u64>)> {
        let listing = self.tree.list(self.folder, true).unwrap();
        let entry = |entry: &pcapzst::tree::handle::FolderEntry| {
            (entry.name.to_str().unwrap().to_owned(), entry.id)
        };
        listing.iter().map(entry).collect()
    }

    fn folder_mtime(&mut self) -> SystemTime {
        time(self.tree.getattr(ROOT, None).unwrap().mtime)
    }

    fn forget(&mut self, ino: u64) -> bool {
        if let Some(lookups) = self.lookups.remove(&ino) {
            self.tree.forget(ino, lookups);
        }
        true
    }

    fn has_one_size(&self) -> bool {
        false
    }

    fn finish(&mut self) -> Result<(), String> {
        for (ino, lookups) in std::mem::take(&mut self.lookups) {
            self.tree.forget(ino, lookups);
        }
        let stats: serde_json::Value =
            serde_json::from_str(&self.tree.stats_json(Asker::Owner)).unwrap();
        if stats["inodes"] != 0 || stats["open_files"] != 0 {
            return Err(format!("left in the end: {stats}"));
        }
        Ok(())
    }
}
