//! A complete capture that another one is written over while the C library has it open under its final name.
#![allow(
    unsafe_code,
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "C functions are called; a failed step of a test is a panic"
)]

mod common;

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr;

use common::day::scratch;
use common::frames::{Handmade, Marked};
use common::pcap::{Magic, Pcap};
use common::{Rng, assert_same};
use pcapzst::capi::pcapzst_next::*;
use pcapzst::capi::pcapzst_state::*;
use pcapzst::capi::pcapzst_status::*;
use pcapzst::capi::*;
use tempfile::TempDir;

const SECS: u32 = 1_700_000_000;
/// Records of the capture that is written over.
const RECORDS: usize = 20;
/// Of them in a frame.
const FRAME_RECORDS: usize = 4;
/// Records of those that are written over it: fewer frames, the same frames to the byte, and more.
const OTHERS: [usize; 3] = [RECORDS / 2, RECORDS, RECORDS * 2];

/// A capture in frames of raw blocks: two with as many records take the same bytes on disk, frame by frame.
fn aligned(first_secs: u32, records: usize, seed: u64) -> Marked {
    let mut rng = Rng::new(seed);
    let mut pcap = Pcap::new(Magic::LeUs);
    for _ in 0..records {
        pcap.push(first_secs, 7, 3000, &rng.bytes(3000));
    }
    let mut marked = Marked::new(pcap.header());
    for chunk in pcap.chunks(FRAME_RECORDS * 3016) {
        let content = &pcap.bytes[chunk];
        marked.frame(&Handmade::raw(content).build(), content);
    }
    marked
}

/// A reader of the capture `old`, which lies under its final name.
struct Scene {
    _folder: TempDir,
    path: PathBuf,
    old: Marked,
    reader: *mut pcapzst_reader,
}

impl Drop for Scene {
    fn drop(&mut self) {
        // SAFETY: nobody uses it any more.
        unsafe { pcapzst_close(self.reader) };
    }
}

fn open(path: &Path) -> *mut pcapzst_reader {
    let path = CString::new(path.as_os_str().as_bytes()).unwrap();
    let mut reader = ptr::null_mut();
    // SAFETY: a path, and a place for the reader.
    let status =
        unsafe { pcapzst_open(path.as_ptr(), ptr::null(), &raw mut reader, ptr::null_mut()) };
    assert_eq!(status, PCAPZST_OK);
    reader
}

impl Scene {
    fn new() -> Self {
        let folder = scratch();
        let path = folder.path().join("x.pcap.zst");
        let old = aligned(SECS, RECORDS, 1);
        fs::write(&path, &old.physical).unwrap();
        let reader = open(&path);
        let scene = Self {
            _folder: folder,
            path,
            old,
            reader,
        };
        assert_eq!(scene.info().state, PCAPZST_COMPLETE);
        scene
    }

    fn info(&self) -> pcapzst_info {
        let mut info = std::mem::MaybeUninit::uninit();
        // SAFETY: the reader is open, and the function fills what it is given when it succeeds.
        unsafe {
            let status = pcapzst_get_info(self.reader, info.as_mut_ptr());
            assert_eq!(status, PCAPZST_OK);
            info.assume_init()
        }
    }

    fn refresh(&self) -> (pcapzst_status, pcapzst_state) {
        let mut state = PCAPZST_GROWING;
        // SAFETY: the reader is open.
        let status = unsafe { pcapzst_refresh(self.reader, &raw mut state) };
        (status, state)
    }

    /// The status, and the bytes that came.
    fn read(&self, offset: usize, len: usize) -> (pcapzst_status, Vec<u8>) {
        let mut bytes = vec![0xEE; len];
        let mut got = 0;
        // SAFETY: the reader is open, and there is room for `len` bytes.
        let status = unsafe {
            pcapzst_read(
                self.reader,
                offset as u64,
                bytes.as_mut_ptr().cast(),
                len as u64,
                &raw mut got,
            )
        };
        bytes.truncate(got.try_into().unwrap());
        (status, bytes)
    }

    /// What decoding frame `index`, and taking it as it is stored, give.
    fn frame(&self, index: usize) -> [pcapzst_status; 2] {
        let mut room = vec![0; 20_000];
        let (dst, size) = (room.as_mut_ptr().cast(), room.len() as u64);
        let index = index as u64;
        // SAFETY: the reader is open, and the buffer is as long as it is told.
        unsafe {
            [
                pcapzst_decode_frame(self.reader, index, dst, size),
                pcapzst_read_stored(self.reader, index, dst, size),
            ]
        }
    }
}

/// The packets of a reader from one frame on.
struct Records(*mut pcapzst_records);

impl Records {
    fn new(scene: &Scene, frame: usize) -> Self {
        let mut records = ptr::null_mut();
        // SAFETY: the reader is open.
        let status = unsafe { pcapzst_records_open(scene.reader, frame as u64, &raw mut records) };
        assert_eq!(status, PCAPZST_OK);
        Self(records)
    }

    fn next(&self) -> (pcapzst_status, pcapzst_next) {
        let mut packet = std::mem::MaybeUninit::uninit();
        let mut next = PCAPZST_NOT_YET;
        // SAFETY: the iterator is open, and the packet is not looked at.
        let status = unsafe { pcapzst_records_next(self.0, packet.as_mut_ptr(), &raw mut next) };
        (status, next)
    }
}

impl Drop for Records {
    fn drop(&mut self) {
        // SAFETY: nobody uses it any more.
        unsafe { pcapzst_records_close(self.0) };
    }
}

