//! S28 to S32, S34 to S36, and S42.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;

use flate2::Compression;
use flate2::write::GzEncoder;
use nix::errno::Errno;

use super::{capture, errno, read_on, size, state};
use crate::common::day::scratch;
use crate::common::frames::{MARKER, Marked, with_bad_checksum, zstd_frame};
use crate::common::mounted::Mounted;
use crate::common::pcap::Pcap;
use crate::common::sys::attribute;
use crate::common::{assert_same, names};

/// The page cache may stop a reader this much before a frame that does not decode.
const PAGE: usize = 4096;

/// The capture with a bad checksum in its second frame.
fn with_bad_second_frame(pcap: &Pcap, marked: &Marked) -> Marked {
    let mut broken = Marked::new(pcap.header());
    for (number, (source, physical)) in marked.frames.iter().enumerate() {
        let frame = &marked.physical[physical.clone()];
        let content = &pcap.bytes[source.clone()];
        if number == 1 {
            broken.frame(&with_bad_checksum(frame), content);
        } else {
            broken.frame(frame, content);
        }
    }
    broken
}

#[test]
fn a_frame_that_does_not_decode_fails_alone_and_each_time() {
    let source = scratch();
    let (pcap, marked) = capture(31);
    let broken = with_bad_second_frame(&pcap, &marked);
    fs::write(source.path().join("x.pcap.zst"), &broken.physical).unwrap();
    let mounted = Mounted::new(source.path(), "");
    let path = mounted.join("x.pcap");
    let (bad, physical) = &broken.frames[1];
    assert_eq!(state(&path), "complete", "nothing is decoded for a size");

    // The first to meet it reads through the page cache: in any page before the fault, and not behind it.
    let first = File::open(&path).unwrap();
    let (got, error) = read_on(&first, 0);
    assert_eq!(error, Some(Errno::EIO));
    assert!(got.len() <= bad.start && got.len() > bad.start - PAGE);
    assert_same(&got, &pcap.bytes[..got.len()], "the first handle");

    assert_eq!(state(&path), "damaged");
    let second = File::open(&path).unwrap();
    for _ in 0..2 {
        let (got, error) = read_on(&second, 0);
        assert_eq!(error, Some(Errno::EIO));
        assert_same(&got, &pcap.bytes[..bad.start], "every good byte before it");
        for at in [bad.start, bad.start + 1, bad.end - 1] {
            let read = second.read_at(&mut [0; 10], at as u64);
            assert_eq!(errno(read), Errno::EIO, "at {at}");
        }
        let (rest, error) = read_on(&second, bad.end);
        assert_eq!(error, None);
        assert_same(&rest, &pcap.bytes[bad.end..], "the frames behind it");
    }
    assert_eq!(size(&path), pcap.bytes.len());

    let error = attribute(&path, "user.pcapzst.error").unwrap();
    let place = format!("frame 1 at physical offset {}: ", physical.start);
    assert!(error.starts_with(&place), "{error}");
    let wanted = format!("content size: wanted {}, got ", bad.len());
    assert!(error.contains(&wanted), "{error}");
}

#[test]
fn behind_a_walk_fault_every_read_fails() {
    let source = scratch();
    let (pcap, marked) = capture(32);
    let (good, physical) = (marked.frames[0].0.end, marked.frames[0].1.end);
    let rest = [b"junk that is no frame", &marked.physical[physical..]].concat();
    let bytes = [&marked.physical[..physical], &rest].concat();
    for name in ["final.pcap.zst", "partial.pcap.zst.partial"] {
        fs::write(source.path().join(name), &bytes).unwrap();
    }
    let mounted = Mounted::new(source.path(), "");
    for name in ["final.pcap", "partial.pcap"] {
        let path = mounted.join(name);
        let size = size(&path);
        assert_eq!(size, good + rest.len(), "{name}");
        let file = File::open(&path).unwrap();
        let (got, error) = read_on(&file, 0);
        assert_eq!(error, Some(Errno::EIO), "{name}");
        assert_same(&got, &pcap.bytes[..good], name);
        for at in (good..size).step_by(997).chain([size - 1]) {
            let read = file.read_at(&mut [0], at as u64);
            assert_eq!(errno(read), Errno::EIO, "{name} at {at}");
        }
        let error = attribute(&path, "user.pcapzst.error").unwrap();
        let place = format!("frame 1 at physical offset {physical}: ");
        assert!(error.starts_with(&place), "{error}");
        assert!(error.contains("wanted") && error.contains("got"), "{error}");
        assert_eq!(state(&path), "damaged", "{name}");
    }
}

