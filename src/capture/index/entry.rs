//! One kept table as bytes (docs/INDEX.md), and back again.
//!
//! An entry is good if and only if (1) magic and version are ours, (2) its stamp is the file's, (3) the checksum over all
//! that comes before it is right, and (4) the frames lie end to end from the header frame to the end of the file. (4) is
//! what makes a wrong length show: a reader that comes to it finds no frame of that length there. Nothing here allocates by
//! a number from the entry: the table grows as frames are read.

use std::io::{self, BufRead, BufReader, Read};

use crate::capture::stamp::Stamp;
use crate::capture::survey::Head;
use crate::format::pcap::GLOBAL_HEADER_LEN;
use crate::format::table::{OFFSET_LIMIT, Span, Table};
use crate::format::{FileId, PhysicalOffset, SourceOffset};

pub(super) const MAGIC: [u8; 8] = *b"PSZINDEX";
pub(super) const VERSION: u32 = 1;
/// Bytes before the frames.
pub(super) const FIXED_LEN: usize = 136;
const CHECKSUM_LEN: u64 = 4;
/// The longest entry that is written or read, in bytes: a table of 1.3 million frames of the default size.
pub(in crate::capture) const ENTRY_MOST: u64 = 8 * 1024 * 1024;
/// Read at once.
const BUFFER_MOST: u64 = 64 * 1024;
/// Seven bits each: more than 2^48 fits.
const VARINT_MOST: usize = 8;

/// What is kept of a complete compressed capture.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::capture) struct Kept {
    /// The physical file that was walked.
    pub(in crate::capture) stamp: Stamp,
    pub(in crate::capture) file_id: FileId,
    /// The pcap global header.
    pub(in crate::capture) header: [u8; 24],
    /// Physical offset behind the header frame.
    pub(in crate::capture) header_end: PhysicalOffset,
    /// How the physical file starts.
    pub(in crate::capture) head: Head,
    pub(in crate::capture) table: Table,
}

impl Kept {
    /// The entry's bytes; `None` for a capture of which none is kept: its frames do not lie end to end, or are too many.
    pub(super) fn encode(&self) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        out.extend(MAGIC);
        out.extend(VERSION.to_le_bytes());
        out.extend(self.stamp.file.0.to_le_bytes());
        out.extend(self.stamp.file.1.to_le_bytes());
        out.extend(self.stamp.size.to_le_bytes());
        for (secs, nanos) in [self.stamp.mtime, self.stamp.ctime] {
            out.extend(secs.to_le_bytes());
            out.extend(nanos.to_le_bytes());
        }
        out.extend(self.file_id.first_packet_ts.to_le_bytes());
        out.extend(self.file_id.header_crc32.to_le_bytes());
        out.extend(self.header);
        out.extend(self.header_end.as_u64().to_le_bytes());
        let (len, crc32) = self.head.parts();
        out.extend(len.to_le_bytes());
        out.extend(crc32.to_le_bytes());
        out.extend((self.table.len() as u64).to_le_bytes());
        out.extend(self.table.end().as_u64().to_le_bytes());
        debug_assert_eq!(out.len(), FIXED_LEN);
        let mut at = self.header_end;
        for span in self.table.spans() {
            if span.phys_start != at || out.len() as u64 >= ENTRY_MOST - 32 {
                return None;
            }
            at = at.checked_add(span.phys_len)?;
            put_varint(&mut out, span.src_len);
            put_varint(&mut out, span.phys_len);
        }
        if i64::try_from(at.as_u64()) != Ok(self.stamp.size) {
            return None;
        }
        let checksum = crc32fast::hash(&out);
        out.extend(checksum.to_le_bytes());
        Some(out)
    }

    /// The entry in `input`, which is `len` bytes long, if it is a good one for the file with `stamp`.
    ///
    /// # Errors
    /// What is wrong with it, or the disk's own error.
    pub(super) fn decode(input: impl Read, len: u64, stamp: &Stamp) -> io::Result<Self> {
        let Some(body) = len.checked_sub(CHECKSUM_LEN).filter(|_| len <= ENTRY_MOST) else {
            return Err(wrong("no entry is that long"));
        };
        let summed = Summed {
            input,
            left: body,
            crc: crc32fast::Hasher::new(),
        };
        let capacity = usize::try_from(body.min(BUFFER_MOST)).unwrap_or(0);
        let mut input = BufReader::with_capacity(capacity, summed);
        let mut fixed = [0; FIXED_LEN];
        input.read_exact(&mut fixed)?;
        let mut fixed = Fields(&fixed);
        if fixed.take()? != MAGIC {
            return Err(wrong("not an index"));
        }
        if fixed.u32()? != VERSION {
            return Err(wrong("another version"));
        }
        let found = Stamp {
            file: (fixed.u64()?, fixed.u64()?),
            size: fixed.i64()?,
            mtime: (fixed.i64()?, fixed.i64()?),
            ctime: (fixed.i64()?, fixed.i64()?),
        };
        if found != *stamp {
            return Err(wrong("of another file, or older than it"));
        }
        let file_id = FileId {
            first_packet_ts: fixed.u64()?,
            header_crc32: fixed.u32()?,
        };
        let header = fixed.take()?;
        let header_end = PhysicalOffset::new(fixed.u64()?);
        let head = Head::from_parts(fixed.u32()?, fixed.u32()?);
        let (frames, end) = (fixed.u64()?, fixed.u64()?);
        // Two bytes a frame at least: no more room than what may be there.
        let room = frames.min(body / 2);
        let table = read_table(&mut input, header_end, room, stamp)?;
        if table.len() as u64 != frames || table.end().as_u64() != end {
            return Err(wrong("its frames are not as many, or as long, as it says"));
        }
        let Summed { mut input, crc, .. } = input.into_inner();
        let mut checksum = [0; 4];
        input.read_exact(&mut checksum)?;
        if u32::from_le_bytes(checksum) != crc.finalize() {
            return Err(wrong("its checksum is wrong"));
        }
        Ok(Self {
            stamp: found,
            file_id,
            header,
            header_end,
            head,
            table,
        })
    }
}

