//! A final file that changes under its readers: it grows, is replaced by a rename, or is written over in place.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "a failed step of a test is a panic"
)]

mod common;

use std::fs::{self, File, FileTimes, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::thread;

use common::assert_same;
use common::day::scratch;
use common::frames::{Handmade, Marked};
use common::mounted::Mounted;
use common::pcap::{Magic, Pcap};

/// Everything from the start to the end.
#[track_caller]
fn all_of(file: &File) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut buffer = vec![0; 1 << 17];
    loop {
        match file.read_at(&mut buffer, bytes.len() as u64).unwrap() {
            0 => return bytes,
            len => bytes.extend_from_slice(&buffer[..len]),
        }
    }
}

/// The same capture with other payloads: header and first record stay, so it keeps its `FileId`.
fn edited(pcap: &Pcap, edit: u8) -> Pcap {
    let mut edited = pcap.clone();
    for pair in pcap.ends[1..].windows(2) {
        for byte in &mut edited.bytes[pair[0] + 16..pair[1]] {
            *byte ^= edit;
        }
    }
    edited
}

fn replace(file: &Path, bytes: &[u8]) {
    let incoming = file.with_extension("incoming");
    fs::write(&incoming, bytes).unwrap();
    fs::rename(incoming, file).unwrap();
}

#[test]
fn a_raw_file_that_grows_in_place_is_read_right_through_every_handle() {
    const ROUNDS: usize = 60;
    let source = scratch();
    let pcap = Pcap::of_size(Magic::LeUs, 80, 400_000);
    let file = source.path().join("x.pcap");
    let step = pcap.bytes.len() / ROUNDS;
    let mut len = step;
    fs::write(&file, &pcap.bytes[..len]).unwrap();
    let mounted = Mounted::new(source.path(), "");
    let path = mounted.join("x.pcap");
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut before = 0;
            for _ in 0..3000 {
                let size = fs::metadata(&path).unwrap().len();
                assert!(size >= before, "{size} after {before}");
                assert!(size <= pcap.bytes.len() as u64);
                before = size;
            }
        });
        let mut writer = OpenOptions::new().append(true).open(&file).unwrap();
        for round in 1..ROUNDS {
            let first = File::open(&path).unwrap();
            if round % 2 == 0 {
                assert_same(&all_of(&first), &pcap.bytes[..len], "before it grows");
            }
            writer.write_all(&pcap.bytes[len..len + step]).unwrap();
            len += step;
            let wanted = &pcap.bytes[..len];
            assert_eq!(fs::metadata(&path).unwrap().len(), len as u64);
            if round % 3 == 0 {
                assert_same(&all_of(&first), wanted, "before another is opened");
            }
            let second = File::open(&path).unwrap();
            assert_same(&all_of(&first), wanted, "the first handle");
            assert_same(&all_of(&second), wanted, "the second handle");
            for handle in [first, second] {
                assert_eq!(handle.metadata().unwrap().len(), len as u64);
            }
        }
    });
}

#[test]
fn a_raw_file_read_while_it_grows_shows_no_byte_that_was_not_written() {
    let source = scratch();
    let pcap = Pcap::of_size(Magic::LeUs, 86, 300_000);
    let file = source.path().join("x.pcap");
    let mut pieces = pcap.bytes.chunks(151);
    fs::write(&file, pieces.next().unwrap()).unwrap();
    let mounted = Mounted::new(source.path(), "");
    let path = mounted.join("x.pcap");
    thread::scope(|scope| {
        let written = scope.spawn(|| {
            let mut writer = OpenOptions::new().append(true).open(&file).unwrap();
            for piece in pieces {
                writer.write_all(piece).unwrap();
                // Keeps step with the mount: each size is looked at.
                fs::metadata(&path).unwrap();
            }
        });
        let mut handles = vec![File::open(&path).unwrap()];
        while !written.is_finished() {
            handles.truncate(3);
            handles.insert(1, File::open(&path).unwrap());
            for handle in &handles {
                let got = all_of(handle);
                assert_same(&got, &pcap.bytes[..got.len()], "while it grows");
            }
        }
        assert_same(&all_of(&handles[0]), &pcap.bytes, "in the end");
    });
}

#[test]
fn a_handle_opened_after_a_replacement_reads_only_the_new_bytes() {
    let source = scratch();
    let file = source.path().join("x.pcap.zst");
    let pcap = Pcap::of_size(Magic::LeUs, 81, 1 << 20);
    let packed = |pcap: &Pcap| Marked::pack(pcap, 50_000).physical;
    fs::write(&file, packed(&pcap)).unwrap();
    let mounted = Mounted::new(source.path(), "");
    let path = mounted.join("x.pcap");
    let number = fs::metadata(&path).unwrap().ino();
    for edit in 1..=6 {
        let new = edited(&pcap, edit);
        let older = File::open(&path).unwrap();
        let mut page = [0; 4096];
        if edit % 2 == 0 {
            all_of(&older);
        } else {
            older.read_exact_at(&mut page, 300_000).unwrap();
        }
        replace(&file, &packed(&new));
        let newer = File::open(&path).unwrap();
        match edit {
            // The older one fills the page cache first.
            1 | 2 => drop(all_of(&older)),
            3 | 4 => {
                for at in (0..new.bytes.len() - 4096).step_by(9999) {
                    older.read_exact_at(&mut page, at as u64).unwrap();
                    newer.read_exact_at(&mut page, at as u64).unwrap();
                    assert_same(&page, &new.bytes[at..at + 4096], "page by page");
                }
            }
            _ => {}
        }
        assert_same(&all_of(&newer), &new.bytes, "opened after the rename");
        all_of(&older);
        drop((older, newer));
        assert_same(
            &fs::read(&path).unwrap(),
            &new.bytes,
            "after all were closed",
        );
        let now = fs::metadata(&path).unwrap().ino();
        assert_eq!(now, number, "the same capture by its FileId");
    }
}

