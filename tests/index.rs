//! Frame tables kept between mounts: no walk where one is good, and the right bytes whatever is in the folder.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "a failed step of a test is a panic"
)]

mod common;
#[path = "index/entry.rs"]
mod entry;

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use common::day::scratch;
use common::frames::{Handmade, Marked, skippable, with_bad_checksum};
use common::mounted::Mounted;
use common::pcap::{Magic, Pcap};
use common::sys::attribute;
use common::{assert_same, pcapzst, run};
use entry::{Entry, settle};
use pcapzst::capture::index::{INDEX_BYTES, Index, IndexStats};
use pcapzst::capture::read_at::ReadAt;
use pcapzst::capture::stamp::Stamp;
use pcapzst::capture::{Engine, Facts, Form, OnFault, Progress, Source, State};
use tempfile::TempDir;

/// What is done to an entry before it is given a right checksum again.
type Lie = Box<dyn Fn(&mut Entry)>;
type SimpleLie = fn(&mut Entry);

/// A file whose reads are counted.
struct Counted {
    file: File,
    reads: AtomicU64,
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
struct Bench {
    folder: TempDir,
    marked: Marked,
}

impl Bench {
    fn new(seed: u64, records: usize) -> Self {
        Self::of(Marked::pack(
            &Pcap::random(Magic::LeUs, seed, records),
            2000,
        ))
    }

    fn of(marked: Marked) -> Self {
        let folder = scratch();
        let bench = Self { folder, marked };
        fs::create_dir(bench.folder.path().join("source")).unwrap();
        fs::write(bench.capture(), &bench.marked.physical).unwrap();
        settle(&bench.capture());
        bench
    }

    fn source(&self) -> PathBuf {
        self.folder.path().join("source")
    }

    fn capture(&self) -> PathBuf {
        self.source().join("a.pcap.zst")
    }

    fn index(&self) -> PathBuf {
        self.folder.path().join("index")
    }

    /// The only entry there is.
    fn entry(&self) -> PathBuf {
        let mut entries = fs::read_dir(self.index()).unwrap();
        let entry = entries.next().unwrap().unwrap().path();
        assert!(entries.next().is_none());
        entry
    }

    fn engine(&self) -> Arc<Engine> {
        let index = Index::open(&self.index(), INDEX_BYTES).unwrap();
        Arc::new(Engine::default().with_index(Some(index)))
    }

    /// Opens the capture, and waits until what is kept of it is written.
    fn open(&self, engine: &Arc<Engine>) -> (Source, Arc<Counted>) {
        self.open_as(engine, Progress::Final)
    }

