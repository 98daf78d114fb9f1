//! The writer on a disk whose calls fail now and then: whatever failed, it can be gone on with, nothing that was taken is lost,
//! and nothing but whole frames gets the final name.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "a failed step of a test is a panic"
)]

mod common;
#[path = "faults/ends.rs"]
mod ends;
#[path = "faults/failing.rs"]
mod failing;

use std::ops::Range;

use common::assert_same;
use common::pcap::{Magic, Pcap};
use failing::{Call, Failing};
use pcapzst::capture::Error;
use pcapzst::capture::writer::{Existing, Options, PENDING_MOST, Writer};
use pcapzst::format::pcap::GlobalHeader;

const OUT: &str = "x.pcap.zst";
const PARTIAL: &str = "x.pcap.zst.partial";
/// Source bytes that a frame aims at: some tens of records.
const TARGET: usize = 20_000;

/// A disk, a capture, and where each of its records lies in it.
struct Scene {
    disk: Failing,
    pcap: Pcap,
    header: GlobalHeader,
}

impl Scene {
    fn new(seed: u64) -> Self {
        let pcap = Pcap::of_size(Magic::LeUs, seed, 10 * TARGET);
        let header = GlobalHeader::parse(pcap.bytes.first_chunk().unwrap()).unwrap();
        Self {
            disk: Failing::new(),
            pcap,
            header,
        }
    }

    fn writer(&self, existing: Existing) -> Result<Writer, Error> {
        let options = Options {
            frame_target: TARGET,
            existing,
            ..Options::default()
        };
        Writer::create(&self.disk.join(OUT), options)
    }

    /// A writer that has taken the header and the records up to the one with which a second frame is full, none of which
    /// could be written: that write came to its end after `room` bytes. Also, the record that comes next.
    #[track_caller]
    fn with_full_disk(&self, room: usize) -> (Writer, usize) {
        let mut writer = self.writer(Existing::Keep).unwrap();
        writer.begin(&self.header).unwrap();
        let mut next = 0;
        while writer.written().frames < 1 {
            self.add(&mut writer, next).unwrap();
            next += 1;
        }
        self.disk.leave_room(room);
        loop {
            let outcome = self.add(&mut writer, next);
            next += 1;
            if let Err(error) = outcome {
                assert_eq!(errno(&error), libc::ENOSPC, "{error}");
                return (writer, next);
            }
        }
    }

    /// Source bytes of record number `index`.
    fn record(&self, index: usize) -> Range<usize> {
        self.pcap.ends[index]..self.pcap.ends[index + 1]
    }

    fn add(&self, writer: &mut Writer, index: usize) -> Result<(), Error> {
        // As the C library does, before it takes a packet.
        assert_eq!(writer.cut_record(), None, "record {index}");
        let bytes = &self.pcap.bytes[self.record(index)];
        let (head, captured) = bytes.split_first_chunk().unwrap();
        writer.add(&self.header.record(head), captured)
    }

    fn add_all(&self, writer: &mut Writer, records: Range<usize>) {
        for index in records {
            self.add(writer, index).unwrap();
        }
    }

    /// The file of this name is whole frames of whole records, as zstd itself measures and decodes them: the first `records`
    /// of the capture.
    #[track_caller]
    fn check(&self, name: &str, records: usize) {
        let physical = self.disk.bytes(name);
        let (mut at, mut source) = (14, Vec::new());
        while at < physical.len() {
            let len = zstd::zstd_safe::find_frame_compressed_size(&physical[at..]).unwrap();
            source.extend(zstd::decode_all(&physical[at..at + len]).unwrap());
            at += len;
            let end = source.len();
            let is_boundary = end == 24 || self.pcap.ends.binary_search(&end).is_ok();
            assert!(is_boundary, "a frame ends within a record, at {end}");
        }
        let end = self.record(records - 1).end;
        assert_same(&source, &self.pcap.bytes[..end], name);
    }
}

fn errno(error: &Error) -> i32 {
    match error {
        Error::Io { errno, .. } => *errno,
        other => panic!("{other}"),
    }
}

#[test]
fn half_a_frame_that_could_not_be_cut_off_is_before_anything_is_put_behind_it() {
    let scene = Scene::new(1101);
    let all = scene.pcap.records();
    for room in [1, 1000] {
        scene.disk.fail(Call::Truncate, libc::EIO, 1);
        let (mut writer, next) = scene.with_full_disk(room);
        let physical = writer.written().physical_bytes;
        let torn = scene.disk.bytes(PARTIAL).len() as u64 - physical;
        assert_eq!(torn, room as u64, "what this test is about");
        scene.disk.make_room();
        scene.add_all(&mut writer, next..all);
        let written = writer.finish().unwrap();
        assert_eq!(written.physical_bytes, scene.disk.bytes(OUT).len() as u64);
        scene.check(OUT, all);
        std::fs::remove_file(scene.disk.join(OUT)).unwrap();
    }
}

