//! One capture on disk, and a folder for what is kept of it.

use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pcapzst::capture::index::{INDEX_BYTES, Index, IndexStats};
use pcapzst::capture::read_at::ReadAt;
use pcapzst::capture::stamp::Stamp;
use pcapzst::capture::{Engine, Facts, Form, OnFault, Progress, Source, State};
use tempfile::TempDir;

use crate::common::assert_same;
use crate::common::day::scratch;
use crate::common::frames::Marked;
use crate::common::pcap::{Magic, Pcap};
use crate::entry::settle;

/// A file whose reads are counted.
pub struct Counted {
    file: File,
    pub reads: AtomicU64,
}

impl ReadAt for Counted {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.file.read_at(buf, offset)
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn stamp(&self) -> io::Result<Option<Stamp>> {
        self.file.stamp()
    }
}

/// A capture on disk, and a folder for tables.
pub struct Bench {
    pub folder: TempDir,
    pub marked: Marked,
}

impl Bench {
    pub fn new(seed: u64, records: usize) -> Self {
        Self::of(Marked::pack(
            &Pcap::random(Magic::LeUs, seed, records),
            2000,
        ))
    }

    pub fn of(marked: Marked) -> Self {
        let folder = scratch();
        let bench = Self { folder, marked };
        fs::create_dir(bench.folder.path().join("source")).unwrap();
        fs::write(bench.capture(), &bench.marked.physical).unwrap();
        settle(&bench.capture());
        bench
    }

    pub fn source(&self) -> PathBuf {
        self.folder.path().join("source")
    }

    pub fn capture(&self) -> PathBuf {
        self.source().join("a.pcap.zst")
    }

    pub fn index(&self) -> PathBuf {
        self.folder.path().join("index")
    }

    /// The only entry there is.
    pub fn entry(&self) -> PathBuf {
        let mut entries = fs::read_dir(self.index()).unwrap();
        let entry = entries.next().unwrap().unwrap().path();
        assert!(entries.next().is_none());
        entry
    }

    pub fn engine(&self) -> Arc<Engine> {
        let index = Index::open(&self.index(), INDEX_BYTES).unwrap();
        Arc::new(Engine::default().with_index(Some(index)))
    }

    /// Opens the capture, and waits until what is kept of it is written.
    pub fn open(&self, engine: &Arc<Engine>) -> (Source, Arc<Counted>) {
        self.open_as(engine, Progress::Final)
    }

    pub fn open_as(&self, engine: &Arc<Engine>, progress: Progress) -> (Source, Arc<Counted>) {
        let file = Arc::new(Counted {
            file: File::open(self.capture()).unwrap(),
            reads: AtomicU64::new(0),
        });
        let source = Source::open(
            Arc::clone(engine),
            Box::new(Arc::clone(&file)),
            Form::Zst,
            progress,
        )
        .unwrap();
        engine.finish(Duration::from_secs(20));
        (source, file)
    }

    /// Opens the capture with an engine of its own, reads all of it and checks the bytes: facts and counters then.
    #[track_caller]
    pub fn check(&self, what: &str) -> (Facts, IndexStats) {
        let engine = self.engine();
        let (source, _) = self.open(&engine);
        assert_same(&read_all(&source), &self.marked.source, what);
        engine.finish(Duration::from_secs(20));
        let facts = source.facts();
        assert_eq!(facts.state, State::Complete, "{what}: {:?}", facts.error);
        assert_eq!(facts.size, self.marked.source.len() as u64, "{what}");
        (facts, engine.index_stats())
    }
}

pub fn read_all(source: &Source) -> Vec<u8> {
    let mut got = Vec::new();
    loop {
        let bytes = source.read(got.len() as u64, 5000, OnFault::Fail).unwrap();
        if bytes.is_empty() {
            return got;
        }
        got.extend_from_slice(&bytes);
    }
}

pub fn stats(hits: u64, misses: u64, drops: u64) -> IndexStats {
    IndexStats {
        hits,
        misses,
        drops,
    }
}