    fn open_as(&self, engine: &Arc<Engine>, progress: Progress) -> (Source, Arc<Counted>) {
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
    fn check(&self, what: &str) -> (Facts, IndexStats) {
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

fn read_all(source: &Source) -> Vec<u8> {
    let mut got = Vec::new();
    loop {
        let bytes = source.read(got.len() as u64, 5000, OnFault::Fail).unwrap();
        if bytes.is_empty() {
            return got;
        }
        got.extend_from_slice(&bytes);
    }
}

fn stats(hits: u64, misses: u64, drops: u64) -> IndexStats {
    IndexStats {
        hits,
        misses,
        drops,
    }
}

/// The counters of a mount.
fn counters(mounted: &Mounted) -> (u64, u64, u64) {
    let json = attribute(mounted.path(), "user.pcapzst.stats").unwrap();
    let parsed: serde_json::Value = serde_json::from_str(&json).unwrap();
    let of = |name: &str| parsed[name].as_u64().unwrap();
    (of("index_hits"), of("index_misses"), of("index_drops"))
}

#[test]
fn a_second_look_at_an_unchanged_capture_needs_one_read_of_it() {
    let bench = Bench::new(1, 2000);
    let engine = bench.engine();
    let (first, walked) = bench.open(&engine);
    assert_eq!(engine.index_stats(), stats(0, 1, 0));
    assert!(first.facts().frames >= 500);
    assert!(walked.reads.load(Ordering::Relaxed) >= 500);

    let engine = bench.engine();
    let (second, file) = bench.open(&engine);
    assert_eq!(engine.index_stats(), stats(1, 0, 0));
    assert_eq!(file.reads.load(Ordering::Relaxed), 1, "the first bytes");
    let (before, now) = (first.facts(), second.facts());
    assert_eq!(
        (before.size, before.frames, before.file_id, before.header),
        (now.size, now.frames, now.file_id, now.header)
    );
    assert_eq!(
        (before.state, before.physical_len, before.torn_bytes),
        (now.state, now.physical_len, now.torn_bytes)
    );
    for number in 0..=usize::try_from(now.frames).unwrap() {
        assert_eq!(first.span(number), second.span(number));
    }
    assert_same(
        &read_all(&second),
        &bench.marked.source,
        "through the index",
    );
    assert!(second.is_as_walked().unwrap());
    second.refresh().unwrap();
    assert_eq!(second.facts().size, now.size);
}

#[test]
fn entries_and_their_folder_are_the_users_own() {
    let bench = Bench::new(2, 500);
    bench.check("first");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&bench.index()), 0o700);
    assert_eq!(mode(&bench.entry()), 0o600);
    // One that others may have written is not believed.
    fs::set_permissions(bench.entry(), PermissionsExt::from_mode(0o622)).unwrap();
    assert_eq!(bench.check("writable").1, stats(0, 1, 1));
    let real = bench.folder.path().join("real");
    fs::rename(bench.entry(), &real).unwrap();
    let entry = bench.index().join(entry::name(&bench.capture()));
    symlink(&real, &entry).unwrap();
    assert_eq!(bench.check("a link").1, stats(0, 1, 1));
    assert!(entry.symlink_metadata().unwrap().is_file());
    assert_eq!(bench.check("mended").1, stats(1, 0, 0));
    fs::remove_file(&entry).unwrap();
    fs::create_dir(&entry).unwrap();
    bench.check("a folder");
}

#[test]
fn the_entry_is_as_it_is_documented() {
    let bench = Bench::new(3, 500);
    let (facts, _) = bench.check("first");
    let bytes = fs::read(bench.entry()).unwrap();
    assert_eq!(
        bench.entry().file_name().unwrap().to_str().unwrap(),
        entry::name(&bench.capture())
    );
    let parsed = Entry::parse(&bytes);
    let metadata = fs::metadata(bench.capture()).unwrap();
    assert_eq!(parsed.device, metadata.dev());
    assert_eq!(parsed.inode, metadata.ino());
    assert_eq!(parsed.size, metadata.size());
    assert_eq!(parsed.mtime, (metadata.mtime(), metadata.mtime_nsec()));
    assert_eq!(parsed.ctime, (metadata.ctime(), metadata.ctime_nsec()));
    assert_eq!(parsed.file_id.0, facts.file_id.first_packet_ts);
    assert_eq!(parsed.file_id.1, facts.file_id.header_crc32);
    assert_eq!(parsed.header, bench.marked.source[..24]);
    let lens = bench.marked.frames.iter();
    let lens: Vec<_> = lens
        .map(|(source, physical)| (source.len() as u64, physical.len() as u64))
        .collect();
    assert_eq!(parsed.frames, lens);
    assert_eq!(parsed.header_end, bench.marked.frames[0].1.start as u64);
    let head = bench.marked.physical.len().min(4096);
    let crc32 = crc32fast::hash(&bench.marked.physical[..head]);
    assert_eq!(parsed.head, (u32::try_from(head).unwrap(), crc32));
    assert_eq!(parsed.build(), bytes);
}

#[test]
fn an_entry_with_any_byte_changed_or_cut_anywhere_gives_the_right_bytes() {
    let bench = Bench::new(4, 250);
    bench.check("first");
    let entry = bench.entry();
    let good = fs::read(&entry).unwrap();
    assert!(good.len() < 1000, "{}", good.len());
    let try_with = |bytes: &[u8], what: &str| {
        fs::write(&entry, bytes).unwrap();
        assert_eq!(bench.check(what).1, stats(0, 1, 1), "{what}");
        assert_eq!(fs::read(&entry).unwrap(), good, "{what}: not written anew");
    };
    for at in 0..good.len() {
        let mut bytes = good.clone();
        bytes[at] ^= 1 << (at % 8);
        try_with(&bytes, &format!("byte {at}"));
    }
    for len in 0..good.len() {
        try_with(&good[..len], &format!("cut at {len}"));
    }
    try_with(&[&good[..], &[0]].concat(), "one byte more");
    try_with(&vec![0x55; 9 << 20], "a long one");
    let file = File::create(&entry).unwrap();
    file.set_len(1 << 40).unwrap();
    drop(file);
    assert_eq!(bench.check("a terabyte").1, stats(0, 1, 1));
}

#[test]
fn an_entry_of_another_version_or_file_is_dropped_and_written_anew() {
    let bench = Bench::new(5, 300);
    bench.check("first");
    let path = bench.entry();
    let good = fs::read(&path).unwrap();
    let lies: [(&str, SimpleLie); 8] = [
        ("version", |entry| entry.version = 2),
        ("version", |entry| entry.version = 0),
        ("device", |entry| entry.device += 1),
        ("inode", |entry| entry.inode += 1),
        ("mtime", |entry| entry.mtime.1 ^= 1),
        ("ctime", |entry| entry.ctime.0 += 1),
        ("header", |entry| entry.header[20] ^= 1),
        ("head", |entry| entry.head.1 ^= 1),
    ];
    for (what, lie) in lies {
        let mut entry = Entry::parse(&good);
        lie(&mut entry);
        fs::write(&path, entry.build()).unwrap();
        assert_eq!(bench.check(what).1, stats(0, 1, 1), "{what}");
        assert_eq!(bench.check(what).1, stats(1, 0, 0), "{what}");
    }
}

#[test]
fn a_table_that_lies_under_a_right_checksum_is_walked_past_and_the_bytes_are_right() {
    let bench = Bench::new(6, 300);
    bench.check("first");
    let path = bench.entry();
    let good = fs::read(&path).unwrap();
    let last = Entry::parse(&good).frames.len() - 1;
    let mut lies: Vec<(String, Lie)> = Vec::new();
    for at in [0, 1, last / 2, last - 1] {
        let mut add = |what: &str, lie: Lie| lies.push((format!("{what} {at}"), lie));
        add(
            "source lengths",
            Box::new(move |entry| {
                entry.frames[at].0 += 1;
                entry.frames[at + 1].0 -= 1;
            }),
        );
        add(
            "physical lengths",
            Box::new(move |entry| {
                entry.frames[at].1 -= 1;
                entry.frames[at + 1].1 += 1;
            }),
        );
        add(
            "one of two",
            Box::new(move |entry| {
                let (source, physical) = entry.frames.remove(at + 1);
                entry.frames[at].0 += source;
                entry.frames[at].1 += physical;
            }),
        );
        add(
            "one left out of the source",
            Box::new(move |entry| {
                let (_, physical) = entry.frames.remove(at + 1);
                entry.frames[at].1 += physical;
            }),
        );
        add("longer", Box::new(move |entry| entry.frames[at].0 += 1000));
        add("shorter", Box::new(move |entry| entry.frames[at].0 /= 2));
        add(
            "swapped",
            Box::new(move |entry| entry.frames.swap(at, at + 1)),
        );
        add("huge", Box::new(move |entry| entry.frames[at].0 = 1 << 40));
    }
    lies.push((
        "the last longer".to_owned(),
        Box::new(move |entry| entry.frames[last].0 += 1000),
    ));
    for (what, lie) in lies {
        let mut entry = Entry::parse(&good);
        lie(&mut entry);
        if entry.build() == good {
            continue;
        }
        fs::write(&path, entry.build()).unwrap();
        assert_eq!(bench.check(&what).1, stats(1, 0, 1), "{what}");
        assert_eq!(fs::read(&path).unwrap(), good, "{what}: not written anew");
        assert_eq!(bench.check(&what).1, stats(1, 0, 0), "{what}");
    }
}

#[test]
fn a_frame_that_does_not_decode_stays_damaged_and_the_others_are_served_through_the_index() {
    let mut pcap = Pcap::random(Magic::LeUs, 7, 300);
    let mut marked = Marked::pack(&pcap, 2000);
    let start = pcap.bytes.len();
    pcap.push_udp(b"bad");
    let body = &pcap.bytes[start..];
    marked.frame(&with_bad_checksum(&Handmade::raw(body).build()), body);
    let bench = Bench::of(marked);
    for stats in [stats(0, 1, 0), stats(1, 0, 0), stats(1, 0, 0)] {
        let engine = bench.engine();
        let (source, _) = bench.open(&engine);
        assert_eq!(source.facts().state, State::Complete);
        let bad = start as u64;
        for _ in 0..2 {
            assert!(source.read(bad, 10, OnFault::Fail).is_err());
            assert_eq!(source.facts().state, State::Damaged);
        }
        let good = source.read(100, 1000, OnFault::Fail).unwrap();
        assert_same(&good, &bench.marked.source[100..1100], "before");
        assert_eq!(engine.index_stats(), stats);
    }
}

#[test]
fn a_capture_with_frames_over_this_mounts_limit_is_damaged_with_and_without_an_index() {
    let bench = Bench::new(8, 300);
    bench.check("first");
    let largest = bench.marked.frames.iter().map(|(source, _)| source.len());
    let limit = largest.max().unwrap() as u64 - 1;
    let facts = |index| {
        let engine = Arc::new(Engine::new(8 << 20, limit).with_index(index));
        let (source, _) = bench.open(&engine);
        let facts = source.facts();
        (facts.state, facts.size, facts.error, engine.index_stats())
    };
    let (state, size, error, _) = facts(None);
    assert_eq!(state, State::Damaged);
    let index = Index::open(&bench.index(), INDEX_BYTES).unwrap();
    assert_eq!(facts(Some(index)), (state, size, error, stats(1, 0, 0)));
}

#[test]
fn only_complete_captures_of_many_frames_that_lie_end_to_end_are_kept() {
    let torn = {
        let mut marked = Marked::pack(&Pcap::random(Magic::LeUs, 9, 300), 2000);
        marked.append(&[0x28, 0xB5]);
        marked
    };
    let malformed = {
        let mut marked = Marked::pack(&Pcap::random(Magic::LeUs, 10, 300), 2000);
        marked.append(b"something else, and more of it");
        marked
    };
    let gap = {
        let mut marked = Marked::pack(&Pcap::random(Magic::LeUs, 11, 300), 2000);
        marked.append(&skippable(3, b"aside"));
        marked
    };
    let small = Marked::pack(&Pcap::random(Magic::LeUs, 12, 20), 2000);
    for marked in [torn, malformed, gap, small] {
        let bench = Bench::of(marked);
        let engine = bench.engine();
        bench.open(&engine);
        assert_eq!(engine.index_stats(), stats(0, 1, 0));
        assert_eq!(fs::read_dir(bench.index()).unwrap().count(), 0);
    }
    let bench = Bench::new(13, 300);
    let engine = bench.engine();
    bench.open_as(&engine, Progress::Partial);
    assert_eq!(engine.index_stats(), stats(0, 0, 0));
    assert_eq!(fs::read_dir(bench.index()).unwrap().count(), 0);
}

#[test]
fn a_file_that_was_written_a_moment_ago_is_not_kept_yet() {
    let bench = Bench::new(14, 300);
    // Again and again, until the look falls into the same tick of the clock.
    let is_left_out = (0..1000).any(|_| {
        let _ = fs::remove_dir_all(bench.index());
        let engine = bench.engine();
        fs::write(bench.capture(), &bench.marked.physical).unwrap();
        bench.open(&engine);
        fs::read_dir(bench.index()).unwrap().count() == 0
    });
    assert!(is_left_out);
}

#[test]
fn a_file_that_was_written_over_or_replaced_has_its_old_entry_dropped() {
    let mut bench = Bench::new(15, 300);
    bench.check("first");
    let other = Marked::pack(&Pcap::random(Magic::LeUs, 16, 280), 2000);
    // In place: the same inode number.
    fs::write(bench.capture(), &other.physical).unwrap();
    settle(&bench.capture());
    bench.marked = other;
    assert_eq!(bench.check("other content").1, stats(0, 1, 1));
    assert_eq!(bench.check("other content").1, stats(1, 0, 0));
    // Only the time of change is another.
    fs::set_permissions(bench.capture(), PermissionsExt::from_mode(0o600)).unwrap();
    settle(&bench.capture());
    assert_eq!(bench.check("other rights").1, stats(0, 1, 1));
    assert_eq!(bench.check("other rights").1, stats(1, 0, 0));
}

#[test]
fn the_folder_stays_within_its_bound_and_only_entries_leave_it() {
    const BOUND: u64 = 96 * 1024;
    let bench = Bench::new(17, 300);
    let foreign = ["notes.txt", "1f-2.pszindex.bak", "my.pszindex"];
    fs::create_dir(bench.index()).unwrap();
    for name in foreign {
        fs::write(bench.index().join(name), vec![b'x'; 200_000]).unwrap();
    }
    let index = Index::open(&bench.index(), BOUND).unwrap();
    let engine = Arc::new(Engine::default().with_index(Some(index)));
    let mut kept = Vec::new();
    for number in 0..60 {
        let next = bench.source().join(format!("{number}.pcap.zst"));
        fs::copy(bench.capture(), &next).unwrap();
        fs::rename(&next, bench.capture()).unwrap();
        settle(&bench.capture());
        bench.open(&engine);
        kept.push(entry::name(&bench.capture()));
        // The inode numbers of files that are gone must not be used again.
        fs::rename(bench.capture(), &next).unwrap();
        fs::copy(&next, bench.capture()).unwrap();
        let entries = fs::read_dir(bench.index()).unwrap().map(Result::unwrap);
        let lens: Vec<_> = entries
            .filter(|entry| !foreign.contains(&entry.file_name().to_str().unwrap()))
            .map(|entry| entry.metadata().unwrap().len().div_ceil(4096) * 4096)
            .collect();
        assert!(lens.iter().sum::<u64>() <= BOUND, "{lens:?}");
        assert!(number < 10 || lens.len() >= 10, "{lens:?}");
    }
    assert!(bench.index().join(kept.last().unwrap()).exists());
    assert!(!bench.index().join(&kept[0]).exists());
    for name in foreign {
        assert!(bench.index().join(name).exists(), "{name}");
    }
}

#[test]
fn a_remount_shows_the_same_sizes_inodes_and_bytes() {
    let source = scratch();
    let index = scratch();
    let captures: Vec<_> = (0..6)
        .map(|number| Pcap::random(Magic::LeUs, 20 + number, 400))
        .collect();
    for (number, pcap) in captures.iter().enumerate() {
        let path = source.path().join(format!("{number}.pcap.zst"));
        fs::write(&path, Marked::pack(pcap, 2000).physical).unwrap();
        settle(&path);
    }
    let options = format!("index_dir={}", index.path().display());
    let look = |hits, misses| {
        let mounted = Mounted::new(source.path(), &options);
        let seen: Vec<_> = (0..captures.len())
            .map(|number| {
                let path = mounted.join(format!("{number}.pcap"));
                let metadata = fs::metadata(&path).unwrap();
                let frames = attribute(&path, "user.pcapzst.frames").unwrap();
                (metadata.ino(), metadata.len(), metadata.blocks(), frames)
            })
            .collect();
        assert_eq!(counters(&mounted), (hits, misses, 0));
        for (number, pcap) in captures.iter().enumerate() {
            let path = mounted.join(format!("{number}.pcap"));
            assert_same(&fs::read(path).unwrap(), &pcap.bytes, "bytes");
        }
        mounted.unmount();
        seen
    };
    let first = look(0, 6);
    assert_eq!(look(6, 0), first);
    assert_eq!(look(6, 0), first);
}

#[test]
fn a_lying_size_is_put_right_for_who_reads_through_the_mount() {
    let bench = Bench::new(30, 3000);
    let options = format!("index_dir={}", bench.index().display());
    let size = bench.marked.source.len() as u64;
    let mounted = Mounted::new(&bench.source(), &options);
    let path = mounted.join("a.pcap");
    let inode = fs::metadata(&path).unwrap().ino();
    assert_eq!(counters(&mounted), (0, 1, 0));
    mounted.unmount();
    let good = fs::read(bench.entry()).unwrap();
    for by in [-100_000, 100_000, 1_000_000] {
        let mut entry = Entry::parse(&good);
        let mut left: i64 = by;
        for frame in entry.frames.iter_mut().skip(700) {
            let source = i64::try_from(frame.0).unwrap();
            let change = left.clamp(1 - source, 1_000_000);
            frame.0 = u64::try_from(source + change).unwrap();
            left -= change;
        }
        assert_eq!(left, 0);
        fs::write(bench.entry(), entry.build()).unwrap();
        let mounted = Mounted::new(&bench.source(), &options);
        let path = mounted.join("a.pcap");
        let lie = fs::metadata(&path).unwrap();
        assert_eq!(lie.len(), size.checked_add_signed(by).unwrap());
        assert_eq!(lie.ino(), inode);
        assert_same(&fs::read(&path).unwrap(), &bench.marked.source, "read");
        assert_eq!(fs::metadata(&path).unwrap().len(), size);
        assert_same(&fs::read(&path).unwrap(), &bench.marked.source, "again");
        assert_eq!(counters(&mounted), (1, 0, 1));
        mounted.unmount();
        assert_eq!(fs::read(bench.entry()).unwrap(), good);
    }
}

#[test]
fn two_mounts_may_share_one_folder_at_once() {
    let bench = Bench::new(31, 400);
    let options = format!("index_dir={}", bench.index().display());
    let mounts = [(); 2].map(|()| Mounted::new(&bench.source(), &options));
    let paths: Vec<_> = (0..20)
        .map(|number| {
            let path = bench.source().join(format!("{number}.pcap.zst"));
            fs::copy(bench.capture(), &path).unwrap();
            settle(&path);
            path
        })
        .collect();
    for round in 0..3 {
        std::thread::scope(|scope| {
            for mounted in &mounts {
                scope.spawn(|| {
                    for number in 0..paths.len() {
                        let path = mounted.join(format!("{number}.pcap"));
                        let got = fs::read(path).unwrap();
                        assert_same(&got, &bench.marked.source, "shared");
                    }
                });
            }
        });
        for path in paths.iter().step_by(round + 1) {
            fs::set_permissions(path, PermissionsExt::from_mode(0o640)).unwrap();
            settle(path);
        }
    }
    for mounted in mounts {
        mounted.unmount();
    }
    let entries = fs::read_dir(bench.index()).unwrap();
    for entry in entries {
        let path = entry.unwrap().path();
        assert!(path.to_str().unwrap().ends_with(".pszindex"), "{path:?}");
        Entry::parse(&fs::read(path).unwrap());
    }
}

#[test]
fn a_folder_within_the_source_is_refused_and_not_made() {
    let bench = Bench::new(32, 100);
    let inner = bench.source().join("day");
    fs::create_dir(&inner).unwrap();
    let link = bench.folder.path().join("link");
    symlink(&inner, &link).unwrap();
    let mnt = bench.folder.path().join("mnt");
    fs::create_dir(&mnt).unwrap();
    for folder in [
        bench.source(),
        bench.source().join("index"),
        inner.join("deep/index"),
        link.join("index"),
        bench.folder.path().join("none/../source/index"),
        mnt.join("index"),
    ] {
        let ran = run(pcapzst()
            .args(["mount", "-o", &format!("index_dir={}", folder.display())])
            .arg(bench.source())
            .arg(&mnt))
        .exits(1);
        assert!(ran.stderr.contains("index folder"), "{}", ran.stderr);
        assert!(ran.stderr.contains(folder.to_str().unwrap()));
    }
    let names = common::names(&bench.source());
    assert_eq!(names, [b"a.pcap.zst".to_vec(), b"day".to_vec()]);
    assert!(common::names(&inner).is_empty());
    assert!(common::names(&mnt).is_empty());
}

#[test]
fn a_folder_that_cannot_be_used_ends_the_mount_only_if_it_was_named() {
    let bench = Bench::new(33, 300);
    let file = bench.folder.path().join("file");
    fs::write(&file, "").unwrap();
    // "index" in the options keeps the mount from being told "no_index".
    let named = format!("index_dir={}", file.join("index").display());
    let mnt = bench.folder.path().join("mnt");
    fs::create_dir(&mnt).unwrap();
    let mount = |options: &str| {
        run(pcapzst()
            .args(["mount", "-o", options])
            .arg(bench.source())
            .arg(&mnt))
    };
    let ran = mount(&named).exits(1);
    assert!(ran.stderr.contains("the index folder"), "{}", ran.stderr);
    mount("index_dir=").exits(2);

    // The user's own: a file stands in its place, or it lies in the source.
    for cache_home in [&file, &bench.source()] {
        let mut command = pcapzst();
        command.env("XDG_CACHE_HOME", cache_home);
        let mounted = Mounted::launch(command, &bench.source(), "x-index=default");
        let got = fs::read(mounted.join("a.pcap")).unwrap();
        assert_same(&got, &bench.marked.source, "without an index");
        assert_eq!(counters(&mounted), (0, 0, 0));
        let ended = mounted.unmount();
        let told = "frame tables are not kept between mounts";
        assert!(ended.log.contains(told), "{}", ended.log);
    }
    assert_eq!(common::names(&bench.source()), [b"a.pcap.zst".to_vec()]);

    let cache_home = bench.folder.path().join("home/cache");
    for hits in 0..2 {
        let mut command = pcapzst();
        command.env("XDG_CACHE_HOME", &cache_home);
        let mounted = Mounted::launch(command, &bench.source(), "x-index=default");
        fs::metadata(mounted.join("a.pcap")).unwrap();
        assert_eq!(counters(&mounted), (hits, 1 - hits, 0));
        mounted.unmount();
    }
    let entry = cache_home
        .join("pcapzst")
        .join(entry::name(&bench.capture()));
    assert!(entry.is_file());
    let mounted = Mounted::new(&bench.source(), "no_index");
    fs::metadata(mounted.join("a.pcap")).unwrap();
    assert_eq!(counters(&mounted), (0, 0, 0));
}