#[test]
fn a_refused_capture_is_listed_and_not_opened() {
    let source = scratch();
    let (pcap, marked) = capture(33);
    let data = &marked.physical[marked.frames[0].1.start..];
    let mut newer = MARKER;
    newer[12] = 2;
    let pcapng = zstd_frame(&[0x0A; 24]);
    let header = zstd_frame(pcap.header());
    let held = [
        ("pcapng", [&MARKER, &pcapng[..], data].concat(), Errno::EIO),
        (
            "short-header",
            [&MARKER, &zstd_frame(&pcap.bytes[..23])[..], data].concat(),
            Errno::EIO,
        ),
        ("text", b"these are words".to_vec(), Errno::EOPNOTSUPP),
        ("unmarked", zstd_frame(&pcap.bytes), Errno::EOPNOTSUPP),
        (
            "version-2",
            [&newer, &header[..], data].concat(),
            Errno::EOPNOTSUPP,
        ),
    ];
    for (stem, bytes, _) in &held {
        fs::write(source.path().join(format!("{stem}.pcap.zst")), bytes).unwrap();
    }
    let mounted = Mounted::new(source.path(), "");
    let listed: Vec<_> = held
        .iter()
        .map(|(stem, _, _)| format!("{stem}.pcap").into_bytes())
        .collect();
    assert_eq!(names(mounted.path()), listed);
    for (stem, _, wanted) in &held {
        let path = mounted.join(format!("{stem}.pcap"));
        assert_eq!(size(&path), 0, "{stem}");
        assert_eq!(errno(File::open(&path)), *wanted, "{stem}");
        assert_eq!(state(&path), "refused", "{stem}");
    }
}

#[test]
fn zeros_at_a_boundary_are_torn_in_a_partial_file_and_damage_in_a_final_one() {
    let source = scratch();
    let (pcap, marked) = capture(34);
    let (end, physical) = (marked.frames[1].0.end, marked.frames[1].1.end);
    let bytes = [&marked.physical[..physical], &[0; 5000]].concat();
    fs::write(source.path().join("final.pcap.zst"), &bytes).unwrap();
    fs::write(source.path().join("partial.pcap.zst.partial"), &bytes).unwrap();
    let mounted = Mounted::new(source.path(), "");
    let read = |name: &str| read_on(&File::open(mounted.join(name)).unwrap(), 0);

    let (got, error) = read("partial.pcap");
    assert_eq!((error, size(&mounted.join("partial.pcap"))), (None, end));
    assert_same(&got, &pcap.bytes[..end], "partial");
    assert_eq!(state(&mounted.join("partial.pcap")), "growing");

    let (got, error) = read("final.pcap");
    assert_eq!(error, Some(Errno::EIO));
    assert_same(&got, &pcap.bytes[..end], "final");
    assert_eq!(size(&mounted.join("final.pcap")), end + 5000);
    assert_eq!(state(&mounted.join("final.pcap")), "damaged");
}

#[test]
fn a_final_raw_capture_is_passed_through_and_a_partial_one_ends_at_a_record() {
    let source = scratch();
    let (pcap, _) = capture(35);
    let end = pcap.ends[20];
    let whole = &pcap.bytes[..end];
    let half_record = pcap.bytes[..end + 30].to_vec();
    let zeros = [whole, &[0; 9000]].concat();
    let half_and_zeros = [&half_record[..], &[0; 3]].concat();
    let text = b"words, and no packets at all\n".repeat(400);
    // Other formats under a pcap's name: nothing is unpacked or converted.
    let pcapng = [&0x0A0D_0D0A_u32.to_le_bytes()[..], &pcap.bytes[4..]].concat();
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(&pcap.bytes).unwrap();
    let all = [
        ("gzip", gzip.finish().unwrap(), 0),
        ("half", half_record, end),
        ("half-and-zeros", half_and_zeros, end),
        ("pcapng", pcapng, 0),
        ("text", text, 0),
        ("whole", whole.to_vec(), end),
        ("zeros", zeros, end),
    ];
    for (stem, bytes, _) in &all {
        fs::write(source.path().join(format!("final-{stem}.pcap")), bytes).unwrap();
        let partial = format!("partial-{stem}.pcap.partial");
        fs::write(source.path().join(partial), bytes).unwrap();
    }
    let mounted = Mounted::new(source.path(), "");
    for (stem, bytes, end) in &all {
        let path = mounted.join(format!("final-{stem}.pcap"));
        assert_eq!(size(&path), bytes.len(), "{stem}");
        assert_same(&fs::read(&path).unwrap(), bytes, stem);
        let path = mounted.join(format!("partial-{stem}.pcap"));
        assert_eq!(size(&path), *end, "{stem}");
        assert_same(&fs::read(&path).unwrap(), &bytes[..*end], stem);
    }
}
