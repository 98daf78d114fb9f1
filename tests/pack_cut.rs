//! `pack` of what ends too early, at each byte: told, never guessed, and nothing of it under a name.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "a failed step of a test is a panic"
)]

mod common;

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use common::day::scratch;
use common::live::decoded;
use common::pcap::{Magic, Pcap};
use common::{assert_same, names, pcapzst, run, run_with_input};
use flate2::Compression;
use flate2::write::GzEncoder;

/// A capture whose last record is small, so that it can be cut at each byte.
fn capture() -> Pcap {
    let mut pcap = Pcap::random(Magic::LeUs, 730, 60);
    pcap.push(1_700_000_100, 7, 60, &[0x5A; 40]);
    pcap
}

/// A capture that ends in half a record; its whole records, and the bytes behind them.
fn cuts() -> Vec<(Vec<u8>, Pcap, usize)> {
    let whole = capture();
    let mut before = whole.clone();
    before.ends.pop();
    let end = *before.ends.last().unwrap();
    before.bytes.truncate(end);
    let mut cuts: Vec<_> = (end + 1..whole.bytes.len())
        .map(|len| (whole.bytes[..len].to_vec(), before.clone(), len - end))
        .collect();
    // Less than a record's header behind the last one, whatever it is.
    for (stray, len) in [(0, 1), (0, 15), (0xFF, 1), (0xFF, 15)] {
        let bytes = [&whole.bytes[..], &vec![stray; len]].concat();
        cuts.push((bytes, whole.clone(), len));
    }
    // No whole record at all.
    let mut header = whole;
    header.bytes.truncate(24);
    header.ends.truncate(1);
    for len in [25, 39, 40, 41] {
        cuts.push((before.bytes[..len].to_vec(), header.clone(), len - 24));
    }
    cuts
}

/// Packs the file `name` with these bytes: the exit code, once nothing is left but the input.
#[track_caller]
fn refused(name: &str, bytes: &[u8], code: i32) {
    let folder = scratch();
    let input = folder.path().join(name);
    fs::write(&input, bytes).unwrap();
    let ran = run(pcapzst().arg("pack").arg(&input)).exits(code);
    assert!(ran.stderr.contains(name), "{}", ran.stderr);
    assert_eq!(names(folder.path()), [name.as_bytes()]);
    assert_same(&fs::read(&input).unwrap(), bytes, "the input");
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(bytes).unwrap();
    gzip.finish().unwrap()
}

#[test]
fn an_input_that_ends_within_its_header_is_no_capture_and_leaves_nothing() {
    let pcap = capture();
    for len in 0..24 {
        let bytes = &pcap.bytes[..len];
        refused("x.pcap", bytes, 3);
        refused("x.pcap.gz", &gzip(bytes), 3);
        let folder = scratch();
        let stream = folder.path().join("stream");
        fs::write(&stream, bytes).unwrap();
        pack_stream(&stream, &folder.path().join("x.pcap.zst"), 3);
        assert_eq!(names(folder.path()), [b"stream"], "{len} bytes");
    }
}

#[test]
fn a_file_that_ends_within_a_record_is_refused_at_each_byte_and_leaves_nothing() {
    for (bytes, _, _) in cuts() {
        refused("x.pcap", &bytes, 5);
        refused("x.pcap.gz", &gzip(&bytes), 5);
    }
}

#[test]
fn a_stream_that_ends_within_a_record_is_finished_without_it_and_its_bytes_are_counted() {
    let folder = scratch();
    let (stream, out) = (
        folder.path().join("stream"),
        folder.path().join("x.pcap.zst"),
    );
    for (bytes, before, cut) in cuts() {
        fs::write(&stream, &bytes).unwrap();
        let said = pack_stream(&stream, &out, 5);
        let told = format!("-: ended within a record; its first {cut} bytes are left out\n");
        assert!(said.contains(&told), "{cut}: {said}");
        assert_same(&decoded(&out), &before.bytes, "the whole records");
        assert_eq!(names(folder.path()), [&b"stream"[..], b"x.pcap.zst"]);
        fs::remove_file(&out).unwrap();
    }
}

/// Packs `stream` as standard input; what was said.
#[track_caller]
fn pack_stream(stream: &Path, out: &Path, code: i32) -> String {
    let mut command = pcapzst();
    command.args(["pack", "-", "-o"]).arg(out);
    let stdin = File::open(stream).unwrap();
    run_with_input(&mut command, stdin.into())
        .exits(code)
        .stderr
}
