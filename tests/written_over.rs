//! A file that is written over, in place or by a rename, where nothing has looked at it meanwhile. Without a mount.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "a failed step of a test is a panic"
)]

mod common;

use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use common::Rng;
use common::assert_same;
use common::day::scratch;
use common::frames::{Handmade, Marked};
use common::pcap::{Magic, Pcap};
use pcapzst::capture::Engine;
use pcapzst::tree::errno::Failure;
use pcapzst::tree::{Caching, Options, ROOT, Tree};
use tempfile::TempDir;

/// One folder and the tree over it; the capture in it is `x.pcap`.
struct Shown {
    tree: Tree,
    source: TempDir,
}

impl Shown {
    fn new(idle_files: usize) -> Self {
        let source = scratch();
        let options = Options {
            idle_files,
            ..Options::default()
        };
        let tree = Tree::open(source.path(), Arc::new(Engine::default()), options).unwrap();
        Self { tree, source }
    }

    fn path(&self, ending: &str) -> PathBuf {
        self.source.path().join(format!("x.pcap{ending}"))
    }

    fn rename(&self, from: &str, to: &str) {
        fs::rename(self.path(from), self.path(to)).unwrap();
    }

    /// Inode number and size.
    fn look_up(&self) -> (u64, usize) {
        let attributes = self.tree.lookup(ROOT, OsStr::new("x.pcap")).unwrap();
        (attributes.id, attributes.size.try_into().unwrap())
    }

    fn open(&self) -> (u64, Caching) {
        let (id, _) = self.look_up();
        self.tree.open_file(id).unwrap()
    }

    /// As the adapter does it: what is decoded already is not looked at again.
    fn read(&self, handle: u64, offset: usize, len: usize) -> Result<Vec<u8>, Failure> {
        let offset = offset as u64;
        let cached = self.tree.read_cached(handle, offset, len);
        let bytes = cached.map_or_else(|| self.tree.read(handle, offset, len), Ok)?;
        Ok(bytes.to_vec())
    }

    #[track_caller]
    fn assert_old_or_error(&self, handle: u64, old: &[u8]) {
        for at in (0..old.len()).step_by(4096) {
            if let Ok(bytes) = self.read(handle, at, 4096) {
                let there = &old[at..];
                assert_same(&bytes, &there[..bytes.len()], "the old handle");
            }
        }
    }

    #[track_caller]
    fn assert_new(&self, new: &[u8]) {
        let (handle, _) = self.open();
        let bytes = self.read(handle, 0, new.len() + 1).unwrap();
        assert_same(&bytes, new, "a new handle");
        self.tree.release(handle);
    }
}

/// A capture in frames of raw blocks: all of them take the same bytes on disk, frame by frame.
fn aligned(first_secs: u32, seed: u64) -> Marked {
    let mut rng = Rng::new(seed);
    let mut pcap = Pcap::new(Magic::LeUs);
    for _ in 0..20 {
        pcap.push(first_secs, 7, 3000, &rng.bytes(3000));
    }
    let mut marked = Marked::new(pcap.header());
    for chunk in pcap.chunks(10_000) {
        let content = &pcap.bytes[chunk];
        marked.frame(&Handmade::raw(content).build(), content);
    }
    marked
}

fn write_over(file: &Path, bytes: &[u8]) {
    let file = OpenOptions::new().write(true).open(file).unwrap();
    file.write_all_at(bytes, 0).unwrap();
    file.set_len(bytes.len() as u64).unwrap();
}

#[test]
fn a_capture_written_over_before_the_first_read_of_its_final_name_is_not_taken_for_the_old() {
    let (old, new) = (aligned(1_700_000_000, 1), aligned(1_700_000_001, 2));
    let shown = Shown::new(64);
    fs::write(shown.path(".zst.partial"), &old.physical).unwrap();
    let (older, caching) = shown.open();
    assert_eq!(caching, Caching::Direct);
    shown.rename(".zst.partial", ".zst");
    let (number, _) = shown.look_up();
    write_over(&shown.path(".zst"), &new.physical);
    shown.assert_old_or_error(older, &old.source);
    shown.assert_new(&new.source);
    assert_ne!(shown.look_up().0, number);
}

