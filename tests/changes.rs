//! Names that come, go and change hands in the source, and the looks that follow at once: no answer is from before.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "a failed step of a test is a panic"
)]

mod common;

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use common::day::{Day, scratch};
use common::frames::Marked;
use common::live::Live;
use common::mounted::Mounted;
use common::pcap::{Magic, Pcap};
use common::sys::{self, Listing, attribute};
use common::{assert_same, names, run, tool};

/// Whoever is waited for longer than this hangs.
const PATIENCE: Duration = Duration::from_secs(30);

const ENDINGS: [&str; 4] = ["", ".zst", ".partial", ".zst.partial"];

/// What a file of this form holds.
fn physical(ending: &str, pcap: &Pcap) -> Vec<u8> {
    if ending.contains(".zst") {
        Marked::pack(pcap, 20_000).physical
    } else {
        pcap.bytes.clone()
    }
}

fn at(folder: &Path, ending: &str) -> PathBuf {
    folder.join(format!("x.pcap{ending}"))
}

fn len(path: &Path) -> usize {
    fs::metadata(path).unwrap().len().try_into().unwrap()
}

fn append(file: &Path, bytes: &[u8]) {
    let mut file = OpenOptions::new().append(true).open(file).unwrap();
    file.write_all(bytes).unwrap();
}

fn replace(file: &Path, bytes: &[u8]) {
    let incoming = file.with_extension("incoming");
    fs::write(&incoming, bytes).unwrap();
    fs::rename(incoming, file).unwrap();
}