#[test]
fn while_half_a_frame_cannot_be_cut_off_nothing_is_written_and_no_final_name_given() {
    let scene = Scene::new(1102);
    scene.disk.fail(Call::Truncate, libc::EIO, u32::MAX);
    let (mut writer, next) = scene.with_full_disk(1000);
    scene.disk.make_room();
    let torn = scene.disk.bytes(PARTIAL);
    let told = |error: Error| {
        assert_eq!(
            error.to_string(),
            "truncating: Input/output error (os error 5)"
        );
    };
    told(scene.add(&mut writer, next).unwrap_err());
    told(writer.flush().unwrap_err());
    told(writer.finish().unwrap_err());
    assert!(scene.disk.bytes(PARTIAL) == torn, "nothing was written");
    assert_eq!(scene.disk.names(), [PARTIAL]);
    scene.disk.fail(Call::Truncate, 0, 0);
    writer.finish().unwrap();
    assert_eq!(scene.disk.names(), [OUT]);
    scene.check(OUT, next + 1);
}

#[test]
fn a_record_behind_a_frame_that_could_not_be_written_is_whole_and_written_by_the_next_call_that_can()
 {
    let scene = Scene::new(1103);
    let all = scene.pcap.records();
    // How many records come while the disk is full: up to several frames of them.
    for (number, waiting) in [0, 1, 70].into_iter().enumerate() {
        for next_call in 0..3 {
            let (mut writer, mut next) = scene.with_full_disk(1000 * number);
            for _ in 0..waiting {
                let error = scene.add(&mut writer, next).unwrap_err();
                assert_eq!(errno(&error), libc::ENOSPC);
                next += 1;
            }
            assert_eq!(errno(&writer.flush().unwrap_err()), libc::ENOSPC);
            assert_eq!(errno(&writer.finish().unwrap_err()), libc::ENOSPC);
            assert_eq!(scene.disk.names(), [PARTIAL]);
            scene.disk.make_room();
            match next_call {
                0 => scene.add_all(&mut writer, next..all),
                1 => {
                    writer.flush().unwrap();
                    assert_eq!(writer.pending_bytes(), 0);
                    scene.check(PARTIAL, next);
                    scene.add_all(&mut writer, next..all);
                }
                _ => next = all.min(next),
            }
            let last = if next_call == 2 { next } else { all };
            let written = writer.finish().unwrap();
            assert_eq!(written.cut_bytes, 0);
            scene.check(OUT, last);
            std::fs::remove_file(scene.disk.join(OUT)).unwrap();
        }
    }
}

#[test]
fn half_a_record_behind_a_frame_that_could_not_be_written_is_told_and_may_be_made_whole() {
    let scene = Scene::new(1104);
    let all = scene.pcap.records();
    let (mut writer, next) = scene.with_full_disk(0);
    let end = scene.record(next - 1).end;
    writer.write(&scene.pcap.bytes[end..end + 17]).unwrap_err();
    scene.disk.make_room();
    for _ in 0..2 {
        let cut = writer.cut_record().unwrap().to_string();
        assert!(cut.contains(&format!("at source offset {end}")), "{cut}");
        writer.flush().unwrap();
        scene.check(PARTIAL, next);
        assert_eq!(writer.pending_bytes(), 17);
    }
    writer.write(&scene.pcap.bytes[end + 17..]).unwrap();
    assert_eq!(writer.cut_record(), None);
    writer.finish().unwrap();
    scene.check(OUT, all);
}

#[test]
fn a_record_that_is_not_allowed_behind_a_frame_that_could_not_be_written_keeps_what_is_before_it() {
    let scene = Scene::new(1105);
    let (mut writer, next) = scene.with_full_disk(0);
    let bad = [[0; 8], [0xFF; 8]].concat();
    assert_eq!(errno(&writer.write(&bad).unwrap_err()), libc::ENOSPC);
    scene.disk.make_room();
    assert!(writer.flush().unwrap_err().fault().is_some());
    scene.check(PARTIAL, next);
    for _ in 0..2 {
        assert!(
            writer
                .write(&scene.pcap.bytes)
                .unwrap_err()
                .fault()
                .is_some()
        );
        assert!(writer.finish().unwrap_err().fault().is_some());
        writer.flush().unwrap();
    }
    scene.check(PARTIAL, next);
    assert_eq!(scene.disk.names(), [PARTIAL]);
}

