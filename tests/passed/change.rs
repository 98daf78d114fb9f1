//! Files that change while a handle is passed.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt};

use super::shown::{Shown, all_of, append, rest};
use crate::common::assert_same;
use crate::common::pcap::{Magic, Pcap};

#[test]
fn what_is_appended_after_the_open_is_seen_by_the_next_read() {
    let shown = Shown::new();
    let pcap = Pcap::of_size(Magic::LeUs, 21, 100_000);
    let mut len = 10_000;
    shown.put("", &pcap.bytes[..len]);
    let file = shown.open_passed();
    for step in [1, 15, 4095, 30_000] {
        assert_eq!(file.read_at(&mut [0; 8], len as u64).unwrap(), 0);
        append(&shown.at(""), &pcap.bytes[len..len + step]);
        let mut more = vec![0; step + 1];
        // Nobody has asked for the size: the file's own end counts.
        let got = file.read_at(&mut more, len as u64).unwrap();
        assert_same(&more[..got], &pcap.bytes[len..len + step], "appended");
        len += step;
        assert_eq!(file.metadata().unwrap().len(), len as u64);
        assert_eq!(fs::metadata(shown.path()).unwrap().len(), len as u64);
    }
    shown.assert_passed(&file, &pcap.bytes[..len], "in the end");
}

#[test]
fn a_file_that_is_cut_ends_where_it_ends() {
    let shown = Shown::new();
    let pcap = Pcap::of_size(Magic::LeUs, 22, 100_000);
    shown.put("", &pcap.bytes);
    let file = shown.open_passed();
    let writer = OpenOptions::new().write(true).open(shown.at("")).unwrap();
    writer.set_len(5000).unwrap();
    shown.assert_passed(&file, &pcap.bytes[..5000], "cut");
    assert_eq!(file.metadata().unwrap().len(), 5000);
    let newer = shown.open_unpassed();
    shown.assert_asked(&newer, &pcap.bytes[..5000], "a new handle");
}

#[test]
fn a_removed_or_replaced_file_is_read_to_its_end_and_the_new_one_is_passed() {
    let shown = Shown::new();
    let old = Pcap::of_size(Magic::LeUs, 23, 100_000);
    let new = Pcap::of_size(Magic::BeNs, 24, 50_000);
    for is_renamed in [false, true] {
        let _ = fs::remove_file(shown.at(""));
        shown.put("", &old.bytes);
        let older = shown.open_passed();
        shown.put(".incoming", &new.bytes);
        if !is_renamed {
            fs::remove_file(shown.at("")).unwrap();
            shown.assert_passed(&older, &old.bytes, "removed");
        }
        fs::rename(shown.at(".incoming"), shown.at("")).unwrap();
        let newer = shown.open_passed();
        shown.assert_passed(&newer, &new.bytes, "the new capture");
        shown.assert_passed(&older, &old.bytes, "the old capture");
        let number = |file: &fs::File| file.metadata().unwrap().ino();
        assert_ne!(number(&older), number(&newer));
        drop((older, newer));
        shown.await_closed();
    }
}

#[test]
fn a_longer_copy_of_the_same_capture_has_its_number_and_its_own_bytes() {
    let shown = Shown::new();
    let pcap = Pcap::of_size(Magic::LeUs, 25, 100_000);
    shown.put("", &pcap.bytes[..40_000]);
    let older = shown.open_passed();
    shown.put(".incoming", &pcap.bytes);
    fs::rename(shown.at(".incoming"), shown.at("")).unwrap();
    // The kernel reads one file for one inode: this one is read here.
    let newer = shown.open_unpassed();
    let number = |file: &fs::File| file.metadata().unwrap().ino();
    assert_eq!(number(&older), number(&newer));
    shown.assert_asked(&newer, &pcap.bytes, "the copy");
    shown.assert_passed(&older, &pcap.bytes[..40_000], "the file before");
    drop((older, newer));
    shown.await_closed();
    shown.assert_passed(&shown.open_passed(), &pcap.bytes, "the copy, passed");
}

#[test]
fn a_passed_handle_gives_what_its_file_holds_also_when_it_is_written_over() {
    let old = Pcap::of_size(Magic::LeUs, 26, 50_000);
    let new = Pcap::of_size(Magic::BeNs, 27, 60_000);
    for options in ["", "no_passthrough"] {
        let shown = Shown::with(options);
        shown.put("", &old.bytes);
        let older = shown.open();
        fs::write(shown.at(""), &new.bytes).unwrap();
        let newer = shown.open_unpassed();
        assert_same(&all_of(&newer), &new.bytes, "a new handle");
        let number = |file: &fs::File| file.metadata().unwrap().ino();
        assert_ne!(number(&older), number(&newer), "another capture");
        if options.is_empty() {
            assert_same(&all_of(&older), &new.bytes, "the old handle");
        } else {
            let error = older.read_at(&mut [0; 10], 0).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::ESTALE));
        }
    }
}

#[test]
fn a_capture_that_was_written_over_is_passed_once_it_is_at_rest() {
    let shown = Shown::new();
    let old = Pcap::of_size(Magic::LeUs, 28, 50_000);
    let new = Pcap::of_size(Magic::BeNs, 29, 60_000);
    shown.put("", &old.bytes);
    shown.assert_passed(&shown.open_passed(), &old.bytes, "before");
    fs::write(shown.at(""), &new.bytes).unwrap();
    rest(&shown.at(""));
    shown.assert_passed(&shown.open_passed(), &new.bytes, "after");
}
