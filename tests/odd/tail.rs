//! Inputs that are good up to a point, and end oddly.

use super::{Odd, Sample, Served, growing, sound, torn};
use crate::common::frames::zstd_frame;

/// A final file followed by bytes that no frame begins with.
fn stray(name: &str, tail: &[u8], sample: &Sample) -> Odd {
    let mut marked = sample.begun();
    let (fault_at, good) = (marked.physical.len() as u64, marked.source.clone());
    marked.append(tail);
    Odd {
        state: "damaged",
        inspect: 4,
        verify: 4,
        fault_at: Some(fault_at),
        served: Served::Prefix {
            good,
            unmapped: tail.len() as u64,
        },
        ..sound(name, marked)
    }
}

pub fn inputs(sample: &Sample) -> Vec<Odd> {
    let begun = || sample.begun();
    let next = zstd_frame(&sample.data[1]);
    let skippable = [0x5A, 0x2A, 0x4D, 0x18, 6, 0, 0, 0, 1, 2];
    let endless = [
        0x50, 0x2A, 0x4D, 0x18, 0xFF, 0xFF, 0xFF, 0xFF, b'P', b'S', b'Z', b'1',
    ];
    let mut list = vec![
        torn("cut-in-block", begun(), &next[..next.len() / 2]),
        torn("cut-in-checksum", begun(), &next[..next.len() - 2]),
        torn("cut-in-skippable", begun(), &skippable),
        torn("skippable-past-the-end", begun(), &endless),
        stray("zero-tail-512", &[0; 512], sample),
        stray("zero-tail-1", &[0], sample),
        growing(torn("zero-tail-512-partial", begun(), &[0; 512])),
        growing(torn("zero-tail-64k-partial", begun(), &[0; 65_536])),
        growing(torn("zero-tail-1-partial", begun(), &[0])),
        growing(torn(
            "cut-in-block-partial",
            begun(),
            &next[..next.len() / 2],
        )),
        growing(torn("skippable-past-the-end-partial", begun(), &endless)),
        growing(torn("whole-partial", begun(), b"")),
    ];
    for len in 1..8 {
        list.push(torn(&format!("zstd-prefix-{len}"), begun(), &next[..len]));
        list.push(torn(
            &format!("skippable-prefix-{len}"),
            begun(),
            &skippable[..len],
        ));
        list.push(growing(torn(
            &format!("zstd-prefix-{len}-partial"),
            begun(),
            &next[..len],
        )));
        list.push(stray(&format!("stray-{len}"), &b"abcdefg"[..len], sample));
    }
    list
}
