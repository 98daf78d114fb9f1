//! Handles that are passed and handles that are not, of one inode, in every order.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::thread;

use super::shown::{Shown, all_of, append, rest};
use crate::common::assert_same;
use crate::common::frames::Marked;
use crate::common::pcap::{Magic, Pcap};
use crate::common::sys::{Map, Sharing, read_by_map};

#[test]
fn a_direct_handle_keeps_those_after_it_direct_until_it_is_closed() {
    let shown = Shown::new();
    let pcap = Pcap::of_size(Magic::LeUs, 11, 100_000);
    fs::write(shown.at(""), &pcap.bytes).unwrap();
    let first = shown.open_unpassed();
    rest(&shown.at(""));
    let second = shown.open_unpassed();
    for file in [&first, &second] {
        shown.assert_asked(file, &pcap.bytes, "direct");
        // While another handle was passed, this one could not be mapped.
        let map = read_by_map(file, Sharing::Shared).unwrap();
        assert_same(&map, &pcap.bytes, "a map");
    }
    drop((first, second));
    shown.await_closed();
    shown.assert_passed(&shown.open_passed(), &pcap.bytes, "passed");
}

#[test]
fn beside_a_passed_handle_one_that_may_not_be_passed_is_answered_here() {
    let shown = Shown::new();
    let pcap = Pcap::of_size(Magic::LeUs, 12, 100_000);
    let (head, tail) = pcap.bytes.split_at(60_000);
    shown.put("", head);
    let passed = shown.open_passed();
    append(&shown.at(""), tail);
    let beside = shown.open_unpassed();
    shown.assert_asked(&beside, &pcap.bytes, "beside");
    shown.assert_passed(&passed, &pcap.bytes, "passed");
    let map = read_by_map(&beside, Sharing::Shared).unwrap();
    assert_same(&map, &pcap.bytes, "a map of the one beside");
    // The inode is the kernel's to read until this one is closed too.
    drop(passed);
    rest(&shown.at(""));
    let again = shown.open_passed();
    shown.assert_passed(&again, &pcap.bytes, "passed again");
    drop(beside);
    shown.assert_passed(&again, &pcap.bytes, "after the other was closed");
}

#[test]
fn a_partial_file_that_is_open_through_its_rename_keeps_its_handles_direct() {
    let shown = Shown::new();
    let pcap = Pcap::of_size(Magic::LeUs, 13, 100_000);
    shown.put(".partial", &pcap.bytes);
    for is_mapped in [false, true] {
        let older = shown.open_unpassed();
        let map = is_mapped.then(|| Map::new(&older, 0, 4096, Sharing::Shared).unwrap());
        fs::rename(shown.at(".partial"), shown.at("")).unwrap();
        let newer = shown.open_unpassed();
        for file in [&older, &newer] {
            shown.assert_asked(file, &pcap.bytes, "through the rename");
        }
        drop((older, newer));
        if let Some(map) = map {
            // It holds the inode in the kernel, and the handle is not released.
            let file = shown.open_unpassed();
            let mut page = [0; 4096];
            map.copy(0, &mut page).unwrap();
            assert_same(&page, &pcap.bytes[..4096], "the map");
            drop((map, file));
        }
        shown.await_closed();
        let passed = shown.open_passed();
        shown.assert_passed(&passed, &pcap.bytes, "under the final name");
        // And back: a handle of the partial name beside it.
        fs::rename(shown.at(""), shown.at(".partial")).unwrap();
        shown.assert_asked(&shown.open_unpassed(), &pcap.bytes, "partial again");
        shown.assert_passed(&passed, &pcap.bytes, "what was passed");
        drop(passed);
        shown.await_closed();
    }
}

#[test]
fn a_capture_changes_its_form_under_handles_of_both_kinds() {
    let shown = Shown::new();
    let pcap = Pcap::of_size(Magic::LeUs, 14, 100_000);
    let packed = Marked::pack(&pcap, 20_000).physical;
    shown.put("", &pcap.bytes);
    let number = || fs::metadata(shown.path()).unwrap().ino();
    let before = number();
    for _ in 0..2 {
        let raw = shown.open_passed();
        fs::write(shown.at(".zst"), &packed).unwrap();
        fs::remove_file(shown.at("")).unwrap();
        let zst = shown.open_unpassed();
        shown.assert_asked(&zst, &pcap.bytes, "compressed, beside the raw one");
        shown.assert_passed(&raw, &pcap.bytes, "raw, and removed");
        drop((raw, zst));
        shown.await_closed();
        // Alone it is page-cached; the raw one that comes back must not be passed beside it.
        let zst = shown.open_unpassed();
        assert_same(&all_of(&zst), &pcap.bytes, "compressed");
        shown.put("", &pcap.bytes);
        let raw = shown.open_unpassed();
        shown.assert_asked(&raw, &pcap.bytes, "raw again");
        drop((zst, raw));
        shown.await_closed();
        assert_eq!(number(), before);
    }
}

#[test]
fn opens_and_closes_at_the_same_time_never_fail() {
    let shown = Shown::new();
    let pcap = Pcap::of_size(Magic::LeUs, 15, 30_000);
    shown.put("", &pcap.bytes);
    let path = shown.path();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..400 {
                    assert_same(&fs::read(&path).unwrap(), &pcap.bytes, "a reader");
                }
            });
        }
        scope.spawn(|| {
            let file = fs::File::open(shown.at("")).unwrap();
            for round in 0..400u32 {
                // At rest or not, by turns.
                let back = super::shown::LONG_AGO * (round % 2);
                let written = std::time::SystemTime::now() - back;
                let times = fs::FileTimes::new().set_modified(written);
                file.set_times(times).unwrap();
            }
        });
    });
    assert!(shown.mounted.counter("passthrough_opens") > 0);
}
