//! Frames and marked files, made from the format document and RFC 8878 alone.

use std::ops::Range;

use super::pcap::Pcap;

/// The marker frame as the format document prints it.
pub const MARKER: [u8; 14] = [
    0x50, 0x2A, 0x4D, 0x18, 6, 0, 0, 0, b'P', b'S', b'Z', b'1', 1, 0,
];

/// No block holds more (RFC 8878, section 3.1.1.2).
pub const BLOCK_MAX: usize = 128 * 1024;

/// A skippable frame with the magic `0x184D2A50 + variant`.
pub fn skippable(variant: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = (0x184D_2A50 + u32::from(variant)).to_le_bytes().to_vec();
    frame.extend(u32::try_from(payload.len()).unwrap().to_le_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// A frame as every writer makes it: zstd's own, with content size and checksum.
pub fn zstd_frame(content: &[u8]) -> Vec<u8> {
    let mut compressor = zstd::bulk::Compressor::new(2).unwrap();
    compressor.include_checksum(true).unwrap();
    compressor.include_contentsize(true).unwrap();
    compressor.compress(content).unwrap()
}

/// A frame of zstd's own without one of the two things the format asks for.
pub fn zstd_frame_without(content: &[u8], has_size: bool, has_checksum: bool) -> Vec<u8> {
    let mut compressor = zstd::bulk::Compressor::new(2).unwrap();
    compressor.include_checksum(has_checksum).unwrap();
    compressor.include_contentsize(has_size).unwrap();
    compressor.compress(content).unwrap()
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Checksum {
    Right,
    Wrong,
    Absent,
}

/// A block of a hand-made frame.
#[derive(Clone)]
pub enum Block {
    Raw(Vec<u8>),
    Rle(u8, usize),
    /// The block type that RFC 8878 reserves.
    Reserved,
}

/// A frame made by hand, every header field of the test's choice.
pub struct Handmade {
    pub blocks: Vec<Block>,
    /// The declared content size, always in eight bytes.
    pub content_size: Option<u64>,
    pub checksum: Checksum,
    /// The window descriptor byte; without one the frame is a single segment.
    pub window: Option<u8>,
    /// A one-byte dictionary id.
    pub dictionary: Option<u8>,
    pub has_reserved_bit: bool,
}

impl Handmade {
    /// A well-formed frame of raw blocks.
    pub fn raw(content: &[u8]) -> Self {
        let blocks = content
            .chunks(BLOCK_MAX)
            .map(|block| Block::Raw(block.to_vec()))
            .collect();
        Self::of(blocks, content.len())
    }

    /// A well-formed frame of RLE blocks.
    pub fn rle(byte: u8, len: usize) -> Self {
        let blocks = (0..len)
            .step_by(BLOCK_MAX)
            .map(|at| Block::Rle(byte, BLOCK_MAX.min(len - at)))
            .collect();
        Self::of(blocks, len)
    }

    fn of(blocks: Vec<Block>, len: usize) -> Self {
        Self {
            blocks,
            content_size: Some(len as u64),
            checksum: Checksum::Right,
            window: None,
            dictionary: None,
            has_reserved_bit: false,
        }
    }

    pub fn build(&self) -> Vec<u8> {
        let mut frame = 0xFD2F_B528_u32.to_le_bytes().to_vec();
        let size_flag = if self.content_size.is_some() {
            3 << 6
        } else {
            0
        };
        let single_segment = u8::from(self.window.is_none()) << 5;
        let reserved = u8::from(self.has_reserved_bit) << 3;
        let checksum = u8::from(self.checksum != Checksum::Absent) << 2;
        frame.push(
            size_flag | single_segment | reserved | checksum | u8::from(self.dictionary.is_some()),
        );
        frame.extend(self.window);
        frame.extend(self.dictionary);
        if let Some(size) = self.content_size {
            frame.extend(size.to_le_bytes());
        }
        let mut hash = Xxh64::new();
        let empty = [Block::Raw(Vec::new())];
        let blocks = if self.blocks.is_empty() {
            &empty[..]
        } else {
            &self.blocks
        };
        for (number, block) in blocks.iter().enumerate() {
            let (kind, size, body) = match block {
                Block::Raw(bytes) => (0, bytes.len(), bytes.clone()),
                Block::Rle(byte, len) => (1, *len, vec![*byte]),
                Block::Reserved => (3, 1, vec![0]),
            };
            let last = u32::from(number + 1 == blocks.len());
            let header = last | kind << 1 | u32::try_from(size).unwrap() << 3;
            frame.extend_from_slice(&header.to_le_bytes()[..3]);
            frame.extend_from_slice(&body);
            match block {
                Block::Rle(byte, len) => hash.update(&vec![*byte; *len]),
                Block::Raw(_) | Block::Reserved => hash.update(&body),
            }
        }
        let [low @ .., _, _, _, _] = hash.finish().to_le_bytes();
        match self.checksum {
            Checksum::Right => frame.extend(low),
            Checksum::Wrong => frame.extend(low.map(|byte| !byte)),
            Checksum::Absent => {}
        }
        frame
    }
}

/// Changes the content size a frame of zstd's own declares.
///
/// # Panics
/// When the new size does not fit the field.
pub fn with_content_size(frame: &[u8], size: u64) -> Vec<u8> {
    let mut frame = frame.to_vec();
    let descriptor = frame[4];
    let single_segment = descriptor & 0x20 != 0;
    let at = if single_segment { 5 } else { 6 };
    match descriptor >> 6 {
        0 if single_segment => frame[at] = u8::try_from(size).unwrap(),
        1 => frame[at..at + 2].copy_from_slice(&u16::try_from(size - 256).unwrap().to_le_bytes()),
        2 => frame[at..at + 4].copy_from_slice(&u32::try_from(size).unwrap().to_le_bytes()),
        3 => frame[at..at + 8].copy_from_slice(&size.to_le_bytes()),
        _ => panic!("the frame declares no content size"),
    }
    frame
}

/// Turns over the frame's last byte, which is part of its checksum.
pub fn with_bad_checksum(frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    *frame.last_mut().unwrap() ^= 0xFF;
    frame
}

/// A marked file under construction, with what a reader of it must find.
#[derive(Clone)]
pub struct Marked {
    pub physical: Vec<u8>,
    pub source: Vec<u8>,
    /// Source range and physical range of each data frame that carries bytes.
    pub frames: Vec<(Range<usize>, Range<usize>)>,
}

impl Marked {
    /// Marker and header frame.
    pub fn new(header: &[u8]) -> Self {
        let mut physical = MARKER.to_vec();
        physical.extend(zstd_frame(header));
        Self {
            physical,
            source: header.to_vec(),
            frames: Vec::new(),
        }
    }

    /// A whole capture in frames of about `target` source bytes.
    pub fn pack(pcap: &Pcap, target: usize) -> Self {
        let mut marked = Self::new(pcap.header());
        for chunk in pcap.chunks(target) {
            marked.data(&pcap.bytes[chunk]);
        }
        marked
    }

    /// Appends a data frame of zstd's own.
    pub fn data(&mut self, content: &[u8]) {
        self.frame(&zstd_frame(content), content);
    }

    /// Appends a data frame of the caller's making, which decodes to `content`.
    pub fn frame(&mut self, frame: &[u8], content: &[u8]) {
        let (source, physical) = (self.source.len(), self.physical.len());
        self.physical.extend_from_slice(frame);
        self.source.extend_from_slice(content);
        if !content.is_empty() {
            self.frames
                .push((source..self.source.len(), physical..self.physical.len()));
        }
    }

    /// Appends bytes that carry nothing of the source.
    pub fn append(&mut self, bytes: &[u8]) {
        self.physical.extend_from_slice(bytes);
    }
}

/// XXH64 with seed 0, of which a zstd checksum is the low four bytes (the xxHash specification, `XXH64`).
struct Xxh64 {
    lanes: [u64; 4],
    rest: Vec<u8>,
    len: u64,
}

const P1: u64 = 0x9E37_79B1_85EB_CA87;
const P2: u64 = 0xC2B2_AE3D_27D4_EB4F;
const P3: u64 = 0x1656_67B1_9E37_79F9;
const P4: u64 = 0x85EB_CA77_C2B2_AE63;
const P5: u64 = 0x27D4_EB2F_1656_67C5;

impl Xxh64 {
    fn new() -> Self {
        Self {
            lanes: [P1.wrapping_add(P2), P2, 0, 0_u64.wrapping_sub(P1)],
            rest: Vec::new(),
            len: 0,
        }
    }

    fn update(&mut self, bytes: &[u8]) {
        self.len += bytes.len() as u64;
        let mut bytes = bytes;
        if !self.rest.is_empty() {
            let need = (32 - self.rest.len()).min(bytes.len());
            self.rest.extend_from_slice(&bytes[..need]);
            bytes = &bytes[need..];
            if self.rest.len() < 32 {
                return;
            }
            let full = std::mem::take(&mut self.rest);
            self.stripe(&full);
        }
        let (stripes, rest) = bytes.as_chunks::<32>();
        for stripe in stripes {
            self.stripe(stripe);
        }
        self.rest.extend_from_slice(rest);
    }

    fn stripe(&mut self, stripe: &[u8]) {
        for (lane, word) in self.lanes.iter_mut().zip(stripe.as_chunks::<8>().0) {
            *lane = round(*lane, u64::from_le_bytes(*word));
        }
    }

    fn finish(&self) -> u64 {
        let [a, b, c, d] = self.lanes;
        let mut hash = if self.len < 32 {
            P5
        } else {
            let sum = a.rotate_left(1).wrapping_add(b.rotate_left(7));
            let sum = sum
                .wrapping_add(c.rotate_left(12))
                .wrapping_add(d.rotate_left(18));
            self.lanes.iter().fold(sum, |hash, lane| {
                (hash ^ round(0, *lane)).wrapping_mul(P1).wrapping_add(P4)
            })
        };
        hash = hash.wrapping_add(self.len);
        let (words, rest) = self.rest.as_chunks::<8>();
        for word in words {
            hash = (hash ^ round(0, u64::from_le_bytes(*word)))
                .rotate_left(27)
                .wrapping_mul(P1)
                .wrapping_add(P4);
        }
        let (halves, rest) = rest.as_chunks::<4>();
        for half in halves {
            hash ^= u64::from(u32::from_le_bytes(*half)).wrapping_mul(P1);
            hash = hash.rotate_left(23).wrapping_mul(P2).wrapping_add(P3);
        }
        for byte in rest {
            hash = (hash ^ u64::from(*byte).wrapping_mul(P5))
                .rotate_left(11)
                .wrapping_mul(P1);
        }
        hash = (hash ^ hash >> 33).wrapping_mul(P2);
        hash = (hash ^ hash >> 29).wrapping_mul(P3);
        hash ^ hash >> 32
    }
}

fn round(lane: u64, word: u64) -> u64 {
    lane.wrapping_add(word.wrapping_mul(P2))
        .rotate_left(31)
        .wrapping_mul(P1)
}
