//! Reads that wait for the disk, and all else that does not.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use pcapzst::tree::{Caching, ROOT, Tree};

use crate::Scene;
use crate::common::sys::attribute;
use crate::common::{assert_same, names, pcapzst, run, tool};
use crate::gate::Rule;

/// Where the bodies begin that are held: behind the first frame's.
const BODIES: usize = 60_000;
/// Where is read: in a body that is held.
const AT: usize = 300_000;
/// Threads of the mount that read (`src/fuse/adapter.rs`): as many reads reach the disk at once, at least.
const READS: usize = 16;

fn files(kind: &str, count: usize) -> Vec<String> {
    (0..count)
        .map(|number| format!("{kind}-{number:02}.pcap.zst"))
        .collect()
}

/// How long looks took, kind by kind.
#[derive(Default)]
struct Looks(BTreeMap<&'static str, Vec<Duration>>);

impl Looks {
    fn timed(&mut self, kind: &'static str, look: impl FnOnce()) {
        let begin = Instant::now();
        look();
        self.0.entry(kind).or_default().push(begin.elapsed());
    }

    /// The median of each kind.
    fn usual(self) -> BTreeMap<&'static str, Duration> {
        let median = |mut looks: Vec<Duration>| {
            looks.sort_unstable();
            looks[looks.len() / 2]
        };
        let kinds = self.0.into_iter();
        kinds.map(|(kind, looks)| (kind, median(looks))).collect()
    }
}

/// Lists the mount, looks at captures that were looked at before, and reads what is decoded.
fn look(scene: &Scene, slow: &[String], known: &[String], before: &[fs::Metadata]) -> Looks {
    let mut looks = Looks::default();
    let mount = scene.mounted.path();
    for _ in 0..5 {
        looks.timed("listing", || assert_eq!(names(mount).len(), 48));
        looks.timed("ls -l", || drop(run(tool("ls").arg("-l").arg(mount)).ok()));
        looks.timed("status", || {
            drop(run(pcapzst().arg("status").arg(mount)).ok());
        });
        looks.timed("a name that is not there", || {
            assert!(!scene.mounted.join("missing.pcap").exists());
        });
    }
    for (name, before) in slow.iter().chain(known).zip(before) {
        let path = scene.path(name);
        looks.timed("stat", || {
            let now = fs::metadata(&path).unwrap();
            assert_eq!((now.len(), now.ino()), (before.len(), before.ino()));
        });
        let state = "user.pcapzst.state";
        looks.timed("attribute", || {
            assert_eq!(attribute(&path, state).unwrap(), "complete");
        });
        looks.timed("open", || drop(File::open(&path).unwrap()));
    }
    for name in known {
        looks.timed("read", || scene.read(name, AT, 5000).unwrap());
    }
    looks
}

#[test]
fn while_32_cold_reads_wait_names_sizes_and_what_is_decoded_are_there_at_once() {
    let (slow, known, cold) = (files("slow", 32), files("known", 8), files("cold", 8));
    let all: Vec<&str> = [&slow, &known, &cold]
        .into_iter()
        .flatten()
        .map(String::as_str)
        .collect();
    let scene = Scene::new(&all, "");
    let before: Vec<_> = slow
        .iter()
        .chain(&known)
        .map(|name| fs::metadata(scene.path(name)).unwrap())
        .collect();
    for name in &known {
        scene.check_all(name);
    }
    let undisturbed = look(&scene, &slow, &known, &before).usual();
    for name in &slow {
        // An open before the first read of a capture's pages drops those that are on their way: it waits for them.
        scene.read(name, 0, 100).unwrap();
        scene.gate.set(name, BODIES, Rule::Hold);
    }
    thread::scope(|threads| {
        let scene = &scene;
        let readers: Vec<_> = slow
            .iter()
            .map(|name| threads.spawn(move || scene.read(name, AT, 5000)))
            .collect();
        scene.gate.wait_for(READS);

        let mut walks = Looks::default();
        for name in &cold {
            walks.timed("the first stat", || {
                let size = fs::metadata(scene.path(name)).unwrap().len();
                assert_eq!(size, scene.marked(name).source.len() as u64);
            });
        }
        // The machine may be busy, as it was before; the disk holds what it holds until all of this is done.
        let least = Duration::from_millis(200);
        for (kind, took) in look(scene, &slow, &known, &before).usual() {
            let (before, most) = (undisturbed[kind], least + 5 * undisturbed[kind]);
            assert!(took < most, "{kind}: {took:?}, and {before:?} before");
        }
        for (kind, took) in walks.usual() {
            let most = least + 5 * undisturbed["ls -l"];
            assert!(took < most, "{kind}: {took:?}");
        }
        assert!(readers.iter().all(|reader| !reader.is_finished()));
        scene.gate.open();
        for reader in readers {
            reader.join().unwrap().unwrap();
        }
    });
    scene.wait_until("all are closed", |scene| scene.counter("open_files") == 0);
}

