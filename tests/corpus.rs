//! What the fuzz targets start from (`tests/corpus/<target>/seed-*`): made here, of our own bytes alone. `PCAPZST_BLESS=1` writes the
//! files anew. What fuzzing found lies beside them under names that say what it is; the replay of all of them is in `src/fuzz.rs`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "a failed step of a test is a panic"
)]

mod common;
#[path = "index/entry.rs"]
#[allow(dead_code, reason = "shared with the tests of the index")]
mod entry;
mod odd;

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use common::Rng;
use common::frames::{Block, Handmade, MARKER, Marked, skippable, zstd_frame, zstd_frame_without};
use common::pcap::{Magic, Pcap};
use entry::Entry;

/// A seed's name, and its bytes.
type Seeds = BTreeMap<String, Vec<u8>>;

/// All seeds together are small, and few.
const BYTES_MOST: usize = 128 * 1024;
const FILES_MOST: usize = 150;

/// Inputs of the table of odd ones, by name.
fn odd(names: &[&str]) -> Seeds {
    let table = odd::small_table();
    let seed = |name: &&str| {
        let found = table
            .iter()
            .find(|odd| odd.file.split('.').next() == Some(name));
        ((*name).to_owned(), found.expect(name).bytes.clone())
    };
    names.iter().map(seed).collect()
}

fn named<const N: usize>(seeds: [(&str, Vec<u8>); N]) -> Seeds {
    seeds.map(|(name, bytes)| (name.to_owned(), bytes)).into()
}

fn walks() -> Seeds {
    odd(&[
        "one-record-a-frame",
        "skippable-frames",
        "empty-frames",
        "marker-payload-40",
        "raw-blocks",
        "window-most",
        "declared-over-blocks",
        "sum-overflows-u64",
        "cut-in-block",
        "zero-tail-512",
        "stray-3",
        "header-of-48",
        "two-files",
    ])
}

fn growths() -> Seeds {
    let mut seeds = odd(&[
        "one-record-a-frame",
        "skippable-frames",
        "empty-frames",
        "marker-twice",
        "marker-version-2",
        "header-pcapng",
        "header-cut",
        "record-split-over-frames",
        "zero-bytes-middle",
        "reserved-block",
        "bad-checksum-middle",
        "skippable-past-the-end",
        "stray-7",
    ]);
    // Nine blocks: more than the target's reader decodes. What is behind it can be read.
    let mut over = Marked::new(Pcap::new(Magic::LeUs).header());
    let len = (1 << 20) + 1;
    over.frame(&Handmade::rle(0, len).build(), &vec![0; len]);
    let mut last = Pcap::new(Magic::LeUs);
    last.push(1_700_000_000, 7, 60, b"behind it");
    over.data(&last.bytes[24..]);
    seeds.insert("frame-over-the-limit".to_owned(), over.physical);
    seeds
}

fn memories() -> Seeds {
    odd(&[
        "one-record-a-frame",
        "skippable-frames",
        "marker-flags-set",
        "window-2g",
        "dictionary-id",
        "content-size-plus-1",
        "content-size-minus-1",
        "flipped-bit",
        "bad-checksum-last",
        "declared-2e60",
        "header-bad-checksum",
        "header-only",
        "half-record-last",
        "incl-len-over-262144",
        "incl-len-over-snaplen",
        "cut-in-checksum",
        "stray-bytes-middle",
        "unmarked",
    ])
}

fn frames() -> Seeds {
    let text = b"a frame holds whole records ".repeat(6);
    let blocks = Handmade {
        blocks: vec![
            Block::Raw(b"raw".to_vec()),
            Block::Rle(7, 500),
            Block::Raw(Vec::new()),
        ],
        content_size: Some(503),
        ..Handmade::raw(b"")
    };
    let dictionary = Handmade {
        dictionary: Some(0),
        window: Some(0),
        ..Handmade::raw(b"with a field for a dictionary")
    };
    let reserved = Handmade {
        blocks: vec![Block::Reserved],
        ..Handmade::raw(b"")
    };
    let window = |descriptor| Handmade {
        window: Some(descriptor),
        ..Handmade::raw(b"behind a window")
    };
    named([
        // Exponent 31 with the largest mantissa, and exponent 32.
        ("window-most", window(21 << 3 | 7).build()),
        ("window-4g", window(22 << 3).build()),
        ("compressed", zstd_frame(&text)),
        ("long", zstd_frame(&text.repeat(200))),
        ("empty", zstd_frame(b"")),
        ("no-size", zstd_frame_without(&text, false, true)),
        ("no-checksum", zstd_frame_without(&text, true, false)),
        ("three-blocks", blocks.build()),
        ("dictionary-0", dictionary.build()),
        ("reserved-block", reserved.build()),
        ("run", Handmade::rle(0x20, 300_000).build()),
    ])
}

fn markers() -> Seeds {
    named([
        ("written", MARKER.to_vec()),
        ("version-2", skippable(3, b"PSZ1\x02")),
        (
            "long",
            skippable(15, b"PSZ1\x01 and words that somebody adds"),
        ),
        ("short", skippable(0, b"PSZ")),
        ("frame", zstd_frame(b"")),
    ])
}

