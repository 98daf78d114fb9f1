//! `pack` writes what `zstd -dc`, `verify` and `cat` give back byte for byte, or nothing.
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
use std::path::{Path, PathBuf};

use common::day::scratch;
use common::frames::{MARKER, Marked, zstd_frame};
use common::pcap::{Magic, Pcap};
use common::{Ran, assert_same, names, pcapzst, run, run_with_input, tool};
use flate2::Compression;
use flate2::write::GzEncoder;
use tempfile::TempDir;

/// A folder with one file.
fn with(name: &str, bytes: &[u8]) -> (TempDir, PathBuf) {
    let folder = scratch();
    let file = folder.path().join(name);
    fs::write(&file, bytes).unwrap();
    (folder, file)
}

fn pack(input: &Path, args: &[&str], out: &Path) -> Ran {
    run(pcapzst()
        .arg("pack")
        .arg(input)
        .args(args)
        .arg("-o")
        .arg(out))
}

/// Checks a packed file in every way there is.
#[track_caller]
fn assert_packed(out: &Path, pcap: &Pcap, target: usize) {
    let physical = fs::read(out).unwrap();
    assert!(physical.starts_with(&MARKER), "{}", out.display());
    assert_same(
        &run(tool("zstd").arg("-dc").arg(out)).ok().stdout,
        &pcap.bytes,
        "zstd -dc",
    );
    assert_same(
        &run(pcapzst().arg("cat").arg(out)).ok().stdout,
        &pcap.bytes,
        "cat",
    );
    let verified = run(pcapzst().args(["verify", "--json"]).arg(out))
        .ok()
        .json()
        .remove(0);
    assert_eq!(verified["packets"], pcap.records());
    let report = run(pcapzst().args(["inspect", "--json", "--frames"]).arg(out))
        .ok()
        .json()
        .remove(0);
    let largest = pcap
        .ends
        .windows(2)
        .map(|pair| pair[1] - pair[0])
        .max()
        .unwrap_or(0);
    let mut position = 24;
    for frame in report["frame_table"].as_array().unwrap() {
        let end = usize::try_from(frame["src_end"].as_u64().unwrap()).unwrap();
        assert!(
            pcap.ends.binary_search(&end).is_ok(),
            "a frame ends inside a record, at {end}"
        );
        assert!(
            end - position <= target + largest,
            "a frame of {} bytes",
            end - position
        );
        position = end;
    }
    assert_eq!(position, pcap.bytes.len());
    let partial = out.with_extension("zst.partial");
    assert!(!partial.exists(), "{} is left", partial.display());
}

#[test]
fn a_capture_is_packed_beside_its_input() {
    for magic in Magic::ALL {
        let pcap = Pcap::random(magic, 600, 900);
        let (folder, input) = with("x.pcap", &pcap.bytes);
        run(pcapzst().arg("pack").arg(&input)).ok();
        assert_eq!(names(folder.path()), [&b"x.pcap"[..], b"x.pcap.zst"]);
        assert_packed(&folder.path().join("x.pcap.zst"), &pcap, 262_144);
        assert_same(&fs::read(&input).unwrap(), &pcap.bytes, "the input");
    }
}

#[test]
fn level_and_frame_target_change_the_frames_and_not_the_source() {
    let pcap = Pcap::random(Magic::LeUs, 601, 400);
    let (folder, input) = with("x.pcap", &pcap.bytes);
    for (number, args) in [
        ["--level", "19"],
        ["--frame-target", "5000"],
        ["--frame-target", "1"],
    ]
    .iter()
    .enumerate()
    {
        let out = folder.path().join(format!("{number}.pcap.zst"));
        pack(&input, args, &out).ok();
        let target = if args[0] == "--level" {
            262_144
        } else {
            args[1].parse().unwrap()
        };
        assert_packed(&out, &pcap, target);
    }
}

