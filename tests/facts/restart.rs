//! S51 to S54.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use nix::errno::Errno;
use tempfile::TempDir;

use super::{append, capture, cut, errno, number, read_on, size, state, write_over};
use crate::common::assert_same;
use crate::common::day::scratch;
use crate::common::frames::{Marked, zstd_frame};
use crate::common::mounted::Mounted;
use crate::common::pcap::{Magic, Pcap};

/// A mount of one physical file, and the path it is shown under.
fn mount_of(name: &str, bytes: &[u8]) -> (TempDir, PathBuf, Mounted, PathBuf) {
    let source = scratch();
    let physical = source.path().join(name);
    fs::write(&physical, bytes).unwrap();
    let mounted = Mounted::new(source.path(), "");
    let path = mounted.join("x.pcap");
    (source, physical, mounted, path)
}

#[test]
fn bytes_that_were_cut_off_fail_until_they_are_there_again() {
    let (pcap, marked) = capture(51);
    let (_source, physical, _mounted, path) = mount_of("x.pcap.zst.partial", &marked.physical);
    let handle = File::open(&path).unwrap();
    assert_eq!(size(&path), pcap.bytes.len());
    let (kept, end) = (marked.frames[0].0.end, marked.frames[0].1.end);
    cut(&physical, end);
    assert_eq!(size(&path), pcap.bytes.len(), "the size stays");
    for handle in [&handle, &File::open(&path).unwrap()] {
        let (got, error) = read_on(handle, 0);
        assert_eq!(error, Some(Errno::EIO));
        assert_same(&got, &pcap.bytes[..kept], "what is still there");
        for at in [kept, pcap.bytes.len() - 1] {
            let read = handle.read_at(&mut [0], at as u64);
            assert_eq!(errno(read), Errno::EIO, "at {at}");
        }
    }
    append(&physical, &marked.physical[end..]);
    assert_eq!(size(&path), pcap.bytes.len());
    let (got, error) = read_on(&handle, 0);
    assert_eq!(error, None);
    assert_same(&got, &pcap.bytes, "there again");
}

#[test]
fn frames_that_were_framed_anew_are_walked_again_and_not_damage() {
    let (pcap, marked) = capture(52);
    let (_source, physical, _mounted, path) = mount_of("x.pcap.zst.partial", &marked.physical);
    let handle = File::open(&path).unwrap();
    assert_eq!(size(&path), pcap.bytes.len());
    let (kept, end) = (marked.frames[0].0.end, marked.frames[0].1.end);
    let mut anew = marked.physical[..end].to_vec();
    let mut start = kept;
    for &record_end in pcap.ends.iter().filter(|end| **end > kept) {
        if record_end - start > 3000 || record_end == pcap.bytes.len() {
            anew.extend(zstd_frame(&pcap.bytes[start..record_end]));
            start = record_end;
        }
    }
    // Nobody looks meanwhile: the table is that of frames that are gone.
    write_over(&physical, &anew);
    let (got, error) = read_on(&handle, kept);
    assert_eq!(error, None);
    assert_same(&got, &pcap.bytes[kept..], "framed anew");
    assert_eq!(state(&path), "growing");
}

#[test]
fn a_mended_partial_file_is_served_again() {
    let (pcap, marked) = capture(53);
    let end = marked.frames[0].1.end;
    let damaged = [&marked.physical[..end], b"garbage"].concat();
    let (_source, physical, _mounted, path) = mount_of("x.pcap.zst.partial", &damaged);
    assert_eq!(state(&path), "damaged");
    let handle = File::open(&path).unwrap();
    assert_eq!(read_on(&handle, 0).1, Some(Errno::EIO));
    write_over(&physical, &marked.physical);
    assert_eq!(state(&path), "growing");
    assert_same(&fs::read(&path).unwrap(), &pcap.bytes, "once damaged");
    assert_same(&read_on(&handle, 0).0, &pcap.bytes, "the handle");

    for refused in [
        &b"words of a crashed writer"[..],
        &[&marked.physical[..14], b"??"].concat(),
    ] {
        let (_source, physical, _mounted, path) = mount_of("x.pcap.zst.partial", refused);
        assert_eq!(state(&path), "refused");
        assert!(File::open(&path).is_err());
        write_over(&physical, &marked.physical);
        assert_same(&fs::read(&path).unwrap(), &pcap.bytes, "once refused");
    }
}

#[test]
fn another_capture_in_the_same_partial_file_gets_a_number_of_its_own() {
    let (old, before) = capture(54);
    let (new, after) = capture(55);
    for is_cut in [true, false] {
        let (_source, physical, _mounted, path) = mount_of("x.pcap.zst.partial", &before.physical);
        let handle = File::open(&path).unwrap();
        let was = number(&path);
        if is_cut {
            cut(&physical, 0);
        }
        write_over(&physical, &after.physical);
        assert_ne!(number(&path), was);
        let mut given = 0;
        for at in (0..old.bytes.len()).step_by(5000) {
            let mut buffer = [0; 5000];
            match handle.read_at(&mut buffer, at as u64) {
                Ok(len) => {
                    assert_same(&buffer[..len], &old.bytes[at..at + len], "the old handle");
                    given += len;
                }
                Err(error) => assert_eq!(errno::<()>(Err(error)), Errno::EIO, "at {at}"),
            }
        }
        assert!(given < old.bytes.len(), "the old bytes are no longer there");
        assert_same(&fs::read(&path).unwrap(), &new.bytes, "the new capture");
    }
}

#[test]
fn a_file_written_over_in_place_fails_in_old_handles_and_is_new_in_others() {
    let packed = |pcap| Marked::pack(pcap, 50_000).physical;
    let old = Pcap::of_size(Magic::LeUs, 56, 1 << 20);
    let new = Pcap::of_size(Magic::LeUs, 57, 1 << 20);
    let (_source, physical, _mounted, path) = mount_of("x.pcap.zst", &packed(&old));
    let handle = File::open(&path).unwrap();
    write_over(&physical, &packed(&new));
    for at in [0, 500_000, old.bytes.len() - 10] {
        let error = errno(handle.read_at(&mut [0; 10], at as u64));
        assert!(matches!(error, Errno::ESTALE | Errno::EIO), "{error}");
    }
    assert_same(&fs::read(&path).unwrap(), &new.bytes, "a new open");
}
