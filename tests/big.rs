//! A capture of more than 6 GiB of source: no offset is cut to 31 or 32 bits on its way.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "a failed step of a test is a panic"
)]

mod common;

use std::fs::{self, File};
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use common::day::scratch;
use common::frames::{MARKER, zstd_frame};
use common::mounted::Mounted;
use common::pcap::{Magic, Pcap};
use common::{assert_same, number, pcapzst, run, tool};
use nix::unistd::{Whence, lseek};

const GIB: u64 = 1 << 30;
const FOUR_GIB: u64 = 4 * GIB;

/// At least so much source, in bytes; over 6 GiB, or `PCAPZST_GIB`.
fn source_min() -> u64 {
    number("PCAPZST_GIB", 6) * GIB + (200 << 20)
}

/// Four runs of records, each several MiB of source and a few hundred bytes on disk, in an order that repeats late.
struct Big {
    header: Vec<u8>,
    runs: Vec<Vec<u8>>,
    /// Which run each data frame holds, and where it begins in the source.
    frames: Vec<(usize, u64)>,
    size: u64,
}

impl Big {
    fn write(file: &Path) -> Self {
        let mut runs = Vec::new();
        let mut packed = Vec::new();
        for number in 0..4_u8 {
            let mut pcap = Pcap::new(Magic::LeUs);
            let payload = vec![b'a' + number; 1400 + usize::from(number)];
            // The same record time and again, so that a run of many MiB packs into next to nothing.
            pcap.push_udp(&payload);
            let record = pcap.bytes[24..].to_vec();
            let run = record.repeat((7 << 20) / record.len() + usize::from(number) * 37);
            packed.push(zstd_frame(&run));
            runs.push(run);
        }
        let header = Pcap::new(Magic::LeUs).bytes;
        let mut out = BufWriter::new(File::create(file).unwrap());
        out.write_all(&MARKER).unwrap();
        out.write_all(&zstd_frame(&header)).unwrap();
        let mut rng = common::Rng::new(50);
        let (mut frames, mut size) = (Vec::new(), 24);
        let wanted = source_min();
        while size < wanted {
            let run = rng.below(4);
            out.write_all(&packed[run]).unwrap();
            frames.push((run, size));
            size += runs[run].len() as u64;
        }
        out.into_inner().unwrap().sync_all().unwrap();
        Self {
            header,
            runs,
            frames,
            size,
        }
    }

    /// What stands at this place, up to the end of its frame.
    fn piece(&self, at: u64) -> &[u8] {
        if at < 24 {
            return &self.header[usize::try_from(at).unwrap()..];
        }
        let (run, start) = self.frames[self.frames.partition_point(|(_, start)| *start <= at) - 1];
        &self.runs[run][usize::try_from(at - start).unwrap()..]
    }

    /// Compares bytes read at `at` with what must stand there.
    #[track_caller]
    fn check(&self, mut at: u64, mut got: &[u8]) {
        while !got.is_empty() {
            let piece = self.piece(at);
            let len = piece.len().min(got.len());
            if got[..len] != piece[..len] {
                assert_same(&got[..len], &piece[..len], &format!("source offset {at}"));
            }
            got = &got[len..];
            at += len as u64;
        }
    }
}

#[test]
fn offsets_past_4_gib_are_read_right_by_every_way() {
    let folder = scratch();
    let physical = folder.path().join("big.pcap.zst");
    let big = Big::write(&physical);
    let on_disk = fs::metadata(&physical).unwrap().len();
    assert!(on_disk < 4 << 20, "{on_disk} bytes on disk");
    let size = big.size.to_string();
    let report = run(pcapzst().args(["inspect", "--json"]).arg(&physical))
        .ok()
        .json()
        .remove(0);
    assert_eq!(report["source_size"].to_string(), size);
    assert_eq!(report["frames"], big.frames.len());

    let mounted = Mounted::new(folder.path(), "");
    let path = mounted.join("big.pcap");
    assert_eq!(fs::metadata(&path).unwrap().len(), big.size);
    let stat = run(tool("stat").args(["-c", "%s"]).arg(&path)).ok();
    assert_eq!(stat.text().trim(), size);

    let mut file = File::open(&path).unwrap();
    let edges = [2 * GIB, FOUR_GIB, FOUR_GIB + 2 * GIB];
    let mut buffer = vec![0; 300_000];
    for edge in edges {
        for at in [edge - 200_000, edge - 1, edge, edge + 1] {
            file.read_exact_at(&mut buffer, at).unwrap();
            big.check(at, &buffer);
            file.seek(SeekFrom::Start(at)).unwrap();
            file.read_exact(&mut buffer[..5000]).unwrap();
            big.check(at, &buffer[..5000]);
        }
        let at = i64::try_from(edge).unwrap();
        assert_eq!(lseek(&file, at, Whence::SeekData), Ok(at));
        assert_eq!(
            lseek(&file, at, Whence::SeekHole),
            Ok(i64::try_from(big.size).unwrap())
        );
        assert_read_by_tools(&big, &physical, &path, edge);
    }
    let tail = file.read_at(&mut buffer, big.size - 1000).unwrap();
    assert_eq!(tail, 1000);
    big.check(big.size - 1000, &buffer[..tail]);
}

/// `dd` on the mount, with and without the page cache, and `pcapzst cat` on the file itself.
fn assert_read_by_tools(big: &Big, physical: &Path, path: &Path, edge: u64) {
    let input = format!("if={}", path.display());
    let skip = format!("skip={}", edge / 4096 - 3);
    for flags in [&[][..], &["iflag=direct"]] {
        let mut dd = tool("dd");
        let ran = run(dd
            .args([&input, "bs=4096", &skip, "count=6", "status=none"])
            .args(flags))
        .ok();
        assert_eq!(ran.stdout.len(), 6 * 4096);
        big.check((edge / 4096 - 3) * 4096, &ran.stdout);
    }
    let offset = (edge - 3).to_string();
    let ran = run(pcapzst()
        .args(["cat", "--offset", &offset, "--length", "70000"])
        .arg(physical))
    .ok();
    assert_eq!(ran.stdout.len(), 70_000);
    big.check(edge - 3, &ran.stdout);
}

#[test]
fn six_gib_read_from_end_to_end_are_the_source() {
    let folder = scratch();
    let big = Big::write(&folder.path().join("big.pcap.zst"));
    // A minute, and ten seconds for each GiB: a debug build on a busy machine.
    let lifetime = Duration::from_secs(60 + 10 * (big.size / GIB));
    let mounted = Mounted::launch_for(lifetime, pcapzst(), folder.path(), "no_index");
    let mut file = File::open(mounted.join("big.pcap")).unwrap();
    let mut buffer = vec![0; 1 << 20];
    let mut at = 0;
    loop {
        let n = file.read(&mut buffer).unwrap();
        if n == 0 {
            break;
        }
        big.check(at, &buffer[..n]);
        at += n as u64;
    }
    assert_eq!(at, big.size);
    let peak = mounted.peak_kib();
    assert!(peak <= (256 + 64) * 1024, "the mount once held {peak} KiB");
}
