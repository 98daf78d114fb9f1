//! The classic pcap form: global header, record headers, and which bytes are whole records.
//!
//! Rules are libpcap's (sf-pcap.c): four magics; files before version 2.3 hold the two length fields of a record the other
//! way round, and version 2.3 may. pcapng and the modified forms with longer record headers are not this form.

use std::fmt;

use super::offset::SourceOffset;

/// Bytes of the global header.
pub const GLOBAL_HEADER_LEN: u64 = 24;
/// Bytes of a record header.
pub const RECORD_HEADER_LEN: usize = 16;
/// The largest captured length of a record in a marked file (format document, section 9), also libpcap's for most links.
pub const MAX_INCL_LEN: u32 = 262_144;
/// The first four bytes of a pcapng file.
pub const PCAPNG_MAGIC: [u8; 4] = [0x0A, 0x0D, 0x0D, 0x0A];

/// Byte order and time-stamp unit, as the magic tells them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Magic {
    /// Little-endian, microseconds.
    LeUs,
    /// Big-endian, microseconds.
    BeUs,
    /// Little-endian, nanoseconds.
    LeNs,
    /// Big-endian, nanoseconds.
    BeNs,
}

impl Magic {
    /// The magic that `bytes`, the first four of a file, hold.
    #[must_use]
    pub fn parse(bytes: [u8; 4]) -> Option<Self> {
        match bytes {
            [0xD4, 0xC3, 0xB2, 0xA1] => Some(Self::LeUs),
            [0xA1, 0xB2, 0xC3, 0xD4] => Some(Self::BeUs),
            [0x4D, 0x3C, 0xB2, 0xA1] => Some(Self::LeNs),
            [0xA1, 0xB2, 0x3C, 0x4D] => Some(Self::BeNs),
            _ => None,
        }
    }

    /// `le-us`, `be-us`, `le-ns` or `be-ns`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::LeUs => "le-us",
            Self::BeUs => "be-us",
            Self::LeNs => "le-ns",
            Self::BeNs => "be-ns",
        }
    }

    fn u32(self, bytes: [u8; 4]) -> u32 {
        match self {
            Self::LeUs | Self::LeNs => u32::from_le_bytes(bytes),
            Self::BeUs | Self::BeNs => u32::from_be_bytes(bytes),
        }
    }

    fn u16(self, bytes: [u8; 2]) -> u16 {
        match self {
            Self::LeUs | Self::LeNs => u16::from_le_bytes(bytes),
            Self::BeUs | Self::BeNs => u16::from_be_bytes(bytes),
        }
    }

    /// Nanoseconds of one step of a record's fraction.
    #[must_use]
    pub fn frac_ns(self) -> u64 {
        match self {
            Self::LeUs | Self::BeUs => 1000,
            Self::LeNs | Self::BeNs => 1,
        }
    }
}

/// Where a record keeps its captured length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LengthOrder {
    /// Captured length, then original length.
    Straight,
    /// The other way round (before version 2.3, and version 543).
    Swapped,
    /// Version 2.3: whichever is larger is the original length.
    Either,
}

/// A pcap global header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GlobalHeader {
    /// Byte order and time-stamp unit.
    pub magic: Magic,
    /// Major and minor version.
    pub version: (u16, u16),
    /// The capture's snapshot length in bytes; 0 says nothing.
    pub snaplen: u32,
    /// The link-type field, all 32 bits: FCS length and class bits included.
    pub network: u32,
    /// Time zone and accuracy, as in the file: of no use but to tell one header from another.
    pub zone: [u8; 8],
}

impl GlobalHeader {
    /// The header in `bytes`; the first four bytes when they are none of the four magics.
    pub fn parse(bytes: &[u8; 24]) -> Result<Self, [u8; 4]> {
        let [a, b, c, d, rest @ ..] = *bytes;
        let magic = Magic::parse([a, b, c, d]).ok_or([a, b, c, d])?;
        let [v0, v1, v2, v3, rest @ ..] = rest;
        let [z0, z1, z2, z3, z4, z5, z6, z7, rest @ ..] = rest;
        let [s0, s1, s2, s3, n0, n1, n2, n3] = rest;
        Ok(Self {
            magic,
            version: (magic.u16([v0, v1]), magic.u16([v2, v3])),
            snaplen: magic.u32([s0, s1, s2, s3]),
            network: magic.u32([n0, n1, n2, n3]),
            zone: [z0, z1, z2, z3, z4, z5, z6, z7],
        })
    }