#[test]
fn old_versions_and_odd_but_allowed_records_are_packed_as_they_are() {
    let mut captures = Vec::new();
    for minor in [2, 3] {
        let mut old = Pcap::with(Magic::BeUs, minor, 65_535, 1);
        old.extend_random(&mut common::Rng::new(602), 50);
        captures.push(old);
    }
    let mut odd = Pcap::with(Magic::LeUs, 4, 0, 0x1400_0001);
    odd.push(1, 4_000_000_000, 0, b"");
    odd.push(0, 0, 1, b"more was captured than was there");
    odd.push(u32::MAX, u32::MAX, u32::MAX, &vec![0xAB; 262_144]);
    captures.push(odd);
    captures.push(Pcap::new(Magic::BeNs));
    for pcap in &captures {
        let (folder, input) = with("x.pcap", &pcap.bytes);
        let out = folder.path().join("y.pcap.zst");
        pack(&input, &[], &out).ok();
        assert_packed(&out, pcap, 262_144);
    }
}

#[test]
fn standard_input_is_packed() {
    let pcap = Pcap::random(Magic::LeNs, 603, 800);
    let (folder, input) = with("x.pcap", &pcap.bytes);
    let out = folder.path().join("y.pcap.zst");
    let file = File::open(input).unwrap();
    run_with_input(pcapzst().args(["pack", "-", "-o"]).arg(&out), file.into()).ok();
    assert_packed(&out, &pcap, 262_144);
}

#[test]
fn plain_zstd_gzip_and_marked_inputs_are_packed() {
    let pcap = Pcap::random(Magic::BeUs, 604, 500);
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(&pcap.bytes).unwrap();
    let gzip = gzip.finish().unwrap();
    let halves = [
        zstd_frame(&pcap.bytes[..1000]),
        zstd_frame(&pcap.bytes[1000..]),
    ]
    .concat();
    let inputs = [
        ("x.pcap.zst", zstd_frame(&pcap.bytes)),
        ("x.pcap.zst", halves),
        ("x.pcap.zst", Marked::pack(&pcap, 3000).physical),
        ("x.pcap.gz", gzip.clone()),
        // The first bytes tell, not the name.
        ("x.pcap", gzip),
        ("x.pcap", zstd_frame(&pcap.bytes)),
        ("x.pcap.gz", pcap.bytes.clone()),
    ];
    for (name, bytes) in inputs {
        let (folder, input) = with(name, &bytes);
        let out = folder.path().join("y.pcap.zst");
        pack(&input, &[], &out).ok();
        assert_packed(&out, &pcap, 262_144);
        assert_same(&fs::read(&input).unwrap(), &bytes, "the input");
    }
}

#[test]
fn several_inputs_go_to_a_folder() {
    let captures = [
        Pcap::random(Magic::LeUs, 605, 60),
        Pcap::random(Magic::BeNs, 606, 60),
    ];
    let (folder, first) = with("a.pcap", &captures[0].bytes);
    let second = folder.path().join("b.pcap");
    fs::write(&second, &captures[1].bytes).unwrap();
    let out = folder.path().join("packed");
    fs::create_dir(&out).unwrap();
    run(pcapzst()
        .arg("pack")
        .args([&first, &second])
        .arg("-o")
        .arg(&out))
    .ok();
    assert_eq!(names(&out), [&b"a.pcap.zst"[..], b"b.pcap.zst"]);
    assert_packed(&out.join("a.pcap.zst"), &captures[0], 262_144);
    assert_packed(&out.join("b.pcap.zst"), &captures[1], 262_144);
}

#[test]
fn an_output_that_exists_is_kept_unless_forced() {
    let pcap = Pcap::random(Magic::LeUs, 607, 60);
    let (folder, input) = with("x.pcap", &pcap.bytes);
    let out = folder.path().join("x.pcap.zst");
    fs::write(&out, "precious").unwrap();
    let refused = pack(&input, &[], &out).fails();
    assert!(refused.stderr.contains("x.pcap.zst"), "{}", refused.stderr);
    assert_eq!(fs::read(&out).unwrap(), b"precious");
    pack(&input, &["--force"], &out).ok();
    assert_packed(&out, &pcap, 262_144);
    assert_same(&fs::read(&input).unwrap(), &pcap.bytes, "the input");
}

