//! Section 10 of the format document, line by line: one test or more each.
//!
//! Tailing and the rename are here in their plainest form; under fire they are in `race.rs`, `renames.rs` and
//! `followers.rs`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "a failed step of a test is a panic"
)]

mod common;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

use ::pcapzst::capture::read_at::ReadAt;
use ::pcapzst::capture::{Engine, Form, Progress, Source};
use common::day::{Day, scratch};
use common::frames::{Marked, skippable, with_bad_checksum, zstd_frame};
use common::pcap::{Magic, Pcap};
use common::sys::attribute;
use common::{assert_same, pcapzst, run, tool};
use serde_json::{Map, Value, json};
use zstd::zstd_safe;

fn inspect(args: &[&str], bytes: &[u8], name: &str, code: i32) -> Map<String, Value> {
    let folder = scratch();
    let file = folder.path().join(name);
    fs::write(&file, bytes).unwrap();
    let ran = run(pcapzst().args(["inspect", "--json"]).args(args).arg(file)).exits(code);
    ran.json().remove(0)
}

fn cat(bytes: &[u8], range: Option<(u64, u64)>) -> Vec<u8> {
    let folder = scratch();
    let file = folder.path().join("x.pcap.zst");
    fs::write(&file, bytes).unwrap();
    let mut command = pcapzst();
    command.arg("cat");
    if let Some((offset, length)) = range {
        command.args([
            "--offset",
            &offset.to_string(),
            "--length",
            &length.to_string(),
        ]);
    }
    run(command.arg(file)).ok().stdout
}

#[test]
fn the_frame_table_begins_at_source_offset_24_and_has_no_gaps() {
    let pcap = Pcap::random(Magic::LeUs, 10, 500);
    let marked = Marked::pack(&pcap, 20_000);
    let report = inspect(&["--frames"], &marked.physical, "x.pcap.zst", 0);
    let wanted: Vec<_> = marked
        .frames
        .iter()
        .map(|(source, physical)| {
            json!({
                "src_start": source.start, "src_end": source.end,
                "phys_start": physical.start, "phys_len": physical.len(),
            })
        })
        .collect();
    assert!(wanted.len() > 5);
    assert_eq!(report["frame_table"], Value::Array(wanted));
    assert_eq!(report["frame_table"][0]["src_start"], 24);
}

#[test]
fn the_frame_table_is_what_zstd_itself_measures() {
    let pcap = Pcap::random(Magic::BeNs, 11, 400);
    let mut marked = Marked::new(pcap.header());
    for (number, chunk) in pcap.chunks(9000).into_iter().enumerate() {
        let content = &pcap.bytes[chunk];
        match number % 3 {
            0 => marked.data(content),
            1 => marked.frame(&common::frames::Handmade::raw(content).build(), content),
            _ => marked.append(&skippable(9, content)),
        }
    }
    let report = inspect(&["--frames"], &marked.physical, "x.pcap.zst", 0);
    let table = report["frame_table"].as_array().unwrap();
    assert_eq!(table.len(), marked.frames.len());
    for frame in table {
        let number = |key: &str| usize::try_from(frame[key].as_u64().unwrap()).unwrap();
        let bytes = &marked.physical[number("phys_start")..];
        assert_eq!(
            zstd_safe::find_frame_compressed_size(bytes).unwrap(),
            number("phys_len")
        );
        let content = zstd_safe::get_frame_content_size(bytes).unwrap().unwrap();
        assert_eq!(content, (number("src_end") - number("src_start")) as u64);
    }
}

#[test]
fn an_unmarked_file_is_refused_as_not_this_format() {
    let pcap = Pcap::random(Magic::LeUs, 12, 100);
    let report = inspect(&[], &zstd_frame(&pcap.bytes), "x.pcap.zst", 3);
    assert_eq!(report["state"], "refused");
    assert_eq!(report["file_id"], Value::Null);
}

#[test]
fn a_marker_with_a_bad_version_is_refused() {
    let pcap = Pcap::random(Magic::LeUs, 13, 100);
    let marked = Marked::pack(&pcap, 4000);
    for version in [0, 2, 255] {
        let first = skippable(0, &[b'P', b'S', b'Z', b'1', version, 0]);
        let report = inspect(
            &[],
            &[&first, &marked.physical[14..]].concat(),
            "x.pcap.zst",
            3,
        );
        let error = report["error"].as_str().unwrap();
        assert!(error.contains("version"), "{error}");
    }
}

#[test]
fn a_truncated_marker_needs_more_and_is_no_error() {
    let marked = Marked::new(Pcap::new(Magic::LeUs).header());
    for cut in 0..14 {
        let report = inspect(&[], &marked.physical[..cut], "x.pcap.zst.partial", 5);
        assert_eq!(report["state"], "growing");
        assert_eq!(report["error"], Value::Null);
        assert_eq!(report["source_size"], 0);
    }
}