fn records() -> Seeds {
    let mut seeds = Seeds::new();
    for (magic, minor) in [
        (Magic::LeUs, 4),
        (Magic::BeUs, 3),
        (Magic::LeNs, 2),
        (Magic::BeNs, 4),
    ] {
        let mut pcap = Pcap::with(magic, minor, 65_535, 1);
        for number in 0..6 {
            pcap.push(
                1_700_000_000,
                number,
                40 + number,
                &b"packets"[..number as usize],
            );
        }
        seeds.insert(format!("{}-2.{minor}", magic.name()), pcap.bytes);
    }
    let table = odd(&[
        "raw-partial-half-record",
        "raw-partial-zeros-7",
        "raw-pcapng",
    ]);
    seeds.extend(table);
    let mut long = Pcap::with(Magic::LeUs, 4, 0, 249);
    long.push(1, 2, 300_000, &[]);
    let at = long.bytes.len() - 8;
    long.bytes[at..at + 4].copy_from_slice(&300_000_u32.to_le_bytes());
    seeds.insert("usb-longer-than-marked".to_owned(), long.bytes);
    seeds
}

fn names() -> Seeds {
    named([
        ("raw", b"x.pcap".to_vec()),
        ("compressed-partial", b"x.pcap.zst.partial".to_vec()),
        ("other-suffix", b".tmp/x.pcap.zst.tmp".to_vec()),
        ("bytes", b"\xff\n:.pcap.partial".to_vec()),
        ("none", b".PART/a.pcap.zst.zst.PART".to_vec()),
    ])
}

fn indexes() -> Seeds {
    let entry = |frames: &[(u64, u64)]| {
        let size = 61 + frames.iter().map(|(_, physical)| physical).sum::<u64>();
        let entry = Entry {
            version: 1,
            device: 8,
            inode: 77,
            size,
            mtime: (1_700_000_000, 999_999_999),
            ctime: (-1, 0),
            file_id: (5, 6),
            header: vec![7; 24],
            header_end: 61,
            head: (4096, 99),
            frames: frames.to_vec(),
        };
        let mut bytes = entry.build();
        // The target adds the right one.
        bytes.truncate(bytes.len() - 4);
        bytes
    };
    named([
        ("one-frame", entry(&[(3, 20)])),
        (
            "many-frames",
            entry(&[
                (262_144, 90_000),
                (4, 30),
                (1, 13),
                (127, 128),
                (262_000, 1),
            ]),
        ),
        ("no-frame", entry(&[])),
        ("longest", entry(&[((1 << 48) - 25, (1 << 32) - 1)])),
    ])
}

fn packings() -> Seeds {
    let mut rng = Rng::new(6);
    let mut random = |first: [u8; 5], len: usize| [&first[..], &rng.bytes(len)].concat();
    named([
        ("one-frame", random([0, 0, 0, 0, 0], 60)),
        ("a-frame-each", random([1, 0, 2, 1, 1], 90)),
        ("small-frames", random([2, 2, 1, 0, 3], 120)),
        ("old-version", random([3, 1, 3, 2, 2], 61)),
        ("no-record", random([0, 3, 0, 3, 4], 0)),
    ])
}

fn all() -> BTreeMap<&'static str, Seeds> {
    [
        ("chunking", growths()),
        ("frame", frames()),
        ("index", indexes()),
        ("marker", markers()),
        ("name", names()),
        ("open_memory", memories()),
        ("records", records()),
        ("round_trip", packings()),
        ("walk", walks()),
    ]
    .into()
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus")
}

/// The seeds that lie in the folder of `target`, and the bytes of everything in it.
fn kept(target: &str) -> (Seeds, usize) {
    let mut seeds = Seeds::new();
    let mut total = 0;
    for file in fs::read_dir(folder().join(target)).expect(target) {
        let path = file.unwrap().path();
        let bytes = fs::read(&path).unwrap();
        total += bytes.len();
        let name = path.file_name().unwrap().to_str().expect("a plain name");
        if let Some(name) = name.strip_prefix("seed-") {
            seeds.insert(name.to_owned(), bytes);
        }
    }
    (seeds, total)
}

fn bless(target: &str, seeds: &Seeds) {
    let folder = folder().join(target);
    fs::create_dir_all(&folder).unwrap();
    for (name, _) in kept(target).0 {
        fs::remove_file(folder.join(format!("seed-{name}"))).unwrap();
    }
    for (name, bytes) in seeds {
        fs::write(folder.join(format!("seed-{name}")), bytes).unwrap();
    }
}

#[test]
fn the_seeds_are_those_that_are_made_here_and_all_inputs_together_are_small() {
    let is_blessed = env::var_os("PCAPZST_BLESS").is_some();
    let (mut files, mut total) = (0, 0);
    for (target, seeds) in all() {
        if is_blessed {
            bless(target, &seeds);
        }
        let (kept, bytes) = kept(target);
        let is_same = kept.keys().eq(seeds.keys());
        assert!(
            is_same,
            "{target}: other seeds (PCAPZST_BLESS=1 writes them anew)"
        );
        for (name, seed) in &seeds {
            assert!(
                kept[name] == *seed,
                "{target}/seed-{name} differs (PCAPZST_BLESS=1 writes it anew)"
            );
        }
        files += kept.len();
        total += bytes;
    }
    assert!(
        files <= FILES_MOST && total <= BYTES_MOST,
        "{files} seeds, {total} bytes in all"
    );
}
