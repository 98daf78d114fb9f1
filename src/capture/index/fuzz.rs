//! Kept tables of any bytes: refused, or a table that is written again as the same; and what a reader gets by one that lies.
#![allow(
    clippy::missing_panics_doc,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::panic,
    clippy::unreachable,
    reason = "a property that does not hold is a panic"
)]

use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;

use super::entry::{FIXED_LEN, Kept, MAGIC, VERSION};
use super::{INDEX_BYTES, Index, name_of};
use crate::capture::fuzz::{CACHE_SIZE, FRAME_MOST, Folder, Growing, read, sample};
use crate::capture::stamp::Stamp;
use crate::capture::survey::{FIRST_WINDOW, Head};
use crate::capture::{Engine, Form, Progress, Source};
use crate::format::fuzz::Dice;
use crate::format::table::{OFFSET_LIMIT, Span, Table};
use crate::format::{FileId, PhysicalOffset, SourceOffset};

/// Any bytes as an entry: as they are, with a right checksum, and as the table of a capture that is sound.
pub fn index(bytes: &[u8]) {
    let stamp = stamp_in(bytes);
    entry(bytes, &stamp);
    let mut right = bytes.to_vec();
    if let Some(head) = right.first_chunk_mut::<12>() {
        head[..8].copy_from_slice(&MAGIC);
        head[8..].copy_from_slice(&VERSION.to_le_bytes());
    }
    right.extend(crc32fast::hash(&right).to_le_bytes());
    entry(&right, &stamp);
    lie(bytes.get(FIXED_LEN..).unwrap_or(bytes));
}

/// The stamp that an entry says it is of.
fn stamp_in(bytes: &[u8]) -> Stamp {
    let number = |at: usize| {
        let field = bytes.get(at..).and_then(|rest| rest.first_chunk());
        u64::from_le_bytes(field.copied().unwrap_or_default())
    };
    Stamp {
        file: (number(12), number(20)),
        size: number(28).cast_signed(),
        mtime: (number(36).cast_signed(), number(44).cast_signed()),
        ctime: (number(52).cast_signed(), number(60).cast_signed()),
    }
}

fn entry(bytes: &[u8], stamp: &Stamp) {
    let len = bytes.len() as u64;
    let decoded = Kept::decode(bytes, len, stamp);
    let dripped = Kept::decode(Drip(bytes), len, stamp);
    let Ok(kept) = decoded else {
        assert!(dripped.is_err(), "byte by byte it is good");
        return;
    };
    assert!(
        dripped.is_ok_and(|dripped| dripped == kept),
        "byte by byte it is another"
    );
    let (mut physical, mut source) = (kept.header_end, SourceOffset::new(24));
    for span in kept.table.spans() {
        assert_eq!(
            (span.phys_start, span.src_start),
            (physical, source),
            "end to end"
        );
        assert!(span.src_len > 0 && span.phys_len > 0);
        physical = PhysicalOffset::new(physical.as_u64() + span.phys_len);
        source = span.src_end();
        assert!(physical.as_u64() < OFFSET_LIMIT && source.as_u64() < OFFSET_LIMIT);
    }
    assert_eq!(
        i64::try_from(physical.as_u64()),
        Ok(stamp.size),
        "to the end of the file"
    );
    assert_eq!(source, kept.table.end());
    assert!(
        kept.table.heap_bytes() <= 16 * (bytes.len() + 4096),
        "room for what is not there"
    );
    let again = kept.encode().expect("what was read can be written");
    assert!(again.len() <= bytes.len(), "no longer than what was read");
    let back = Kept::decode(&again[..], again.len() as u64, stamp);
    assert!(
        back.is_ok_and(|back| back == kept),
        "another when it is written again"
    );
    let other = Stamp {
        size: stamp.size ^ 1,
        ..*stamp
    };
    assert!(Kept::decode(bytes, len, &other).is_err(), "of another file");
    let mut dice = Dice::of(bytes);
    let mut flipped = bytes.to_vec();
    flipped[dice.below(bytes.len())] ^= 1 << dice.below(8);
    assert!(
        Kept::decode(&flipped[..], len, stamp).is_err(),
        "with another bit"
    );
    let cut = dice.below(bytes.len());
    assert!(
        Kept::decode(&bytes[..cut], cut as u64, stamp).is_err(),
        "cut off"
    );
}

