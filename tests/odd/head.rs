//! Inputs whose marker or header frame is odd.

use super::{Odd, Sample, bad_header, foreign, growing, sound, torn};
use crate::common::frames::{
    Handmade, MARKER, Marked, skippable, with_bad_checksum, zstd_frame, zstd_frame_without,
};

/// A whole capture behind another first frame.
fn behind(first: &[u8], sample: &Sample) -> Vec<u8> {
    [first, &sample.whole().physical[14..]].concat()
}

/// A sound file whose marker frame is this one.
fn marked_by(first: &[u8], sample: &Sample) -> Marked {
    let mut marked = sample.whole();
    marked.physical = behind(first, sample);
    marked
}

/// A final file that ends before its first data.
fn unborn(name: &str, bytes: &[u8]) -> Odd {
    let nothing = Marked {
        physical: Vec::new(),
        source: Vec::new(),
        frames: Vec::new(),
    };
    torn(name, nothing, bytes)
}

pub fn inputs(sample: &Sample) -> Vec<Odd> {
    let mut list = markers(sample);
    list.extend(headers(sample));
    list
}

fn markers(sample: &Sample) -> Vec<Odd> {
    let mut list = vec![
        foreign("unmarked", zstd_frame(&sample.pcap.bytes)),
        foreign("unmarked-frames", behind(&[], sample)),
        foreign(
            "marker-version-2",
            behind(&skippable(0, b"PSZ1\x02\0"), sample),
        ),
        foreign(
            "marker-version-0",
            behind(&skippable(0, b"PSZ1\0\0"), sample),
        ),
        foreign(
            "marker-wrong-magic",
            behind(&skippable(0, b"PSZ2\x01\0"), sample),
        ),
        foreign("marker-payload-0", behind(&skippable(0, b""), sample)),
        foreign("marker-payload-4", behind(&skippable(0, b"PSZ1"), sample)),
        foreign("no-frame", b"abc".to_vec()),
        foreign("no-frame-but-long", sample.pcap.bytes.clone()),
        sound(
            "marker-payload-5",
            marked_by(&skippable(0, b"PSZ1\x01"), sample),
        ),
        sound(
            "marker-payload-40",
            marked_by(
                &skippable(0, &[b"PSZ1\x01\0", &[7; 34][..]].concat()),
                sample,
            ),
        ),
        sound(
            "marker-flags-set",
            marked_by(&skippable(0, b"PSZ1\x01\xFF"), sample),
        ),
        unborn("empty", b""),
        unborn("marker-cut-1", &MARKER[..1]),
        unborn("marker-cut-8", &MARKER[..8]),
        unborn("marker-cut-13", &MARKER[..13]),
        growing(unborn("empty-partial", b"")),
        growing(unborn("marker-cut-partial", &MARKER[..13])),
    ];
    for variant in 1..16 {
        let first = skippable(variant, b"PSZ1\x01\0");
        list.push(sound(
            &format!("marker-magic-5{variant:X}"),
            marked_by(&first, sample),
        ));
    }
    let alone = Marked {
        physical: MARKER.to_vec(),
        source: Vec::new(),
        frames: Vec::new(),
    };
    list.push(torn("marker-only", alone.clone(), b""));
    list.push(growing(torn("marker-only-partial", alone.clone(), b"")));
    let header = zstd_frame(&sample.head);
    list.push(torn("header-cut", alone, &header[..header.len() - 1]));
    list.push(sound("header-only", Marked::new(&sample.head)));
    list
}

fn headers(sample: &Sample) -> Vec<Odd> {
    let head = &sample.head;
    let pcapng = [&0x0A0D_0D0A_u32.to_le_bytes()[..], &[0; 20]].concat();
    let unsized_header = Handmade {
        content_size: None,
        window: Some(0x58),
        ..Handmade::raw(head)
    };
    let unknown_dictionary = Handmade {
        dictionary: Some(9),
        ..Handmade::raw(head)
    };
    vec![
        bad_header("header-of-23", &zstd_frame(&head[..23]), sample),
        bad_header(
            "header-of-48",
            &zstd_frame(&[&head[..], &head[..]].concat()),
            sample,
        ),
        bad_header(
            "header-with-records",
            &zstd_frame(&sample.pcap.bytes),
            sample,
        ),
        bad_header("header-empty", &zstd_frame(b""), sample),
        bad_header("header-pcapng", &zstd_frame(&pcapng), sample),
        bad_header(
            "header-bad-checksum",
            &with_bad_checksum(&zstd_frame(head)),
            sample,
        ),
        bad_header(
            "header-no-size",
            &zstd_frame_without(head, false, true),
            sample,
        ),
        bad_header("header-no-size-raw", &unsized_header.build(), sample),
        bad_header(
            "header-no-checksum",
            &zstd_frame_without(head, true, false),
            sample,
        ),
        bad_header("header-dictionary", &unknown_dictionary.build(), sample),
    ]
}
