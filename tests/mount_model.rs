//! A real mount shows what the reference model says after every step of random sequences.
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

use std::cell::Cell;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::time::SystemTime;

use common::day::scratch;
use common::mounted::Mounted;
use common::sys::{Listing, attribute};
use model::op::Groups;
use model::reader::{Mode, Opened, Reader, Stat};
use model::{case, check};

const CASES: u32 = 40;
const STEPS_MOST: usize = 25;
/// The number that stands in a listing for one that is not known.
const UNKNOWN_INODE: u64 = 0xFFFF_FFFF;

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

/// One mount, and a folder of its own for each case.
#[track_caller]
fn run(groups: Groups) {
    let source = scratch();
    // A file that is written over under a passed handle is another matter: tests/passthrough.rs.
    let options = if groups.in_place {
        "no_passthrough"
    } else {
        ""
    };
    let mounted = Mounted::new(source.path(), options);
    let number = Cell::new(0);
    check(groups, CASES, STEPS_MOST, |_, steps| {
        let name = format!("case-{}", number.replace(number.get() + 1));
        let folder = source.path().join(&name);
        fs::create_dir(&folder).unwrap();
        let mut reader = MountReader {
            folder: mounted.join(&name),
            files: HashMap::new(),
            opens: 0,
        };
        let outcome = case::run(folder.clone(), &mut reader, steps);
        fs::remove_dir_all(folder).unwrap();
        outcome
    });
    mounted.unmount();
}

/// Asks the kernel, by path.
struct MountReader {
    folder: PathBuf,
    files: HashMap<u64, File>,
    opens: u64,
}

fn errno(error: io::Error) -> i32 {
    error.raw_os_error().unwrap()
}

impl Reader for MountReader {
    fn look_up(&mut self, name: &str) -> Result<Stat, i32> {
        let metadata = fs::metadata(self.folder.join(name)).map_err(errno)?;
        Ok(Stat {
            ino: metadata.ino(),
            size: metadata.len().try_into().unwrap(),
            blocks: metadata.blocks(),
            mtime: metadata.modified().unwrap(),
        })
    }

    fn open(&mut self, name: &str) -> Result<Opened, i32> {
        let file = File::open(self.folder.join(name)).map_err(errno)?;
        let ino = file.metadata().map_err(errno)?.ino();
        self.opens += 1;
        self.files.insert(self.opens, file);
        Ok(Opened {
            handle: self.opens,
            ino,
            mode: Mode::Unknown,
        })
    }

    fn open_known(&mut self, _: u64) -> Option<Result<Opened, i32>> {
        None
    }

    fn stat(&mut self, opened: &Opened) -> Result<usize, i32> {
        let metadata = self.files[&opened.handle].metadata().map_err(errno)?;
        Ok(metadata.len().try_into().unwrap())
    }

    fn read(&mut self, opened: &Opened, from: usize, len: usize) -> Result<Vec<u8>, i32> {
        let mut bytes = vec![0xEE; len];
        let file = &self.files[&opened.handle];
        let got = file.read_at(&mut bytes, from as u64).map_err(errno)?;
        bytes.truncate(got);
        Ok(bytes)
    }

    fn close(&mut self, opened: &Opened) {
        self.files.remove(&opened.handle);
    }

    fn attribute(&mut self, logical: &str, _: u64, name: &str) -> Result<String, i32> {
        let name = format!("user.pcapzst.{name}");
        attribute(&self.folder.join(logical), &name).map_err(errno)
    }

    fn list(&mut self) -> Vec<(String, Option<u64>)> {
        let mut listing = Listing::open(&self.folder).unwrap();
        let entries = std::iter::from_fn(|| listing.entry());
        let mut entries: Vec<_> = entries
            .map(|(name, ino)| {
                let name = String::from_utf8(name).unwrap();
                (name, Some(ino).filter(|ino| *ino != UNKNOWN_INODE))
            })
            .collect();
        entries.sort();
        entries
    }

    fn folder_mtime(&mut self) -> SystemTime {
        fs::metadata(&self.folder).unwrap().modified().unwrap()
    }

    fn forget(&mut self, _: u64) -> bool {
        false
    }

    fn has_one_size(&self) -> bool {
        true
    }

    fn finish(&mut self) -> Result<(), String> {
        Ok(())
    }
}