/// The frames in what is left of `input`, end to end from `at` to the end of the file with `stamp`; with `room` for so many.
fn read_table(
    input: &mut impl BufRead,
    mut at: PhysicalOffset,
    room: u64,
    stamp: &Stamp,
) -> io::Result<Table> {
    let room = usize::try_from(room).unwrap_or(usize::MAX);
    let mut table = Table::with_room(SourceOffset::new(GLOBAL_HEADER_LEN), room);
    while !input.fill_buf()?.is_empty() {
        let (src_len, phys_len) = pair(input)?;
        let span = Span {
            src_start: table.end(),
            src_len,
            phys_start: at,
            phys_len,
        };
        let src_end = span.src_start.checked_add(span.src_len);
        let phys_end = at.checked_add(span.phys_len);
        let (Some(src_end), Some(phys_end)) = (src_end, phys_end) else {
            return Err(wrong("a frame is too long"));
        };
        if span.src_len == 0
            || span.phys_len == 0
            || span.phys_len > u64::from(u32::MAX)
            || src_end.as_u64() >= OFFSET_LIMIT
            || phys_end.as_u64() >= OFFSET_LIMIT
        {
            return Err(wrong("a frame is too long"));
        }
        table.append(&span);
        at = phys_end;
    }
    if i64::try_from(at.as_u64()) != Ok(stamp.size) {
        return Err(wrong("its frames do not end where the file does"));
    }
    Ok(table)
}

fn wrong(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

pub(super) fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(low_byte(number) | 0x80);
        number >>= 7;
    }
    out.push(low_byte(number));
}

fn low_byte(number: u64) -> u8 {
    number.to_le_bytes()[0]
}

/// The varint that `bytes` start with, and its length; `None` if it does not end there, or is too long.
fn varint_in(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut number = 0;
    for (place, byte) in bytes.iter().enumerate().take(VARINT_MOST) {
        number |= u64::from(byte & 0x7F) << (7 * place);
        if *byte < 0x80 {
            return Some((number, place + 1));
        }
    }
    None
}

/// Consumes two varints.
fn pair(input: &mut impl BufRead) -> io::Result<(u64, u64)> {
    let buffer = input.fill_buf()?;
    if let Some((first, used)) = varint_in(buffer)
        && let Some((second, more)) = buffer.get(used..).and_then(varint_in)
    {
        input.consume(used + more);
        return Ok((first, second));
    }
    // They lie across the end of the buffer.
    Ok((varint(input)?, varint(input)?))
}

/// Consumes a varint, byte by byte.
fn varint(input: &mut impl BufRead) -> io::Result<u64> {
    let mut bytes = Vec::with_capacity(VARINT_MOST);
    while bytes.len() < VARINT_MOST {
        let mut byte = [0];
        input.read_exact(&mut byte)?;
        bytes.extend(byte);
        if let Some((number, _)) = varint_in(&bytes) {
            return Ok(number);
        }
    }
    Err(wrong("a frame is too long"))
}

/// The first `left` bytes of `input`, and a checksum over them.
struct Summed<R> {
    input: R,
    left: u64,
    crc: crc32fast::Hasher,
}

impl<R: Read> Read for Summed<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX);
        let (wanted, _) = buf.split_at_mut(buf.len().min(most));
        if wanted.is_empty() {
            return Ok(0);
        }
        let got = self.input.read(wanted)?;
        if got == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // No reader gives more than it was asked for.
        self.crc.update(wanted.get(..got).unwrap_or(wanted));
        self.left -= got as u64;
        Ok(got)
    }
}

/// Little-endian numbers, one after the other.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let (field, rest) = self
            .0
            .split_first_chunk()
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        self.0 = rest;
        Ok(*field)
    }

    fn u32(&mut self) -> io::Result<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> io::Result<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn i64(&mut self) -> io::Result<i64> {
        self.take().map(i64::from_le_bytes)
    }
}

#[cfg(test)]
mod tests;
