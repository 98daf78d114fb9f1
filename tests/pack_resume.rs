//! `pack --resume`: what a killed writer left is gone on with, and never mixed with anything else.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "a failed step of a test is a panic"
)]

mod common;

use std::fs::{self, File};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::day::scratch;
use common::frames::{Handmade, Marked, with_bad_checksum, zstd_frame};
use common::live::{Live, decoded};
use common::pcap::{Magic, Pcap};
use common::{Ran, Rng, assert_same, names, pcapzst, run, run_with_input};
use nix::sys::signal::{Signal, kill};
use tempfile::TempDir;

/// Small frames, so that a small capture has many.
const TARGET: &str = "20000";

/// A folder with a capture, what an undisturbed writer makes of it, and a place for what a killed one left.
struct Scene {
    folder: TempDir,
    pcap: Pcap,
    whole: Vec<u8>,
}

impl Scene {
    fn new(seed: u64) -> Self {
        let folder = scratch();
        let pcap = Pcap::of_size(Magic::LeUs, seed, 400_000);
        fs::write(folder.path().join("in.pcap"), &pcap.bytes).unwrap();
        let scene = Self {
            folder,
            pcap,
            whole: Vec::new(),
        };
        run(pack(&scene.input()).arg("-o").arg(scene.out())).ok();
        let whole = fs::read(scene.out()).unwrap();
        fs::remove_file(scene.out()).unwrap();
        Self { whole, ..scene }
    }

    fn input(&self) -> PathBuf {
        self.folder.path().join("in.pcap")
    }

    fn out(&self) -> PathBuf {
        self.folder.path().join("out.pcap.zst")
    }

    fn partial(&self) -> PathBuf {
        self.folder.path().join("out.pcap.zst.partial")
    }

    /// Puts `bytes` where a killed writer would have left them.
    fn leave(&self, bytes: &[u8]) {
        fs::write(self.partial(), bytes).unwrap();
    }

    fn resume(&self, input: &Path) -> Ran {
        run(pack(input).arg("--resume").arg("-o").arg(self.out()))
    }

    /// Packs `stream` from standard input.
    fn resume_stream(&self, stream: &[u8]) -> Ran {
        let file = self.folder.path().join("stream");
        fs::write(&file, stream).unwrap();
        let stdin = Stdio::from(File::open(&file).unwrap());
        let mut command = pack(Path::new("-"));
        let ran = run_with_input(command.arg("--resume").arg("-o").arg(self.out()), stdin);
        fs::remove_file(&file).unwrap();
        ran
    }

    /// Asserts that there is no final file, and that the partial one holds `bytes`.
    #[track_caller]
    fn is_left(&self, bytes: &[u8]) {
        assert!(!self.out().exists());
        assert_same(&fs::read(self.partial()).unwrap(), bytes, "left as it was");
    }
}

fn pack(input: &Path) -> Command {
    let mut command = pcapzst();
    command.args(["pack", "--frame-target", TARGET]).arg(input);
    command
}

#[test]
fn wherever_the_writer_was_killed_the_same_file_comes_of_it() {
    let scene = Scene::new(801);
    let mut rng = Rng::new(3);
    let cuts = [
        0,
        1,
        13,
        14,
        15,
        36,
        37,
        scene.whole.len() - 1,
        scene.whole.len(),
    ];
    let random = (0..30).map(|_| rng.below(scene.whole.len()));
    for cut in cuts.into_iter().chain(random) {
        scene.leave(&scene.whole[..cut]);
        scene.resume(&scene.input()).ok();
        let got = fs::read(scene.out()).unwrap();
        assert_same(&got, &scene.whole, &format!("killed at {cut}"));
        fs::remove_file(scene.out()).unwrap();
        assert_eq!(names(scene.folder.path()), [b"in.pcap"]);
    }
}

#[test]
fn frames_that_a_loss_of_power_left_as_zeros_or_garbage_are_written_again() {
    let scene = Scene::new(802);
    let len = scene.whole.len();
    let mut zeros = scene.whole.clone();
    zeros[len / 2..].fill(0);
    let mut garbled = scene.whole[..len - 100].to_vec();
    garbled[len / 3] ^= 0x40;
    let mut last = scene.whole.clone();
    *last.last_mut().unwrap() ^= 1;
    // Nothing of it was there.
    let nothing = vec![0; 100_000];
    let headless = [14, 20].map(|len| [&scene.whole[..len], &nothing].concat());
    for left in [zeros, garbled, last, nothing].into_iter().chain(headless) {
        scene.leave(&left);
        scene.resume(&scene.input()).ok();
        assert_same(&fs::read(scene.out()).unwrap(), &scene.whole, "mended");
        fs::remove_file(scene.out()).unwrap();
    }
}