    /// The link type: the low 16 bits of [`Self::network`].
    #[must_use]
    pub fn link_type(&self) -> u32 {
        self.network & 0xFFFF
    }

    /// The record header in `bytes`, its lengths the right way round.
    #[must_use]
    #[expect(
        clippy::indexing_slicing,
        reason = "the four words of an array of sixteen bytes"
    )]
    pub fn record(&self, bytes: &[u8; RECORD_HEADER_LEN]) -> Record {
        let word = |at: usize| {
            self.magic
                .u32([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let (first, second) = (word(8), word(12));
        let (incl_len, orig_len) = match self.length_order() {
            LengthOrder::Straight => (first, second),
            LengthOrder::Swapped => (second, first),
            LengthOrder::Either => (first.min(second), first.max(second)),
        };
        Record {
            ts_ns: u64::from(word(0)) * 1_000_000_000 + u64::from(word(4)) * self.magic.frac_ns(),
            incl_len,
            orig_len,
        }
    }

    fn length_order(&self) -> LengthOrder {
        match self.version {
            (2, minor) if minor < 3 => LengthOrder::Swapped,
            (2, 3) => LengthOrder::Either,
            (543, _) => LengthOrder::Swapped,
            _ => LengthOrder::Straight,
        }
    }

    /// Whether the original length comes first in a record header.
    pub(super) fn is_swapped(&self) -> bool {
        self.length_order() == LengthOrder::Swapped
    }

    /// The largest captured length a record may have under `rule`.
    #[must_use]
    pub fn incl_len_limit(&self, rule: LengthRule) -> u32 {
        match rule {
            LengthRule::Marked if self.snaplen != 0 => self.snaplen.min(MAX_INCL_LEN),
            LengthRule::Marked => MAX_INCL_LEN,
            LengthRule::Libpcap => match self.link_type() {
                // pcap-common.c, max_snaplen_for_dlt: D-Bus, USBPcap, EBHSCR.
                231 | 249 => 128 * 1024 * 1024,
                279 => 8 * 1024 * 1024,
                _ => MAX_INCL_LEN,
            },
        }
    }

    /// How the records that `bytes` start with lie in them; `bytes` start at source offset `at`, a record boundary.
    ///
    /// # Errors
    /// The first record whose captured length is over the limit of `rule`.
    pub fn whole_records(
        &self,
        bytes: &[u8],
        at: SourceOffset,
        rule: LengthRule,
    ) -> Result<WholeRecords, RecordFault> {
        let mut whole = WholeRecords { count: 0, len: 0 };
        let mut rest = bytes;
        while let Some(len) = self.record_len(rest, at, whole.len, rule)? {
            let Some(behind) = rest.get(len..) else {
                break;
            };
            rest = behind;
            whole.count += 1;
            whole.len += len;
        }
        Ok(whole)
    }

    /// Bytes of the record that starts at `bytes`, header included; `None` if its header is not whole.
    ///
    /// `bytes` start `skip` bytes behind source offset `base`, which an error names.
    pub fn record_len(
        &self,
        bytes: &[u8],
        base: SourceOffset,
        skip: usize,
        rule: LengthRule,
    ) -> Result<Option<usize>, RecordFault> {
        let Some(header) = bytes.first_chunk() else {
            return Ok(None);
        };
        let record = self.record(header);
        let limit = self.incl_len_limit(rule);
        if record.incl_len > limit {
            return Err(RecordFault {
                at: SourceOffset::new(base.as_u64().saturating_add(skip as u64)),
                kind: RecordFaultKind::InclLen {
                    got: record.incl_len,
                    limit,
                },
            });
        }
        Ok(Some(RECORD_HEADER_LEN + record.incl_len as usize))
    }
}

/// Which records count as valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LengthRule {
    /// In a marked file: captured length at most 262144, and at most snaplen when that is not 0.
    Marked,
    /// In a raw file: what libpcap reads, which never judges by snaplen.
    Libpcap,
}

/// A record header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Time stamp in nanoseconds, whatever the file's unit.
    pub ts_ns: u64,
    /// Captured length: payload bytes behind the header.
    pub incl_len: u32,
    /// Length of the packet on the wire.
    pub orig_len: u32,
}

