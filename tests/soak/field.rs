//! What writers and readers share: the captures there are, and what went wrong.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use crate::common::Rng;
use crate::common::growth::{Fault, Frontier, Growth, fault};

/// A capture, from its first byte to its removal.
pub struct Capture {
    /// Its name in the mount.
    pub name: String,
    pub growth: Growth,
    pub frontier: Frontier,
    /// Set after the rename.
    pub is_final: AtomicBool,
    /// Set before it is removed.
    pub is_removed: AtomicBool,
    /// By record: when the write returned that completed it, in nanoseconds since the start; 0 until then.
    pub landed: Vec<AtomicU64>,
    /// The inode number in the mount; 0 until somebody saw it.
    inode: AtomicU64,
}

impl Capture {
    pub fn new(name: String, growth: Growth) -> Self {
        let landed = growth.ends.iter().map(|_| AtomicU64::new(0)).collect();
        Self {
            name,
            growth,
            frontier: Frontier::default(),
            is_final: AtomicBool::new(false),
            is_removed: AtomicBool::new(false),
            landed,
            inode: AtomicU64::new(0),
        }
    }

    pub fn is_removed(&self) -> bool {
        self.is_removed.load(Ordering::SeqCst)
    }

    pub fn is_final(&self) -> bool {
        self.is_final.load(Ordering::SeqCst)
    }

    /// Checks bytes that were read at `offset`; those before `reach` must not be missing.
    pub fn check(&self, got: &[u8], offset: usize, reach: usize) -> Result<(), String> {
        let most = self.frontier.most();
        match fault(&self.growth.truth, got, offset, most, reach) {
            None => Ok(()),
            Some(Fault::Wrong(text)) => Err(format!("wrong: {text}")),
            Some(Fault::Late(text)) => Err(format!("late: {text}")),
        }
    }

    /// Checks size and inode number; `least` was there before it was asked for them.
    pub fn check_attributes(&self, size: u64, inode: u64, least: usize) -> Result<(), String> {
        let most = self.frontier.most();
        let size = usize::try_from(size).unwrap();
        if size < least || size > most {
            return Err(format!("size {size}, must be {least} to {most}"));
        }
        if self.growth.ends.binary_search(&size).is_err() {
            return Err(format!("size {size} is within a record"));
        }
        let known = self
            .inode
            .compare_exchange(0, inode, Ordering::SeqCst, Ordering::SeqCst);
        match known {
            Err(known) if known != inode => Err(format!("inode {inode}, was {known}")),
            _ => Ok(()),
        }
    }
}

/// The place of it all.
pub struct Field {
    pub source: PathBuf,
    pub mnt: PathBuf,
    pub started: Instant,
    /// By writer, the newest last.
    pub captures: Vec<Mutex<Vec<Arc<Capture>>>>,
    pub totals: Totals,
    faults: Mutex<BTreeMap<String, u64>>,
    is_over: Mutex<bool>,
    over: Condvar,
}

/// What was done so far.
#[derive(Default)]
pub struct Totals {
    pub frames: AtomicU64,
    /// Those of them before the end, when the last ones are written without a beat.
    pub paced_frames: AtomicU64,
    pub torn: AtomicU64,
    pub finished: AtomicU64,
    pub removed: AtomicU64,
    pub checked_bytes: AtomicU64,
}

/// Adds to a counter.
pub fn add(counter: &AtomicU64, by: usize) {
    counter.fetch_add(by as u64, Ordering::Relaxed);
}

impl Field {
    pub fn new(source: PathBuf, mnt: PathBuf, writers: usize) -> Self {
        Self {
            source,
            mnt,
            started: Instant::now(),
            captures: (0..writers).map(|_| Mutex::default()).collect(),
            totals: Totals::default(),
            faults: Mutex::default(),
            is_over: Mutex::default(),
            over: Condvar::new(),
        }
    }

    pub fn finish(&self) {
        let frames = self.totals.frames.load(Ordering::Relaxed);
        self.totals.paced_frames.store(frames, Ordering::Relaxed);
        *self.is_over.lock().unwrap() = true;
        self.over.notify_all();
    }

    /// Waits for the end, but no longer than this; whether it has come.
    pub fn is_over_within(&self, time: Duration) -> bool {
        let is_over = self.is_over.lock().unwrap();
        let (is_over, _) = self
            .over
            .wait_timeout_while(is_over, time, |is_over| !*is_over)
            .unwrap();
        *is_over
    }

    pub fn fail(&self, fault: String) {
        let mut faults = self.faults.lock().unwrap();
        // The first hundred tell the story.
        if faults.len() < 100 || faults.contains_key(&fault) {
            *faults.entry(fault).or_default() += 1;
        }
    }

    pub fn faults(&self) -> BTreeMap<String, u64> {
        self.faults.lock().unwrap().clone()
    }

    /// The captures of one writer, the newest last.
    pub fn of(&self, writer: usize) -> Vec<Arc<Capture>> {
        self.captures[writer].lock().unwrap().clone()
    }

    /// The capture that this writer writes at the moment.
    pub fn newest(&self, writer: usize) -> Arc<Capture> {
        Arc::clone(self.captures[writer].lock().unwrap().last().unwrap())
    }

    /// One of all.
    pub fn any(&self, rng: &mut Rng) -> Arc<Capture> {
        let captures = self.of(rng.below(self.captures.len()));
        Arc::clone(&captures[rng.below(captures.len())])
    }

    pub fn nanos(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap()
    }
}
