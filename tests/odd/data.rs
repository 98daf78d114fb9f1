//! Inputs with one odd frame between two good ones.

use super::{Odd, Sample, Served, sound};
use crate::common::frames::{
    BLOCK_MAX, Block, Checksum, Handmade, Marked, skippable, with_bad_checksum, with_content_size,
    zstd_frame, zstd_frame_without,
};
use crate::common::pcap::{Magic, Pcap};

/// Window descriptors (RFC 8878, 3.1.1.1.2): exponent in the upper five bits, window = 2^(10 + exponent).
const WINDOW_2_MIB: u8 = 11 << 3;
const WINDOW_2_GIB: u8 = 21 << 3;
/// The largest that zstd's own one-shot decoder reads (`ZSTD_WINDOWLOG_MAX` 31, largest mantissa).
const WINDOW_MOST: u8 = 21 << 3 | 7;
const WINDOW_4_GIB: u8 = 22 << 3;

const GIB: usize = 1 << 30;

/// Found from headers alone: everything from the odd frame on has no place in the source.
fn walk_fault(name: &str, odd: &[u8], sample: &Sample) -> Odd {
    let mut marked = sample.begun();
    let (fault_at, good) = (marked.physical.len() as u64, marked.source.clone());
    marked.append(odd);
    marked.append(&zstd_frame(&sample.data[2]));
    let unmapped = marked.physical.len() as u64 - fault_at;
    Odd {
        state: "damaged",
        inspect: 4,
        verify: 4,
        fault_at: Some(fault_at),
        served: Served::Prefix { good, unmapped },
        ..sound(name, marked)
    }
}

pub fn walk_faults(sample: &Sample) -> Vec<Odd> {
    let body = &sample.data[1];
    let made = || Handmade {
        window: Some(WINDOW_2_MIB),
        ..Handmade::raw(body)
    };
    let declared = |size: u64| {
        Handmade {
            content_size: Some(size),
            ..made()
        }
        .build()
    };
    let one_over = (body.len().div_ceil(BLOCK_MAX) * BLOCK_MAX) as u64 + 1;
    let two_huge = [declared(1 << 63), declared(1 << 63)].concat();
    let reserved_block = Handmade {
        blocks: vec![Block::Reserved],
        ..made()
    };
    let list = [
        ("no-content-size", zstd_frame_without(body, false, true)),
        (
            "no-content-size-raw",
            Handmade {
                content_size: None,
                ..made()
            }
            .build(),
        ),
        ("no-checksum", zstd_frame_without(body, true, false)),
        (
            "dictionary-id",
            Handmade {
                dictionary: Some(7),
                ..made()
            }
            .build(),
        ),
        (
            "reserved-bit",
            Handmade {
                has_reserved_bit: true,
                ..made()
            }
            .build(),
        ),
        ("reserved-block", reserved_block.build()),
        (
            "window-4g",
            Handmade {
                window: Some(WINDOW_4_GIB),
                ..made()
            }
            .build(),
        ),
        (
            "window-largest",
            Handmade {
                window: Some(0xFF),
                ..made()
            }
            .build(),
        ),
        ("declared-2e60", declared(1 << 60)),
        ("declared-2e63", declared(1 << 63)),
        ("declared-most", declared(u64::MAX - 2)),
        (
            "declared-2e60-single-segment",
            Handmade {
                content_size: Some(1 << 60),
                ..Handmade::raw(body)
            }
            .build(),
        ),
        ("declared-over-blocks", declared(one_over)),
        ("sum-overflows-u64", two_huge),
        ("stray-bytes-middle", b"abcdefg".to_vec()),
        ("zero-bytes-middle", vec![0; 512]),
    ];
    list.iter()
        .map(|(name, odd)| walk_fault(name, odd, sample))
        .collect()
}

/// Found when the frame is decoded: its own range fails, the rest stays readable.
fn frame_fault(name: &str, odd: &[u8], declared: u64, after: &[u8], sample: &Sample) -> Odd {
    let mut marked = sample.begun();
    let (fault_at, before) = (marked.physical.len() as u64, marked.source.clone());
    marked.append(odd);
    if !after.is_empty() {
        marked.append(&zstd_frame(after));
    }
    Odd {
        verify: 4,
        frames: Some(if after.is_empty() { 2 } else { 3 }),
        fault_at: Some(fault_at),
        served: Served::Hole {
            before,
            bad: declared,
            after: after.to_vec(),
        },
        ..sound(name, marked)
    }
}

