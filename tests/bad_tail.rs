//! A small capture cut at every byte, and with every byte touched: whole frames or a clean error, never other bytes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "a failed step of a test is a panic"
)]

mod common;

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Read;

use common::day::scratch;
use common::frames::{Marked, skippable};
use common::mounted::Mounted;
use common::pcap::{Magic, Pcap};
use common::{Ran, assert_same, names, pcapzst, run};
use nix::errno::Errno;
use serde_json::{Map, Value};
use tempfile::TempDir;

/// A capture of a few hundred bytes: four data frames and a skippable one in between.
fn small() -> (Pcap, Marked) {
    let mut pcap = Pcap::new(Magic::BeUs);
    for number in 0..8_u8 {
        pcap.push_udp(&vec![number; usize::from(number) * 3]);
    }
    let mut marked = Marked::new(pcap.header());
    for (number, chunk) in pcap.chunks(100).into_iter().enumerate() {
        marked.data(&pcap.bytes[chunk]);
        if number == 1 {
            marked.append(&skippable(2, b"words"));
        }
    }
    assert!(marked.frames.len() >= 3 && marked.physical.len() < 1500);
    (pcap, marked)
}

/// What is right for the first `cut` bytes: size, data frames, and where the torn part begins.
fn frontier(marked: &Marked, cut: usize) -> (usize, usize, usize) {
    let header_end = marked.frames[0].1.start;
    let skippable = marked.frames[1].1.end..marked.frames[2].1.start;
    let mut right = match cut {
        0..14 => (0, 0, 0),
        _ if cut < header_end => (0, 0, 14),
        _ => (24, 0, header_end),
    };
    for (number, (source, physical)) in marked.frames.iter().enumerate() {
        if physical.end <= cut {
            right = (source.end, number + 1, physical.end);
        }
    }
    if right.2 == skippable.start && cut >= skippable.end {
        right.2 = skippable.end;
    }
    right
}

/// One file for each cut, from nothing to everything.
fn all_cuts(marked: &Marked, ending: &str) -> TempDir {
    let folder = scratch();
    for cut in 0..=marked.physical.len() {
        let file = folder.path().join(format!("cut-{cut:04}{ending}"));
        fs::write(file, &marked.physical[..cut]).unwrap();
    }
    folder
}

/// The reports by logical name.
fn reports(ran: &Ran) -> HashMap<String, Map<String, Value>> {
    let name = |object: &Map<String, Value>| object["logical_name"].as_str().unwrap().to_owned();
    let reports: HashMap<_, _> = ran
        .json()
        .into_iter()
        .map(|object| (name(&object), object))
        .collect();
    assert_eq!(reports.len(), ran.text().lines().count());
    reports
}

fn assert_whole_frames_or_torn(ending: &str) {
    let (pcap, marked) = small();
    let folder = all_cuts(&marked, ending);
    let is_partial = ending.ends_with(".partial");
    let files = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let inspected = reports(&run(pcapzst().args(["inspect", "--json"]).args(files)).exits(5));
    let verified = reports(&run(pcapzst().args(["verify", "--json"]).arg(folder.path())).exits(5));
    let mounted = Mounted::new(folder.path(), "");
    for cut in 0..=marked.physical.len() {
        let (size, frames, boundary) = frontier(&marked, cut);
        let name = format!("cut-{cut:04}.pcap");
        let is_whole = boundary == cut && size >= 24;
        let state = match (is_partial, is_whole) {
            (true, _) => "growing",
            (false, true) => "complete",
            (false, false) => "draining",
        };
        for report in [&inspected[&name], &verified[&name]] {
            assert_eq!(report["state"], state, "{name}");
            assert_eq!(report["source_size"], size, "{name}");
            assert_eq!(report["frames"], frames, "{name}");
            assert_eq!(report["torn_bytes"], cut - boundary, "{name}");
        }
        let packets = pcap
            .ends
            .iter()
            .filter(|end| **end > 24 && **end <= size)
            .count();
        assert_eq!(verified[&name]["packets"], packets, "{name}");
        assert_eq!(
            verified[&name]["faults"].as_array().unwrap().len(),
            0,
            "{name}"
        );
        let path = mounted.join(&name);
        assert_eq!(fs::metadata(&path).unwrap().len(), size as u64, "{name}");
        assert_same(&fs::read(&path).unwrap(), &pcap.bytes[..size], &name);
    }
    assert_eq!(names(mounted.path()).len(), marked.physical.len() + 1);
}