#[test]
fn whole_file_zstd_output_and_cat_equal_the_source() {
    for magic in Magic::ALL {
        let pcap = Pcap::random(magic, 14, 600);
        let marked = Marked::pack(&pcap, 30_000);
        let folder = scratch();
        let file = folder.path().join("x.pcap.zst");
        fs::write(&file, &marked.physical).unwrap();
        assert_same(
            &run(tool("zstd").arg("-dc").arg(&file)).ok().stdout,
            &pcap.bytes,
            "zstd -dc",
        );
        assert_same(&cat(&marked.physical, None), &pcap.bytes, "cat");
        let report = inspect(&[], &marked.physical, "x.pcap.zst", 0);
        assert_eq!(report["magic"], magic.name());
        assert_eq!(report["link_type"], 1);
        assert_eq!(report["snaplen"], 262_144);
    }
}

#[test]
fn one_frame_alone_gives_exactly_its_records() {
    let pcap = Pcap::random(Magic::LeNs, 15, 300);
    let marked = Marked::pack(&pcap, 15_000);
    for (source, _) in &marked.frames {
        assert!(pcap.ends.contains(&source.start) && pcap.ends.contains(&source.end));
        let got = cat(
            &marked.physical,
            Some((source.start as u64, source.len() as u64)),
        );
        assert_same(&got, &pcap.bytes[source.clone()], "one frame");
    }
}

#[test]
fn a_corrupted_byte_is_a_decode_error() {
    let pcap = Pcap::random(Magic::LeUs, 16, 100);
    let marked = Marked::pack(&pcap, 10_000);
    let folder = scratch();
    let file = folder.path().join("x.pcap.zst");
    fs::write(&file, with_bad_checksum(&marked.physical)).unwrap();
    run(pcapzst().arg("verify").arg(&file)).exits(4);
    let ran = run(pcapzst().arg("cat").arg(&file)).fails();
    let last = marked.frames.last().unwrap();
    assert_same(&ran.stdout, &pcap.bytes[..last.0.start], "the good prefix");
    assert!(
        ran.stderr
            .contains(&format!("physical offset {}:", last.1.start)),
        "{}",
        ran.stderr
    );
}

#[test]
fn the_file_id_is_the_same_in_every_form() {
    for magic in Magic::ALL {
        let pcap = Pcap::random(magic, 17, 40);
        let secs = u64::from(1_700_000_000_u32);
        let fraction = if magic.is_nano() { 1001 } else { 1000 };
        let id = json!({
            "first_packet_ts": secs * 1_000_000_000 + fraction,
            "header_crc32": crc32fast::hash(&pcap.bytes[..40]),
        });
        let marked = Marked::pack(&pcap, 2000);
        assert_eq!(
            inspect(&[], &marked.physical, "x.pcap.zst", 0)["file_id"],
            id,
            "{magic:?}"
        );
        assert_eq!(
            inspect(&[], &pcap.bytes, "x.pcap", 0)["file_id"],
            id,
            "{magic:?}"
        );
        assert_eq!(
            inspect(&[], &pcap.bytes, "x.pcap.partial", 5)["file_id"],
            id,
            "{magic:?}"
        );
    }
}

#[test]
fn a_header_without_records_has_a_provisional_id() {
    let pcap = Pcap::new(Magic::LeUs);
    let marked = Marked::new(pcap.header());
    assert_eq!(
        inspect(&[], &marked.physical, "x.pcap.zst", 0)["file_id"],
        Value::Null
    );
    assert_eq!(
        inspect(&[], &pcap.bytes, "x.pcap", 0)["file_id"],
        Value::Null
    );
}

#[test]
fn a_first_record_split_over_frames_still_gives_the_id() {
    let pcap = Pcap::random(Magic::LeUs, 18, 10);
    let mut marked = Marked::new(pcap.header());
    marked.data(&pcap.bytes[24..30]);
    marked.data(&pcap.bytes[30..]);
    let report = inspect(&[], &marked.physical, "x.pcap.zst", 0);
    assert_eq!(
        report["file_id"]["header_crc32"],
        crc32fast::hash(&pcap.bytes[..40])
    );
}

#[test]
fn a_file_found_final_is_complete_at_once() {
    let pcap = Pcap::random(Magic::LeUs, 19, 50);
    let day = Day::with("found", &pcap);
    let mounted = day.mount();
    let path = mounted.join("found.pcap");
    assert_eq!(attribute(&path, "user.pcapzst.state").unwrap(), "complete");
    assert_eq!(fs::metadata(&path).unwrap().len(), pcap.bytes.len() as u64);
}

/// A growing file whose writer appends the next piece in the middle of a poll: right behind the poll's first read.
#[derive(Clone, Default)]
struct Appended(Arc<Mutex<(Vec<u8>, Vec<u8>)>>);

impl ReadAt for Appended {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let (bytes, next) = &mut *self.0.lock().unwrap();
        let read = ReadAt::read_at(bytes, buf, offset);
        bytes.append(next);
        read
    }

    fn len(&self) -> io::Result<u64> {
        ReadAt::len(&self.0.lock().unwrap().0)
    }
}

