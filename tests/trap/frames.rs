//! Very many frames (27), a cut anywhere in the last ones (33), and frames however their writer was fed (35).

use std::ffi::{CString, c_void};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

use pcapzst::capi::pcapzst_next::{PCAPZST_AT_END, PCAPZST_NOT_YET, PCAPZST_PACKET};
use pcapzst::capi::pcapzst_state::{PCAPZST_COMPLETE, PCAPZST_CUT_SHORT};
use pcapzst::capi::pcapzst_status::{PCAPZST_E_TORN, PCAPZST_OK};
use pcapzst::capi::*;
use pcapzst::capture::writer::{Options, Writer};

use crate::common::day::{Day, scratch};
use crate::common::frames::{Handmade, Marked};
use crate::common::pcap::{Magic, Pcap};
use crate::common::{Rng, assert_same, number, pcapzst, run, tool};

struct Reader(*mut pcapzst_reader);

impl Reader {
    fn of_file(path: &Path) -> Self {
        let path = CString::new(path.as_os_str().as_bytes()).unwrap();
        let mut reader = ptr::null_mut();
        // SAFETY: all that the function asks for is there.
        let status =
            unsafe { pcapzst_open(path.as_ptr(), ptr::null(), &raw mut reader, ptr::null_mut()) };
        assert_eq!(status, PCAPZST_OK);
        Self(reader)
    }

    /// `bytes` must outlive it.
    fn of_memory(bytes: &[u8]) -> Self {
        let mut reader = ptr::null_mut();
        let (data, len) = (bytes.as_ptr().cast(), bytes.len() as u64);
        // SAFETY: as above.
        let status = unsafe {
            pcapzst_open_memory(data, len, ptr::null(), &raw mut reader, ptr::null_mut())
        };
        assert_eq!(status, PCAPZST_OK);
        Self(reader)
    }

    fn info(&self) -> pcapzst_info {
        let mut info = std::mem::MaybeUninit::uninit();
        // SAFETY: the reader is open, and a call that succeeds fills what it is given.
        unsafe {
            assert_eq!(pcapzst_get_info(self.0, info.as_mut_ptr()), PCAPZST_OK);
            info.assume_init()
        }
    }

    /// Its packets, and the status behind them: success stands for its end.
    fn packets(&self) -> (usize, pcapzst_status) {
        let mut records = ptr::null_mut();
        let mut packet = pcapzst_packet {
            ts_ns: 0,
            source_offset: 0,
            data: ptr::null(),
            captured_length: 0,
            original_length: 0,
        };
        let (mut next, mut count) = (PCAPZST_NOT_YET, 0);
        // SAFETY: the reader is open, and the iterator is closed once.
        unsafe {
            assert_eq!(
                pcapzst_records_open(self.0, 0, &raw mut records),
                PCAPZST_OK
            );
            loop {
                let status = pcapzst_records_next(records, &raw mut packet, &raw mut next);
                if status != PCAPZST_OK || next != PCAPZST_PACKET {
                    assert_eq!(next == PCAPZST_AT_END, status == PCAPZST_OK);
                    pcapzst_records_close(records);
                    return (count, status);
                }
                count += 1;
            }
        }
    }

    /// All its source bytes.
    fn bytes(&self, size: usize) -> Vec<u8> {
        let mut all = vec![0_u8; size + 1];
        let mut got = 0;
        let (to, len) = (all.as_mut_ptr().cast::<c_void>(), all.len() as u64);
        // SAFETY: the buffer is as long as is said.
        let status = unsafe { pcapzst_read(self.0, 0, to, len, &raw mut got) };
        assert_eq!(status, PCAPZST_OK);
        all.truncate(usize::try_from(got).unwrap());
        all
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // SAFETY: nobody uses it any more.
        unsafe { pcapzst_close(self.0) };
    }
}

#[test]
fn captures_of_one_two_and_very_many_frames_of_one_record_are_read_to_their_end_by_everything() {
    for frames in [1, 2, number("PCAPZST_FRAMES", 30_000)] {
        let mut pcap = Pcap::new(Magic::LeUs);
        let mut marked = Marked::new(pcap.header());
        for number in 0..frames {
            let start = pcap.bytes.len();
            let secs = u32::try_from(number / 1000).unwrap();
            pcap.push(secs, 0, 60, &(number as u64).to_le_bytes());
            let record = &pcap.bytes[start..];
            marked.frame(&Handmade::raw(record).build(), record);
        }
        let day = Day::new();
        day.add_as("x", ".pcap.zst", &marked.physical, &pcap.bytes);
        let file = day.source().join("x.pcap.zst");
        let report = |command: &str| {
            let ran = run(pcapzst().args([command, "--json"]).arg(&file)).ok();
            ran.json().remove(0)
        };
        assert_eq!(report("inspect")["frames"], frames);
        assert_eq!(report("inspect")["source_size"], pcap.bytes.len());
        let verified = report("verify");
        assert_eq!(
            (&verified["frames"], &verified["packets"]),
            (&frames.into(), &frames.into())
        );
        let cat = run(pcapzst().arg("cat").arg(&file)).ok();
        assert_same(&cat.stdout, &pcap.bytes, "cat");
        let zstd = run(tool("zstd").arg("-dcq").arg(&file)).ok();
        assert_same(&zstd.stdout, &pcap.bytes, "zstd -dc");
        let again = day.out().join("again.pcap.zst");
        run(pcapzst().arg("pack").arg(&file).arg("-o").arg(&again)).ok();
        let cat = run(pcapzst().arg("cat").arg(&again)).ok();
        assert_same(&cat.stdout, &pcap.bytes, "packed again");
        let mounted = day.mount();
        assert_same(
            &fs::read(mounted.join("x.pcap")).unwrap(),
            &pcap.bytes,
            "mount",
        );
        let reader = Reader::of_file(&file);
        // SAFETY: the reader is open.
        assert_eq!(unsafe { pcapzst_frame_count(reader.0) }, frames as u64);
        assert_eq!(reader.packets(), (frames, PCAPZST_OK));
        assert_same(&reader.bytes(pcap.bytes.len()), &pcap.bytes, "C library");
    }
}