pub fn frame_faults(sample: &Sample) -> Vec<Odd> {
    let body = &sample.data[1];
    let (frame, len) = (zstd_frame(body), body.len() as u64);
    let mut flipped = frame.clone();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 0x10;
    let wrong_sum = Handmade {
        checksum: Checksum::Wrong,
        ..Handmade::raw(body)
    };
    let then = &sample.data[2];
    let mut list = vec![
        frame_fault(
            "content-size-plus-1",
            &with_content_size(&frame, len + 1),
            len + 1,
            then,
            sample,
        ),
        frame_fault(
            "content-size-minus-1",
            &with_content_size(&frame, len - 1),
            len - 1,
            then,
            sample,
        ),
        frame_fault(
            "bad-checksum-middle",
            &with_bad_checksum(&frame),
            len,
            then,
            sample,
        ),
        frame_fault(
            "bad-checksum-last",
            &with_bad_checksum(&frame),
            len,
            b"",
            sample,
        ),
        frame_fault(
            "bad-checksum-raw-block",
            &wrong_sum.build(),
            len,
            then,
            sample,
        ),
        frame_fault("flipped-bit", &flipped, len, then, sample),
    ];
    for (name, len) in [("rle-bomb-1g", GIB), ("frame-over-64m", (64 << 20) + 1)] {
        let bomb = Handmade {
            window: Some(WINDOW_2_MIB),
            ..Handmade::rle(0, len)
        };
        let fault = frame_fault(name, &bomb.build(), len as u64, then, sample);
        list.push(Odd {
            state: "damaged",
            inspect: 4,
            ..fault
        });
    }
    list
}

/// Unusual, and right.
pub fn unusual(sample: &Sample) -> Vec<Odd> {
    let body = &sample.data[1];
    let with = |frame: &[u8]| {
        let mut marked = sample.begun();
        marked.frame(frame, body);
        marked.data(&sample.data[2]);
        marked
    };
    let made = || Handmade {
        window: Some(WINDOW_2_MIB),
        ..Handmade::raw(body)
    };
    let mut empties = Marked::new(&sample.head);
    let mut skipped = Marked::new(&sample.head);
    for run in &sample.data {
        empties.frame(&zstd_frame(b""), b"");
        empties.data(run);
        empties.frame(&Handmade::raw(b"").build(), b"");
        skipped.append(&skippable(3, b"somebody else's words"));
        skipped.data(run);
        skipped.append(&skippable(0, b""));
    }
    let mut marker_again = sample.begun();
    marker_again.append(&skippable(0, b"PSZ1\x01\0"));
    marker_again.data(body);
    let mut marker_2_inside = sample.begun();
    marker_2_inside.append(&skippable(0, b"PSZ1\x02\0"));
    marker_2_inside.data(body);
    let mut single = Marked::new(&sample.head);
    for pair in sample.pcap.ends.windows(2) {
        single.data(&sample.pcap.bytes[pair[0]..pair[1]]);
    }
    let list = [
        (
            "window-2g",
            with(
                &Handmade {
                    window: Some(WINDOW_2_GIB),
                    ..made()
                }
                .build(),
            ),
        ),
        (
            "window-most",
            with(
                &Handmade {
                    window: Some(WINDOW_MOST),
                    ..made()
                }
                .build(),
            ),
        ),
        (
            "dictionary-id-0",
            with(
                &Handmade {
                    dictionary: Some(0),
                    ..made()
                }
                .build(),
            ),
        ),
        ("raw-blocks", with(&Handmade::raw(body).build())),
        ("empty-frames", empties),
        ("skippable-frames", skipped),
        ("marker-twice", marker_again),
        ("marker-2-inside", marker_2_inside),
        ("one-record-a-frame", single),
    ];
    list.into_iter()
        .map(|(name, marked)| sound(name, marked))
        .collect()
}

/// Frames in which nothing is wrong round records in which something is: served, and found by `verify`.
pub fn bad_records(sample: &Sample) -> Vec<Odd> {
    let whole = sample.whole();
    let mut twice = whole.clone();
    let second = twice.physical.len() + 14;
    let source = twice.source.len();
    twice.append(&whole.physical);
    twice.source.extend_from_slice(&whole.source);
    twice.frames.push((source..source + 24, second..second));
    twice.frames.extend(whole.frames.iter().cloned());

    let body = &sample.pcap.bytes[24..];
    let mut split = Marked::new(&sample.head);
    split.data(&body[..sample.data[0].len() + 7]);
    split.data(&body[sample.data[0].len() + 7..]);
    let mut half = sample.begun();
    half.data(&sample.data[1][..sample.data[1].len() - 1]);

    let long = |snaplen: u32, len: usize| {
        let mut pcap = Pcap::with(Magic::LeUs, 4, snaplen, 1);
        pcap.push(
            1_700_000_000,
            0,
            u32::try_from(len).unwrap(),
            &vec![0x55; len],
        );
        let mut marked = Marked::new(pcap.header());
        marked.data(&pcap.bytes[24..]);
        marked
    };
    let first = |marked: &Marked, frame: usize| marked.frames[frame].1.start;
    let faults = [
        ("two-files", second, twice),
        ("record-split-over-frames", first(&split, 0), split),
        ("half-record-last", first(&half, 1), half),
        (
            "incl-len-over-262144",
            first(&long(0, 262_145), 0),
            long(0, 262_145),
        ),
        (
            "incl-len-over-snaplen",
            first(&long(40, 60), 0),
            long(40, 60),
        ),
    ];
    let odd = |(name, at, marked)| Odd {
        verify: 4,
        fault_at: Some(at as u64),
        ..sound(name, marked)
    };
    let mut list: Vec<_> = faults.into_iter().map(odd).collect();
    list.push(sound("incl-len-262144", long(0, 262_144)));
    list.push(sound("snaplen-0", long(0, 3000)));
    list.push(sound("snaplen-most", long(u32::MAX, 3000)));
    list
}
