//! Faults at which following stops: all good bytes before them, then the exit code and the place.

use std::fs;

use super::following::cat_follow;
use crate::common::day::scratch;
use crate::common::frames::{Marked, skippable, with_bad_checksum, zstd_frame};
use crate::common::pcap::{Magic, Pcap};
use crate::common::{assert_same, run};

/// Follows a compressed file under both of its names: the exit code, what was written, and what was said of where.
#[track_caller]
fn assert_stops(physical: &[u8], good: &[u8], code: i32, said: &[&str]) {
    let folder = scratch();
    for name in ["x.pcap.zst.partial", "x.pcap.zst"] {
        let path = folder.path().join(name);
        fs::write(&path, physical).unwrap();
        let ran = run(&mut cat_follow::<&str>(&path, &[])).exits(code);
        assert_same(&ran.stdout, good, name);
        for part in said {
            assert!(ran.stderr.contains(part), "{name}: {}", ran.stderr);
        }
        assert_eq!(ran.stderr.lines().count(), 1, "{name}: {}", ran.stderr);
        fs::remove_file(&path).unwrap();
    }
}

/// Two good frames of a capture with this snapshot length.
fn two_frames(snaplen: u32) -> (Pcap, Marked) {
    let mut pcap = Pcap::with(Magic::LeUs, 4, snaplen, 1);
    let mut marked = Marked::new(pcap.header());
    for number in 0..2 {
        let start = pcap.bytes.len();
        pcap.push(1_700_000_000 + number, 0, 60, &[7; 60]);
        pcap.push(1_700_000_000 + number, 1, 60, &[8; 60]);
        marked.data(&pcap.bytes[start..]);
    }
    (pcap, marked)
}

fn place(marked: &Marked) -> String {
    format!("frame 2 at physical offset {}:", marked.physical.len())
}

#[test]
fn a_frame_with_a_bad_checksum_stops_it() {
    let (mut pcap, mut marked) = two_frames(0);
    let (good, place) = (pcap.bytes.clone(), place(&marked));
    pcap.push(1_700_000_009, 0, 60, &[9; 60]);
    let frame = zstd_frame(&pcap.bytes[good.len()..]);
    marked.append(&with_bad_checksum(&frame));
    marked.append(&frame);
    assert_stops(&marked.physical, &good, 4, &[&place]);
}

/// A third frame: a good record, one of `len` bytes, and another good one.
#[track_caller]
fn assert_record_stops(snaplen: u32, len: usize) {
    let (mut pcap, mut marked) = two_frames(snaplen);
    let (start, place) = (pcap.bytes.len(), place(&marked));
    pcap.push(1_700_000_009, 0, 60, &[9; 60]);
    let good = pcap.bytes.clone();
    let orig_len = u32::try_from(len).unwrap();
    pcap.push(1_700_000_009, 1, orig_len, &vec![3; len]);
    pcap.push(1_700_000_009, 2, 60, &[9; 60]);
    marked.data(&pcap.bytes[start..]);
    let record = format!("record at source offset {}", good.len());
    let got = format!("got {len}");
    assert_stops(&marked.physical, &good, 4, &[&place, &record, &got]);
}

#[test]
fn a_record_longer_than_the_format_allows_stops_it_behind_the_records_before() {
    assert_record_stops(0, 262_145);
}

#[test]
fn a_record_longer_than_snaplen_stops_it_behind_the_records_before() {
    assert_record_stops(100, 101);
}

#[test]
fn a_frame_that_ends_in_half_a_record_stops_it_behind_the_records_before() {
    let (mut pcap, mut marked) = two_frames(0);
    let (start, place) = (pcap.bytes.len(), place(&marked));
    pcap.push(1_700_000_009, 0, 60, &[9; 60]);
    let good = pcap.bytes.clone();
    pcap.push(1_700_000_009, 1, 60, &[9; 60]);
    marked.data(&pcap.bytes[start..good.len() + 20]);
    marked.data(&pcap.bytes[good.len() + 20..]);
    let record = format!("record at source offset {}", good.len());
    assert_stops(&marked.physical, &good, 4, &[&place, &record]);
}

#[test]
fn bytes_that_begin_no_frame_stop_it() {
    let (pcap, mut marked) = two_frames(0);
    let place = place(&marked);
    marked.append(b"what a crashed writer left");
    assert_stops(&marked.physical, &pcap.bytes, 4, &[&place]);
}

#[test]
fn a_fault_before_the_offset_asked_for_is_not_met() {
    let (mut pcap, mut marked) = two_frames(0);
    let start = pcap.bytes.len();
    pcap.push(1_700_000_009, 0, 60, &[9; 60]);
    let frame = with_bad_checksum(&zstd_frame(&pcap.bytes[start..]));
    marked.frame(&frame, &pcap.bytes[start..]);
    let behind = pcap.bytes.len();
    pcap.push(1_700_000_009, 1, 60, &[9; 60]);
    marked.data(&pcap.bytes[behind..]);
    let folder = scratch();
    let path = folder.path().join("x.pcap.zst");
    fs::write(&path, &marked.physical).unwrap();
    let offset = format!("--offset={behind}");
    let ran = run(&mut cat_follow(&path, &[offset])).ok();
    assert_same(&ran.stdout, &pcap.bytes[behind..], "the good frame");
}

#[test]
fn another_format_or_version_is_refused_with_3() {
    let (pcap, _) = two_frames(0);
    let plain = zstd_frame(&pcap.bytes);
    assert_stops(&plain, b"", 3, &["marker frame at physical offset 0:"]);
    let other = [skippable(0, b"PSZ1\x02\x00"), plain].concat();
    assert_stops(&other, b"", 3, &["marker frame at physical offset 0:", "2"]);
}

#[test]
fn a_header_frame_that_is_no_pcap_header_is_refused_with_4() {
    let mut pcapng = [0; 24];
    pcapng[..4].copy_from_slice(&[0x0A, 0x0D, 0x0D, 0x0A]);
    let marked = Marked::new(&pcapng);
    assert_stops(
        &marked.physical,
        b"",
        4,
        &["header frame at physical offset 14:"],
    );
}

#[test]
fn a_raw_partial_file_that_is_no_pcap_is_refused_with_3() {
    let folder = scratch();
    let path = folder.path().join("x.pcap.partial");
    fs::write(&path, b"text, and rather more than 24 bytes of it").unwrap();
    let ran = run(&mut cat_follow::<&str>(&path, &[])).exits(3);
    assert!(ran.stdout.is_empty());
    assert!(ran.stderr.contains("physical offset 0:"), "{}", ran.stderr);
}
