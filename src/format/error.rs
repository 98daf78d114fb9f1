//! What is wrong with a file, where, and what was wanted instead.
//!
//! A torn tail is not here: need-more is a value (`walk::Step::Torn`), never an error.

use std::fmt;

use super::offset::PhysicalOffset;
use super::table::Span;

/// Which frame a fault lies in, in the words the messages use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameName {
    /// The skippable frame at physical offset 0.
    Marker,
    /// The first zstd frame, which holds the pcap global header.
    Header,
    /// Data frame number `n`, counted from 0 over the data frames that carry bytes: the index in the frame table.
    Data(u64),
}

impl fmt::Display for FrameName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Marker => f.write_str("marker frame"),
            Self::Header => f.write_str("header frame"),
            Self::Data(index) => write!(f, "frame {index}"),
        }
    }
}

/// One fault: kind, frame and place. The file's name is added by whoever knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What is wrong.
    pub kind: FaultKind,
    /// The frame it is wrong in.
    pub frame: FrameName,
    /// Physical offset of that frame's first byte.
    pub at: PhysicalOffset,
}

impl Fault {
    /// That the bytes at `span` are no longer the frame that was walked there; `got`: the content size and physical length that
    /// they declare now, where they declare any.
    #[must_use]
    pub fn changed(span: &Span, frame: FrameName, got: Option<(u64, u64)>) -> Self {
        let wanted = (span.src_len, span.phys_len);
        Self {
            kind: FaultKind::Changed { wanted, got },
            frame,
            at: span.phys_start,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} at physical offset {}: {}",
            self.frame, self.at, self.kind
        )
    }
}

impl std::error::Error for Fault {}

/// The kinds of fault, each with what was got where that says more than the kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The file does not start with a marker frame: it is a foreign zstd file or no zstd file at all.
    NotMarked,
    /// A marker of a version this build does not know.
    UnknownVersion {
        /// The version byte found.
        got: u8,
    },
    /// The header frame's content size is not 24.
    HeaderSize {
        /// The size it declares.
        got: u64,
    },
    /// The header frame's bytes are no pcap global header.
    NotPcap {
        /// The first four bytes found, in file order.
        magic: [u8; 4],
    },
    /// The input ends before its pcap global header is whole.
    NoHeader {
        /// Bytes of it that are there.
        got: u64,
    },
    /// The bytes at a frame boundary start neither a zstd frame nor a skippable frame.
    NotAFrame {
        /// The first bytes found, in file order.
        got: [u8; 4],
    },
    /// The frame does not declare its content size.
    NoContentSize,
    /// The frame does not carry a content checksum.
    NoChecksum,
    /// The reserved bit of the frame header descriptor is set.
    ReservedBit,
    /// The frame needs a dictionary, so it cannot be decoded on its own.
    Dictionary {
        /// The dictionary id it names.
        id: u32,
    },
    /// The frame's window is larger than zstd allows.
    WindowTooLarge {
        /// The window it declares, in bytes.
        got: u64,
    },
    /// A block of the reserved type 3.
    ReservedBlock,
    /// The declared content size is more than the frame's blocks can hold.
    SizeOverBlocks {
        /// The content size declared.
        declared: u64,
        /// The most that its blocks can hold: blocks x largest block.
        most: u64,
    },
    /// The frame has more blocks than any writer makes.
    TooManyBlocks {
        /// The limit.
        most: u32,
    },
    /// The frame takes far more physical bytes than its content: it is mostly empty blocks.
    Padded {
        /// Its physical length.
        got: u64,
        /// The most that is decoded for its content size.
        most: u64,
    },
    /// The source, or the file, would pass [`super::table::OFFSET_LIMIT`].
    TooLong,
    /// The frame is larger than this reader's `max_frame_size`.
    OverLimit {
        /// The content size declared.
        declared: u64,
        /// The limit.
        limit: u64,
    },
    /// zstd refused the frame: bad checksum, wrong content size or corrupt data.
    Undecodable {
        /// The content size declared.
        declared: u64,
        /// zstd's own words.
        zstd: String,
    },
    /// The bytes on disk are no longer the frame that was walked here.
    Changed {
        /// Content size and physical length in the frame table.
        wanted: (u64, u64),
        /// What the bytes say now, where they say anything.
        got: Option<(u64, u64)>,
    },
    /// The decoded frame does not hold whole, valid pcap records.
    Record(super::pcap::RecordFault),
}

