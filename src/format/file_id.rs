//! Which capture a file holds, whatever its name and form: the `FileId` (format document, section 6).

use std::fmt;

use super::pcap::{GlobalHeader, RECORD_HEADER_LEN};

/// First packet's time and CRC-32 of the first 40 source bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId {
    /// The first record's time stamp in nanoseconds.
    pub first_packet_ts: u64,
    /// CRC-32 (IEEE) over the global header and the first record header.
    pub header_crc32: u32,
}

impl FileId {
    /// The id of a file that has no first record yet: all zeros. It is replaced once the record is there.
    pub const PROVISIONAL: Self = Self {
        first_packet_ts: 0,
        header_crc32: 0,
    };

    /// The id of a capture that starts with `header` and a record with header `record`, both as source bytes.
    ///
    /// Provisional when `header` is no pcap global header.
    #[must_use]
    pub fn new(header: &[u8; 24], record: &[u8; RECORD_HEADER_LEN]) -> Self {
        let Ok(parsed) = GlobalHeader::parse(header) else {
            return Self::PROVISIONAL;
        };
        let mut crc = crc32fast::Hasher::new();
        crc.update(header);
        crc.update(record);
        Self {
            first_packet_ts: parsed.record(record).ts_ns,
            header_crc32: crc.finalize(),
        }
    }

    /// Whether no first record was there yet.
    #[must_use]
    pub fn is_provisional(self) -> bool {
        self == Self::PROVISIONAL
    }
}

/// `<first_packet_ts>-<crc32 hex>`, as the attribute `user.pcapzst.file_id` shows it.
impl fmt::Display for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:08x}", self.first_packet_ts, self.header_crc32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_in_nanoseconds_whatever_the_unit_and_order() {
        let mut little = [0u8; 24];
        little[..4].copy_from_slice(&[0xD4, 0xC3, 0xB2, 0xA1]);
        let mut record = [0u8; 16];
        record[0] = 3;
        record[4] = 5;
        let id = FileId::new(&little, &record);
        assert_eq!(id.first_packet_ts, 3_000_005_000);
        let whole: Vec<u8> = little.iter().chain(&record).copied().collect();
        assert_eq!(id.header_crc32, crc32fast::hash(&whole));

        let mut big = [0u8; 24];
        big[..4].copy_from_slice(&[0xA1, 0xB2, 0x3C, 0x4D]);
        let mut record = [0u8; 16];
        record[3] = 3;
        record[7] = 5;
        assert_eq!(FileId::new(&big, &record).first_packet_ts, 3_000_000_005);
    }
}
