//! Captures on a disk that is slow, or fails now and then: who does not need it does not wait for it, readers who are killed
//! leave nothing behind, and an error is not remembered.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "a failed step of a test is a panic"
)]

mod common;
#[path = "faults/errors.rs"]
mod errors;
#[path = "faults/gate.rs"]
mod gate;
#[path = "faults/killed.rs"]
mod killed;
#[path = "faults/slow.rs"]
mod slow;

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use common::day::scratch;
use common::frames::Marked;
use common::mounted::Mounted;
use common::pcap::{Magic, Pcap};
use gate::Gate;
use tempfile::TempDir;

/// Captures on a slow disk, mounted.
struct Scene {
    folder: TempDir,
    gate: Gate,
    mounted: Mounted,
    captures: Vec<(String, Marked)>,
}

impl Scene {
    /// With a capture for each of these names, physical ones; raw ones where the name says so.
    #[track_caller]
    fn new(names: &[&str], options: &str) -> Self {
        let folder = scratch();
        let mut captures = Vec::new();
        for (seed, name) in (1000..).zip(names) {
            let marked = capture(seed);
            let is_zst = name.contains(".zst");
            let bytes = if is_zst {
                &marked.physical
            } else {
                &marked.source
            };
            fs::write(folder.path().join(name), bytes).unwrap();
            captures.push(((*name).to_owned(), marked));
        }
        let gate = Gate::over(folder.path());
        let mounted = Mounted::new(gate.path(), options);
        Self {
            folder,
            gate,
            mounted,
            captures,
        }
    }

    /// The path of a capture in the mount.
    fn path(&self, name: &str) -> PathBuf {
        self.mounted.join(logical(name))
    }

    fn marked(&self, name: &str) -> &Marked {
        let found = self.captures.iter().find(|(own, _)| own == name);
        &found.unwrap().1
    }

    /// The path of a capture on the disk below.
    fn below(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn counter(&self, name: &str) -> u64 {
        self.mounted.counter(name)
    }

    /// Waits until `is_so`: for what the kernel or the mount does behind a program's end, of which nothing tells.
    #[track_caller]
    fn wait_until(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while !is_so(self) {
            assert!(
                Instant::now() < deadline,
                "{what}: it does not come to that"
            );
            std::thread::yield_now();
        }
    }

    /// Mends the disk, and waits until the capture can be read: a read of one who looks ahead may have begun before, and
    /// who wants the same frame meanwhile gets its outcome. How many reads had failed.
    #[track_caller]
    fn mend(&self, name: &str) -> u64 {
        let failed = self.gate.open();
        self.wait_until("it is read again", |scene| {
            fs::read(scene.path(name)).is_ok()
        });
        failed
    }

    /// Descriptors that the mount's program has open.
    fn descriptors(&self) -> usize {
        let folder = format!("/proc/{}/fd", self.mounted.pid());
        fs::read_dir(folder).unwrap().count()
    }

    /// Reads all of a capture through the mount, and checks it.
    #[track_caller]
    fn check_all(&self, name: &str) {
        let got = fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        common::assert_same(&got, &self.marked(name).source, name);
    }

    /// A read of `len` bytes at `offset`, and a check of what it gives.
    fn read(&self, name: &str, offset: usize, len: usize) -> std::io::Result<()> {
        let file = File::open(self.path(name))?;
        let mut got = vec![0; len];
        file.read_exact_at(&mut got, offset as u64)?;
        let wanted = &self.marked(name).source[offset..offset + len];
        common::assert_same(&got, wanted, name);
        Ok(())
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        // Before the mount goes: it cannot end while reads of its own are held.
        self.gate.open();
    }
}

/// 600 KB in frames of 64 KiB.
fn capture(seed: u64) -> Marked {
    Marked::pack(&Pcap::of_size(Magic::LeUs, seed, 600_000), 65_536)
}

/// The name in the mount.
fn logical(name: &str) -> String {
    let name = name.trim_end_matches(".partial");
    name.trim_end_matches(".zst").to_owned()
}