/// As many true frames as the first byte says, then the pairs of lengths that follow, as the table of a capture that is sound: who
/// reads from its first byte on gets its bytes, whatever the table says.
fn lie(frames: &[u8]) {
    let (physical, source) = sample();
    let whole = Growing::whole(&physical).open(Form::Zst, Progress::Final);
    let facts = whole.facts();
    let header_end = whole.span(0).expect("frames").phys_start;
    let stamp = Stamp {
        file: (1, 2),
        size: i64::try_from(physical.len()).expect("small"),
        mtime: (3, 4),
        ctime: (5, 6),
    };
    let kept = Kept {
        stamp,
        file_id: facts.file_id,
        header: source[..24].try_into().expect("24 bytes"),
        header_end,
        head: Head::of(&physical),
        table: Table::new(SourceOffset::new(24)),
    };
    assert!(physical.len() <= FIRST_WINDOW, "a small one");
    let spans: Vec<_> = (0..5).filter_map(|index| whole.span(index)).collect();
    let (first, frames) = frames.split_first().unwrap_or((&0, frames));
    let true_ones = &spans[..usize::from(*first) % spans.len()];
    let Some(bytes) = forge(&kept, true_ones, frames) else {
        return;
    };
    let folder = Folder::new();
    let index = Index::open(folder.path(), INDEX_BYTES).expect("a folder");
    let path = folder.path().join(format!("{}.pszindex", name_of(&stamp)));
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path);
    file.and_then(|mut file| file.write_all(&bytes))
        .expect("a file");
    let engine = Engine::new(CACHE_SIZE, FRAME_MOST)
        .with_index(Some(index))
        .without_threads();
    let engine = Arc::new(engine);
    let file = Box::new(Growing::stamped(&physical, stamp));
    let indexed = Source::open(Arc::clone(&engine), file, Form::Zst, Progress::Final);
    let indexed = indexed.expect("memory does not fail");
    assert!(
        read(&indexed, 0, source.len() + 1) == source,
        "the lie is read"
    );
    // By then it is found out, or it was none.
    assert!(read(&indexed, source.len() as u64 / 2, source.len()) == source[source.len() / 2..]);
    let told = indexed.facts();
    assert_eq!(
        (told.size, told.frames, told.file_id),
        (facts.size, facts.frames, facts.file_id)
    );
    assert_ne!(told.file_id, FileId::PROVISIONAL);
}

/// The entry that `kept` would be with `true_ones` and `frames` as its table, its numbers and checksum made to fit; `None` if it is
/// none all the same.
fn forge(kept: &Kept, true_ones: &[Span], frames: &[u8]) -> Option<Vec<u8>> {
    let size = u64::try_from(kept.stamp.size).ok()?;
    let (mut count, mut end, mut at) = (0_u64, 24_u64, kept.header_end.as_u64());
    let numbers = frames.split_inclusive(|byte| *byte < 0x80).map(|number| {
        let digits = number.iter().rev().take(9);
        digits.fold(0_u64, |sum, byte| sum << 7 | u64::from(byte & 0x7F))
    });
    let true_ones = true_ones
        .iter()
        .flat_map(|span| [span.src_len, span.phys_len]);
    let mut numbers = true_ones.chain(numbers);
    let mut table = Vec::new();
    while at < size {
        // The last frame ends where the file does.
        let source = numbers.next().unwrap_or(1);
        let stored = numbers.next().unwrap_or(size).min(size - at);
        super::entry::put_varint(&mut table, source);
        super::entry::put_varint(&mut table, stored);
        (count, end, at) = (count + 1, end.checked_add(source)?, at + stored);
        if stored == 0 {
            return None;
        }
    }
    // A table of no frames is that of a file that ends behind its header frame.
    let none = Kept {
        stamp: Stamp {
            size: i64::try_from(kept.header_end.as_u64()).ok()?,
            ..kept.stamp
        },
        file_id: kept.file_id,
        header: kept.header,
        header_end: kept.header_end,
        head: kept.head,
        table: Table::new(SourceOffset::new(24)),
    };
    let mut bytes = none.encode()?;
    bytes.truncate(FIXED_LEN);
    bytes[28..36].copy_from_slice(&kept.stamp.size.to_le_bytes());
    bytes[120..128].copy_from_slice(&count.to_le_bytes());
    bytes[128..].copy_from_slice(&end.to_le_bytes());
    bytes.extend(table);
    bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
    Kept::decode(&bytes[..], bytes.len() as u64, &kept.stamp).ok()?;
    Some(bytes)
}

/// A reader that gives one byte at a time.
struct Drip<'a>(&'a [u8]);

impl Read for Drip<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let most = buf.len().min(1);
        self.0.read(&mut buf[..most])
    }
}
