//! Fuzz targets of this floor: any bytes, and what must hold of what is made of them.
//!
//! What does not hold is a panic. What is found is held against something that was written another way: libzstd, or a plain loop over
//! the same bytes.
#![allow(
    clippy::missing_panics_doc,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::panic,
    clippy::unreachable,
    reason = "a property that does not hold is a panic"
)]

mod record;
mod walk;

pub(crate) use record::libpcap_limit;
pub use record::{NaiveRecord, naive_records, records};
pub use walk::{Grown, assert_same_end, steps, walk};

use zstd::zstd_safe;

use super::FaultKind;
use super::frame::{self, BLOCK_SOURCE_MAX, Start};
use super::marker::{self, Marker};

/// Numbers that follow from the input, so that it does the same each time.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// Those of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(u64::from(crc32fast::hash(bytes)) | 1 << 32)
    }

    /// The next number below `limit`, or 0.
    pub fn below(&mut self, limit: usize) -> usize {
        // xorshift64*
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let number = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32;
        usize::try_from(number).expect("32 bits") % limit.max(1)
    }

    /// Lengths that grow to `end`: byte by byte from somewhere on, in equal steps, in steps that double, or anyhow. Some hundred at
    /// most: where each of them is, further inputs tell.
    pub fn growth(&mut self, end: usize) -> Vec<usize> {
        let kind = self.below(4);
        let mut step = 1 + end / 64;
        let mut at = if kind == 0 { self.below(end) } else { 0 };
        let mut lengths = vec![at];
        while at < end {
            step = match kind {
                0 if lengths.len() < 64 => 1,
                0 => end,
                1 => step,
                2 => (step * 2).min(1 + end / 4),
                _ => 1 + self.below(1 + end / 8),
            };
            at = (at + step).min(end);
            lengths.push(at);
        }
        lengths
    }
}

/// A marker: decided by as few bytes as can be, never decided otherwise by more, and as a plain comparison says.
pub fn marker(bytes: &[u8]) {
    let mut decided = None;
    for len in 0..=bytes.len().min(marker::DECIDING + 8) {
        let seen = &bytes[..len];
        let verdict = marker::check(seen);
        assert_eq!(verdict, naive_marker(seen), "{len} bytes");
        match (&decided, &verdict) {
            (None, Ok(Marker::NeedMore)) => assert!(len < marker::DECIDING, "13 bytes decide"),
            (None, _) => decided = Some(verdict),
            (Some(before), _) => assert_eq!(*before, verdict, "decided, then otherwise"),
        }
        check_start(seen);
    }
}

/// The marker rule of docs/FORMAT.md, byte by byte.
fn naive_marker(bytes: &[u8]) -> Result<Marker, FaultKind> {
    let at = |place: usize| bytes.get(place).copied();
    let is_or_missing = |place: usize, wanted: u8| at(place).is_none_or(|got| got == wanted);
    if at(0).is_some_and(|first| !(0x50..=0x5F).contains(&first))
        || !(is_or_missing(1, 0x2A) && is_or_missing(2, 0x4D) && is_or_missing(3, 0x18))
    {
        return Err(FaultKind::NotMarked);
    }
    let Some([a, b, c, d]) = bytes.get(4..8).and_then(|size| size.first_chunk().copied()) else {
        return Ok(Marker::NeedMore);
    };
    let payload = u64::from(a) + (u64::from(b) << 8) + (u64::from(c) << 16) + (u64::from(d) << 24);
    let is_named = (8..12)
        .zip(*b"PSZ1")
        .all(|(place, wanted)| is_or_missing(place, wanted));
    match (payload, at(12)) {
        (..5, _) => Err(FaultKind::NotMarked),
        _ if !is_named => Err(FaultKind::NotMarked),
        (_, None) => Ok(Marker::NeedMore),
        (_, Some(1)) => Ok(Marker::Valid { len: 8 + payload }),
        (_, Some(got)) => Err(FaultKind::UnknownVersion { got }),
    }
}

/// What starts at a boundary, as libzstd sees it where four bytes are there.
fn check_start(bytes: &[u8]) {
    let start = frame::start(bytes);
    let Some(magic) = bytes.first_chunk::<4>() else {
        let skippable = |low: u8| [0x50 | low, 0x2A, 0x4D, 0x18].starts_with(bytes);
        let may_start = b"\x28\xB5\x2F\xFD".starts_with(bytes) || (0..16).any(skippable);
        assert_eq!(start == Ok(Start::NeedMore), may_start, "{bytes:?}");
        let is_zero = !bytes.is_empty() && bytes.iter().all(|byte| *byte == 0);
        assert_eq!(start == Ok(Start::Zeros), is_zero, "{bytes:?}");
        return;
    };
    let number = u32::from_le_bytes(*magic);
    let wanted = match number {
        0xFD2F_B528 => Ok(Start::Zstd),
        0x184D_2A50..=0x184D_2A5F => Ok(Start::Skippable),
        // Of more than four bytes only the first four are looked at.
        0 => Ok(Start::Zeros),
        _ => Err(*magic),
    };
    assert_eq!(start, wanted);
}