#[test]
fn a_reader_that_has_not_looked_since_gives_no_byte_of_a_capture_that_was_written_over_its_own() {
    for records in OTHERS {
        let scene = Scene::new();
        let source = &scene.old.source;
        // Decoded before, and kept.
        assert_eq!(scene.read(24, 100), (PCAPZST_OK, source[24..124].to_vec()));
        let new = aligned(SECS + 1, records, 2);
        fs::write(&scene.path, &new.physical).unwrap();
        for at in (24..source.len()).step_by(1000) {
            let (status, bytes) = scene.read(at, 1000);
            let what = format!("{records} records: source offset {at}");
            assert_same(&bytes, &source[at..at + bytes.len()], &what);
            assert!(
                matches!(status, PCAPZST_OK | PCAPZST_E_CHANGED) && !bytes.is_empty()
                    || status == PCAPZST_E_CHANGED,
                "{what}: {status:?}"
            );
        }
        for index in 0..scene.old.frames.len() {
            let statuses = scene.frame(index);
            assert_eq!(statuses, [PCAPZST_E_CHANGED; 2], "{records}: frame {index}");
        }
        let size = scene.info().prologue_size;
        let mut room = vec![0; size.try_into().unwrap()];
        // SAFETY: the reader is open, and the buffer is as long as it is told.
        let status = unsafe { pcapzst_read_prologue(scene.reader, room.as_mut_ptr().cast(), size) };
        assert_eq!(status, PCAPZST_E_CHANGED, "{records} records: prologue");
        // No fault of the old one was noted for what is there now.
        assert_eq!(scene.info().fault, PCAPZST_OK);
    }
}

#[test]
fn a_refresh_tells_that_another_capture_was_written_over_a_complete_one() {
    for records in OTHERS {
        let scene = Scene::new();
        let last = scene.old.frames.len() - 1;
        let (before, packets) = (scene.info(), Records::new(&scene, last));
        // Nothing has looked at the file since it was opened.
        let new = aligned(SECS + 1, records, 2);
        fs::write(&scene.path, &new.physical).unwrap();
        for _ in 0..2 {
            let told = (PCAPZST_E_CHANGED, PCAPZST_CUT_SHORT);
            assert_eq!(scene.refresh(), told, "{records} records");
        }
        let after = scene.info();
        let id = |info: &pcapzst_info| (info.file_id_ts_ns, info.file_id_crc32);
        assert_eq!((id(&after), after.frames), (id(&before), 0));
        for _ in 0..2 {
            let changed = (PCAPZST_E_CHANGED, PCAPZST_NOT_YET);
            assert_eq!(packets.next(), changed, "{records} records");
        }
    }
}

#[test]
fn iterators_tell_by_themselves_that_another_capture_was_written_over_a_complete_one() {
    for records in OTHERS {
        let scene = Scene::new();
        let packets = Records::new(&scene, 0);
        assert_eq!(packets.next(), (PCAPZST_OK, PCAPZST_PACKET));
        let new = aligned(SECS + 1, records, 2);
        fs::write(&scene.path, &new.physical).unwrap();
        // The frame that it holds a copy of is given to its end.
        for _ in 1..FRAME_RECORDS {
            assert_eq!(packets.next(), (PCAPZST_OK, PCAPZST_PACKET));
        }
        for _ in 0..2 {
            let changed = (PCAPZST_E_CHANGED, PCAPZST_NOT_YET);
            assert_eq!(packets.next(), changed, "{records} records");
        }
        let state = scene.info().state;
        assert_eq!(state, PCAPZST_CUT_SHORT, "{records} records");
    }
}

#[test]
fn of_a_capture_with_the_same_file_id_in_the_same_frames_no_bytes_are_mixed_with_the_old_ones() {
    let scene = Scene::new();
    let new = aligned(SECS, RECORDS, 2);
    assert_eq!(new.physical.len(), scene.old.physical.len());
    assert_eq!(scene.read(24, 100).1, scene.old.source[24..124]);
    fs::write(&scene.path, &new.physical).unwrap();
    // What the old one had kept, and not a byte of a frame that it had not.
    let (status, bytes) = scene.read(0, scene.old.source.len());
    assert_eq!(status, PCAPZST_OK);
    assert!(bytes.len() < 15_000);
    assert_same(&bytes, &scene.old.source[..bytes.len()], "before a look");
    assert_eq!(scene.refresh(), (PCAPZST_OK, PCAPZST_COMPLETE));
    let (status, bytes) = scene.read(0, new.source.len());
    assert_eq!(status, PCAPZST_OK);
    assert_same(&bytes, &new.source, "behind a look");
}

#[test]
fn a_copy_over_a_complete_capture_is_not_complete_before_its_first_record_tells_which_it_is() {
    let draining = (PCAPZST_OK, PCAPZST_DRAINING);
    let mut pcap = Pcap::with(Magic::LeNs, 4, 100, 1);
    pcap.push(SECS, 1, 60, &[1; 60]);
    let mut new = Marked::new(pcap.header());
    let header_end = new.physical.len();
    new.data(&pcap.bytes[24..]);
    for end in 0..=header_end {
        let scene = Scene::new();
        fs::write(&scene.path, &new.physical[..end]).unwrap();
        assert_eq!(scene.refresh(), draining, "{end} bytes");
        assert_eq!(scene.read(24, 10).0, PCAPZST_E_CHANGED);
        if end % 2 == 0 {
            fs::write(&scene.path, &new.physical).unwrap();
            assert_eq!(scene.refresh(), (PCAPZST_E_CHANGED, PCAPZST_CUT_SHORT));
        } else {
            fs::write(&scene.path, &scene.old.physical).unwrap();
            assert_eq!(scene.refresh(), (PCAPZST_OK, PCAPZST_COMPLETE));
            let source = &scene.old.source;
            assert!(scene.read(0, source.len()) == (PCAPZST_OK, source.clone()));
        }
    }
}
