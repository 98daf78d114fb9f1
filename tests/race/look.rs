//! One look at a growing file by each means.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, pipe};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use super::count::{Count, Kind};
use crate::common::Rng;
use crate::common::growth::{Fault, Frontier, fault};
use crate::common::sys::{self, Map, Sharing};

/// The furthest a look goes back from the end: the last page and the one before.
const BACK: usize = 6000;
/// Bytes that one look asks for at most.
const LONGEST: usize = 8192;
/// A kept handle is replaced after so many looks, so that there are always old and young ones.
const HANDLE_LOOKS: u64 = 4096;

/// What everybody who races for one file shares.
pub struct Ground<'a> {
    pub path: &'a Path,
    pub truth: &'a [u8],
    /// Where the file may end; anywhere when empty.
    pub ends: &'a [usize],
    pub frontier: &'a Frontier,
}

/// A reader of one kind.
pub struct Looker<'a> {
    ground: &'a Ground<'a>,
    kind: Kind,
    rng: Rng,
    file: File,
    map: Option<Map>,
    pipe: (io::PipeReader, io::PipeWriter),
    buffer: Vec<u8>,
    position: usize,
    largest: usize,
    count: Count,
}

impl<'a> Looker<'a> {
    pub fn new(ground: &'a Ground<'a>, kind: Kind, seed: u64) -> Self {
        let file = File::open(ground.path).unwrap();
        Self {
            kind,
            rng: Rng::new(seed),
            map: None,
            file,
            pipe: pipe().unwrap(),
            buffer: vec![0; 65_536],
            position: 0,
            largest: 0,
            count: Count::default(),
            ground,
        }
    }

    /// Looks until the race is finished.
    pub fn run(mut self) -> (Kind, Count) {
        while !self.ground.frontier.is_finished() {
            let wrong = self.count.wrong;
            if let Err(error) = self.look() {
                self.count.failed += 1;
                self.count
                    .first_other
                    .get_or_insert_with(|| error.to_string());
            }
            self.count.looks += 1;
            let frontier = self.ground.frontier;
            frontier
                .looks
                .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            if self.count.wrong > wrong {
                frontier
                    .wrong
                    .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            }
            if self.count.looks.is_multiple_of(HANDLE_LOOKS) && self.kind != Kind::Follow {
                self.map = None;
                self.file = File::open(self.ground.path).unwrap();
            }
        }
        (self.kind, self.count)
    }

    fn look(&mut self) -> io::Result<()> {
        let least = self.ground.frontier.least();
        let offset = least.saturating_sub(self.rng.below(BACK));
        let len = 1 + self.rng.below(LONGEST);
        match self.kind {
            Kind::Follow => {
                let got = self.file.read(&mut self.buffer)?;
                let offset = self.position;
                self.position += got;
                let reach = if got == 0 { least } else { 0 };
                self.judge(got, offset, reach);
            }
            Kind::PreadOld => {
                let got = self.file.read_at(&mut self.buffer[..len], offset as u64)?;
                self.judge(got, offset, least.min(offset + len));
            }
            Kind::PreadNew => {
                let file = File::open(self.ground.path)?;
                let got = file.read_at(&mut self.buffer[..len], offset as u64)?;
                self.judge(got, offset, least.min(offset + len));
            }
            Kind::Stat => {
                let by_path = self.ground.path.metadata()?;
                self.judge_size("stat", by_path.size(), least);
                let by_handle = self.file.metadata()?;
                self.judge_size("fstat", by_handle.size(), least);
                if by_path.ino() != by_handle.ino() {
                    self.wrong(format!(
                        "inode {} by path, {} by handle",
                        by_path.ino(),
                        by_handle.ino()
                    ));
                }
            }
            Kind::SeekEnd => {
                let end = self.file.seek(SeekFrom::End(0))?;
                self.judge_size("SEEK_END", end, least);
            }
            Kind::MapOld | Kind::MapNew => self.look_at_map()?,
            Kind::Splice | Kind::Sendfile => {
                let end = self.file.seek(SeekFrom::End(0))?;
                let offset = usize::try_from(end).unwrap().min(offset);
                self.file.seek(SeekFrom::Start(offset as u64))?;
                let to = self.pipe.1.as_raw_fd();
                let moved = match self.kind {
                    Kind::Splice => sys::splice(&self.file, to, len)?,
                    _ => sys::sendfile(&self.file, to, len)?,
                };
                self.pipe.0.read_exact(&mut self.buffer[..moved])?;
                self.judge(moved, offset, least.min(offset + len));
            }
        }
        Ok(())
    }

    /// The end of the file, as long as fstat says it is, through a map.
    fn look_at_map(&mut self) -> io::Result<()> {
        let size = usize::try_from(self.file.metadata()?.len()).unwrap();
        if size == 0 {
            return Ok(());
        }
        let offset = size - 1 - self.rng.below(BACK.min(size));
        let (map, start) = if self.kind == Kind::MapOld {
            if self.map.is_none() {
                // Pages behind the end are an error to touch until the file has grown over them.
                let whole = self.ground.truth.len();
                self.map = Some(Map::new(&self.file, 0, whole, Sharing::Shared)?);
            }
            (self.map.as_ref().unwrap(), 0)
        } else {
            let start = offset - offset % 4096;
            self.map = Some(Map::new(&self.file, start, size - start, Sharing::Private)?);
            (self.map.as_ref().unwrap(), start)
        };
        let len = size - offset;
        map.copy(offset - start, &mut self.buffer[..len])?;
        self.judge(len, offset, 0);
        Ok(())
    }

    /// Compares the first `len` bytes of the buffer.
    fn judge(&mut self, len: usize, offset: usize, reach: usize) {
        let most = self.ground.frontier.most();
        let got = &self.buffer[..len];
        match fault(self.ground.truth, got, offset, most, reach) {
            None => {}
            Some(Fault::Late(text)) => {
                self.count.late += 1;
                self.count.first_other.get_or_insert(text);
            }
            Some(Fault::Wrong(text)) => self.wrong(text),
        }
    }

    fn judge_size(&mut self, how: &str, size: u64, least: usize) {
        let most = self.ground.frontier.most();
        let size = usize::try_from(size).unwrap();
        let least = least.max(self.largest);
        if size < least {
            self.count.late += 1;
            self.count
                .first_other
                .get_or_insert_with(|| format!("{how}: size {size}, {least} was there before"));
        } else if size > most {
            self.wrong(format!("{how}: size {size}: {most} is all that was there"));
        }
        if !self.ground.ends.is_empty() && self.ground.ends.binary_search(&size).is_err() {
            self.wrong(format!("{how}: size {size} is within a record"));
        }
        self.largest = self.largest.max(size);
    }

    fn wrong(&mut self, text: String) {
        self.count.wrong += 1;
        self.count.first_wrong.get_or_insert(text);
    }
}
