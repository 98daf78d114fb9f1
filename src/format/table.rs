//! Which frame covers a source offset: the frame table of one capture.
//!
//! Entries are appended as the walk finds data frames and never change. Frames are contiguous in source coordinates
//! (format document, invariant 6), so an entry keeps where its frame starts in both coordinate systems and how long it is
//! on disk; where it ends in the source is where the next one starts. An entry takes 16 bytes: 48 bits for each offset
//! and 32 for the length, which is why the source and the file end at [`OFFSET_LIMIT`].

use super::offset::{PhysicalOffset, SourceOffset};

/// The largest source or physical offset that an entry holds: 2^48, 256 TiB.
pub const OFFSET_LIMIT: u64 = 1 << OFFSET_BITS;
const OFFSET_BITS: u32 = 48;
/// Entries a chunk: 64 KiB. Full chunks have no slack, so only the last one is larger than what it holds.
const CHUNK: usize = 4096;

/// One data frame: its range in the source and on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// First source byte.
    pub src_start: SourceOffset,
    /// Source bytes, the declared content size.
    pub src_len: u64,
    /// First physical byte.
    pub phys_start: PhysicalOffset,
    /// Physical bytes, checksum included. Saturates at 2^32 - 1 in the table: the reader's limit on frames is smaller.
    pub phys_len: u64,
}

impl Span {
    /// Source offset behind the frame's last byte.
    #[must_use]
    pub fn src_end(&self) -> SourceOffset {
        // The walk refuses a frame whose end passes OFFSET_LIMIT.
        SourceOffset::new(self.src_start.as_u64() + self.src_len)
    }
}

/// 48 bits source offset, 48 bits physical offset, 32 bits physical length, from the top.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Packed(u128);

impl Packed {
    fn new(span: &Span) -> Self {
        let len = span.phys_len.min(u64::from(u32::MAX));
        Self(
            u128::from(span.src_start.as_u64()) << 80
                | u128::from(span.phys_start.as_u64()) << 32
                | u128::from(len),
        )
    }

    fn src_start(self) -> SourceOffset {
        SourceOffset::new(Self::low(self.0 >> 80))
    }

    fn phys_start(self) -> PhysicalOffset {
        PhysicalOffset::new(Self::low(self.0 >> 32) & (OFFSET_LIMIT - 1))
    }

    fn phys_len(self) -> u64 {
        Self::low(self.0) & u64::from(u32::MAX)
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "the low 64 bits are what is asked for"
    )]
    fn low(bits: u128) -> u64 {
        bits as u64
    }
}

/// The frames of one capture from source offset 24 on, in order and without gaps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// Invariant: all but the last hold exactly [`CHUNK`] entries.
    chunks: Vec<Vec<Packed>>,
    /// Source offset behind the last frame; the start of the first before there is one.
    end: SourceOffset,
}

impl Table {
    /// An empty table whose first frame will start at `start`.
    #[must_use]
    pub fn new(start: SourceOffset) -> Self {
        Self {
            chunks: Vec::new(),
            end: start,
        }
    }

    /// As [`Self::new`], with room for the first `frames`, as far as that is not much.
    #[must_use]
    pub fn with_room(start: SourceOffset, frames: usize) -> Self {
        let first = Vec::with_capacity(frames.min(CHUNK));
        Self {
            // None that would stay empty.
            chunks: if frames == 0 { Vec::new() } else { vec![first] },
            end: start,
        }
    }

    /// Frames held.
    #[must_use]
    pub fn len(&self) -> usize {
        match self.chunks.last() {
            Some(last) => (self.chunks.len() - 1) * CHUNK + last.len(),
            None => 0,
        }
    }

    /// Whether no frame is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Source offset behind the last frame (exclusive).
    #[must_use]
    pub fn end(&self) -> SourceOffset {
        self.end
    }