#[test]
fn a_frame_appended_in_the_middle_of_a_poll_is_surfaced_by_a_later_one() {
    let pcap = Pcap::random(Magic::LeUs, 20, 200);
    let marked = Marked::pack(&pcap, 8000);
    let file = Appended::default();
    let first = marked.frames[0].1.end;
    file.0.lock().unwrap().0 = marked.physical[..first].to_vec();
    let engine = Arc::new(Engine::default());
    let polled = Box::new(file.clone());
    let source = Source::open(engine, polled, Form::Zst, Progress::Partial).unwrap();
    let size = || usize::try_from(source.facts().size).unwrap();
    assert_eq!(size(), marked.frames[0].0.end);
    for pair in marked.frames.windows(2) {
        // A poll finds a torn piece of this frame, and meanwhile the rest of it comes.
        let (before, now) = (&pair[0], &pair[1]);
        let cut = now.1.start + now.1.len() / 2;
        let mut bytes = file.0.lock().unwrap();
        bytes.0.extend(&marked.physical[now.1.start..cut]);
        bytes.1.extend(&marked.physical[cut..now.1.end]);
        drop(bytes);
        source.refresh().unwrap();
        let seen = size();
        assert!([before.0.end, now.0.end].contains(&seen), "{seen}");
        source.refresh().unwrap();
        assert_eq!(size(), now.0.end, "the next poll");
    }
}

fn append(file: &Path, bytes: &[u8]) {
    let mut file = OpenOptions::new().append(true).open(file).unwrap();
    file.write_all(bytes).unwrap();
}

#[test]
fn a_torn_trailing_frame_is_not_surfaced_until_it_is_complete() {
    let pcap = Pcap::random(Magic::LeUs, 21, 30);
    let marked = Marked::pack(&pcap, 9000);
    let day = Day::new();
    let physical = day.source().join("x.pcap.zst.partial");
    fs::write(&physical, &marked.physical[..marked.frames[0].1.end]).unwrap();
    let mounted = day.mount();
    let path = mounted.join("x.pcap");
    let kept = File::open(&path).unwrap();
    let (before, frame) = (&marked.frames[0], &marked.frames[1]);
    let bytes = &marked.physical[frame.1.clone()];
    for (number, piece) in bytes.chunks(bytes.len() / 40).enumerate() {
        let torn = attribute(&path, "user.pcapzst.torn_bytes").unwrap();
        assert_eq!(torn, (number * (bytes.len() / 40)).to_string());
        assert_eq!(kept.metadata().unwrap().len(), before.0.end as u64);
        assert_same(
            &fs::read(&path).unwrap(),
            &pcap.bytes[..before.0.end],
            "torn",
        );
        append(&physical, piece);
    }
    assert_eq!(kept.metadata().unwrap().len(), frame.0.end as u64);
    assert_same(
        &fs::read(&path).unwrap(),
        &pcap.bytes[..frame.0.end],
        "whole",
    );
}

#[test]
fn a_rename_in_mid_stream_is_drained_and_ends_with_the_source_size_and_no_consumer_notices() {
    let pcap = Pcap::of_size(Magic::LeUs, 22, 200_000);
    let marked = Marked::pack(&pcap, 20_000);
    let day = Day::new();
    let partial = day.source().join("x.pcap.zst.partial");
    let complete = day.source().join("x.pcap.zst");
    let half = marked.frames[marked.frames.len() / 2].clone();
    let cut = half.1.end - half.1.len() / 2;
    fs::write(&partial, &marked.physical[..cut]).unwrap();
    let mounted = day.mount();
    let path = mounted.join("x.pcap");
    let state = || attribute(&path, "user.pcapzst.state").unwrap();
    let mut attached = File::open(&path).unwrap();
    let number = attached.metadata().unwrap().ino();
    let mut got = vec![0; 50_000];
    attached.read_exact(&mut got).unwrap();
    assert_eq!(state(), "growing");

    // The rename lands while a frame is torn: signal and repoint first, then drain.
    fs::rename(&partial, &complete).unwrap();
    assert_eq!(state(), "draining");
    let physical_name = attribute(&path, "user.pcapzst.physical_name").unwrap();
    assert_eq!(
        physical_name, "x.pcap.zst",
        "new opens go to the final path"
    );
    attached.read_to_end(&mut got).unwrap();
    assert_same(&got, &pcap.bytes[..half.0.start], "all that is whole");
    let mut newcomer = File::open(&path).unwrap();
    let mut seen = Vec::new();
    newcomer.read_to_end(&mut seen).unwrap();
    assert_same(
        &seen,
        &pcap.bytes[..half.0.start],
        "attached in the drain window",
    );

    append(&complete, &marked.physical[cut..]);
    assert_eq!(state(), "complete");
    let found = fs::metadata(&path).unwrap();
    assert_eq!(found.len(), pcap.bytes.len() as u64, "the source size");
    assert_ne!(found.len(), marked.physical.len() as u64);
    for (mut consumer, mut got) in [(attached, got), (newcomer, seen)] {
        consumer.read_to_end(&mut got).unwrap();
        assert_same(&got, &pcap.bytes, "across the rename, to the end");
        assert_eq!(consumer.metadata().unwrap().ino(), number);
    }
    assert_eq!(found.ino(), number);
}