/// The whole records at the start of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WholeRecords {
    /// Records.
    pub count: u64,
    /// Bytes they take; what follows in the slice is the beginning of a record, or nothing.
    pub len: usize,
}

/// A record that breaks the format's rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordFault {
    /// Source offset of the record's header.
    pub at: SourceOffset,
    /// What is wrong.
    pub kind: RecordFaultKind,
}

/// What is wrong with a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordFaultKind {
    /// The captured length is over the limit.
    InclLen {
        /// The captured length found.
        got: u32,
        /// The limit.
        limit: u32,
    },
    /// The source ends within the record.
    Cut {
        /// Bytes of it that are there, at least 1.
        got: u64,
    },
    /// The frame ends within the record: no writer of the format splits one.
    Split {
        /// Bytes of it that are there, at least 1.
        got: u64,
    },
}

impl fmt::Display for RecordFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "record at source offset {}: ", self.at)?;
        match self.kind {
            RecordFaultKind::InclLen { got, limit } => {
                write!(f, "captured length: wanted at most {limit}, got {got}")
            }
            RecordFaultKind::Split { got } => {
                write!(
                    f,
                    "wanted a whole record in the frame, got its first {got} bytes"
                )
            }
            RecordFaultKind::Cut { got } => {
                write!(f, "wanted a whole record, got its first {got} bytes")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(version: (u16, u16), snaplen: u32) -> GlobalHeader {
        GlobalHeader {
            magic: Magic::BeNs,
            version,
            snaplen,
            network: 0xF400_0001,
            zone: [0; 8],
        }
    }

    fn record_bytes(first: u32, second: u32) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[3] = 7;
        bytes[7] = 9;
        bytes[8..12].copy_from_slice(&first.to_be_bytes());
        bytes[12..].copy_from_slice(&second.to_be_bytes());
        bytes
    }

    #[test]
    fn old_versions_hold_the_lengths_the_other_way_round() {
        let bytes = record_bytes(100, 60);
        for (version, incl_len) in [((2, 4), 100), ((2, 3), 60), ((2, 2), 60), ((543, 0), 60)] {
            assert_eq!(
                header(version, 0).record(&bytes).incl_len,
                incl_len,
                "{version:?}"
            );
        }
        assert_eq!(
            header((2, 3), 0).record(&record_bytes(60, 100)).incl_len,
            60
        );
        assert_eq!(header((2, 4), 0).record(&bytes).ts_ns, 7_000_000_009);
    }

    #[test]
    fn fcs_bits_are_no_part_of_the_link_type() {
        assert_eq!(header((2, 4), 0).link_type(), 1);
    }

    #[test]
    fn snaplen_limits_only_marked_files_and_only_when_it_is_set() {
        for (snaplen, rule, limit) in [
            (0, LengthRule::Marked, MAX_INCL_LEN),
            (96, LengthRule::Marked, 96),
            (u32::MAX, LengthRule::Marked, MAX_INCL_LEN),
            (96, LengthRule::Libpcap, MAX_INCL_LEN),
        ] {
            assert_eq!(header((2, 4), snaplen).incl_len_limit(rule), limit);
        }
    }

    #[test]
    fn half_a_record_is_not_counted_and_a_long_one_is_named() {
        let mut bytes = record_bytes(4, 4).to_vec();
        bytes.extend([1, 2, 3, 4]);
        bytes.extend(record_bytes(300_000, 4));
        let header = header((2, 4), 0);
        let at = SourceOffset::new(24);
        for cut in 0..20 {
            let whole = header.whole_records(&bytes[..cut], at, LengthRule::Marked);
            assert_eq!(whole, Ok(WholeRecords { count: 0, len: 0 }));
        }
        let whole = header.whole_records(&bytes[..35], at, LengthRule::Marked);
        assert_eq!(whole, Ok(WholeRecords { count: 1, len: 20 }));
        let fault = header
            .whole_records(&bytes, at, LengthRule::Marked)
            .expect_err("300000 is too long");
        assert_eq!(fault.at, SourceOffset::new(44));
    }
}
