//! Frame tables kept between mounts: no walk where one is good, and the right bytes whatever is in the folder.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "a failed step of a test is a panic"
)]

#[path = "index/bench.rs"]
mod bench;
mod common;
#[path = "index/entry.rs"]
mod entry;
#[path = "index/lies.rs"]
mod lies;
#[path = "index/mounts.rs"]
mod mounts;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bench::{Bench, read_all, stats};
use common::assert_same;
use common::frames::{Handmade, Marked, skippable, with_bad_checksum};
use common::pcap::{Magic, Pcap};
use entry::{Entry, settle};
use pcapzst::capture::index::{INDEX_BYTES, Index};
use pcapzst::capture::{Engine, OnFault, Progress, State};

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
