//! Whether a file starts with this format's marker frame.
//!
//! A marker is a zstd skippable frame at physical offset 0 whose payload starts with `PSZ1` and a version byte
//! (format document, section 2). Any of the sixteen skippable magics may open it; flags and further payload are ignored.

use super::error::FaultKind;
use super::frame;

/// The payload's first four bytes.
pub const MAGIC: [u8; 4] = *b"PSZ1";
/// The one format version this build reads and writes.
pub const VERSION: u8 = 1;
/// The marker frame as it is written: base skippable magic, payload size 6, `PSZ1`, version 1, flags 0.
pub const FRAME: [u8; 14] = [
    0x50, 0x2A, 0x4D, 0x18, 6, 0, 0, 0, b'P', b'S', b'Z', b'1', VERSION, 0,
];
/// Bytes that decide: skippable header, payload magic and version. Flags and what follows are not looked at.
pub const DECIDING: usize = 13;
/// The least payload that can hold magic and version.
const PAYLOAD_LEAST: u32 = 5;

/// What the bytes at physical offset 0 are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Marker {
    /// So far a prefix of a marker: [`DECIDING`] bytes from offset 0 decide.
    NeedMore,
    /// A marker frame of `len` bytes.
    Valid {
        /// Length of the whole skippable frame in physical bytes.
        len: u64,
    },
}

/// What `bytes`, the first bytes of a file, say about its marker.
///
/// # Errors
/// [`FaultKind::NotMarked`] as soon as no continuation could make a marker, [`FaultKind::UnknownVersion`] for a marker of
/// another version.
pub fn check(bytes: &[u8]) -> Result<Marker, FaultKind> {
    if !frame::can_be_skippable(bytes.get(..4).unwrap_or(bytes)) {
        return Err(FaultKind::NotMarked);
    }
    let Some(payload_len) = frame::skippable_payload_len(bytes) else {
        return Ok(Marker::NeedMore);
    };
    if payload_len < PAYLOAD_LEAST {
        return Err(FaultKind::NotMarked);
    }
    let payload = bytes.get(8..).unwrap_or_default();
    if !payload
        .iter()
        .zip(MAGIC)
        .all(|(got, wanted)| *got == wanted)
    {
        return Err(FaultKind::NotMarked);
    }
    match payload.get(MAGIC.len()) {
        None => Ok(Marker::NeedMore),
        Some(&VERSION) => Ok(Marker::Valid {
            len: frame::SKIPPABLE_HEADER_LEN + u64::from(payload_len),
        }),
        Some(&got) => Err(FaultKind::UnknownVersion { got }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_prefix_of_a_marker_needs_more() {
        for len in 0..DECIDING {
            assert_eq!(check(&FRAME[..len]), Ok(Marker::NeedMore));
        }
        assert_eq!(check(&FRAME[..13]), Ok(Marker::Valid { len: 14 }));
        assert_eq!(check(&FRAME), Ok(Marker::Valid { len: 14 }));
    }

    #[test]
    fn any_of_sixteen_magics_and_a_longer_payload_is_a_marker() {
        for low in 0..16 {
            let mut bytes = FRAME;
            bytes[0] = 0x50 | low;
            bytes[4] = 200;
            assert_eq!(check(&bytes), Ok(Marker::Valid { len: 208 }));
        }
    }

    #[test]
    fn one_wrong_byte_is_refused_as_soon_as_it_is_seen() {
        for at in [0, 1, 2, 3, 8, 9, 10, 11] {
            let mut bytes = FRAME;
            bytes[at] ^= 0x80;
            assert_eq!(check(&bytes[..=at]), Err(FaultKind::NotMarked), "byte {at}");
        }
        let mut short_payload = FRAME;
        short_payload[4] = 4;
        assert_eq!(check(&short_payload[..8]), Err(FaultKind::NotMarked));
        let mut version_two = FRAME;
        version_two[12] = 2;
        assert_eq!(
            check(&version_two),
            Err(FaultKind::UnknownVersion { got: 2 })
        );
    }
}