/// A frame by its headers alone: as long, and of as many source bytes, as libzstd says; and what is refused, libzstd refuses too
/// or the format does.
pub fn frame(bytes: &[u8]) {
    let mut made = b"\x28\xB5\x2F\xFD".to_vec();
    let bytes = if bytes.starts_with(&made) {
        bytes
    } else {
        made.extend_from_slice(bytes);
        &made[..]
    };
    let measured = frame::measure(bytes);
    let len = zstd_safe::find_frame_compressed_size(bytes).ok();
    match &measured {
        Ok(Some(measured)) => {
            if measured.len <= bytes.len() as u64 {
                assert_eq!(len.map(|len| len as u64), Some(measured.len), "length");
                check_frame(&bytes[..len.unwrap_or(0)], measured.content_size);
            } else {
                assert_eq!(len, None, "longer than what is there");
            }
            assert_eq!(
                content_size(bytes),
                Some(measured.content_size),
                "content size"
            );
        }
        // Not whole, or a run of empty blocks that no writer makes.
        Ok(None) => assert!(
            len.is_none_or(|len| len > 3 * 1024),
            "libzstd finds a frame of {len:?}"
        ),
        Err(kind) => check_refusal(bytes, kind, len),
    }
    for cut in 0..bytes.len().min(256) {
        let part = frame::measure(&bytes[..cut]);
        assert!(
            part == Ok(None) || part == measured,
            "{cut} bytes: {part:?}, all: {measured:?}"
        );
    }
}

/// What the frame that `bytes` start with declares, by libzstd.
fn content_size(bytes: &[u8]) -> Option<u64> {
    zstd_safe::get_frame_content_size(bytes).ok().flatten()
}

fn check_refusal(bytes: &[u8], kind: &FaultKind, len: Option<usize>) {
    match kind {
        FaultKind::ReservedBit | FaultKind::WindowTooLarge { .. } | FaultKind::ReservedBlock => {
            assert_eq!(len, None, "{kind} is fine for libzstd");
        }
        FaultKind::NoContentSize => {
            assert_eq!(content_size(bytes), None, "libzstd sees a content size");
        }
        FaultKind::NoChecksum => assert_eq!(bytes.get(4).map(|flags| flags & 4), Some(0)),
        FaultKind::Dictionary { id } => {
            // Without a whole header libzstd does not say.
            let seen = zstd_safe::get_dict_id_from_frame(bytes);
            assert!(
                seen.is_none_or(|seen| seen.get() == *id),
                "dictionary {seen:?}, not {id}"
            );
        }
        FaultKind::SizeOverBlocks { declared, most } => {
            assert!(declared > most);
            // Of all bits set libzstd makes "unknown" (`ZSTD_CONTENTSIZE_UNKNOWN`), though the format has no such word.
            let is_unknown = *declared == u64::MAX;
            if let Some(len) = len.filter(|_| !is_unknown) {
                assert!(!decodes(&bytes[..len], *most), "more than its blocks hold");
            }
        }
        FaultKind::TooManyBlocks { .. } => assert!(bytes.len() >= 3 << 20),
        other => panic!("no fault of a single frame: {other}"),
    }
}

/// Whether libzstd decodes `frame` into `most` bytes; `false` where that is too much to try.
fn decodes(frame: &[u8], most: u64) -> bool {
    const TRIED_MOST: u64 = 1 << 21;
    let Some(most) = usize::try_from(most)
        .ok()
        .filter(|most| *most as u64 <= TRIED_MOST)
    else {
        return false;
    };
    zstd::bulk::decompress(frame, most).is_ok()
}

/// That a whole frame declares no more than its blocks can hold, counted in a plain loop.
fn check_frame(frame: &[u8], content_size: u64) {
    let blocks = blocks(frame).len() as u64;
    assert!(blocks > 0, "a frame without a block");
    assert!(
        content_size <= blocks * BLOCK_SOURCE_MAX,
        "{content_size} in {blocks} blocks"
    );
}

/// Type and size of each block of the whole zstd frame `frame` (RFC 8878, 3.1.1).
pub(crate) fn blocks(frame: &[u8]) -> Vec<(usize, usize)> {
    let flags = usize::from(frame[4]);
    let window = 1 - (flags >> 5 & 1);
    let dictionary = [0, 1, 2, 4][flags & 3];
    let size = [flags >> 5 & 1, 2, 4, 8][flags >> 6];
    let mut at = 5 + window + dictionary + size;
    let mut blocks = Vec::new();
    loop {
        let header = usize::from(frame[at])
            | usize::from(frame[at + 1]) << 8
            | usize::from(frame[at + 2]) << 16;
        let (kind, size) = (header >> 1 & 3, header >> 3);
        at += 3 + if kind == 1 { 1 } else { size };
        blocks.push((kind, size));
        if header & 1 == 1 {
            assert_eq!(at + 4, frame.len(), "the checksum ends it");
            return blocks;
        }
    }
}
