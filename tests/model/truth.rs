//! The truth: what each capture holds, made up as far as the writers have come.

use crate::common::Rng;
use crate::common::pcap::{Magic, Pcap};

/// One record in so many is larger than a block of zstd.
const LARGE_ONE_IN: usize = 400;

/// A capture of a case, by number.
pub type CaptureId = usize;

/// All captures of a case. No two have the same first record.
#[derive(Default)]
pub struct Truth {
    captures: Vec<Capture>,
}

struct Capture {
    pcap: Pcap,
    lengths: Rng,
    payloads: Rng,
    /// What `lengths` was made from.
    shape: u64,
}

impl Truth {
    /// A new capture.
    pub fn add(&mut self, magic: Magic) -> CaptureId {
        self.add_shaped(magic, 1000 + self.captures.len() as u64)
    }

    /// A new capture whose records are as long as those of `other`.
    pub fn add_twin(&mut self, other: CaptureId) -> CaptureId {
        let (magic, shape) = (self.magic(other), self.captures[other].shape);
        self.add_shaped(magic, shape)
    }

    fn add_shaped(&mut self, magic: Magic, shape: u64) -> CaptureId {
        self.captures.push(Capture {
            pcap: Pcap::new(magic),
            lengths: Rng::new(shape),
            payloads: Rng::new(7 + self.captures.len() as u64),
            shape,
        });
        self.captures.len() - 1
    }

    pub fn magic(&self, id: CaptureId) -> Magic {
        self.captures[id].pcap.magic
    }

    /// The magic of a capture that must not be taken for one of `magic`.
    pub fn other_magic(magic: Magic) -> Magic {
        let place = Magic::ALL.iter().position(|other| *other == magic);
        Magic::ALL[(place.unwrap() + 1) % 4]
    }

    /// Source offset behind `count` records.
    pub fn end(&mut self, id: CaptureId, count: usize) -> usize {
        let capture = &mut self.captures[id];
        while capture.pcap.records() < count {
            let rng = &mut capture.lengths;
            let len = if rng.below(LARGE_ONE_IN) == 0 {
                140_000
            } else {
                [16, 60, 200, 1400][rng.below(4)]
            };
            let len = rng.below(len);
            let number = u32::try_from(capture.pcap.ends.len()).unwrap();
            let mut data = capture.payloads.bytes(len);
            // Half of it zeros: what a reader must not get where other bytes are, and may where they are not.
            data[len / 2..].fill(0);
            let secs = 1_000_000_000 + u32::try_from(id).unwrap() * 10_000 + number;
            let len = u32::try_from(len).unwrap();
            capture.pcap.push(secs, number * 10, len, &data);
        }
        capture.pcap.ends[count]
    }

    /// Whole records in the first `len` source bytes.
    pub fn records_within(&self, id: CaptureId, len: usize) -> usize {
        let ends = &self.captures[id].pcap.ends;
        ends.partition_point(|end| *end <= len).saturating_sub(1)
    }

    /// All source bytes that were made up so far.
    pub fn bytes(&self, id: CaptureId) -> &[u8] {
        &self.captures[id].pcap.bytes
    }

    /// The FileId as the attribute shows it, once a first record was made up.
    pub fn file_id(&self, id: CaptureId) -> String {
        file_id(self.bytes(id))
    }
}

/// The FileId of a capture that starts with `bytes` (format document, section 6).
pub fn file_id(bytes: &[u8]) -> String {
    let (is_little, is_nano) = match bytes[..4] {
        [0xD4, ..] => (true, false),
        [0x4D, ..] => (true, true),
        [.., 0xD4] => (false, false),
        _ => (false, true),
    };
    let word = |at: usize| {
        let word: [u8; 4] = bytes[at..at + 4].try_into().unwrap();
        u64::from(if is_little {
            u32::from_le_bytes(word)
        } else {
            u32::from_be_bytes(word)
        })
    };
    let nanos = word(24) * 1_000_000_000 + word(28) * if is_nano { 1 } else { 1000 };
    format!("{nanos}-{:08x}", crc32fast::hash(&bytes[..40]))
}