#[test]
fn a_header_that_could_not_be_written_is_by_a_flush_and_by_the_end() {
    let scene = Scene::new(1106);
    for is_flushed in [true, false] {
        let mut writer = scene.writer(Existing::Keep).unwrap();
        scene.disk.leave_room(10);
        assert_eq!(
            errno(&writer.begin(&scene.header).unwrap_err()),
            libc::ENOSPC
        );
        scene.disk.make_room();
        if is_flushed {
            writer.flush().unwrap();
            assert!(writer.has_header());
        }
        writer.finish().unwrap();
        let physical = scene.disk.bytes(OUT);
        assert_same(
            &zstd::decode_all(&physical[..]).unwrap(),
            scene.pcap.header(),
            OUT,
        );
        std::fs::remove_file(scene.disk.join(OUT)).unwrap();
    }
}

/// Leaves a partial file with the first half of the capture's records; how many that are.
fn leave_half(scene: &Scene) -> usize {
    let half = scene.pcap.records() / 2;
    let mut writer = scene.writer(Existing::Keep).unwrap();
    writer.begin(&scene.header).unwrap();
    scene.add_all(&mut writer, 0..half);
    writer.flush().unwrap();
    half
}

#[test]
fn another_capture_than_the_one_that_is_gone_on_with_is_refused_however_often_it_is_tried() {
    let scene = Scene::new(1107);
    let half = leave_half(&scene);
    let mut late = scene.pcap.bytes.clone();
    let at = scene.record(half - 2).start + 20;
    late[at] ^= 1;
    let other = Scene::new(1108).pcap.bytes;
    for (bytes, appends) in [(&late, true), (&late, false), (&other, false)] {
        let mut writer = scene.writer(Existing::Resume { appends }).unwrap();
        for _ in 0..2 {
            let error = writer.write(bytes).unwrap_err();
            assert!(matches!(error, Error::NotResumable(_)), "{error}");
            writer.flush().unwrap();
            let error = writer.finish().unwrap_err();
            assert!(matches!(error, Error::NotResumable(_)), "{error}");
        }
        scene.check(PARTIAL, half);
        assert_eq!(scene.disk.names(), [PARTIAL]);
    }
}

#[test]
fn a_comparison_with_what_was_left_goes_on_after_an_error_of_the_disk() {
    let scene = Scene::new(1109);
    leave_half(&scene);
    let left = scene.disk.bytes(PARTIAL);
    let all = scene.pcap.bytes.as_slice();
    let mut errors = 0;
    for passing in 0..12 {
        let mut writer = scene.writer(Existing::Resume { appends: false }).unwrap();
        // A partial file's frame is read more than once before an error is believed.
        let disk = &scene.disk;
        disk.fail_behind(passing, Call::Read, libc::EIO, u32::MAX);
        if let Err(error) = writer.write(all) {
            assert_eq!(errno(&error), libc::EIO);
            errors += 1;
        }
        disk.fail(Call::Read, 0, 0);
        writer.finish().unwrap();
        scene.check(OUT, scene.pcap.records());
        std::fs::remove_file(disk.join(OUT)).unwrap();
        std::fs::write(disk.join(PARTIAL), &left).unwrap();
    }
    assert!(errors > 1, "behind the first frame too");
}

#[test]
fn while_the_disk_stays_full_a_writer_takes_no_more_than_it_may_hold() {
    let scene = Scene::new(1114);
    let (mut writer, next) = scene.with_full_disk(0);
    let mut taken = scene.record(next - 1).end;
    // One record, and that many more than may wait.
    let more = &scene.pcap.bytes[scene.record(next)];
    let many = more.repeat((1 << 20) / more.len());
    let mut outcomes = [0, 0];
    while outcomes[1] < 2 && taken < 1 << 30 {
        let before = writer.pending_bytes();
        assert_eq!(errno(&writer.write(&many).unwrap_err()), libc::ENOSPC);
        let got = usize::try_from(writer.pending_bytes() - before).unwrap();
        assert!(got == 0 || got == many.len(), "all or nothing");
        outcomes[usize::from(got == 0)] += 1;
        taken += got;
    }
    assert_eq!(outcomes[1], 2, "it takes without end");
    assert!(writer.pending_bytes() <= PENDING_MOST + many.len() as u64);
    scene.disk.make_room();
    assert_eq!(writer.finish().unwrap().source_bytes, taken as u64);
}
