//! Captures kept open though no handle is, and what has been told already: both bounded.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use lru::LruCache;

use super::opened::Opened;
use crate::capture::sync::lock;

/// Memory for frame tables of captures that nobody has open.
const TABLE_BYTES_MOST: usize = 16 * 1024 * 1024;
/// Inodes whose fault is remembered as told.
const TOLD_MOST: usize = 4096;

/// Captures kept open for the next reader, least recently used dropped first: bounded in descriptors and table memory.
#[derive(Debug)]
pub struct Idle {
    most: usize,
    table_bytes_most: usize,
    /// Counts the captures kept.
    turn: AtomicUsize,
    kept: Mutex<Kept>,
}

#[derive(Debug)]
struct Kept {
    captures: LruCache<u64, Capture>,
    /// Of all captures.
    table_bytes: usize,
}

#[derive(Debug)]
struct Capture {
    opened: Arc<Opened>,
    /// As large as its table was when it was kept last; one that grows is kept again whenever somebody looks.
    table_bytes: usize,
}

impl Default for Kept {
    fn default() -> Self {
        Self {
            captures: LruCache::unbounded(),
            table_bytes: 0,
        }
    }
}

impl Kept {
    fn put(&mut self, id: u64, capture: Capture) -> Option<Capture> {
        self.table_bytes += capture.table_bytes;
        let before = self.captures.put(id, capture);
        self.uncount(before)
    }

    fn pop_lru(&mut self) -> Option<Capture> {
        let oldest = self.captures.pop_lru().map(|(_, capture)| capture);
        self.uncount(oldest)
    }

    fn uncount(&mut self, capture: Option<Capture>) -> Option<Capture> {
        capture.inspect(|capture| self.table_bytes -= capture.table_bytes)
    }
}

impl Idle {
    /// A list of at most `most` captures, whatever their tables take up to 16 MiB.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self {
            most,
            table_bytes_most: TABLE_BYTES_MOST,
            turn: AtomicUsize::new(0),
            kept: Mutex::default(),
        }
    }

    /// Keeps `opened`, the capture of the inode with number `id`, as the most recently used.
    pub fn keep(&self, id: u64, opened: &Arc<Opened>) {
        let mut dropped = Vec::new();
        let capture = Capture {
            opened: Arc::clone(opened),
            table_bytes: opened.source.table_bytes(),
        };
        let looked_at = {
            let mut kept = lock(&self.kept);
            dropped.extend(kept.put(id, capture));
            // One stays whatever its table takes: it is in use at this moment, and would be walked again at once.
            while kept.captures.len() > self.most
                || kept.captures.len() > 1 && kept.table_bytes > self.table_bytes_most
            {
                let Some(oldest) = kept.pop_lru() else {
                    break;
                };
                dropped.push(oldest);
            }
            let turn = self.turn.fetch_add(1, Ordering::Relaxed) % kept.captures.len().max(1);
            let looked_at = kept.captures.iter().nth(turn);
            looked_at.map(|(id, capture)| (*id, Arc::clone(&capture.opened)))
        };
        // One is looked at each time, in turn: what was removed in SOURCE does not stay on disk for our sake.
        if let Some((id, opened)) = looked_at
            && opened.is_gone()
        {
            dropped.extend(self.remove(id, &opened));
        }
        // Descriptors are closed here, not under the lock.
        drop(dropped);
    }

    fn remove(&self, id: u64, opened: &Arc<Opened>) -> Option<Capture> {
        let mut kept = lock(&self.kept);
        let is_this = |capture: &Capture| Arc::ptr_eq(&capture.opened, opened);
        let is_kept = kept.captures.peek(&id).is_some_and(is_this);
        let capture = is_kept.then(|| kept.captures.pop(&id)).flatten();
        kept.uncount(capture)
    }

    /// Lets go of all: descriptors are short.
    pub fn clear(&self) {
        let kept = std::mem::take(&mut *lock(&self.kept));
        drop(kept);
    }
}

/// What was logged once and need not be again. Forgets the oldest, so that it stays small.
#[derive(Debug)]
pub struct Told(Mutex<LruCache<u64, ()>>);

impl Default for Told {
    fn default() -> Self {
        Self(Mutex::new(LruCache::unbounded()))
    }
}

impl Told {
    /// Whether `what` was not told before; from now on it was.
    pub fn is_first(&self, what: u64) -> bool {
        let mut told = lock(&self.0);
        let is_first = told.put(what, ()).is_none();
        if told.len() > TOLD_MOST {
            told.pop_lru();
        }
        is_first
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use nix::sys::stat::fstat;

    use super::*;
    use crate::capture::{Engine, Form, Progress, Source};
    use crate::format::marker;

    /// A capture of `frames` frames, which its file, this program's own, does not hold: nobody looks there.
    fn capture(engine: &Arc<Engine>, frames: usize) -> Arc<Opened> {
        let frame = |content: &[u8]| {
            let mut compressor = zstd::bulk::Compressor::new(1).expect("a context");
            compressor.include_checksum(true).expect("an option");
            compressor.compress(content).expect("room")
        };
        let header = *b"\xD4\xC3\xB2\xA1\x02\0\x04\0\0\0\0\0\0\0\0\0\0\0\x04\0\x01\0\0\0";
        let mut bytes = [&marker::FRAME[..], &frame(&header)].concat();
        bytes.extend(frame(&[0; 16]).repeat(frames));
        let source = Source::open(
            Arc::clone(engine),
            Box::new(bytes),
            Form::Zst,
            Progress::Final,
        )
        .expect("in memory");
        assert_eq!(source.facts().frames, frames as u64);
        let file = File::open("/proc/self/exe").expect("procfs");
        let stat = fstat(&file).expect("an open file");
        Arc::new(Opened::new(source, Arc::new(file), &stat))
    }

    fn kept(idle: &Idle) -> Vec<u64> {
        let mut ids: Vec<_> = lock(&idle.kept)
            .captures
            .iter()
            .map(|(id, _)| *id)
            .collect();
        ids.sort_unstable();
        ids
    }

    #[test]
    fn tables_of_idle_captures_stay_within_their_bytes_and_the_one_in_use_stays() {
        let engine = Arc::new(Engine::default());
        let idle = Idle {
            table_bytes_most: 300_000,
            ..Idle::new(64)
        };
        // 8192 frames of 16 bytes are 128 KiB.
        for id in 1..=5 {
            idle.keep(id, &capture(&engine, 8192));
        }
        assert_eq!(kept(&idle), [4, 5]);
        let large = capture(&engine, 20_000);
        assert!(large.source.table_bytes() > 300_000);
        idle.keep(6, &large);
        assert_eq!(kept(&idle), [6]);
        idle.keep(7, &capture(&engine, 1));
        assert_eq!(kept(&idle), [7]);
    }

    #[test]
    fn captures_are_kept_up_to_the_number_of_descriptors_and_let_go_of_at_once() {
        let engine = Arc::new(Engine::default());
        let idle = Idle::new(3);
        let opened = capture(&engine, 1);
        for id in [1, 2, 3, 1, 4] {
            idle.keep(id, &opened);
        }
        assert_eq!(kept(&idle), [1, 3, 4]);
        idle.clear();
        assert_eq!(Arc::strong_count(&opened), 1);
    }
}