#[test]
fn a_growing_capture_written_over_between_two_looks_gives_no_byte_of_the_new_one() {
    let (old, new) = (aligned(1_700_000_000, 3), aligned(1_700_000_001, 4));
    for is_draining in [false, true] {
        let shown = Shown::new(64);
        let torn = |marked: &Marked| [&marked.physical[..], &[0x28, 0xB5]].concat();
        fs::write(shown.path(".zst.partial"), torn(&old)).unwrap();
        let (number, size) = shown.look_up();
        assert_eq!(size, old.source.len());
        let mut ending = ".zst.partial";
        if is_draining {
            shown.rename(ending, ".zst");
            ending = ".zst";
        }
        let (older, _) = shown.open();
        write_over(&shown.path(ending), &torn(&new));
        shown.assert_old_or_error(older, &old.source);
        shown.assert_new(&new.source);
        assert_ne!(shown.look_up().0, number);
    }
}

#[test]
fn a_raw_capture_written_over_between_two_looks_gives_no_byte_of_the_new_one() {
    let (old, new) = (aligned(1_700_000_000, 5), aligned(1_700_000_001, 6));
    for ending in [".partial", ""] {
        let shown = Shown::new(64);
        fs::write(shown.path(ending), &old.source).unwrap();
        let (older, _) = shown.open();
        let (number, _) = shown.look_up();
        write_over(&shown.path(ending), &new.source);
        shown.assert_old_or_error(older, &old.source);
        shown.assert_new(&new.source);
        assert_ne!(shown.look_up().0, number);
    }
}

#[test]
fn a_raw_file_that_comes_to_its_final_name_with_another_header_gets_another_inode() {
    let (old, new) = (Pcap::new(Magic::LeUs), Pcap::random(Magic::BeNs, 7, 9));
    let mut zone = old.bytes.clone();
    zone[8] = 1;
    for new in [&new.bytes[..], &new.bytes[..24], &zone] {
        let shown = Shown::new(64);
        fs::write(shown.path(".partial"), &old.bytes).unwrap();
        let (older, _) = shown.open();
        let (number, size) = shown.look_up();
        assert_eq!(size, 24);
        write_over(&shown.path(".partial"), new);
        shown.rename(".partial", "");
        assert_ne!(shown.look_up().0, number);
        shown.assert_old_or_error(older, &old.bytes);
        shown.assert_new(new);
    }
}

#[test]
fn a_final_raw_file_that_loses_its_first_record_is_another_capture() {
    let old = Pcap::random(Magic::LeUs, 8, 3);
    let shown = Shown::new(64);
    // Half a first record, but its header: enough for a FileId, as all of it is shown.
    fs::write(shown.path(""), &old.bytes[..40]).unwrap();
    let (older, _) = shown.open();
    let (number, size) = shown.look_up();
    assert_eq!(size, 40);
    write_over(&shown.path(""), &old.bytes[..24]);
    assert_ne!(shown.look_up().0, number);
    assert!(matches!(shown.read(older, 0, 40), Err(Failure::Stale)));
    shown.assert_new(&old.bytes[..24]);
}

#[test]
fn a_cached_handle_answers_from_the_newer_file_also_where_none_is_kept_open() {
    let (old, new) = (aligned(1_700_000_000, 9), aligned(1_700_000_000, 10));
    for idle_files in [64, 0] {
        let shown = Shown::new(idle_files);
        fs::write(shown.path(".zst"), &old.physical).unwrap();
        let (older, caching) = shown.open();
        assert_eq!(caching, Caching::Fresh);
        fs::write(shown.path(".incoming"), &new.physical).unwrap();
        shown.rename(".incoming", ".zst");
        shown.assert_new(&new.source);
        // Its bytes go to the pages that the next handle keeps.
        let bytes = shown.read(older, 0, new.source.len()).unwrap();
        assert_same(&bytes, &new.source, "the old handle");
    }
}

#[test]
fn an_open_without_a_look_up_is_not_given_a_capture_that_was_written_over() {
    let (old, new) = (aligned(1_700_000_000, 11), aligned(1_700_000_001, 12));
    let of_form = |marked: &Marked, ending: &str| {
        if ending.starts_with(".zst") {
            marked.physical.clone()
        } else {
            marked.source.clone()
        }
    };
    for ending in [".zst", ".zst.partial", "", ".partial"] {
        let shown = Shown::new(64);
        fs::write(shown.path(ending), of_form(&old, ending)).unwrap();
        shown.assert_new(&old.source);
        let (number, _) = shown.look_up();
        write_over(&shown.path(ending), &of_form(&new, ending));
        // What was decoded before is there still.
        let opened = shown.tree.open_file(number);
        assert!(matches!(opened, Err(Failure::Stale)), "{ending:?}");
        shown.assert_new(&new.source);
    }
}

