//! Entries of the index, read and made from docs/INDEX.md alone.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub struct Entry {
    pub version: u32,
    pub device: u64,
    pub inode: u64,
    pub size: u64,
    pub mtime: (i64, i64),
    pub ctime: (i64, i64),
    pub file_id: (u64, u32),
    pub header: Vec<u8>,
    pub header_end: u64,
    pub head: (u32, u32),
    /// Source and physical length.
    pub frames: Vec<(u64, u64)>,
}

impl Entry {
    /// # Panics
    /// When it is not a good one.
    pub fn parse(bytes: &[u8]) -> Self {
        let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        let i64_at = |at: usize| i64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        assert_eq!(&bytes[..8], b"PSZINDEX");
        let end = bytes.len() - 4;
        assert_eq!(u32_at(end), crc32fast::hash(&bytes[..end]));
        let mut frames = Vec::new();
        let mut at = 136;
        let mut number = || {
            let mut number = 0;
            for place in 0.. {
                let byte = bytes[at];
                at += 1;
                number |= u64::from(byte & 0x7F) << (7 * place);
                if byte < 0x80 {
                    break;
                }
            }
            (number, at)
        };
        let mut done = 136;
        while done < end {
            let (source, _) = number();
            let (physical, at) = number();
            frames.push((source, physical));
            done = at;
        }
        let total: u64 = frames.iter().map(|(source, _)| source).sum();
        assert_eq!(
            (u64_at(120), u64_at(128)),
            (frames.len() as u64, 24 + total)
        );
        Self {
            version: u32_at(8),
            device: u64_at(12),
            inode: u64_at(20),
            size: u64_at(28),
            mtime: (i64_at(36), i64_at(44)),
            ctime: (i64_at(52), i64_at(60)),
            file_id: (u64_at(68), u32_at(76)),
            header: bytes[80..104].to_vec(),
            header_end: u64_at(104),
            head: (u32_at(112), u32_at(116)),
            frames,
        }
    }

    pub fn build(&self) -> Vec<u8> {
        let mut out = b"PSZINDEX".to_vec();
        out.extend(self.version.to_le_bytes());
        for number in [self.device, self.inode, self.size] {
            out.extend(number.to_le_bytes());
        }
        for (secs, nanos) in [self.mtime, self.ctime] {
            out.extend(secs.to_le_bytes());
            out.extend(nanos.to_le_bytes());
        }
        out.extend(self.file_id.0.to_le_bytes());
        out.extend(self.file_id.1.to_le_bytes());
        out.extend(&self.header);
        out.extend(self.header_end.to_le_bytes());
        out.extend(self.head.0.to_le_bytes());
        out.extend(self.head.1.to_le_bytes());
        let total: u64 = self.frames.iter().map(|(source, _)| source).sum();
        out.extend((self.frames.len() as u64).to_le_bytes());
        out.extend((24 + total).to_le_bytes());
        for (source, physical) in &self.frames {
            for mut number in [*source, *physical] {
                while number >= 0x80 {
                    out.push(u8::try_from(number & 0x7F).unwrap() | 0x80);
                    number >>= 7;
                }
                out.push(u8::try_from(number).unwrap());
            }
        }
        out.extend(crc32fast::hash(&out).to_le_bytes());
        out
    }
}

/// The name of the entry of the file at `path`.
pub fn name(path: &Path) -> String {
    let metadata = fs::metadata(path).unwrap();
    format!("{:x}-{:x}.pszindex", metadata.dev(), metadata.ino())
}

/// Looks at the clock until a write to the file would give it other times than it has.
pub fn settle(path: &Path) {
    let metadata = fs::metadata(path).unwrap();
    let (secs, nanos) = (metadata.ctime(), metadata.ctime_nsec());
    let changed = Duration::new(secs.try_into().unwrap(), nanos.try_into().unwrap());
    let until = UNIX_EPOCH + changed + Duration::from_millis(25);
    while SystemTime::now() < until {
        std::thread::yield_now();
    }
}
