//! Complete captures whose frame table was kept: a good one is taken and a wrong one is found out, or the disk's error
//! comes through.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use pcapzst::capture::index::{INDEX_BYTES, Index};
use pcapzst::capture::{Engine, Error, Form, OnFault, Progress, Source, State};
use tempfile::TempDir;

use crate::common::day::scratch;
use crate::common::frames::Marked;
use crate::common::pcap::{Magic, Pcap};
use crate::disk::{Disk, at_every_call};
use crate::{check_facts, read_all};

/// Frames enough for a table to be kept, and the same bytes on disk split over other ones.
fn capture() -> Marked {
    Marked::pack(&Pcap::random(Magic::LeUs, 931, 150), 1000)
}

fn engine(folder: &Path) -> Arc<Engine> {
    let index = Index::open(folder, INDEX_BYTES).unwrap();
    Arc::new(Engine::default().without_threads().with_index(Some(index)))
}

fn open(engine: &Arc<Engine>, disk: &Disk) -> Result<Source, Error> {
    let file = Box::new(disk.clone());
    let source = Source::open(Arc::clone(engine), file, Form::Zst, Progress::Final);
    engine.finish(Duration::from_secs(20));
    source
}

/// An entry of a folder of tables.
struct Kept {
    name: OsString,
    bytes: Vec<u8>,
    folders: TempDir,
}

impl Kept {
    fn of(physical: &[u8]) -> Self {
        let folder = scratch();
        open(&engine(folder.path()), &Disk::with(physical)).unwrap();
        let mut entries = fs::read_dir(folder.path()).unwrap();
        let entry = entries.next().expect("a table was kept").unwrap();
        Self {
            name: entry.file_name(),
            bytes: fs::read(entry.path()).unwrap(),
            folders: scratch(),
        }
    }

    /// An engine that has seen nothing of the entry, which is as it was. In a folder of its own: an engine that found it wrong
    /// writes a right one, in the background, and may do so still when the next one looks.
    fn again(&self) -> Arc<Engine> {
        let folder = tempfile::tempdir_in(&self.folders).unwrap().keep();
        fs::write(folder.join(&self.name), &self.bytes).unwrap();
        engine(&folder)
    }
}

#[test]
fn a_capture_with_a_kept_table_is_opened_and_read_right_or_fails() {
    let marked = capture();
    assert!(marked.frames.len() >= 64);
    let kept = Kept::of(&marked.physical);
    at_every_call(
        "by a kept table",
        |disk| {
            disk.set(&marked.physical);
            kept.again()
        },
        |engine, disk| {
            let source = open(engine, disk)?;
            check_facts(&source, &marked.source, State::Complete);
            read_all(&source, &marked.source, OnFault::Fail)?;
            check_facts(&source, &marked.source, State::Complete);
            let drops = engine.index_stats().drops;
            assert_eq!(drops, 0, "a good table was taken for a wrong one");
            Ok(())
        },
    );
    let engine = kept.again();
    let disk = Disk::with(&marked.physical);
    open(&engine, &disk).unwrap();
    assert_eq!(engine.index_stats().hits, 1, "the table was not taken");
}

#[test]
fn reads_by_a_kept_table_give_right_bytes_or_fail_and_recover() {
    let marked = capture();
    let kept = Kept::of(&marked.physical);
    at_every_call(
        "reading by a kept table",
        |disk| {
            disk.set(&marked.physical);
            open(&kept.again(), disk).unwrap()
        },
        |source, _| {
            let outcome = read_all(source, &marked.source, OnFault::Fail);
            check_facts(source, &marked.source, State::Complete);
            outcome
        },
    );
}

#[test]
fn a_kept_table_that_is_wrong_is_found_out_though_the_disk_fails_meanwhile() {
    let marked = capture();
    // Two frames' lengths changed against each other: the table is sound in itself, and wrong.
    let kept = Kept::of(&marked.physical);
    let mut lie = kept.bytes.clone();
    let at = wrong_frame(&marked);
    swap_frames(&mut lie, at);
    let kept = Kept { bytes: lie, ..kept };
    at_every_call(
        "by a wrong table",
        |disk| {
            disk.set(&marked.physical);
            open(&kept.again(), disk).unwrap()
        },
        |source, _| {
            read_all(source, &marked.source, OnFault::Fail)?;
            check_facts(source, &marked.source, State::Complete);
            Ok(())
        },
    );
    let engine = kept.again();
    let source = open(&engine, &Disk::with(&marked.physical)).unwrap();
    assert_eq!(
        engine.index_stats().hits,
        1,
        "the wrong table was not taken"
    );
    read_all(&source, &marked.source, OnFault::Fail).unwrap();
    assert_eq!(engine.index_stats().drops, 1, "it was not found out");
}

/// A frame whose lengths are not those of the next one.
fn wrong_frame(marked: &Marked) -> usize {
    let lens = |at: usize| (marked.frames[at].0.len(), marked.frames[at].1.len());
    (10..marked.frames.len() - 1)
        .find(|at| lens(*at) != lens(at + 1))
        .unwrap()
}

/// Has frames `at` and `at + 1` of an entry change places, and the checksum put right (docs/INDEX.md).
fn swap_frames(entry: &mut Vec<u8>, at: usize) {
    let end = entry.len() - 4;
    let mut ends = vec![136];
    let mut numbers = 0;
    for (place, byte) in entry[..end].iter().enumerate().skip(136) {
        if *byte < 0x80 {
            numbers += 1;
            if numbers % 2 == 0 {
                ends.push(place + 1);
            }
        }
    }
    let (from, middle, to) = (ends[at], ends[at + 1], ends[at + 2]);
    entry[from..to].rotate_left(middle - from);
    entry.truncate(end);
    let checksum = crc32fast::hash(entry);
    entry.extend(checksum.to_le_bytes());
}
