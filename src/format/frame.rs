//! How long a zstd or skippable frame is, and what it declares, from its headers alone.
//!
//! A zstd frame is measured from its frame header (RFC 8878, section 3.1.1.1) and the 3-byte headers of its blocks
//! (section 3.1.1.2); block bodies are stepped over, never read. zstd's own `ZSTD_findFrameCompressedSize` and
//! `ZSTD_getFrameContentSize` are the oracle in `tests/walk_oracle.rs`. Frames that break an invariant of this format
//! (docs/FORMAT.md) are refused here as soon as their header says so.

use super::error::FaultKind;

/// zstd's frame magic 0xFD2FB528, in file order.
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];
/// The last three bytes of the skippable magics 0x184D2A50 to 0x184D2A5F, in file order; the first is 0x50 to 0x5F.
const SKIPPABLE_MAGIC_TAIL: [u8; 3] = [0x2A, 0x4D, 0x18];
/// Magic and payload size of a skippable frame.
pub const SKIPPABLE_HEADER_LEN: u64 = 8;
/// The longest frame header: magic, descriptor, window, 4-byte dictionary id and 8-byte content size.
pub const HEADER_LEN_MAX: usize = 18;
/// A block header.
pub const BLOCK_HEADER_LEN: usize = 3;
/// The content checksum behind the last block: the low 4 bytes of XXH64.
const CHECKSUM_LEN: u64 = 4;
/// The most source bytes that one block holds (RFC 8878, `Block_Maximum_Size`).
pub const BLOCK_SOURCE_MAX: u64 = 128 * 1024;
/// The largest exponent of a window, `ZSTD_WINDOWLOG_MAX` of a 64-bit zstd.
const WINDOW_LOG_MAX: u32 = 31;
/// The largest window that zstd's decoder reads: the exponent above with the largest mantissa, in bytes.
pub const WINDOW_MAX: u64 = (1 << WINDOW_LOG_MAX) + 7 * (1 << (WINDOW_LOG_MAX - 3));

/// The most blocks of one frame: 128 GiB of source in whole blocks. More are made to keep a reader busy.
const BLOCKS_MOST: u32 = 1 << 20;
/// Empty blocks in a row that are still taken for a writer's.
const EMPTY_BLOCKS_MOST: u32 = 1024;

/// What starts at a frame boundary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// Too few bytes to tell, and so far a prefix of a magic.
    NeedMore,
    /// A zstd frame.
    Zstd,
    /// A skippable frame.
    Skippable,
    /// Zero bytes: no frame, but what a preallocated or sparse tail holds.
    Zeros,
}

/// What `bytes`, read at a frame boundary, start.
///
/// # Errors
/// The first four bytes (short ones padded with 0) when they cannot start a frame.
pub fn start(bytes: &[u8]) -> Result<Start, [u8; 4]> {
    let seen = bytes.get(..4).unwrap_or(bytes);
    let is_whole = seen.len() == 4;
    if ZSTD_MAGIC.starts_with(seen) {
        Ok(if is_whole {
            Start::Zstd
        } else {
            Start::NeedMore
        })
    } else if can_be_skippable(seen) {
        Ok(if is_whole {
            Start::Skippable
        } else {
            Start::NeedMore
        })
    } else if seen.iter().all(|byte| *byte == 0) {
        Ok(Start::Zeros)
    } else {
        let mut got = [0; 4];
        for (byte, seen) in got.iter_mut().zip(seen) {
            *byte = *seen;
        }
        Err(got)
    }
}

/// Whether `bytes` are, or could grow into, the start of a skippable frame.
#[must_use]
pub fn can_be_skippable(bytes: &[u8]) -> bool {
    bytes.first().is_none_or(|first| first & 0xF0 == 0x50)
        && bytes
            .iter()
            .skip(1)
            .zip(SKIPPABLE_MAGIC_TAIL)
            .all(|(got, wanted)| *got == wanted)
}

/// The payload size of the skippable frame that `bytes` start; `None` if its 8-byte header is not whole.
#[must_use]
pub fn skippable_payload_len(bytes: &[u8]) -> Option<u32> {
    let size = bytes.get(4..8)?;
    Some(u32::from_le_bytes(size.try_into().ok()?))
}

/// A zstd frame header that keeps the format's invariants: a content size, a checksum, no dictionary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Bytes of the header, magic included: where the first block header starts.
    pub len: u64,
    /// Declared content size in source bytes. Not yet believed: see [`Measure::block`].
    pub content_size: u64,
}