#[track_caller]
fn assert_absent(path: &Path) {
    let error = fs::metadata(path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[test]
fn a_name_that_was_just_missing_is_there_once_it_is_created_and_gone_once_it_is_removed() {
    let source = scratch();
    let mounted = Mounted::new(source.path(), "");
    let path = mounted.join("x.pcap");
    let pcap = Pcap::random(Magic::LeUs, 1, 40);
    for round in 0..10 {
        for ending in ENDINGS {
            for _ in 0..=round {
                assert_absent(&path);
            }
            fs::write(at(source.path(), ending), physical(ending, &pcap)).unwrap();
            assert_eq!(len(&path), pcap.bytes.len(), "x.pcap{ending}");
            assert_same(&fs::read(&path).unwrap(), &pcap.bytes, ending);
            fs::remove_file(at(source.path(), ending)).unwrap();
            assert_absent(&path);
            assert!(File::open(&path).is_err());
        }
        let day = format!("day-{round}");
        assert_absent(&mounted.join(&day));
        fs::create_dir(source.path().join(&day)).unwrap();
        assert_absent(&mounted.join(&day).join("x.pcap"));
        fs::write(at(&source.path().join(&day), ".partial"), &pcap.bytes).unwrap();
        assert_eq!(len(&mounted.join(&day).join("x.pcap")), pcap.bytes.len());
    }
    mounted.unmount();
}

#[test]
fn a_listing_held_open_and_its_folders_time_follow_what_comes_and_goes() {
    let source = scratch();
    let mounted = Mounted::new(source.path(), "");
    let pcap = Pcap::random(Magic::LeUs, 2, 3);
    let mut held = Listing::open(mounted.path()).unwrap();
    let mut wanted: Vec<Vec<u8>> = Vec::new();
    for step in 0..30 {
        if step % 3 == 2 {
            let name = String::from_utf8(wanted.remove(0)).unwrap();
            fs::remove_file(source.path().join(name + ".zst")).unwrap();
        } else {
            let name = format!("{step:02}.pcap");
            let file = source.path().join(format!("{name}.zst"));
            fs::write(file, physical(".zst", &pcap)).unwrap();
            wanted.push(name.into_bytes());
        }
        held.rewind();
        let mut seen = held.rest();
        seen.sort();
        assert_eq!(seen, wanted, "rewound");
        assert_eq!(names(mounted.path()), wanted, "opened anew");
        let shown = sys::times_now(mounted.path()).unwrap();
        assert_eq!(shown, sys::times_now(source.path()).unwrap());
    }
}

/// Tells the other thread to stop, also when this one panics.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn packs_own_rename_is_seen_at_once_and_disturbs_no_reader() {
    let day = Day::new();
    let mounted = day.mount();
    let pcap = Pcap::of_size(Magic::LeUs, 3, 60_000);
    for round in 0..8 {
        let name = format!("{round}.pcap");
        let out = day.source().join(format!("{name}.zst"));
        let path = mounted.join(&name);
        let mut pack = Live::start(&out);
        // More than a pipe holds: a frame is on disk when it was all taken.
        pack.feed(&pcap.bytes);
        let started = Instant::now();
        while fs::metadata(&path).map_or(0, |file| file.len()) <= 24 {
            assert!(started.elapsed() < PATIENCE, "no frame comes");
            thread::yield_now();
        }
        let mut kept = File::open(&path).unwrap();
        let number = kept.metadata().unwrap().ino();
        let mut got = vec![0; 1000];
        kept.read_exact(&mut got).unwrap();
        let is_over = AtomicBool::new(false);
        let (looked, is_looking) = channel();
        thread::scope(|scope| {
            let looking = scope.spawn(|| {
                while !is_over.load(Ordering::SeqCst) {
                    assert_eq!(fs::metadata(&path).unwrap().ino(), number);
                    let seen = fs::read(&path).unwrap();
                    assert_same(&seen, &pcap.bytes[..seen.len()], "a new handle");
                    // Nobody listens after the first.
                    let _ = looked.send(());
                }
            });
            let over = Over(&is_over);
            is_looking.recv_timeout(PATIENCE).unwrap();
            drop(pack.stdin.take());
            let code = pack.end();
            // At once, before anybody else may have looked.
            let (found, state) = (fs::metadata(&path), attribute(&path, "user.pcapzst.state"));
            drop(over);
            assert_eq!(code, Some(0));
            looking.join().unwrap();
            let found = found.unwrap();
            assert_eq!(found.len(), pcap.bytes.len() as u64);
            assert_eq!(found.ino(), number, "the same inode");
            assert_eq!(state.unwrap(), "complete");
        });
        kept.read_to_end(&mut got).unwrap();
        assert_same(&got, &pcap.bytes, "the handle from before");
    }
}

/// A look at `path` for its size, in the ways that could each have an answer of their own.
type Look = fn(&Path, usize);

const LOOKS: [Look; 3] = [
    |path, wanted| assert_eq!(len(path), wanted, "stat"),
    |path, wanted| {
        let file = File::open(path).unwrap();
        assert_eq!(file.metadata().unwrap().len(), wanted as u64, "fstat");
        assert_eq!(file.read_at(&mut [0; 9], wanted as u64).unwrap(), 0);
    },
    |path, wanted| assert_eq!(fs::read(path).unwrap().len(), wanted, "read"),
];

#[test]
fn stat_fstat_and_read_agree_after_each_change_whichever_comes_first() {
    const ORDERS: [[usize; 3]; 6] = [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ];
    let source = scratch();
    let mounted = Mounted::new(source.path(), "");
    let path = mounted.join("x.pcap");
    let look = |order: usize, wanted: usize| {
        for kind in ORDERS[order % 6] {
            LOOKS[kind](&path, wanted);
        }
        LOOKS[0](&path, wanted);
    };
    let pcap = Pcap::of_size(Magic::LeUs, 4, 300_000);
    let marked = Marked::pack(&pcap, 20_000);
    let whole = |pcap: &Pcap| Marked::pack(pcap, 20_000).physical;
    for order in 0..6 {
        // Growth of a partial capture, then the rename, then another capture by a rename, then others in place.
        let partial = at(source.path(), ".zst.partial");
        fs::write(&partial, &marked.physical[..marked.frames[0].1.start]).unwrap();
        look(order, 24);
        for (step, (src, disk)) in marked.frames.iter().enumerate() {
            append(&partial, &marked.physical[disk.clone()]);
            look(order + step, src.end);
        }
        let file = at(source.path(), ".zst");
        fs::rename(&partial, &file).unwrap();
        look(order, pcap.bytes.len());
        for size in [9_000, 90_000, 40_000] {
            let other = Pcap::of_size(Magic::BeUs, 5, size);
            replace(&file, &whole(&other));
            look(order, other.bytes.len());
        }
        for size in [70_000, 20_000] {
            let other = Pcap::of_size(Magic::LeNs, 6, size);
            fs::write(&file, whole(&other)).unwrap();
            look(order, other.bytes.len());
        }
        fs::remove_file(&file).unwrap();
        // The same for a raw one: partial, final, appended to, cut.
        let partial = at(source.path(), ".partial");
        fs::write(&partial, &pcap.bytes[..pcap.ends[3] + 7]).unwrap();
        look(order, pcap.ends[3]);
        append(&partial, &pcap.bytes[pcap.ends[3] + 7..pcap.ends[9]]);
        look(order, pcap.ends[9]);
        let file = at(source.path(), "");
        fs::rename(&partial, &file).unwrap();
        look(order, pcap.ends[9]);
        append(&file, &pcap.bytes[pcap.ends[9]..]);
        look(order, pcap.bytes.len());
        let raw = OpenOptions::new().write(true).open(&file).unwrap();
        raw.set_len(5000).unwrap();
        look(order, 5000);
        fs::remove_file(&file).unwrap();
    }
    mounted.unmount();
}

#[test]
fn a_capture_removed_while_half_read_is_read_to_its_end_and_another_takes_its_name() {
    let old = Pcap::of_size(Magic::LeUs, 7, 3 << 20);
    let new = Pcap::of_size(Magic::BeNs, 8, 1 << 20);
    for ending in ENDINGS {
        let source = scratch();
        let file = at(source.path(), ending);
        fs::write(&file, physical(ending, &old)).unwrap();
        let mounted = Mounted::new(source.path(), "cache_size=1M");
        let path = mounted.join("x.pcap");
        let mut half = File::open(&path).unwrap();
        let number = half.metadata().unwrap().ino();
        let mut got = vec![0; old.bytes.len() / 2];
        half.read_exact(&mut got).unwrap();
        fs::remove_file(&file).unwrap();
        assert_absent(&path);
        let mut more = vec![0; 100_000];
        half.read_exact(&mut more).unwrap();
        got.extend(more);
        fs::write(&file, physical(ending, &new)).unwrap();
        assert_same(&fs::read(&path).unwrap(), &new.bytes, "a new handle");
        assert_ne!(fs::metadata(&path).unwrap().ino(), number);
        half.read_to_end(&mut got).unwrap();
        assert_same(&got, &old.bytes, &format!("the old handle, x.pcap{ending}"));
        let held = half.metadata().unwrap();
        assert_eq!((held.ino(), held.len()), (number, old.bytes.len() as u64));
        assert_same(&fs::read(&path).unwrap(), &new.bytes, "once more");
    }
}

#[test]
fn forms_that_come_and_go_are_one_entry_and_never_change_under_a_reader() {
    let source = scratch();
    let mounted = Mounted::new(source.path(), "cache_size=1M");
    let path = mounted.join("x.pcap");
    // By rank: final before partial, raw before compressed.
    let pcaps: Vec<Pcap> = (0..4_usize)
        .map(|form| Pcap::of_size(Magic::LeUs, 10 + form as u64, 300_000 + 50_000 * form))
        .collect();
    let (mut there, mut rng) = ([false; 4], common::Rng::new(9));
    // The handle from before a change, what it had read of its capture, and which capture that is.
    let mut kept: Option<(File, Vec<u8>, usize)> = None;
    for step in 0..80 {
        // Each form in turn as in a Gray code first: all 16 sets; then at random.
        let form = match step {
            0..16 => (step + 1_usize).trailing_zeros().min(3) as usize,
            _ => rng.below(4),
        };
        there[form] = !there[form];
        let file = at(source.path(), ENDINGS[form]);
        if there[form] {
            fs::write(&file, physical(ENDINGS[form], &pcaps[form])).unwrap();
        } else {
            fs::remove_file(&file).unwrap();
        }
        if let Some((mut file, mut got, form)) = kept.take() {
            file.read_to_end(&mut got).unwrap();
            assert_same(&got, &pcaps[form].bytes, "a handle from before the change");
        }
        let Some(shown) = there.iter().position(|is_there| *is_there) else {
            assert_absent(&path);
            assert!(names(mounted.path()).is_empty());
            continue;
        };
        let wanted = &pcaps[shown].bytes;
        assert_eq!(names(mounted.path()), [b"x.pcap"], "{there:?}");
        assert_eq!(len(&path), wanted.len(), "{there:?}");
        let name = attribute(&path, "user.pcapzst.physical_name").unwrap();
        assert_eq!(name, format!("x.pcap{}", ENDINGS[shown]));
        let mut file = File::open(&path).unwrap();
        let mut got = vec![0; wanted.len() / 3];
        file.read_exact(&mut got).unwrap();
        assert_same(&got, &wanted[..got.len()], "a new handle");
        assert_eq!(file.metadata().unwrap().len(), wanted.len() as u64);
        kept = Some((file, got, shown));
    }
}

#[test]
fn a_rename_to_the_final_name_is_no_change_to_rsync() {
    let day = Day::new();
    let pcap = Pcap::of_size(Magic::LeUs, 20, 200_000);
    let last = ["0.pcap.zst", "1.pcap"].map(|name| day.source().join(name));
    let partial = last.each_ref().map(|path| {
        let mut partial = path.clone().into_os_string();
        partial.push(".partial");
        partial
    });
    for (file, ending) in partial.iter().zip([".zst", ""]) {
        fs::write(file, physical(ending, &pcap)).unwrap();
    }
    let mounted = day.mount();
    let from = format!("{}/", mounted.path().display());
    let rsync = || {
        run(tool("rsync").args(["-ai", &from]).arg(day.out()))
            .ok()
            .text()
    };
    assert_eq!(rsync().matches(".pcap").count(), 2);
    for (from, to) in partial.iter().zip(&last) {
        fs::rename(from, to).unwrap();
    }
    let again = rsync();
    assert!(!again.contains(".pcap"), "{again}");
    for number in 0..2 {
        let copy = fs::read(day.out().join(format!("{number}.pcap"))).unwrap();
        assert_same(&copy, &pcap.bytes, "the copy");
    }
    mounted.unmount();
}
