//! Analysts: they follow, look here and there, map what is finished, and list.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;
use std::time::Duration;

use super::field::{Capture, Field, add};
use crate::common::Rng;
use crate::common::sys::{Map, Sharing};

/// Time between two looks of a reader: short, and yet not all that the machine has to do.
const BEAT: Duration = Duration::from_millis(1);
/// Handles that a random reader keeps, some of captures that are removed meanwhile.
const KEPT: usize = 6;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Task {
    Tail,
    Random,
    Map,
    Stat,
}

pub const TASKS: [Task; 4] = [Task::Tail, Task::Random, Task::Map, Task::Stat];

/// A reader with one task.
pub struct Reader<'a> {
    field: &'a Field,
    task: Task,
    rng: Rng,
    buffer: Vec<u8>,
    followed: Option<(Arc<Capture>, File, usize)>,
    kept: Vec<(Arc<Capture>, File)>,
}

/// Whether there was something to look at (a capture may be removed meanwhile, which is no fault), or what is wrong.
type Looked = Result<bool, String>;

impl<'a> Reader<'a> {
    pub fn new(field: &'a Field, task: Task, seed: u64) -> Self {
        Self {
            field,
            task,
            rng: Rng::new(seed),
            buffer: vec![0; 128 * 1024],
            followed: None,
            kept: Vec::new(),
        }
    }

    /// Looks until the soak is over; how often it did.
    pub fn run(mut self) -> u64 {
        let mut looks = 0;
        while !self.field.is_over_within(BEAT) {
            let looked = match self.task {
                Task::Tail => self.follow(),
                Task::Random => self.read_anywhere(),
                Task::Map => self.map(),
                Task::Stat => self.stat(),
            };
            match looked {
                Ok(has_looked) => looks += u64::from(has_looked),
                Err(fault) => self.field.fail(format!("{:?}: {fault}", self.task)),
            }
        }
        looks
    }

    /// Reads on from where it is; starts with another capture when this one is read to its end.
    fn follow(&mut self) -> Looked {
        let Some((capture, file, position)) = &mut self.followed else {
            let writer = self.rng.below(self.field.captures.len());
            let capture = self.field.newest(writer);
            let opened = File::open(self.field.mnt.join(&capture.name));
            if let Some(file) = excused(&capture, "open", opened)? {
                self.followed = Some((capture, file, 0));
            }
            return Ok(false);
        };
        let (was_final, least) = (capture.is_final(), capture.frontier.least());
        let got = file
            .read(&mut self.buffer)
            .map_err(failed(capture, "read"))?;
        let offset = *position;
        *position += got;
        add(&self.field.totals.checked_bytes, got);
        let looked = if got > 0 {
            capture.check(&self.buffer[..got], offset, 0)
        } else {
            capture.check(&[], offset, least)
        };
        let looked = looked.map_err(|fault| format!("{}: {fault}", capture.name));
        let is_at_end = got == 0 && was_final;
        if is_at_end && *position != capture.growth.truth.len() {
            self.field
                .fail(format!("{}: ends at {position}", capture.name));
        }
        if is_at_end || looked.is_err() {
            self.followed = None;
        }
        looked.map(|()| true)
    }

    /// Reads any range of any capture, by a new handle or one of those it keeps.
    fn read_anywhere(&mut self) -> Looked {
        if self.kept.len() < KEPT || self.rng.below(20) == 0 {
            let capture = self.field.any(&mut self.rng);
            let opened = File::open(self.field.mnt.join(&capture.name));
            if let Some(file) = excused(&capture, "open", opened)? {
                if self.kept.len() == KEPT {
                    self.kept.remove(0);
                }
                self.kept.push((capture, file));
            }
        }
        if self.kept.is_empty() {
            return Ok(false);
        }
        let (capture, file) = &self.kept[self.rng.below(self.kept.len())];
        let least = capture.frontier.least();
        let offset = self.rng.below(least + 1);
        let len = 1 + self.rng.below(self.buffer.len());
        let mut got = 0;
        // A cached read may stop at a page; a short count is the end only when nothing more comes.
        while got < len {
            let more = file.read_at(&mut self.buffer[got..len], (offset + got) as u64);
            match more.map_err(failed(capture, "pread"))? {
                0 => break,
                more => got += more,
            }
        }
        add(&self.field.totals.checked_bytes, got);
        capture
            .check(&self.buffer[..got], offset, least.min(offset + len))
            .map(|()| true)
            .map_err(|fault| format!("{}: {fault}", capture.name))
    }

    /// Maps a finished capture and reads it through the map.
    fn map(&mut self) -> Looked {
        let capture = self.field.any(&mut self.rng);
        if !capture.is_final() {
            return Ok(false);
        }
        let opened = File::open(self.field.mnt.join(&capture.name));
        let Some(file) = excused(&capture, "open", opened)? else {
            return Ok(false);
        };
        let sharing = [Sharing::Private, Sharing::Shared][self.rng.below(2)];
        let len = capture.growth.truth.len();
        // fstat tells the kernel the last size before pages are touched.
        let size = file.metadata().map_err(failed(&capture, "fstat"))?.len();
        if size != len as u64 {
            return Err(format!("{}: finished, with size {size}", capture.name));
        }
        let map = Map::new(&file, 0, len, sharing).map_err(failed(&capture, "mmap"))?;
        let mut got = vec![0; len];
        map.copy(0, &mut got).map_err(failed(&capture, "page"))?;
        add(&self.field.totals.checked_bytes, len);
        capture
            .check(&got, 0, len)
            .map(|()| true)
            .map_err(|fault| format!("{}: {fault}", capture.name))
    }

    /// Asks for attributes by path; now and then lists the folder.
    fn stat(&mut self) -> Looked {
        if self.rng.below(10) == 0 {
            return self.list();
        }
        let capture = self.field.any(&mut self.rng);
        let least = capture.frontier.least();
        let asked = self.field.mnt.join(&capture.name).metadata();
        let Some(metadata) = excused(&capture, "stat", asked)? else {
            return Ok(false);
        };
        capture
            .check_attributes(metadata.size(), metadata.ino(), least)
            .map(|()| true)
            .map_err(|fault| format!("{}: {fault}", capture.name))
    }

    /// Every capture that is there all the time is listed once, and none twice.
    fn list(&self) -> Looked {
        let writers = 0..self.field.captures.len();
        let before: Vec<_> = writers.flat_map(|writer| self.field.of(writer)).collect();
        let mut seen: BTreeMap<String, u32> = BTreeMap::new();
        for entry in fs::read_dir(&self.field.mnt).map_err(|error| format!("opendir: {error}"))? {
            let name = entry
                .map_err(|error| format!("readdir: {error}"))?
                .file_name();
            *seen.entry(name.into_string().unwrap()).or_default() += 1;
        }
        if let Some((name, times)) = seen.iter().find(|(_, times)| **times > 1) {
            return Err(format!("{name} is listed {times} times"));
        }
        for capture in before {
            if !seen.contains_key(&capture.name) && !capture.is_removed() {
                return Err(format!("{} is not listed", capture.name));
            }
        }
        Ok(true)
    }
}

/// What an access by name gave; nothing when the capture has been removed meanwhile.
fn excused<T>(capture: &Capture, what: &str, outcome: io::Result<T>) -> Result<Option<T>, String> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound && capture.is_removed() => Ok(None),
        Err(error) => Err(failed(capture, what)(error)),
    }
}

fn failed(capture: &Capture, what: &str) -> impl Fn(io::Error) -> String {
    let text = format!("{}: {what}", capture.name);
    move |error| format!("{text}: {error}")
}