#[test]
fn a_stream_from_its_start_is_passed_over_as_far_as_it_is_there() {
    let scene = Scene::new(803);
    scene.leave(&scene.whole[..scene.whole.len() / 2]);
    scene.resume_stream(&scene.pcap.bytes).ok();
    assert_same(&decoded(&scene.out()), &scene.pcap.bytes, "all of it, once");
}

#[test]
fn a_live_capture_that_was_started_again_goes_on_behind_what_is_there() {
    let scene = Scene::new(804);
    let more = Pcap::of_size(Magic::LeUs, 805, 100_000);
    let marked = Marked::pack(&scene.pcap, 20_000);
    let (source, physical) = marked.frames[4].clone();
    let mut left = marked.physical[..physical.end].to_vec();
    left.extend(&marked.physical[physical.end..][..50]);
    scene.leave(&left);
    scene.resume_stream(&more.bytes).ok();
    let wanted = [&scene.pcap.bytes[..source.end], &more.bytes[24..]].concat();
    assert_same(&decoded(&scene.out()), &wanted, "one behind the other");
}

#[test]
fn a_live_capture_without_a_packet_finishes_what_is_there() {
    let scene = Scene::new(806);
    scene.leave(&scene.whole);
    scene.resume_stream(scene.pcap.header()).ok();
    assert_same(&fs::read(scene.out()).unwrap(), &scene.whole, "as it was");
}

#[test]
fn a_stream_that_gives_nothing_leaves_the_partial_file() {
    let scene = Scene::new(807);
    scene.leave(&scene.whole);
    scene.resume_stream(&[]).exits(3);
    scene.is_left(&scene.whole);
    scene.resume_stream(&scene.pcap.bytes[..23]).exits(3);
    scene.is_left(&scene.whole);
}

#[test]
fn another_capture_is_refused_and_the_partial_file_stays() {
    let scene = Scene::new(808);
    scene.leave(&scene.whole);
    let other = scene.folder.path().join("other.pcap");
    // Another first record; the same beginning and then another; another header.
    let mut late = scene.pcap.bytes.clone();
    let at = late.len() - 1000;
    late[at] ^= 1;
    let captures = [
        Pcap::of_size(Magic::LeUs, 809, 400_000).bytes,
        late,
        Pcap::of_size(Magic::BeNs, 808, 400_000).bytes,
    ];
    for bytes in &captures {
        fs::write(&other, bytes).unwrap();
        let refused = scene.resume(&other).exits(1);
        assert!(
            refused.stderr.contains("another capture"),
            "{}",
            refused.stderr
        );
        scene.is_left(&scene.whole);
    }
    // A stream may go on with other packets, never with another header or with other bytes of the same capture.
    for bytes in &captures[1..] {
        scene.resume_stream(bytes).exits(1);
        scene.is_left(&scene.whole);
    }
}

#[test]
fn an_input_that_ends_before_what_is_there_is_refused() {
    let scene = Scene::new(810);
    scene.leave(&scene.whole);
    let short = scene.folder.path().join("short.pcap");
    let end = scene.pcap.ends[scene.pcap.records() / 2];
    fs::write(&short, &scene.pcap.bytes[..end]).unwrap();
    let refused = scene.resume(&short).exits(1);
    assert!(refused.stderr.contains("ends before"), "{}", refused.stderr);
    scene.is_left(&scene.whole);
    scene.resume_stream(&scene.pcap.bytes[..end]).exits(1);
    scene.is_left(&scene.whole);
    // A file without a record, or with half a one, is no live capture that was started again.
    for len in [24, 32] {
        fs::write(&short, &scene.pcap.bytes[..len]).unwrap();
        scene.resume(&short).exits(1);
        scene.is_left(&scene.whole);
    }
}

#[test]
fn an_input_at_fault_leaves_nothing_where_nothing_was() {
    let scene = Scene::new(817);
    let bad = scene.folder.path().join("bad.pcap");
    let half = &scene.pcap.bytes[..scene.pcap.bytes.len() - 3];
    for (bytes, code) in [(&b"this is no capture at all"[..], 3), (half, 5)] {
        fs::write(&bad, bytes).unwrap();
        scene.resume(&bad).exits(code);
        assert_eq!(names(scene.folder.path()), [&b"bad.pcap"[..], b"in.pcap"]);
    }
}

#[test]
fn frames_too_large_to_be_decoded_here_are_not_cut_off() {
    let scene = Scene::new(818);
    let mut marked = Marked::new(scene.pcap.header());
    marked.data(&scene.pcap.bytes[24..]);
    marked.append(&Handmade::rle(0, 65 << 20).build());
    scene.leave(&marked.physical);
    scene.resume_stream(&scene.pcap.bytes).exits(4);
    scene.is_left(&marked.physical);
}

