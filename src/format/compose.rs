//! pcap headers as bytes: what a writer of records puts into the source.

use super::pcap::{GlobalHeader, Magic, RECORD_HEADER_LEN, Record};

impl Magic {
    fn to_bytes(self) -> [u8; 4] {
        match self {
            Self::LeUs => [0xD4, 0xC3, 0xB2, 0xA1],
            Self::BeUs => [0xA1, 0xB2, 0xC3, 0xD4],
            Self::LeNs => [0x4D, 0x3C, 0xB2, 0xA1],
            Self::BeNs => [0xA1, 0xB2, 0x3C, 0x4D],
        }
    }

    fn u32_bytes(self, number: u32) -> [u8; 4] {
        match self {
            Self::LeUs | Self::LeNs => number.to_le_bytes(),
            Self::BeUs | Self::BeNs => number.to_be_bytes(),
        }
    }

    fn u16_bytes(self, number: u16) -> [u8; 2] {
        match self {
            Self::LeUs | Self::LeNs => number.to_le_bytes(),
            Self::BeUs | Self::BeNs => number.to_be_bytes(),
        }
    }
}

impl GlobalHeader {
    /// The header as [`Self::parse`] reads it.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; 24] {
        let magic = self.magic;
        let mut bytes = [0; 24];
        bytes[..4].copy_from_slice(&magic.to_bytes());
        bytes[4..6].copy_from_slice(&magic.u16_bytes(self.version.0));
        bytes[6..8].copy_from_slice(&magic.u16_bytes(self.version.1));
        bytes[8..16].copy_from_slice(&self.zone);
        bytes[16..20].copy_from_slice(&magic.u32_bytes(self.snaplen));
        bytes[20..].copy_from_slice(&magic.u32_bytes(self.network));
        bytes
    }

    /// The largest time stamp of a record behind this header, in nanoseconds.
    pub const TS_NS_MOST: u64 = u32::MAX as u64 * 1_000_000_000 + 999_999_999;

    /// The record header as [`Self::record`] reads it: in this header's byte order and unit (what is less than that is cut
    /// off), the lengths in its order. Seconds over 32 bits wrap: see [`Self::TS_NS_MOST`].
    #[must_use]
    pub fn record_to_bytes(&self, record: &Record) -> [u8; RECORD_HEADER_LEN] {
        let low = |number: u64| u32::try_from(number & u64::from(u32::MAX)).unwrap_or(u32::MAX);
        let fraction = (record.ts_ns % 1_000_000_000) / self.magic.frac_ns();
        let (first, second) = if self.is_swapped() {
            (record.orig_len, record.incl_len)
        } else {
            (record.incl_len, record.orig_len)
        };
        let words = [
            low(record.ts_ns / 1_000_000_000),
            low(fraction),
            first,
            second,
        ];
        let mut bytes = [0; RECORD_HEADER_LEN];
        for (place, word) in bytes.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&self.magic.u32_bytes(word));
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_come_back_from_their_bytes() {
        for magic in [Magic::LeUs, Magic::BeUs, Magic::LeNs, Magic::BeNs] {
            for version in [(2, 4), (2, 3), (2, 2), (543, 0)] {
                let header = GlobalHeader {
                    magic,
                    version,
                    snaplen: 70_000,
                    network: 0xF400_0001,
                    zone: [1, 2, 3, 4, 5, 6, 7, 8],
                };
                assert_eq!(GlobalHeader::parse(&header.to_bytes()), Ok(header));
                let record = Record {
                    ts_ns: 1_700_000_000_123_456_000,
                    incl_len: 60,
                    orig_len: 1514,
                };
                let bytes = header.record_to_bytes(&record);
                assert_eq!(header.record(&bytes), record, "{header:?}");
            }
        }
    }
}