/// The frame header that `bytes` start with; `None` if it is not whole.
///
/// `bytes` start with zstd's magic ([`Start::Zstd`]).
///
/// # Errors
/// A kind that says which invariant the header breaks.
pub fn header(bytes: &[u8]) -> Result<Option<Header>, FaultKind> {
    let Some(&descriptor) = bytes.get(4) else {
        return Ok(None);
    };
    if descriptor & 0x08 != 0 {
        return Err(FaultKind::ReservedBit);
    }
    let is_single_segment = descriptor & 0x20 != 0;
    let has_checksum = descriptor & 0x04 != 0;
    let window_len = usize::from(!is_single_segment);
    let dictionary_len = match descriptor & 3 {
        3 => 4,
        len => usize::from(len),
    };
    let size_len = match descriptor >> 6 {
        0 => usize::from(is_single_segment),
        1 => 2,
        2 => 4,
        _ => 8,
    };
    let window_at = 5;
    let dictionary_at = window_at + window_len;
    let size_at = dictionary_at + dictionary_len;
    let end = size_at + size_len;

    if size_len == 0 {
        return Err(FaultKind::NoContentSize);
    }
    if !has_checksum {
        return Err(FaultKind::NoChecksum);
    }
    // What the first bytes say comes first, so that the fault is the same however many of them are there.
    if !is_single_segment && let Some(&window) = bytes.get(window_at) {
        check_window(window)?;
    }
    let (Some(dictionary), Some(size)) =
        (bytes.get(dictionary_at..size_at), bytes.get(size_at..end))
    else {
        return Ok(None);
    };
    match little_endian(dictionary) {
        0 => {}
        id => {
            return Err(FaultKind::Dictionary {
                id: u32::try_from(id).unwrap_or(u32::MAX),
            });
        }
    }
    let size = little_endian(size);
    Ok(Some(Header {
        len: end as u64,
        // RFC 8878: a 2-byte field counts from 256.
        content_size: if size_len == 2 { size + 256 } else { size },
    }))
}

fn check_window(descriptor: u8) -> Result<(), FaultKind> {
    let log = 10 + u32::from(descriptor >> 3);
    if log > WINDOW_LOG_MAX {
        let base = 1u64 << log;
        return Err(FaultKind::WindowTooLarge {
            got: base + base / 8 * u64::from(descriptor & 7),
        });
    }
    Ok(())
}

/// The number in `field` of at most 8 bytes.
fn little_endian(field: &[u8]) -> u64 {
    field
        .iter()
        .rev()
        .fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// A frame while it is measured block by block. Offsets count from the frame's first byte.
#[derive(Clone, Copy, Debug)]
pub struct Measure {
    header: Header,
    /// Where the next block header starts.
    next_block: u64,
    /// The most source bytes that the blocks so far can hold.
    most: u64,
    blocks: u32,
    /// Blocks in a row that hold nothing, up to the last one.
    empty: u32,
}

/// A frame whose headers were all seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// Declared content size in source bytes, never more than the frame's blocks can hold.
    pub content_size: u64,
    /// Length of the whole frame in physical bytes, checksum included.
    pub len: u64,
}

impl Measure {
    /// A measure that stands at the first block of a frame with `header`.
    #[must_use]
    pub fn new(header: Header) -> Self {
        Self {
            header,
            next_block: header.len,
            most: 0,
            blocks: 0,
            empty: 0,
        }
    }

    /// Where the next block header starts, from the frame's first byte.
    #[must_use]
    pub fn next_block(&self) -> u64 {
        self.next_block
    }

    /// Whether the frame goes on with empty blocks as no writer makes them: the zeros of a hole read as such, three bytes
    /// each.
    #[must_use]
    pub fn is_hollow(&self) -> bool {
        self.empty >= EMPTY_BLOCKS_MOST
    }