#[test]
fn the_input_is_never_its_own_output() {
    let pcap = Pcap::random(Magic::LeUs, 608, 60);
    let (folder, input) = with("x.pcap", &pcap.bytes);
    pack(&input, &["--force"], &input).fails();
    assert_same(&fs::read(&input).unwrap(), &pcap.bytes, "the input");
    let packed = Marked::pack(&pcap, 3000).physical;
    let zst = folder.path().join("y.pcap.zst");
    fs::write(&zst, &packed).unwrap();
    pack(&zst, &["--force"], &zst).fails();
    assert_same(&fs::read(&zst).unwrap(), &packed, "the packed input");
}

#[test]
fn the_input_is_never_the_partial_file_of_its_output() {
    let pcap = Pcap::random(Magic::LeUs, 614, 60);
    let packed = Marked::pack(&pcap, 3000).physical;
    for (name, out, bytes) in [
        ("x.pcap.zst.partial", "x.pcap.zst", &packed),
        ("y.pcap.partial", "y.pcap", &pcap.bytes),
    ] {
        let (folder, input) = with(name, bytes);
        for args in [&["--force"][..], &[]] {
            let ran = pack(&input, args, &folder.path().join(out)).exits(1);
            assert!(ran.stderr.contains(name), "{}", ran.stderr);
            assert_same(&fs::read(&input).unwrap(), bytes, name);
            assert_eq!(names(folder.path()), [name.as_bytes()]);
        }
    }
}

#[test]
fn what_is_no_pcap_is_refused_and_left_alone() {
    let pcapng = [&0x0A0D_0D0A_u32.to_le_bytes()[..], &[0; 60]].concat();
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(&pcapng).unwrap();
    let inputs = [
        ("x.pcap", pcapng.clone()),
        ("x.pcap", b"these are words, not packets\n".repeat(9)),
        ("x.pcap.zst", zstd_frame(&pcapng)),
        ("x.pcap.gz", gzip.finish().unwrap()),
    ];
    for (name, bytes) in inputs {
        let (folder, input) = with(name, &bytes);
        let ran = pack(&input, &[], &folder.path().join("y.pcap.zst")).exits(3);
        assert!(ran.stderr.contains(name), "{}", ran.stderr);
        assert!(!folder.path().join("y.pcap.zst").exists());
        assert_same(&fs::read(&input).unwrap(), &bytes, "the input");
    }
}

#[test]
fn a_record_the_format_cannot_hold_is_named_and_nothing_is_written() {
    let mut too_long = Pcap::with(Magic::LeUs, 4, 0, 1);
    too_long.extend_random(&mut common::Rng::new(609), 30);
    too_long.push(9, 9, 262_145, &vec![1; 262_145]);
    let mut over_snaplen = Pcap::with(Magic::BeUs, 4, 1600, 1);
    over_snaplen.extend_random(&mut common::Rng::new(610), 30);
    over_snaplen.push(9, 9, 1700, &vec![1; 1700]);
    for (pcap, len) in [(too_long, "262145"), (over_snaplen, "1700")] {
        let (folder, input) = with("x.pcap", &pcap.bytes);
        let out = folder.path().join("x.pcap.zst");
        let ran = pack(&input, &[], &out).fails();
        assert!(
            ran.stderr.contains("record") && ran.stderr.contains(len),
            "{}",
            ran.stderr
        );
        assert!(!out.exists(), "a final name with partial content");
        assert_same(&fs::read(&input).unwrap(), &pcap.bytes, "the input");
    }
}

#[test]
fn a_name_too_long_for_its_ending_fails_before_anything_is_written() {
    let pcap = Pcap::random(Magic::LeUs, 612, 10);
    let name = format!("{}.pcap", "n".repeat(250));
    let (folder, input) = with(&name, &pcap.bytes);
    run(pcapzst().arg("pack").arg(&input)).fails();
    assert_eq!(names(folder.path()), [name.as_bytes()]);
}

#[test]
fn without_a_terminal_there_is_no_progress_bar() {
    let pcap = Pcap::of_size(Magic::LeUs, 613, 3 << 20);
    let (folder, input) = with("x.pcap", &pcap.bytes);
    let out = folder.path().join("x.pcap.zst");
    let packed = pack(&input, &[], &out).ok();
    let verified = run(pcapzst().arg("verify").arg(&out)).ok();
    for said in [packed.stderr, verified.stderr] {
        assert!(!said.contains(['\r', '\x1b']), "{said:?}");
    }
}
