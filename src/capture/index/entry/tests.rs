//! Entries round and back, and every way in which one can be wrong or its disk can fail.

use super::*;

fn kept(lens: &[(u64, u64)]) -> Kept {
    let mut table = Table::new(SourceOffset::new(24));
    let mut at = PhysicalOffset::new(51);
    for (src_len, phys_len) in lens {
        table.append(&Span {
            src_start: table.end(),
            src_len: *src_len,
            phys_start: at,
            phys_len: *phys_len,
        });
        at = PhysicalOffset::new(at.as_u64() + phys_len);
    }
    Kept {
        stamp: Stamp {
            file: (8, 77),
            size: i64::try_from(at.as_u64()).unwrap_or(0),
            mtime: (-5, 999_999_999),
            ctime: (1_700_000_000, 1),
        },
        file_id: FileId {
            first_packet_ts: 5,
            header_crc32: 6,
        },
        header: [7; 24],
        header_end: PhysicalOffset::new(51),
        head: Head::from_parts(4096, 99),
        table,
    }
}

fn decode(bytes: &[u8], stamp: &Stamp) -> io::Result<Kept> {
    Kept::decode(bytes, bytes.len() as u64, stamp)
}

#[test]
fn what_is_encoded_comes_back_the_same_however_many_frames_there_are() -> io::Result<()> {
    for frames in [1, 64, 4096, 4097, 100_000] {
        let lens: Vec<_> = (1..=frames)
            .map(|n| (1 + n * 999, 12 + n % 300_000))
            .collect();
        let kept = kept(&lens);
        let bytes = kept.encode().ok_or(io::ErrorKind::Other)?;
        assert_eq!(decode(&bytes, &kept.stamp)?, kept);
    }
    Ok(())
}

#[test]
fn an_entry_is_refused_when_any_byte_is_another_or_any_is_missing_or_too_many() {
    let kept = kept(&[(262_144, 90_000), (1, 12), (262_000, 1)]);
    let mut bytes = kept.encode().unwrap_or_default();
    assert!(decode(&bytes, &kept.stamp).is_ok());
    for at in 0..bytes.len() {
        for flip in [1, 0x80, 0xFF] {
            bytes[at] ^= flip;
            assert!(decode(&bytes, &kept.stamp).is_err(), "byte {at}");
            bytes[at] ^= flip;
        }
        assert!(decode(&bytes[..at], &kept.stamp).is_err(), "cut at {at}");
        // Longer on disk than what a read gives.
        let len = bytes.len() as u64;
        assert!(Kept::decode(&bytes[..at], len, &kept.stamp).is_err());
    }
    bytes.push(0);
    assert!(decode(&bytes, &kept.stamp).is_err());
    assert!(Kept::decode(&bytes[..], u64::MAX, &kept.stamp).is_err());
}

#[test]
fn frames_that_do_not_lie_end_to_end_are_not_kept() {
    let mut kept = kept(&[(10, 20), (10, 20)]);
    kept.stamp.size += 1;
    assert_eq!(kept.encode(), None, "something behind the last frame");
    kept.stamp.size -= 1;
    kept.header_end = PhysicalOffset::new(50);
    assert_eq!(kept.encode(), None, "something behind the header frame");
}

#[test]
fn numbers_that_no_frame_has_are_refused_also_under_a_right_checksum() {
    let good = kept(&[(10, 20)]);
    for (src_len, phys_len) in [
        (0, 20),
        (OFFSET_LIMIT, 20),
        (10, 0),
        (10, 19),
        (10, 21),
        (u64::MAX, 20),
    ] {
        let mut bytes = good.encode().unwrap_or_default();
        bytes.truncate(FIXED_LEN);
        put_varint(&mut bytes, src_len);
        put_varint(&mut bytes, phys_len);
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        assert!(decode(&bytes, &good.stamp).is_err(), "{src_len} {phys_len}");
    }
}

/// An entry on a disk whose reads give a few bytes each, and one of which does something else.
struct Failing<'a> {
    bytes: &'a [u8],
    /// Reads that go well before it.
    left: usize,
    fault: io::ErrorKind,
}

impl Read for Failing<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            self.left = usize::MAX;
            return Err(self.fault.into());
        }
        self.left -= 1;
        let few = buf.len().min(7);
        self.bytes.read(&mut buf[..few])
    }
}

#[test]
fn whichever_read_fails_an_entry_is_read_right_or_the_disks_error_comes_through() {
    let kept = kept(&[(262_144, 90_000), (1, 12), (262_000, 1)]);
    let bytes = kept.encode().unwrap_or_default();
    let decode = |left, fault| {
        let input = Failing {
            bytes: &bytes,
            left,
            fault,
        };
        Kept::decode(input, bytes.len() as u64, &kept.stamp)
    };
    let reads = bytes.len().div_ceil(7);
    for left in 0..reads {
        let found = decode(left, io::ErrorKind::Interrupted);
        assert_eq!(found.ok().as_ref(), Some(&kept), "interrupted at {left}");
        let fault = io::ErrorKind::StaleNetworkFileHandle;
        let error = decode(left, fault).err().map(|error| error.kind());
        assert_eq!(error, Some(fault), "failed at {left}");
    }
}