#[test]
fn a_cached_handle_reads_its_own_file_once_the_newer_one_holds_another_capture() {
    let (old, new) = (aligned(1_700_000_000, 13), aligned(1_700_000_001, 14));
    for ending in [".zst", ".zst.partial"] {
        let shown = Shown::new(64);
        fs::write(shown.path(".zst"), &old.physical).unwrap();
        let (older, caching) = shown.open();
        assert_eq!(caching, Caching::Fresh);
        let (number, _) = shown.look_up();
        // The same capture in another file, which then is written over.
        fs::remove_file(shown.path(".zst")).unwrap();
        fs::write(shown.path(ending), &old.physical).unwrap();
        assert_eq!(shown.look_up().0, number);
        write_over(&shown.path(ending), &new.physical);
        assert_ne!(shown.look_up().0, number);
        let bytes = shown.read(older, 0, old.source.len()).unwrap();
        assert_same(&bytes, &old.source, "the old handle");
        shown.assert_new(&new.source);
    }
}

#[test]
fn bytes_that_a_restarted_writer_has_written_again_are_read_without_another_look() {
    let old = aligned(1_700_000_000, 15);
    for (ending, bytes) in [(".zst.partial", &old.physical), (".partial", &old.source)] {
        let shown = Shown::new(64);
        fs::write(shown.path(ending), bytes).unwrap();
        let (handle, _) = shown.open();
        write_over(&shown.path(ending), &[]);
        assert_eq!(shown.look_up().1, old.source.len());
        assert!(shown.read(handle, 100, 10).is_err());
        write_over(&shown.path(ending), bytes);
        let read = shown.read(handle, 100, 5000).unwrap();
        assert_same(&read, &old.source[100..5100], "what is there again");
    }
}

#[test]
fn a_growing_capture_that_its_name_comes_back_to_keeps_the_size_that_was_shown() {
    let (capture, other) = (aligned(1_700_000_000, 16), aligned(1_700_000_001, 17));
    let cut = capture.frames[0].1.end;
    let shown = Shown::new(0);
    fs::write(shown.path(".zst.partial"), &capture.physical).unwrap();
    let before = shown.look_up();
    assert_eq!(before.1, capture.source.len());
    // A final form hides it while its writer restarts.
    fs::write(shown.path(".zst"), &other.physical).unwrap();
    assert_ne!(shown.look_up().0, before.0);
    write_over(&shown.path(".zst.partial"), &capture.physical[..cut]);
    fs::remove_file(shown.path(".zst")).unwrap();
    assert_eq!(shown.look_up(), before);
}

#[test]
fn a_growing_capture_that_is_back_after_another_was_in_its_file_is_shown_again() {
    let (capture, other) = (aligned(1_700_000_000, 18), aligned(1_700_000_001, 19));
    let shown = Shown::new(64);
    let path = shown.path(".zst.partial");
    fs::write(&path, &capture.physical).unwrap();
    let before = shown.look_up();
    let _held = shown.open();
    write_over(&path, &other.physical);
    assert_ne!(shown.look_up().0, before.0);
    write_over(&path, &capture.physical);
    assert_eq!(shown.look_up(), before);
    shown.assert_new(&capture.source);
    assert_eq!(shown.look_up(), before);
}

#[test]
fn a_number_from_before_the_first_record_stays_though_the_kernel_forgets_the_inode() {
    let marked = aligned(1_700_000_000, 20);
    let header = marked.frames[0].1.start;
    let shown = Shown::new(64);
    fs::write(shown.path(".zst.partial"), &marked.physical[..header]).unwrap();
    let (number, size) = shown.look_up();
    assert_eq!(size, 24);
    fs::write(shown.path(".zst.partial"), &marked.physical).unwrap();
    assert_eq!(shown.look_up(), (number, marked.source.len()));
    for ending in [".zst.partial", ".zst"] {
        if ending == ".zst" {
            shown.rename(".zst.partial", ending);
        }
        // Under pressure for memory it forgets what nobody holds open.
        shown.tree.forget(number, u64::MAX);
        assert_eq!(shown.look_up(), (number, marked.source.len()), "{ending}");
    }
    shown.tree.forget(number, u64::MAX);
    let other = aligned(1_700_000_001, 21);
    fs::write(shown.path(".zst"), &other.physical).unwrap();
    assert_ne!(shown.look_up().0, number, "another capture");
}
