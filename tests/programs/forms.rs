//! One capture in all the forms that a folder may hold it in, and beside each what a reader must find.

use std::fs;

use crate::common::day::Day;
use crate::common::frames::{Marked, zstd_frame};
use crate::common::pcap::Pcap;

/// Logical names, in the order of a listing.
pub const NAMES: [&str; 4] = [
    "compressed.pcap",
    "growing.pcap",
    "raw-growing.pcap",
    "raw.pcap",
];

/// The capture complete, raw and compressed, and its first two thirds as a writer's files in the middle of a write.
pub fn day(pcap: &Pcap) -> Day {
    let day = Day::new();
    let packed = Marked::pack(pcap, 3000).physical;
    day.add_as("compressed", ".pcap.zst", &packed, &pcap.bytes);
    day.add_as("raw", ".pcap", &pcap.bytes, &pcap.bytes);
    let (seen, physical) = torn(pcap, 2 * pcap.bytes.len() / 3);
    day.add_as("growing", ".pcap.zst.partial", &physical, &seen);
    let end = pcap.ends[pcap.records() * 2 / 3];
    let (seen, physical) = (&pcap.bytes[..end], &pcap.bytes[..end + 21]);
    day.add_as("raw-growing", ".pcap.partial", physical, seen);
    day
}

/// The frames that begin before `len`, and half of the next one: what is seen of it, and what is on disk.
pub fn torn(pcap: &Pcap, len: usize) -> (Vec<u8>, Vec<u8>) {
    let mut marked = Marked::new(pcap.header());
    for chunk in pcap.chunks(3000) {
        if chunk.start >= len {
            let next = zstd_frame(&pcap.bytes[chunk]);
            marked.append(&next[..next.len() / 2]);
            break;
        }
        marked.data(&pcap.bytes[chunk]);
    }
    (marked.source, marked.physical)
}

/// What must be seen under a name.
pub fn wanted(day: &Day, name: &str) -> Vec<u8> {
    fs::read(day.raw().join(name)).unwrap()
}