    /// Bytes of memory behind the table.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.chunks
            .iter()
            .map(|chunk| chunk.capacity() * size_of::<Packed>())
            .sum()
    }

    /// Appends the next frame.
    ///
    /// `span` starts at [`Self::end`], carries at least one byte and ends within [`OFFSET_LIMIT`] in both coordinates: the
    /// walk emits no other.
    pub fn append(&mut self, span: &Span) {
        debug_assert_eq!(span.src_start, self.end, "frames are contiguous");
        debug_assert!(span.src_len > 0, "empty frames have no entry");
        match self.chunks.last_mut() {
            Some(chunk) if chunk.len() < CHUNK => chunk.push(Packed::new(span)),
            _ => self.chunks.push(vec![Packed::new(span)]),
        }
        self.end = span.src_end();
    }

    /// Takes the frames out that reach past `physical_len`; where the last one that stays ends on disk, if one does.
    ///
    /// For a writer that restarts: everything else only appends.
    pub fn cut_back(&mut self, physical_len: PhysicalOffset) -> Option<PhysicalOffset> {
        while let Some(chunk) = self.chunks.last_mut() {
            while let Some(last) = chunk.last() {
                let end = last.phys_start().as_u64() + last.phys_len();
                if end <= physical_len.as_u64() {
                    return Some(PhysicalOffset::new(end));
                }
                self.end = last.src_start();
                chunk.pop();
            }
            self.chunks.pop();
        }
        None
    }

    /// Frame number `index`, counted from 0.
    #[must_use]
    pub fn span(&self, index: usize) -> Option<Span> {
        let entry = self.entry(index)?;
        let src_end = self.entry(index + 1).map_or(self.end, Packed::src_start);
        Some(Span {
            src_start: entry.src_start(),
            src_len: src_end.since(entry.src_start()),
            phys_start: entry.phys_start(),
            phys_len: entry.phys_len(),
        })
    }

    /// The frames, in order.
    pub fn spans(&self) -> impl Iterator<Item = Span> + '_ {
        (0..).map_while(|index| self.span(index))
    }

    /// The frame that holds the source byte at `offset`, and its number; `None` before the first and from the end on.
    #[must_use]
    pub fn find(&self, offset: SourceOffset) -> Option<(usize, Span)> {
        if offset >= self.end {
            return None;
        }
        let chunk = self
            .chunks
            .partition_point(|chunk| {
                chunk
                    .first()
                    .is_some_and(|entry| entry.src_start() <= offset)
            })
            .checked_sub(1)?;
        let within = self
            .chunks
            .get(chunk)?
            .partition_point(|entry| entry.src_start() <= offset)
            .checked_sub(1)?;
        let index = chunk * CHUNK + within;
        Some((index, self.span(index)?))
    }

    fn entry(&self, index: usize) -> Option<Packed> {
        self.chunks.get(index / CHUNK)?.get(index % CHUNK).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table_of(lens: &[u64]) -> Table {
        let mut table = Table::new(SourceOffset::new(24));
        for (number, len) in (0..).zip(lens) {
            table.append(&Span {
                src_start: table.end(),
                src_len: *len,
                phys_start: PhysicalOffset::new(40 + number * 10),
                phys_len: 10,
            });
        }
        table
    }

    #[test]
    fn every_source_byte_is_found_in_its_frame_across_chunks() {
        let lens: Vec<u64> = (0..10_000).map(|number| 1 + number % 7).collect();
        let table = table_of(&lens);
        assert_eq!(table.len(), lens.len());
        let mut start = 24;
        for (index, len) in lens.iter().enumerate() {
            for offset in [start, start + len - 1] {
                let found = table.find(SourceOffset::new(offset));
                assert_eq!(
                    found.map(|(index, span)| (index, span.src_len)),
                    Some((index, *len))
                );
            }
            start += len;
        }
        assert_eq!(table.end(), SourceOffset::new(start));
        assert_eq!(table.find(table.end()), None);
        assert_eq!(table.find(SourceOffset::new(23)), None);
    }

    #[test]
    fn a_table_with_room_for_none_is_an_empty_one() {
        let start = SourceOffset::new(24);
        let (empty, with_room) = (Table::new(start), Table::with_room(start, 0));
        assert_eq!(empty, with_room);
        assert!(empty.is_empty() && with_room.is_empty());
        assert!(Table::with_room(start, 9).is_empty());
        assert!(!table_of(&[3]).is_empty());
    }

    #[test]
    fn frames_cut_off_leave_the_table_and_the_rest_stays() {
        let mut table = table_of(&vec![3; 9000]);
        assert_eq!(
            table.cut_back(PhysicalOffset::new(40 + 10 * 4100 + 9)),
            Some(PhysicalOffset::new(40 + 10 * 4100))
        );
        assert_eq!(
            (table.len(), table.end()),
            (4100, SourceOffset::new(24 + 3 * 4100))
        );
        assert_eq!(table.cut_back(PhysicalOffset::new(49)), None);
        assert_eq!((table.len(), table.end()), (0, SourceOffset::new(24)));
    }

    #[test]
    fn an_entry_takes_16_bytes_and_keeps_the_largest_offsets() {
        assert_eq!(size_of::<Packed>(), 16);
        let span = Span {
            src_start: SourceOffset::new(OFFSET_LIMIT - 9),
            src_len: 9,
            phys_start: PhysicalOffset::new(OFFSET_LIMIT - 1),
            phys_len: 1 << 31,
        };
        let mut table = Table::new(span.src_start);
        table.append(&span);
        assert_eq!(table.span(0), Some(span));
        let table = table_of(&vec![1; 100_000]);
        assert!(table.heap_bytes() <= 100_000 * 16 + CHUNK * 16);
    }
}