#[test]
fn every_cut_of_a_final_capture_ends_at_a_whole_frame() {
    assert_whole_frames_or_torn(".pcap.zst");
}

#[test]
fn every_cut_of_a_partial_capture_ends_at_a_whole_frame() {
    assert_whole_frames_or_torn(".pcap.zst.partial");
}

#[test]
fn every_cut_of_a_raw_partial_capture_ends_at_a_whole_record() {
    let (pcap, _) = small();
    let folder = scratch();
    let mut files = Vec::new();
    for cut in 24..=pcap.bytes.len() {
        let end = *pcap.ends.iter().rfind(|end| **end <= cut).unwrap();
        files.push((format!("cut-{cut:04}"), pcap.bytes[..cut].to_vec(), end));
    }
    // What a writer has set aside and not yet written reads as zeros.
    for &end in &pcap.ends {
        for zeros in [1, 15, 16, 17, 100, 5000] {
            let bytes = [&pcap.bytes[..end], &vec![0; zeros]].concat();
            files.push((format!("end-{end:04}-zeros-{zeros}"), bytes, end));
        }
    }
    for (name, bytes, _) in &files {
        fs::write(folder.path().join(format!("{name}.pcap.partial")), bytes).unwrap();
    }
    let mounted = Mounted::new(folder.path(), "");
    for (name, _, end) in &files {
        let path = mounted.join(format!("{name}.pcap"));
        assert_eq!(fs::metadata(&path).unwrap().len(), *end as u64, "{name}");
        assert_same(&fs::read(&path).unwrap(), &pcap.bytes[..*end], name);
    }
}

#[test]
fn no_touched_byte_ever_reads_as_another() {
    let (pcap, marked) = small();
    let folder = scratch();
    let files = marked.physical.len() * 2;
    let touched = |number: usize| {
        let mut bytes = marked.physical.clone();
        let at = number / 2;
        bytes[at] ^= if number.is_multiple_of(2) {
            1 << (at % 8)
        } else {
            0xFF
        };
        bytes
    };
    for number in 0..files {
        fs::write(
            folder.path().join(format!("{number:04}.pcap.zst")),
            touched(number),
        )
        .unwrap();
    }
    let verified = reports(&run(pcapzst().args(["verify", "--json"]).arg(folder.path())).exits(4));
    let mounted = Mounted::new(folder.path(), "");
    let mut sound = 0;
    for number in 0..files {
        let name = format!("{number:04}.pcap");
        let report = &verified[&name];
        if report["state"] == "complete" && report["faults"].as_array().unwrap().is_empty() {
            // An ignored bit, such as a marker flag: zstd itself must agree that nothing changed.
            assert_same(
                &zstd::decode_all(&touched(number)[..]).unwrap(),
                &pcap.bytes,
                &name,
            );
            sound += 1;
        }
        let mut got = Vec::new();
        let end = File::open(mounted.join(&name)).and_then(|mut file| file.read_to_end(&mut got));
        assert!(
            pcap.bytes.starts_with(&got),
            "{name} reads as something else"
        );
        match end {
            Ok(_) => assert_ne!(report["state"], "damaged", "{name} ended without an error"),
            Err(error) => {
                let errno = Errno::from_raw(error.raw_os_error().unwrap());
                assert!(
                    matches!(errno, Errno::EIO | Errno::EOPNOTSUPP),
                    "{name}: {errno}"
                );
            }
        }
    }
    assert!(sound < files / 10, "{sound} of {files} files pass");
}