impl FaultKind {
    /// Whether the file is of another format or version, rather than a broken one of this format.
    #[must_use]
    pub fn is_foreign(&self) -> bool {
        matches!(self, Self::NotMarked | Self::UnknownVersion { .. })
    }

    /// Whether the bytes were replaced or cut off since they were walked, which a new walk may mend.
    #[must_use]
    pub fn is_changed(&self) -> bool {
        matches!(self, Self::Changed { .. })
    }

    /// Whether the frame's headers alone say that it is none to decode: it is over a limit, and stays so.
    #[must_use]
    pub fn is_limit(&self) -> bool {
        matches!(self, Self::OverLimit { .. } | Self::Padded { .. })
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotMarked => f.write_str(
                "not this format: wanted a skippable frame with the payload \"PSZ1\" (pack the file with `pcapzst pack`)",
            ),
            Self::UnknownVersion { got } => {
                write!(f, "unknown format version: wanted {}, got {got}", super::marker::VERSION)
            }
            Self::HeaderSize { got } => {
                write!(f, "content size: wanted {} (a pcap global header), got {got}", super::pcap::GLOBAL_HEADER_LEN)
            }
            Self::NotPcap { magic } => write!(
                f,
                "wanted one of the four pcap magics, got {:02x}{:02x}{:02x}{:02x}{}",
                magic[0],
                magic[1],
                magic[2],
                magic[3],
                if *magic == super::pcap::PCAPNG_MAGIC { " (pcapng)" } else { "" },
            ),
            Self::NoHeader { got } => {
                write!(f, "wanted a pcap global header of {} bytes, got {got}", super::pcap::GLOBAL_HEADER_LEN)
            }
            Self::NotAFrame { got } => write!(
                f,
                "wanted a zstd or skippable frame, got bytes {:02x} {:02x} {:02x} {:02x}",
                got[0], got[1], got[2], got[3]
            ),
            Self::NoContentSize => f.write_str("wanted a declared content size, got none"),
            Self::NoChecksum => f.write_str("wanted a content checksum, got none"),
            Self::ReservedBit => f.write_str("reserved bit of the frame header: wanted 0, got 1"),
            Self::Dictionary { id } => write!(f, "wanted a frame without dictionary, got dictionary id {id}"),
            Self::WindowTooLarge { got } => {
                write!(f, "window size: wanted at most {}, got {got}", super::frame::WINDOW_MAX)
            }
            Self::ReservedBlock => f.write_str("block type: wanted 0 to 2, got 3 (reserved)"),
            Self::SizeOverBlocks { declared, most } => {
                write!(f, "content size: wanted at most {most}, what its blocks hold, got {declared}")
            }
            Self::TooManyBlocks { most } => write!(f, "blocks: wanted at most {most}, got more"),
            Self::Padded { got, most } => {
                write!(f, "physical length: wanted at most {most} for this content size, got {got}")
            }
            Self::TooLong => {
                write!(f, "length of source and file: wanted less than {}, got more", super::table::OFFSET_LIMIT)
            }
            Self::OverLimit { declared, limit } => {
                write!(f, "content size: wanted at most {limit} (max_frame_size), got {declared}")
            }
            Self::Undecodable { declared, zstd } => write!(f, "content size: wanted {declared}, got {zstd}"),
            Self::Changed { wanted, got } => {
                write!(f, "file changed under the reader: wanted content size {} in {} bytes, got ", wanted.0, wanted.1)?;
                match got {
                    Some((content, len)) => write!(f, "{content} in {len}"),
                    None => f.write_str("no such frame"),
                }
            }
            Self::Record(fault) => fault.fmt(f),
        }
    }
}