#[test]
fn an_older_handle_that_never_stops_reading_brings_no_old_byte_back() {
    let source = scratch();
    let file = source.path().join("x.pcap.zst");
    let pcap = Pcap::of_size(Magic::LeUs, 82, 300_000);
    let packed = |pcap: &Pcap| Marked::pack(pcap, 30_000).physical;
    fs::write(&file, packed(&pcap)).unwrap();
    let mounted = Mounted::new(source.path(), "");
    let path = mounted.join("x.pcap");
    let older = File::open(&path).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..150 {
                all_of(&older);
            }
        });
        for edit in 1..=25 {
            let new = edited(&pcap, edit);
            replace(&file, &packed(&new));
            let newer = File::open(&path).unwrap();
            assert_same(&all_of(&newer), &new.bytes, "opened after the rename");
        }
    });
}

/// A capture in frames of raw blocks: captures with records of the same lengths take the same bytes on disk. Those that
/// begin at the same second are the same capture by their `FileId`, whatever follows the first record header.
fn unpacked(first_secs: u32, seed: u64) -> Marked {
    let mut rng = common::Rng::new(seed);
    let mut pcap = Pcap::new(Magic::LeUs);
    for _ in 0..60 {
        pcap.push(first_secs, 7, 10_000, &rng.bytes(10_000));
    }
    let mut marked = Marked::new(pcap.header());
    for chunk in pcap.chunks(50_000) {
        let content = &pcap.bytes[chunk];
        marked.frame(&Handmade::raw(content).build(), content);
    }
    marked
}

/// Writes over a file in place, as long as it was, and puts the time of the last write back.
fn write_over(file: &Path, bytes: &[u8]) {
    let file = OpenOptions::new().write(true).open(file).unwrap();
    let before = file.metadata().unwrap();
    assert_eq!(before.len(), bytes.len() as u64);
    file.write_all_at(bytes, 0).unwrap();
    let times = FileTimes::new().set_modified(before.modified().unwrap());
    file.set_times(times).unwrap();
}

#[test]
fn a_capture_written_over_with_the_time_put_back_is_never_mixed_with_the_old() {
    let source = scratch();
    let file = source.path().join("x.pcap.zst");
    let (old, new) = (unpacked(1_700_000_000, 83), unpacked(1_700_000_001, 84));
    for is_read_before in [false, true] {
        fs::write(&file, &old.physical).unwrap();
        let mounted = Mounted::new(source.path(), "");
        let path = mounted.join("x.pcap");
        let number = fs::metadata(&path).unwrap().ino();
        let older = File::open(&path).unwrap();
        if is_read_before {
            let mut page = [0; 4096];
            older.read_exact_at(&mut page, 8192).unwrap();
            assert_same(&page, &old.source[8192..8192 + 4096], "before");
        }
        write_over(&file, &new.physical);
        let newer = File::open(&path).unwrap();
        for _ in 0..2 {
            for at in (0..old.source.len()).step_by(4096) {
                let mut page = [0; 4096];
                if let Ok(len) = older.read_at(&mut page, at as u64) {
                    assert_same(&page[..len], &old.source[at..at + len], "the old handle");
                }
            }
            assert_same(&all_of(&newer), &new.source, "a new handle");
        }
        assert_ne!(fs::metadata(&path).unwrap().ino(), number);
    }
}

#[test]
fn an_edited_copy_written_over_with_the_time_put_back_is_seen_by_a_new_handle() {
    let source = scratch();
    let file = source.path().join("x.pcap.zst");
    let mut was = unpacked(1_700_000_000, 85);
    fs::write(&file, &was.physical).unwrap();
    let mounted = Mounted::new(source.path(), "");
    let path = mounted.join("x.pcap");
    assert_same(&fs::read(&path).unwrap(), &was.source, "at first");
    for seed in 86..90 {
        let now = unpacked(1_700_000_000, seed);
        let older = File::open(&path).unwrap();
        write_over(&file, &now.physical);
        if seed % 2 == 0 {
            // Looks at the file that was written over, before anybody opens it anew.
            let _ = older.read_at(&mut [0; 100], was.source.len() as u64 / 2);
        }
        let newer = File::open(&path).unwrap();
        let _ = older.read_at(&mut [0; 100], 100_000);
        assert_same(&all_of(&newer), &now.source, "a new handle");
        drop((older, newer));
        assert_same(
            &fs::read(&path).unwrap(),
            &now.source,
            "after all were closed",
        );
        was = now;
    }
}