#[test]
fn what_no_writer_left_is_refused_and_stays() {
    let scene = Scene::new(811);
    let marked = Marked::pack(&scene.pcap, 20_000);
    let stray = [&marked.physical[..], b"stray bytes"].concat();
    let plain = zstd_frame(&scene.pcap.bytes);
    let mut split = Marked::new(scene.pcap.header());
    split.data(&scene.pcap.bytes[24..5000]);
    let mut headless = Marked::new(&scene.pcap.header()[..20]);
    headless.data(&scene.pcap.bytes[24..]);
    // Its first bytes are lost, in a block of the disk or within one, and the rest is there; another file of that look; a
    // frame that a header may not be, cut; a marker of that length; a byte far behind zeros.
    let zeroed = |range: Range<usize>| {
        let mut left = marked.physical.clone();
        left[range].fill(0);
        left
    };
    let foreign = [&[0; 4][..], b"ftypmp42 and more"].concat();
    let mut endless = marked.physical.clone();
    endless[4..8].fill(0xFF);
    let mut far = vec![0; 300_000];
    far.push(1);
    for (left, code) in [
        (zeroed(0..4096), 3),
        (zeroed(0..4), 3),
        (foreign, 3),
        (zeroed(14..4096), 4),
        ([&marked.physical[..14], &endless].concat(), 4),
        (endless, 3),
        (far, 3),
        (stray, 4),
        (plain, 3),
        (split.physical, 4),
        (headless.physical, 4),
    ] {
        scene.leave(&left);
        let refused = scene.resume(&scene.input()).exits(code);
        assert!(
            refused.stderr.contains("out.pcap.zst.partial: "),
            "{}",
            refused.stderr
        );
        scene.is_left(&left);
    }
}

#[test]
fn a_bad_frame_that_no_input_replaces_is_left_out_and_the_rest_goes_on() {
    let scene = Scene::new(812);
    let mut marked = Marked::new(scene.pcap.header());
    let chunks = scene.pcap.chunks(20_000);
    for chunk in &chunks[..3] {
        marked.data(&scene.pcap.bytes[chunk.clone()]);
    }
    let good = (marked.source.len(), marked.physical.len());
    let bad = &scene.pcap.bytes[chunks[3].clone()];
    marked.append(&with_bad_checksum(&Handmade::raw(bad).build()));
    scene.leave(&marked.physical);
    let more = Pcap::of_size(Magic::LeUs, 813, 50_000);
    scene.resume_stream(&more.bytes).ok();
    let wanted = [&scene.pcap.bytes[..good.0], &more.bytes[24..]].concat();
    assert_same(
        &decoded(&scene.out()),
        &wanted,
        "behind the last good frame",
    );
    assert_same(
        &fs::read(scene.out()).unwrap()[..good.1],
        &marked.physical[..good.1],
        "bytes already written are never changed",
    );
}

#[test]
fn without_a_partial_file_it_starts_anew_and_a_finished_one_is_not_replaced() {
    let scene = Scene::new(814);
    scene.resume(&scene.input()).ok();
    assert_same(
        &fs::read(scene.out()).unwrap(),
        &scene.whole,
        "from nothing",
    );
    scene.resume(&scene.input()).exits(1);
    assert_same(&fs::read(scene.out()).unwrap(), &scene.whole, "still there");
    assert_eq!(
        names(scene.folder.path()),
        [&b"in.pcap"[..], b"out.pcap.zst"]
    );
}

#[test]
fn a_running_writer_is_not_gone_on_with() {
    let scene = Scene::new(815);
    let mut live = Live::start(&scene.out());
    live.feed(&scene.pcap.bytes);
    scene.resume(&scene.input()).exits(6);
    drop(live.stdin.take());
    assert_eq!(live.end(), Some(0));
    assert_same(
        &decoded(&scene.out()),
        &scene.pcap.bytes,
        "its own writer's",
    );
}

#[test]
fn a_killed_live_writer_is_gone_on_with_and_a_signal_finishes_it() {
    let folder = scratch();
    let out = folder.path().join("live.pcap.zst");
    let pcap = Pcap::of_size(Magic::LeNs, 816, 3 << 20);
    let mut live = Live::start(&out);
    live.feed(&pcap.bytes[..2 << 20]);
    live.child.kill().unwrap();
    live.end();
    let mut again = Live::spawn(pcapzst().args(["pack", "--resume", "-", "-o"]).arg(&out));
    again.feed(&pcap.bytes);
    kill(again.pid(), Signal::SIGTERM).unwrap();
    assert_eq!(again.end(), Some(0), "also within a record");
    assert_eq!(names(folder.path()), [b"live.pcap.zst"]);
    let got = decoded(&out);
    assert!(pcap.ends.binary_search(&got.len()).is_ok(), "half a record");
    assert!(got.len() > 2 << 20, "only {} bytes", got.len());
    assert_same(&got, &pcap.bytes[..got.len()], "both writers' frames");
}