    /// Steps over one block; the measured frame if it was the last one, `None` if more follow.
    ///
    /// # Errors
    /// [`FaultKind::ReservedBlock`], and [`FaultKind::SizeOverBlocks`] at the last block.
    pub fn block(&mut self, header: [u8; BLOCK_HEADER_LEN]) -> Result<Option<Measured>, FaultKind> {
        let bits = u32::from_le_bytes([header[0], header[1], header[2], 0]);
        let is_last = bits & 1 != 0;
        let size = u64::from(bits >> 3);
        let (stored, source) = match bits >> 1 & 3 {
            0 => (size, size),
            1 => (1, size),
            2 => (size, BLOCK_SOURCE_MAX),
            _ => return Err(FaultKind::ReservedBlock),
        };
        // At most 2^21 a step, and each step has read three bytes of a real file: no overflow within 2^64.
        self.next_block += BLOCK_HEADER_LEN as u64 + stored;
        self.most += source.min(BLOCK_SOURCE_MAX);
        self.empty = if source == 0 { self.empty + 1 } else { 0 };
        self.blocks += 1;
        if self.blocks > BLOCKS_MOST {
            return Err(FaultKind::TooManyBlocks { most: BLOCKS_MOST });
        }
        if !is_last {
            return Ok(None);
        }
        let declared = self.header.content_size;
        if declared > self.most {
            return Err(FaultKind::SizeOverBlocks {
                declared,
                most: self.most,
            });
        }
        Ok(Some(Measured {
            content_size: declared,
            len: self.next_block + CHECKSUM_LEN,
        }))
    }
}

/// The zstd frame that `bytes` start with, measured; `None` if its headers are not whole in `bytes` or it is no zstd frame.
///
/// # Errors
/// A kind that says which invariant the frame breaks.
pub fn measure(bytes: &[u8]) -> Result<Option<Measured>, FaultKind> {
    if start(bytes) != Ok(Start::Zstd) {
        return Ok(None);
    }
    let Some(header) = header(bytes)? else {
        return Ok(None);
    };
    let mut measure = Measure::new(header);
    loop {
        let Some(block) = usize::try_from(measure.next_block())
            .ok()
            .and_then(|at| bytes.get(at..)?.first_chunk())
        else {
            return Ok(None);
        };
        if measure.is_hollow() {
            return Ok(None);
        }
        if let Some(measured) = measure.block(*block)? {
            return Ok(Some(measured));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_of_a_magic_needs_more_and_other_bytes_are_no_frame() {
        for len in 0..4 {
            assert_eq!(start(&ZSTD_MAGIC[..len]), Ok(Start::NeedMore));
            assert_eq!(start(&[0x5F, 0x2A, 0x4D, 0x18][..len]), Ok(Start::NeedMore));
        }
        assert_eq!(start(&ZSTD_MAGIC), Ok(Start::Zstd));
        assert_eq!(start(&[0x5F, 0x2A, 0x4D, 0x18]), Ok(Start::Skippable));
        assert_eq!(start(&[0, 0]), Ok(Start::Zeros));
        assert_eq!(start(&[0, 0, 0, 0, 9]), Ok(Start::Zeros));
        assert_eq!(start(b"ab"), Err([b'a', b'b', 0, 0]));
        assert_eq!(
            start(&[0x28, 0xB5, 0x2F, 0xFC]),
            Err([0x28, 0xB5, 0x2F, 0xFC])
        );
    }

    #[test]
    fn of_several_faults_the_same_is_named_however_many_bytes_are_there() {
        // Neither content size nor checksum, and a window that no zstd has.
        let mut bytes = ZSTD_MAGIC.to_vec();
        bytes.extend([0, 0xE0, 0, 0]);
        for len in 5..=bytes.len() {
            assert_eq!(header(&bytes[..len]), Err(FaultKind::NoContentSize));
        }
    }

    #[test]
    fn a_window_of_2_gib_is_read_and_one_of_4_gib_is_not() {
        assert_eq!(check_window((31 - 10) << 3 | 7), Ok(()));
        assert_eq!(
            check_window((32 - 10) << 3),
            Err(FaultKind::WindowTooLarge { got: 1 << 32 })
        );
    }

    #[test]
    fn a_content_size_over_what_the_blocks_hold_is_refused() {
        let header = Header {
            len: 6,
            content_size: 1 << 60,
        };
        let last_compressed_block = [0b101, 0, 0];
        assert_eq!(
            Measure::new(header).block(last_compressed_block),
            Err(FaultKind::SizeOverBlocks {
                declared: 1 << 60,
                most: BLOCK_SOURCE_MAX
            })
        );
    }

    #[test]
    fn the_two_byte_content_size_counts_from_256() {
        let mut bytes = ZSTD_MAGIC.to_vec();
        bytes.extend([0b0110_0100, 0x01, 0x00]);
        assert_eq!(
            header(&bytes),
            Ok(Some(Header {
                len: 7,
                content_size: 257
            }))
        );
    }
}
