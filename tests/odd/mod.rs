//! The table of bad and odd inputs as data: bytes, and what each part of the product must make of them.
#![allow(
    unreachable_pub,
    missing_docs,
    clippy::unwrap_used,
    dead_code,
    reason = "shared by the test files about bad input; a failed step of a test is a panic"
)]

mod data;
mod head;
mod raw;
mod tail;

use std::fs;

use nix::errno::Errno;
use tempfile::TempDir;

use crate::common::day::scratch;
use crate::common::frames::{MARKER, Marked, zstd_frame};
use crate::common::pcap::{Magic, Pcap};

/// What a mount must serve.
pub enum Served {
    /// These bytes, then the end of the file.
    Whole(Vec<u8>),
    /// A file of size 0 that cannot be opened.
    Refused(Errno),
    /// The good bytes, then EIO: a fault in the walk, after which so many physical bytes have no place.
    Prefix { good: Vec<u8>, unmapped: u64 },
    /// One frame that fails with EIO between two parts that stay readable.
    Hole {
        before: Vec<u8>,
        bad: u64,
        after: Vec<u8>,
    },
}

/// One input.
pub struct Odd {
    /// Its name in the folder.
    pub file: String,
    pub bytes: Vec<u8>,
    pub state: &'static str,
    /// Exit code of `inspect`.
    pub inspect: i32,
    /// Exit code of `verify`.
    pub verify: i32,
    /// Data frames in the walk; `None` where the word has no meaning (refused, raw).
    pub frames: Option<u64>,
    /// Bytes of the torn tail, where the input has one.
    pub torn: Option<u64>,
    /// Where the fault that `verify` names begins, as a physical offset.
    pub fault_at: Option<u64>,
    pub served: Served,
}

impl Odd {
    /// The name the mount shows.
    pub fn logical(&self) -> &str {
        let name = self.file.strip_suffix(".partial").unwrap_or(&self.file);
        name.strip_suffix(".zst").unwrap_or(name)
    }

    /// The size a mount shows.
    pub fn size(&self) -> u64 {
        match &self.served {
            Served::Whole(bytes) => bytes.len() as u64,
            Served::Refused(_) => 0,
            Served::Prefix { good, unmapped } => good.len() as u64 + unmapped,
            Served::Hole { before, bad, after } => (before.len() + after.len()) as u64 + bad,
        }
    }
}

/// All of them.
pub fn table() -> Vec<Odd> {
    table_of(&Sample::of(Pcap::random(Magic::LeUs, 2026, 60)))
}

/// All of them, made of packets of a few bytes.
pub fn small_table() -> Vec<Odd> {
    let mut pcap = Pcap::new(Magic::BeNs);
    for number in 0..60 {
        pcap.push(1_700_000_000 + number, 7, 60, b"odd");
    }
    table_of(&Sample::of(pcap))
}

fn table_of(sample: &Sample) -> Vec<Odd> {
    let mut table = head::inputs(sample);
    table.extend(data::walk_faults(sample));
    table.extend(data::frame_faults(sample));
    table.extend(data::unusual(sample));
    table.extend(data::bad_records(sample));
    table.extend(tail::inputs(sample));
    table.extend(raw::inputs(sample));
    table
}

/// A folder that holds them.
pub fn on_disk(table: &[Odd]) -> TempDir {
    let folder = scratch();
    for odd in table {
        fs::write(folder.path().join(&odd.file), &odd.bytes).unwrap();
    }
    folder
}

/// A capture cut into a header and three runs of records.
pub struct Sample {
    pub pcap: Pcap,
    pub head: Vec<u8>,
    pub data: [Vec<u8>; 3],
}

impl Sample {
    /// Of sixty packets.
    fn of(pcap: Pcap) -> Self {
        let part = |from: usize, to: usize| pcap.bytes[pcap.ends[from]..pcap.ends[to]].to_vec();
        let data = [part(0, 20), part(20, 40), part(40, 60)];
        Self {
            head: pcap.header().to_vec(),
            data,
            pcap,
        }
    }

    /// Marker, header frame and the first data frame.
    pub fn begun(&self) -> Marked {
        let mut marked = Marked::new(&self.head);
        marked.data(&self.data[0]);
        marked
    }

    /// Marker, header frame and all data frames.
    pub fn whole(&self) -> Marked {
        let mut marked = self.begun();
        marked.data(&self.data[1]);
        marked.data(&self.data[2]);
        marked
    }
}

/// A file that is not in the format, or of an unknown version.
fn foreign(name: &str, bytes: Vec<u8>) -> Odd {
    Odd {
        file: format!("{name}.pcap.zst"),
        bytes,
        state: "refused",
        inspect: 3,
        verify: 3,
        frames: None,
        torn: None,
        fault_at: None,
        served: Served::Refused(Errno::EOPNOTSUPP),
    }
}

/// A marked file with this in the header frame's place.
fn bad_header(name: &str, frame: &[u8], sample: &Sample) -> Odd {
    let bytes = [&MARKER, frame, &zstd_frame(&sample.data[0])].concat();
    Odd {
        inspect: 4,
        verify: 4,
        fault_at: Some(14),
        served: Served::Refused(Errno::EIO),
        ..foreign(name, bytes)
    }
}

/// A file in which nothing is wrong.
fn sound(name: &str, marked: Marked) -> Odd {
    Odd {
        state: "complete",
        inspect: 0,
        verify: 0,
        frames: Some(marked.frames.len() as u64),
        served: Served::Whole(marked.source),
        ..foreign(name, marked.physical)
    }
}

/// A final file that stops inside a frame: `tail` is the torn part.
fn torn(name: &str, mut marked: Marked, tail: &[u8]) -> Odd {
    marked.append(tail);
    Odd {
        state: "draining",
        inspect: 5,
        verify: 5,
        torn: Some(tail.len() as u64),
        ..sound(name, marked)
    }
}

/// The same under a partial name.
fn growing(odd: Odd) -> Odd {
    Odd {
        file: format!("{}.partial", odd.file),
        state: "growing",
        inspect: 5,
        verify: 5,
        ..odd
    }
}
