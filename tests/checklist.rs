//! Section 10 of the format document, one test a line (those that need no growth).
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "a failed step of a test is a panic"
)]

mod common;

use std::fs;

use common::day::{Day, scratch};
use common::frames::{Marked, skippable, with_bad_checksum, zstd_frame};
use common::pcap::{Magic, Pcap};
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
    assert_eq!(
        common::sys::attribute(&path, "user.pcapzst.state").unwrap(),
        "complete"
    );
    assert_eq!(fs::metadata(&path).unwrap().len(), pcap.bytes.len() as u64);
}
