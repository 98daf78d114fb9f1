//! Captures that grow: the writes that make one, step by step, and what a reader may see after each.
//!
//! What stands at an offset depends on the capture's seed and the offset alone, and no payload byte is zero: bytes of
//! another capture, of another place or of nobody show.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use super::Rng;
use super::frames::{MARKER, zstd_frame};
use super::pcap::{Magic, Pcap};

/// How the capture lies on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Zst,
    Raw,
}

impl Form {
    /// The ending of a finished file.
    pub fn ending(self) -> &'static str {
        match self {
            Self::Zst => ".pcap.zst",
            Self::Raw => ".pcap",
        }
    }
}

/// One write of the writer.
pub struct Step {
    pub bytes: Vec<u8>,
    /// Source bytes in whole frames (raw: records) once it is on disk.
    pub visible: usize,
}

/// A capture and the writes that make it.
pub struct Growth {
    pub form: Form,
    pub truth: Vec<u8>,
    /// Where a reader may find the end: after the header, and after each record.
    pub ends: Vec<usize>,
    pub steps: Vec<Step>,
}

impl Growth {
    /// A capture of `records` records, one a frame, with payloads of these lengths; every third frame (raw: record) comes
    /// in two or three torn pieces. The first step makes the file a capture without a packet.
    pub fn new(form: Form, seed: u64, records: usize, payload: Range<usize>) -> Self {
        let mut rng = Rng::new(seed);
        let mut pcap = Pcap::new(Magic::LeUs);
        for number in 0..records {
            let len = payload.start + rng.below(payload.len());
            let start = pcap.bytes.len() + 16;
            let data = filler(seed, start..start + len);
            let (secs, micros) = (number / 1000, number % 1000 * 1000);
            pcap.push(
                1_700_000_000 + u32::try_from(secs).unwrap(),
                u32::try_from(micros).unwrap(),
                u32::try_from(len).unwrap(),
                &data,
            );
        }
        let mut steps = vec![first_step(form, &pcap)];
        for (number, pair) in pcap.ends.windows(2).enumerate() {
            let record = &pcap.bytes[pair[0]..pair[1]];
            let bytes = match form {
                Form::Zst => zstd_frame(record),
                Form::Raw => record.to_vec(),
            };
            let mut cuts = Vec::new();
            if number.is_multiple_of(3) {
                cuts = (0..=number % 2).map(|_| rng.below(bytes.len())).collect();
                cuts.sort_unstable();
                cuts.dedup();
            }
            cuts.retain(|cut| *cut > 0);
            let mut start = 0;
            for cut in cuts {
                let bytes = bytes[start..cut].to_vec();
                steps.push(Step {
                    bytes,
                    visible: pair[0],
                });
                start = cut;
            }
            let bytes = bytes[start..].to_vec();
            steps.push(Step {
                bytes,
                visible: pair[1],
            });
        }
        Self {
            form,
            truth: pcap.bytes,
            ends: pcap.ends,
            steps,
        }
    }
}

fn first_step(form: Form, pcap: &Pcap) -> Step {
    let bytes = match form {
        Form::Zst => [&MARKER[..], &zstd_frame(pcap.header())].concat(),
        Form::Raw => pcap.header().to_vec(),
    };
    Step { bytes, visible: 24 }
}

/// The bytes at these offsets of the capture with this seed: none is zero.
pub fn filler(seed: u64, range: Range<usize>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(range.len() + 16);
    let first = range.start / 8;
    for word in first..range.end.div_ceil(8) {
        // splitmix64's output function.
        let mut mixed = (seed << 40 ^ word as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        bytes.extend((mixed | 0x0101_0101_0101_0101).to_le_bytes());
    }
    bytes.drain(..range.start - first * 8);
    bytes.truncate(range.len());
    bytes
}

/// How far a growing file must and may be seen, as its writer says. The reader takes `least` before it looks and `most`
/// after: between the two lies every honest answer.
#[derive(Default)]
pub struct Frontier {
    least: AtomicUsize,
    most: AtomicUsize,
    /// Set once there is no more to come.
    finished: AtomicBool,
    /// Looks so far.
    pub looks: AtomicU64,
    /// Looks that were answered with a wrong byte.
    pub wrong: AtomicU64,
}

impl Frontier {
    pub fn least(&self) -> usize {
        self.least.load(Ordering::SeqCst)
    }

    pub fn most(&self) -> usize {
        self.most.load(Ordering::SeqCst)
    }

    /// Before the write that makes `size` visible.
    pub fn announce(&self, size: usize) {
        self.most.store(size, Ordering::SeqCst);
    }

    /// After that write.
    pub fn publish(&self, size: usize) {
        self.least.store(size, Ordering::SeqCst);
    }

    pub fn finish(&self) {
        self.finished.store(true, Ordering::SeqCst);
    }

    pub fn is_finished(&self) -> bool {
        self.finished.load(Ordering::SeqCst)
    }
}

/// What is wrong with a look at a growing file.
#[derive(Debug)]
pub enum Fault {
    /// A byte that the file does not have, or one that cannot have been there.
    Wrong(String),
    /// Bytes are missing that were there before the look.
    Late(String),
}

/// What is wrong with the bytes that a reader got at `offset`, if anything. There were `most` at most; those before
/// `must_reach` must not be missing.
pub fn fault(
    truth: &[u8],
    got: &[u8],
    offset: usize,
    most: usize,
    must_reach: usize,
) -> Option<Fault> {
    let end = offset + got.len();
    if !got.is_empty() && end > most {
        return Some(Fault::Wrong(format!(
            "{} bytes at {offset}: {most} is all that was there",
            got.len()
        )));
    }
    let right = &truth[offset.min(end)..end];
    if got != right {
        let at = got.iter().zip(right).position(|(a, b)| a != b).unwrap();
        let zeros = got[at..].iter().take_while(|byte| **byte == 0).count();
        return Some(Fault::Wrong(format!(
            "byte {} is {:#04x}, wanted {:#04x} ({zeros} zeros from there; asked at {offset}, got {} bytes)",
            offset + at,
            got[at],
            right[at],
            got.len()
        )));
    }
    (end < must_reach).then(|| {
        Fault::Late(format!(
            "{} bytes at {offset}, {must_reach} was there before",
            got.len()
        ))
    })
}
