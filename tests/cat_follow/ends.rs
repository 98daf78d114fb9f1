//! What becomes of the file, or of the reader, before the capture is complete.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::following::{Following, append};
use crate::common::assert_same;
use crate::common::day::scratch;
use crate::common::frames::{Handmade, Marked, zstd_frame};
use crate::common::growth::filler;
use crate::common::pcap::{Magic, Pcap};
use tempfile::TempDir;

/// A capture whose first frames are on disk under the partial name.
struct Half {
    folder: TempDir,
    pcap: Pcap,
    marked: Marked,
    /// Source and physical end of what is there.
    there: (usize, usize),
}

impl Half {
    fn new(seed: u64) -> Self {
        let pcap = Pcap::of_size(Magic::LeUs, seed, 60_000);
        let marked = Marked::pack(&pcap, 9000);
        let folder = scratch();
        let there = (marked.frames[2].0.end, marked.frames[2].1.end);
        let half = Self {
            folder,
            pcap,
            marked,
            there,
        };
        fs::write(half.partial(), &half.marked.physical[..there.1]).unwrap();
        half
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn partial(&self) -> PathBuf {
        self.path("x.pcap.zst.partial")
    }

    /// Starts a follower that has taken all that is there.
    fn follow(&self) -> Following {
        let mut cat = Following::start(&self.partial());
        cat.takes(&self.pcap.bytes[..self.there.0]);
        cat
    }

    fn rest(&self) -> &[u8] {
        &self.pcap.bytes[self.there.0..]
    }

    fn physical_rest(&self) -> &[u8] {
        &self.marked.physical[self.there.1..]
    }
}

#[test]
fn a_capture_moved_to_another_folder_under_its_final_name_is_complete() {
    let half = Half::new(821);
    let cat = half.follow();
    fs::create_dir(half.path("done")).unwrap();
    append(&half.partial(), half.physical_rest());
    fs::rename(half.partial(), half.path("done/y.pcap.zst")).unwrap();
    cat.end().completes(half.rest());
}

#[test]
fn a_capture_moved_while_partial_is_followed_to_its_completion_there() {
    let half = Half::new(822);
    let mut cat = half.follow();
    fs::create_dir(half.path("live")).unwrap();
    let moved = half.path("live/x.pcap.zst.partial");
    fs::rename(half.partial(), &moved).unwrap();
    append(&moved, half.physical_rest());
    cat.takes(half.rest());
    fs::rename(&moved, half.path("live/x.pcap.zst")).unwrap();
    cat.end().completes(b"");
}

#[test]
fn a_capture_that_was_put_aside_is_not_complete() {
    let half = Half::new(823);
    let mut cat = half.follow();
    let aside = half.path("x.pcap.zst.partial.old");
    let reads = cat.reads();
    fs::rename(half.partial(), &aside).unwrap();
    cat.has_looked_since(reads);
    append(&aside, half.physical_rest());
    cat.takes(half.rest());
    fs::rename(&aside, half.path("x.pcap.zst")).unwrap();
    cat.end().completes(b"");
}

#[test]
fn a_capture_that_was_completed_and_removed_between_two_looks_is_complete() {
    let half = Half::new(824);
    let cat = half.follow();
    cat.at_one_stroke(|| {
        append(&half.partial(), half.physical_rest());
        let complete = half.path("x.pcap.zst");
        fs::rename(half.partial(), &complete).unwrap();
        fs::remove_file(&complete).unwrap();
    });
    cat.end().completes(half.rest());
}

#[test]
fn a_capture_removed_before_it_is_complete_gives_its_whole_frames_and_5() {
    let half = Half::new(825);
    let cat = half.follow();
    let torn = half.marked.frames[4].1.end - half.there.1 + 20;
    append(&half.partial(), &half.physical_rest()[..torn]);
    fs::remove_file(half.partial()).unwrap();
    let end = cat.end();
    end.is_cut_short("removed before it was complete");
    let wanted = half.there.0..half.marked.frames[4].0.end;
    assert_same(&end.rest, &half.pcap.bytes[wanted], "whole frames");
}

#[test]
fn a_raw_capture_removed_before_it_is_complete_gives_its_whole_records_and_5() {
    let pcap = Pcap::random(Magic::LeUs, 826, 40);
    let folder = scratch();
    let partial = folder.path().join("x.pcap.partial");
    fs::write(&partial, &pcap.bytes[..pcap.bytes.len() - 3]).unwrap();
    let mut cat = Following::start(&partial);
    cat.takes(&pcap.bytes[..pcap.ends[39]]);
    fs::remove_file(&partial).unwrap();
    let end = cat.end();
    end.is_cut_short("removed before it was complete");
    assert_same(&end.rest, b"", "half a record");
}

#[test]
fn another_capture_written_over_it_ends_it_with_5_and_old_bytes_only() {
    let half = Half::new(827);
    let other = Pcap::of_size(Magic::LeUs, 828, 90_000);
    let cat = half.follow();
    let other = Marked::pack(&other, 9000).physical;
    fs::write(half.partial(), &other).unwrap();
    let end = cat.end();
    end.is_cut_short("another capture was written over");
    assert_same(&end.rest, b"", "nothing of it");
}

/// A capture whose frames, in whatever form, lie where those of one with another seed lie.
fn alike(seed: u32) -> (Vec<u8>, Vec<u8>) {
    alike_of(seed, 150)
}

fn alike_of(seed: u32, records: usize) -> (Vec<u8>, Vec<u8>) {
    let mut pcap = Pcap::new(Magic::LeUs);
    for number in 0..records {
        let data = filler(u64::from(seed), number * 30_000..(number + 1) * 30_000);
        pcap.push(1_700_000_000 + seed, 0, 30_000, &data);
    }
    let mut marked = Marked::new(pcap.header());
    for pair in pcap.ends.windows(2) {
        let record = &pcap.bytes[pair[0]..pair[1]];
        marked.frame(&Handmade::raw(record).build(), record);
    }
    (pcap.bytes, marked.physical)
}

#[test]
fn a_slow_reader_gets_nothing_of_a_capture_that_lies_where_the_old_one_lay() {
    let ((old_raw, old_zst), (new_raw, new_zst)) = (alike(1), alike(2));
    let (fewer, more) = (alike_of(2, 100).1, alike_of(2, 200).1);
    for (name, old, new) in [
        ("x.pcap.zst.partial", &old_zst, &new_zst),
        ("x.pcap.partial", &old_raw, &new_raw),
        ("x.pcap.zst", &old_zst, &fewer),
        ("x.pcap.zst", &old_zst, &new_zst),
        ("x.pcap.zst", &old_zst, &more),
    ] {
        let folder = scratch();
        let partial = folder.path().join(name);
        fs::write(&partial, old).unwrap();
        let mut cat = Following::start(&partial);
        // What a pipe does not hold is not written yet.
        cat.takes(&old_raw[..24]);
        fs::write(&partial, new).unwrap();
        let end = cat.end();
        end.is_cut_short("another capture was written over");
        let wanted = &old_raw[24..][..end.rest.len()];
        assert_same(&end.rest, wanted, "old bytes only");
    }
}

/// The frames from `cut` on, an end of a record, in another size than before.
fn framed_anew(pcap: &Pcap, cut: usize) -> Vec<u8> {
    let ends: Vec<_> = pcap.ends.iter().filter(|end| **end >= cut).collect();
    let records = ends.windows(2).map(|pair| *pair[0]..*pair[1]);
    records
        .flat_map(|record| zstd_frame(&pcap.bytes[record]))
        .collect()
}

#[test]
fn a_writer_that_restarted_and_framed_anew_changes_no_byte() {
    let half = Half::new(829);
    let cut = half.marked.frames[1].clone();
    let anew = framed_anew(&half.pcap, cut.0.start);
    let restart = |pieces: usize| {
        let file = fs::File::options()
            .write(true)
            .open(half.partial())
            .unwrap();
        file.set_len(cut.1.start as u64).unwrap();
        for piece in anew.chunks(pieces) {
            append(&half.partial(), piece);
        }
    };
    // Seen on its way, and seen only when the file has its final name.
    let cat = half.follow();
    restart(1000);
    fs::rename(half.partial(), half.path("x.pcap.zst")).unwrap();
    cat.end().completes(half.rest());

    let there = &half.marked.physical[..half.there.1];
    fs::write(half.partial(), there).unwrap();
    let cat = half.follow();
    cat.at_one_stroke(|| {
        restart(anew.len());
        fs::rename(half.partial(), half.path("x.pcap.zst")).unwrap();
    });
    cat.end().completes(half.rest());
}

#[test]
fn a_capture_that_is_completed_shorter_than_it_was_is_no_success() {
    let half = Half::new(830);
    let cat = half.follow();
    let file = fs::File::options()
        .write(true)
        .open(half.partial())
        .unwrap();
    file.set_len(half.marked.frames[1].1.end as u64).unwrap();
    fs::rename(half.partial(), half.path("x.pcap.zst")).unwrap();
    let end = cat.end();
    assert_eq!(end.code, Some(1), "{}", end.said);
    assert!(end.said.contains("cut"), "{}", end.said);
    assert_same(&end.rest, b"", "nothing more");
}

#[test]
fn a_reader_that_goes_away_ends_it_with_0_and_no_word() {
    let half = Half::new(831);
    // While nothing comes.
    let mut cat = half.follow();
    let start = Instant::now();
    cat.close();
    let end = cat.end();
    assert_eq!((end.code, end.said.as_str()), (Some(0), ""));
    assert!(start.elapsed() < Duration::from_secs(10), "promptly");
    // While more comes than the pipe holds.
    let (old, physical) = alike(3);
    fs::write(half.partial(), &physical).unwrap();
    let mut cat = Following::start(&half.partial());
    cat.takes(&old[..1000]);
    cat.close();
    let end = cat.end();
    assert_eq!((end.code, end.said.as_str()), (Some(0), ""));
}

#[test]
fn nobody_at_stderr_is_no_failure() {
    let half = Half::new(832);
    append(&half.partial(), &half.physical_rest()[..10]);
    let complete = half.path("x.pcap.zst");
    fs::rename(half.partial(), &complete).unwrap();
    let mut cat = Following::start_with(&complete, &["--offset", "1000000"]);
    // It says what it waits for, and then sees that nobody waits for it.
    cat.close_stderr();
    cat.close();
    assert_eq!(cat.end().code, Some(0));
}
