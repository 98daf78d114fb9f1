//! S37 to S40.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use super::{append, capture, size, state};
use crate::common::day::scratch;
use crate::common::frames::Marked;
use crate::common::mounted::Mounted;
use crate::common::pcap::{Magic, Pcap};
use crate::common::{assert_same, tool};

#[test]
fn each_kind_of_look_walks_what_has_come() {
    let pcap = Pcap::of_size(Magic::BeNs, 41, 60_000);
    let marked = Marked::pack(&pcap, 9000);
    assert!(marked.frames.len() > 5);
    for (ending, state_then) in [(".zst.partial", "growing"), (".zst", "draining")] {
        let source = scratch();
        let physical = source.path().join(format!("x.pcap{ending}"));
        // One byte of the next frame is there: a final file is draining.
        let end_of = |frame: usize| marked.frames[frame].1.end + 1;
        let shown = |frame: usize| marked.frames[frame].0.end;
        fs::write(&physical, &marked.physical[..end_of(0)]).unwrap();
        let mounted = Mounted::new(source.path(), "");
        let path = mounted.join("x.pcap");
        let mut handle = File::open(&path).unwrap();
        let mut stream = Vec::new();
        handle.read_to_end(&mut stream).unwrap();
        assert_same(&stream, &pcap.bytes[..shown(0)], ending);
        assert_eq!(state(&path), state_then);
        let come = |frame: usize| {
            append(
                &physical,
                &marked.physical[end_of(frame - 1)..end_of(frame)],
            );
        };

        come(1);
        assert_eq!(size(&path), shown(1), "{ending}: look-up and stat");
        come(2);
        let seen = handle.metadata().unwrap().len();
        assert_eq!(seen, shown(2) as u64, "{ending}: fstat");
        come(3);
        let (start, end) = (shown(2) - 10, shown(3));
        let mut buffer = vec![0; 1 << 16];
        let len = handle.read_at(&mut buffer, start as u64).unwrap();
        assert_same(
            &buffer[..len],
            &pcap.bytes[start..end],
            "a read over the end",
        );
        come(4);
        handle.read_to_end(&mut stream).unwrap();
        assert_same(
            &stream,
            &pcap.bytes[..shown(4)],
            "the next read of the handle",
        );
    }
}

#[test]
fn the_size_that_grows_always_ends_at_a_frame() {
    let source = scratch();
    let (pcap, marked) = capture(42);
    let physical = source.path().join("x.pcap.zst.partial");
    fs::write(&physical, "").unwrap();
    let mounted = Mounted::new(source.path(), "");
    let path = mounted.join("x.pcap");
    let header_end = marked.frames[0].1.start;
    let mut written = 0;
    for piece in marked.physical.chunks(397) {
        append(&physical, piece);
        written += piece.len();
        let is_whole = |(_, physical): &&(_, std::ops::Range<usize>)| physical.end <= written;
        let last = marked.frames.iter().rfind(is_whole);
        let header = if written < header_end { 0 } else { 24 };
        let wanted = last.map_or(header, |(source, _)| source.end);
        assert_eq!(size(&path), wanted, "{written} bytes on disk");
        assert_same(&fs::read(&path).unwrap(), &pcap.bytes[..wanted], "x.pcap");
    }
    assert_eq!(written, marked.physical.len());
}

/// A `tail` that follows a file from its start; killed in the end.
struct Tail {
    child: Child,
    pieces: Receiver<Vec<u8>>,
    got: Vec<u8>,
}

impl Tail {
    fn start(option: &str, path: &Path) -> Self {
        let mut command = tool("tail");
        command.args([option, "-c", "+1"]).arg(path);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdout = child.stdout.take().unwrap();
        let (sender, pieces) = channel();
        // Ends with the pipe, which ends with the child.
        thread::spawn(move || {
            let mut piece = vec![0; 1 << 16];
            while let Ok(len @ 1..) = stdout.read(&mut piece) {
                if sender.send(piece[..len].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self {
            child,
            pieces,
            got: Vec::new(),
        }
    }

    /// Waits until it has printed as much as `wanted`, which must be all that it printed.
    #[track_caller]
    fn prints(&mut self, wanted: &[u8], what: &str) {
        while self.got.len() < wanted.len() {
            let piece = self.pieces.recv_timeout(Duration::from_secs(30));
            self.got.extend(piece.unwrap_or_else(|_| {
                panic!("{what}: {} of {} bytes", self.got.len(), wanted.len())
            }));
        }
        assert_same(&self.got, wanted, what);
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn tail_follows_a_capture_and_its_rename() {
    let source = scratch();
    let (pcap, marked) = capture(43);
    let partial = source.path().join("x.pcap.zst.partial");
    let complete = source.path().join("x.pcap.zst");
    let [first, second, last] = [0, 1, 2].map(|frame| marked.frames[frame].clone());
    fs::write(&partial, &marked.physical[..first.1.end]).unwrap();
    let mounted = Mounted::new(source.path(), "");
    let mut tails = ["-f", "-F"].map(|option| Tail::start(option, &mounted.join("x.pcap")));
    let mut all_print = |end: usize, what: &str| {
        for tail in &mut tails {
            tail.prints(&pcap.bytes[..end], what);
        }
    };
    all_print(first.0.end, "what was there");
    append(&partial, &marked.physical[first.1.end..second.1.end + 9]);
    all_print(second.0.end, "what came");
    // The rename comes while a frame is still torn: the file drains under its final name.
    fs::rename(&partial, &complete).unwrap();
    append(&complete, &marked.physical[second.1.end + 9..]);
    assert!(last.0.end <= pcap.bytes.len());
    all_print(pcap.bytes.len(), "what came after the rename");
}
