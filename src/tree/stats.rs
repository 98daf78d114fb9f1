//! What the tree has done since it was mounted: the counters behind `pcapzst status`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use serde_json::json;

use super::census::Census;
use crate::capture::cache::CacheStats;
use crate::capture::index::IndexStats;

/// Counters; each only grows.
#[derive(Debug)]
pub struct Stats {
    started: Instant,
    lookups: AtomicU64,
    opens: AtomicU64,
    passed: AtomicU64,
    reads: AtomicU64,
    read_bytes: AtomicU64,
    refused: AtomicU64,
    damaged: AtomicU64,
}

/// An event that is counted.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// A name was looked up.
    Lookup,
    /// A capture was opened.
    Open,
    /// One of them was left to the kernel to read.
    Passed,
    /// So many source bytes were read.
    Read(usize),
    /// A capture was found to be refused; once for each inode.
    Refused,
    /// A capture was found to be damaged; once for each inode.
    Damaged,
}

/// What is there at the moment, beside the counters.
#[derive(Debug)]
pub struct Gauges {
    /// Open file handles.
    pub open_files: usize,
    /// Inodes that the kernel knows.
    pub inodes: usize,
    /// The frame cache.
    pub cache: CacheStats,
    /// Frame tables kept between mounts.
    pub index: IndexStats,
    /// The captures among the inodes.
    pub census: Census,
}

impl Default for Stats {
    fn default() -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            started: Instant::now(),
            lookups: zero(),
            opens: zero(),
            passed: zero(),
            reads: zero(),
            read_bytes: zero(),
            refused: zero(),
            damaged: zero(),
        }
    }
}

impl Stats {
    /// Counts one event.
    pub fn count(&self, event: Event) {
        let (counter, by) = match event {
            Event::Lookup => (&self.lookups, 1),
            Event::Open => (&self.opens, 1),
            Event::Passed => (&self.passed, 1),
            Event::Read(bytes) => {
                self.read_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
                (&self.reads, 1)
            }
            Event::Refused => (&self.refused, 1),
            Event::Damaged => (&self.damaged, 1),
        };
        counter.fetch_add(by, Ordering::Relaxed);
    }

    /// The counters as one JSON object; its keys are documented in docs/SEMANTICS.md and do not change.
    #[must_use]
    pub fn to_json(&self, gauges: Gauges) -> String {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let states = gauges.census.states();
        let (faults, faults_left_out) = gauges.census.into_faults();
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "uptime_secs": self.started.elapsed().as_secs(),
            "open_files": gauges.open_files,
            "inodes": gauges.inodes,
            "lookups": of(&self.lookups),
            "opens": of(&self.opens),
            "passthrough_opens": of(&self.passed),
            "reads": of(&self.reads),
            "read_bytes": of(&self.read_bytes),
            "decodes": gauges.cache.decodes,
            "ahead_decodes": gauges.cache.ahead,
            "ahead_used": gauges.cache.ahead_used,
            "ahead_wasted": gauges.cache.ahead_wasted,
            "cache_hits": gauges.cache.hits,
            "cache_joins": gauges.cache.joins,
            "cache_bytes": gauges.cache.used_bytes,
            "cache_budget_bytes": gauges.cache.budget_bytes,
            "index_hits": gauges.index.hits,
            "index_misses": gauges.index.misses,
            "index_drops": gauges.index.drops,
            "refused": of(&self.refused),
            "damaged": of(&self.damaged),
            "states": states,
            "faults": faults,
            "faults_left_out": faults_left_out,
        })
        .to_string()
    }
}