#[test]
fn one_read_that_waits_holds_up_no_read_of_another_capture_nor_another_of_its_own() {
    let names = [
        "slow.pcap.zst",
        "other.pcap.zst",
        "raw.pcap",
        "grows.pcap.zst.partial",
    ];
    let scene = Scene::new(&names, "");
    let slow = scene.marked(names[0]);
    // The last frame is held.
    let last = slow.frames.last().unwrap().clone();
    fs::metadata(scene.path(names[0])).unwrap();
    scene.gate.set(names[0], last.1.start, Rule::Hold);
    thread::scope(|threads| {
        let scene = &scene;
        let reader = threads.spawn(move || scene.read(names[0], last.0.start + 10, 100));
        scene.gate.wait_for(1);
        for name in &names[1..] {
            scene.check_all(name);
        }
        scene.read(names[0], 0, 50_000).unwrap();
        assert!(!reader.is_finished());
        scene.gate.open();
        reader.join().unwrap().unwrap();
    });
}

#[test]
fn who_asks_for_a_frame_that_is_being_read_waits_for_that_read_and_makes_none_of_his_own() {
    let scene = Scene::new(&["one.pcap.zst"], "");
    fs::metadata(scene.path("one.pcap.zst")).unwrap();
    let frame = scene.marked("one.pcap.zst").frames[1].clone();
    scene.gate.set("one.pcap.zst", frame.1.start, Rule::Hold);
    let before = scene.counter("decodes");
    thread::scope(|threads| {
        let scene = &scene;
        let at = frame.0.start + 100;
        let readers: Vec<_> = (0..8)
            .map(|number| {
                threads.spawn(move || {
                    let file = open_direct(&scene.path("one.pcap.zst"));
                    let mut got = [0; 64];
                    let at = at + number * 64;
                    file.read_exact_at(&mut got, at as u64).unwrap();
                    let wanted = &scene.marked("one.pcap.zst").source[at..at + 64];
                    assert_same(&got, wanted, "a part of the frame");
                })
            })
            .collect();
        scene.gate.wait_for(1);
        scene.wait_until("others join", |scene| scene.counter("cache_joins") >= 7);
        scene.gate.open();
        for reader in readers {
            reader.join().unwrap();
        }
    });
    assert_eq!(scene.counter("decodes"), before + 1);
}

#[test]
fn an_open_behind_a_read_of_pages_that_was_sent_does_not_wait_for_it_in_the_kernel() {
    let scene = Scene::new(&["one.pcap.zst"], "");
    let options = pcapzst::tree::Options::default();
    let engine = Arc::new(pcapzst::capture::Engine::default());
    let tree = Tree::open(scene.folder.path(), engine, options).unwrap();
    let id = tree.lookup(ROOT, OsStr::new("one.pcap")).unwrap().id;
    // The first one drops whatever pages there were; in the kernel that waits for those that are being read.
    let (first, caching) = tree.open_file(id).unwrap();
    assert_eq!(caching, Caching::Fresh);
    tree.note_paged(first);
    // The read is not answered yet, and may wait behind others for long.
    let (_, caching) = tree.open_file(id).unwrap();
    assert_eq!(caching, Caching::Keep);
}

/// Past the page cache, or the kernel would have one read wait for the other.
fn open_direct(path: &Path) -> File {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = File::options();
    options.read(true).custom_flags(libc::O_DIRECT);
    options.open(path).unwrap()
}
