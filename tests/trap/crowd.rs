//! Many readers of the same frames (52): each frame is decoded once while it stays in the cache.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Barrier;
use std::thread;

use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};

use crate::common::assert_same;
use crate::common::day::Day;
use crate::common::frames::Marked;
use crate::common::pcap::{Magic, Pcap};

const READERS: usize = 32;
const PIECE: usize = 4096;

/// Under a partial name every read comes to the daemon; under a final one the kernel keeps pages too.
#[test]
fn interleaved_readers_and_a_herd_have_each_frame_decoded_once() {
    for ending in [".pcap.zst.partial", ".pcap.zst"] {
        let pcap = Pcap::of_size(Magic::LeUs, 1, READERS * 66_000);
        let marked = Marked::pack(&pcap, 65_536);
        let frames = marked.frames.clone();
        assert!(frames.len() >= READERS);
        let day = Day::new();
        day.add_as("x", ending, &marked.physical, &pcap.bytes);

        // 32 readers at 32 offsets, a frame apart, a page at a time.
        let mounted = day.mount();
        let path = mounted.join("x.pcap");
        let before = mounted.counter("decodes");
        thread::scope(|scope| {
            for (source, _) in &frames[..READERS] {
                let (path, wanted) = (&path, &pcap.bytes);
                scope.spawn(move || {
                    let file = File::open(path).unwrap();
                    for at in (source.start..source.end - PIECE).step_by(PIECE) {
                        let mut piece = [0; PIECE];
                        file.read_exact_at(&mut piece, at as u64).unwrap();
                        assert_same(&piece, &wanted[at..at + PIECE], "interleaved");
                    }
                });
            }
        });
        let decodes = mounted.counter("decodes") - before;
        assert!(decodes >= READERS as u64 - 1, "{ending}: {decodes} decodes");
        assert!(
            decodes <= frames.len() as u64,
            "{ending}: {decodes} decodes"
        );
        mounted.unmount();

        // 32 at one offset at once, in a mount that has decoded none of it. No more than the page that they read is asked
        // for: the kernel's readahead would want frames behind it too, more or fewer from run to run.
        let mounted = day.mount();
        let path = mounted.join("x.pcap");
        let at = frames[frames.len() / 2].0.start.next_multiple_of(PIECE);
        let barrier = Barrier::new(READERS);
        let before = mounted.counter("decodes");
        thread::scope(|scope| {
            for _ in 0..READERS {
                scope.spawn(|| {
                    let file = File::open(&path).unwrap();
                    let random = PosixFadviseAdvice::POSIX_FADV_RANDOM;
                    posix_fadvise(&file, 0, 0, random).unwrap();
                    let mut piece = [0; PIECE];
                    barrier.wait();
                    file.read_exact_at(&mut piece, at as u64).unwrap();
                    assert_same(&piece, &pcap.bytes[at..at + PIECE], "herd");
                });
            }
        });
        let decodes = mounted.counter("decodes") - before;
        assert_eq!(decodes, 1, "{ending}");
    }
}