#[test]
fn a_final_capture_cut_at_any_byte_of_its_last_two_frames_is_incomplete_but_at_a_frames_end() {
    let mut pcap = Pcap::new(Magic::LeUs);
    let mut rng = Rng::new(3);
    for _ in 0..12 {
        pcap.push_udp(&rng.bytes(330));
    }
    let marked = Marked::pack(&pcap, 1000);
    let count = marked.frames.len();
    let from = marked.frames[count - 3].1.end;
    assert!((1500..4000).contains(&(marked.physical.len() - from)));
    let folder = scratch();
    let mut torn = Vec::new();
    for cut in from..=marked.physical.len() {
        let frames = marked
            .frames
            .iter()
            .filter(|frame| frame.1.end <= cut)
            .count();
        let (source, physical) = &marked.frames[frames - 1];
        let reader = Reader::of_memory(&marked.physical[..cut]);
        let is_whole = physical.end == cut;
        let state = if is_whole {
            PCAPZST_COMPLETE
        } else {
            PCAPZST_CUT_SHORT
        };
        assert_eq!(reader.info().state, state, "cut at {cut}");
        let ends = pcap.ends.iter().filter(|end| **end <= source.end).count();
        let (packets, status) = reader.packets();
        assert_eq!(packets, ends - 1, "cut at {cut}");
        let wanted = if is_whole { PCAPZST_OK } else { PCAPZST_E_TORN };
        assert_eq!(status, wanted, "cut at {cut}");
        assert_same(&reader.bytes(source.end), &pcap.bytes[..source.end], "cut");
        if !is_whole {
            let file = folder.path().join(format!("{cut}.pcap.zst"));
            fs::write(&file, &marked.physical[..cut]).unwrap();
            torn.push(file);
        }
    }
    // Each by itself is what decides: all in one run would hide one that passes. So the reports are counted too.
    let ran = run(pcapzst().args(["verify", "--json"]).args(&torn)).exits(5);
    let reports = ran.json();
    assert_eq!(reports.len(), torn.len());
    for report in reports {
        assert_eq!(report["state"], "draining");
        assert_ne!(report["torn_bytes"], 0);
    }
    for file in torn.iter().step_by(torn.len() / 20) {
        run(pcapzst().arg("verify").arg(file)).exits(5);
    }
}

#[test]
fn whatever_pieces_a_writer_is_fed_with_each_frame_holds_whole_records() {
    let files = number("PCAPZST_FILES", 400);
    // In memory: every finished file is brought to the disk.
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let out = folder.path().join("x.pcap.zst");
    let mut rng = Rng::new(35);
    for file in 0..files {
        let magic = Magic::ALL[rng.below(4)];
        let mut pcap = Pcap::with(magic, 2 + u16::try_from(rng.below(3)).unwrap(), 0, 1);
        for _ in 0..rng.below(40) {
            let longest = [1, 100, 2000, 60_000][rng.below(4)];
            let len = rng.below(longest);
            pcap.push(1, 2, u32::try_from(len).unwrap(), &rng.bytes(len));
        }
        let options = Options {
            level: 1,
            frame_target: [1, 300, 10_000, 262_144][rng.below(4)],
            ..Options::default()
        };
        let piece = [1, 7, 4096, 1 << 20][rng.below(if pcap.bytes.len() > 50_000 { 4 } else { 3 })];
        let flushes = rng.below(20);
        let mut writer = Writer::create(&out, options).unwrap();
        for bytes in pcap.bytes.chunks(piece.max(1 + pcap.bytes.len() / 5_000)) {
            writer.write(bytes).unwrap();
            if rng.below(20) < flushes {
                writer.flush().unwrap();
            }
        }
        writer.finish().unwrap();
        drop(writer);
        let physical = fs::read(&out).unwrap();
        // Frame by frame, as zstd itself measures and decodes them.
        let (mut at, mut source) = (14, Vec::new());
        let mut ends = vec![24];
        while at < physical.len() {
            let len = zstd::zstd_safe::find_frame_compressed_size(&physical[at..]).unwrap();
            source.extend(zstd::decode_all(&physical[at..at + len]).unwrap());
            if at > 14 {
                ends.push(source.len());
            }
            at += len;
        }
        assert_same(&source, &pcap.bytes, &format!("file {file}"));
        for end in ends {
            assert!(pcap.ends.binary_search(&end).is_ok(), "file {file}: {end}");
        }
        fs::remove_file(&out).unwrap();
    }
}
