//! Reading ahead: who reads in a row finds frames decoded, who jumps about pays for nothing. Without a mount.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "a failed step of a test is a panic"
)]

mod common;

use std::ffi::OsStr;
use std::fs;
use std::sync::Arc;

use common::day::scratch;
use common::frames::Marked;
use common::pcap::{Magic, Pcap};
use common::{Rng, assert_same};
use pcapzst::capture::{Engine, MAX_FRAME_SIZE};
use pcapzst::tree::census::Asker;
use pcapzst::tree::{Options, ROOT, Tree};
use tempfile::TempDir;

const FRAME: usize = 128 * 1024;

/// A tree with one capture of 24 MiB, and a handle on it.
struct Scene {
    _folder: TempDir,
    source: Vec<u8>,
    frames: usize,
    tree: Tree,
    handle: u64,
}

impl Scene {
    fn new(ending: &str, cache_size: u64) -> Self {
        let folder = scratch();
        let mut pcap = Pcap::new(Magic::LeUs);
        let mut rng = Rng::new(9);
        while pcap.bytes.len() < 24 << 20 {
            pcap.push_udp(&rng.bytes(3000));
        }
        let marked = Marked::pack(&pcap, FRAME);
        fs::write(
            folder.path().join(format!("x.pcap{ending}")),
            &marked.physical,
        )
        .unwrap();
        let engine = Arc::new(Engine::new(cache_size, MAX_FRAME_SIZE));
        let tree = Tree::open(folder.path(), engine, Options::default()).unwrap();
        let id = tree.lookup(ROOT, OsStr::new("x.pcap")).unwrap().id;
        let (handle, _) = tree.open_file(id).unwrap();
        Self {
            _folder: folder,
            source: pcap.bytes,
            frames: marked.frames.len(),
            tree,
            handle,
        }
    }

    /// Reads as an adapter does: what is decoded already, else all the way.
    fn read(&self, offset: usize, len: usize) {
        let wanted = &self.source[offset..][..len.min(self.source.len() - offset)];
        let at = offset as u64;
        let cached = self.tree.read_cached(self.handle, at, len);
        let got = cached.unwrap_or_else(|| self.tree.read(self.handle, at, len).unwrap());
        assert_same(&got.to_vec(), wanted, "what is read");
    }

    fn read_all(&self, step: usize) {
        for offset in (0..self.source.len()).step_by(step) {
            self.read(offset, step);
        }
    }

    fn counter(&self, name: &str) -> usize {
        let stats: serde_json::Value =
            serde_json::from_str(&self.tree.stats_json(Asker::Owner)).unwrap();
        usize::try_from(stats[name].as_u64().unwrap()).unwrap()
    }
}

#[test]
fn who_reads_in_a_row_decodes_each_frame_once() {
    for step in [4096, 100_000, 1 << 20] {
        let scene = Scene::new(".zst", 256 << 20);
        scene.read_all(step);
        let decodes = scene.counter("decodes");
        let ahead = scene.counter("ahead_decodes");
        assert!(ahead > 0, "nothing read ahead in steps of {step}");
        // One that a reader overtakes is decoded for nothing now and then.
        let most = scene.frames + scene.frames / 10;
        assert!(
            (scene.frames..=most).contains(&decodes),
            "{decodes} decodes in steps of {step}"
        );
    }
}

#[test]
fn who_jumps_about_decodes_what_he_asks_for_and_nothing_else() {
    let scene = Scene::new(".zst", 256 << 20);
    // Every thirtieth frame: each once, and far from the one before.
    for number in 0..scene.frames {
        let frame = number * 67 % scene.frames;
        scene.read((frame * FRAME).min(scene.source.len() - 4096), 1);
    }
    assert!(scene.counter("decodes") <= scene.frames + 1);
    assert_eq!(scene.counter("ahead_decodes"), 0);
    let scene = Scene::new(".zst", 256 << 20);
    for number in 0..50 {
        let frame = number * 67 % scene.frames;
        scene.read((frame * FRAME).min(scene.source.len() - 4096), 1);
    }
    let decodes = scene.counter("decodes");
    assert!(decodes <= 50, "{decodes} frames for 50 reads");
}

#[test]
fn frames_behind_a_page_cached_reader_are_given_up_and_those_behind_a_direct_one_stay() {
    let passing = Scene::new(".zst", 256 << 20);
    passing.read_all(1 << 20);
    let growing = Scene::new(".zst.partial", 256 << 20);
    growing.read_all(1 << 20);
    let bytes = passing.counter("cache_bytes");
    assert!(
        bytes < 20 << 20,
        "{bytes} bytes kept behind one that passed"
    );
    let bytes = growing.counter("cache_bytes");
    assert!(
        bytes > 24 << 20,
        "only {bytes} bytes kept of one that grows"
    );
}

#[test]
fn with_next_to_no_cache_all_bytes_come_all_the_same() {
    for cache_size in [400 * 1024, 2 << 20] {
        let scene = Scene::new(".zst", cache_size);
        scene.read_all(300_000);
        assert!(scene.counter("cache_bytes") as u64 <= cache_size);
    }
}
