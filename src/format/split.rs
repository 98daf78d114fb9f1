//! Where a writer cuts frames: on record boundaries, at the target (format document, section 3, points 3 and 8).
//!
//! A frame holds as many whole records as fit the target, and always at least one. So no frame is longer than the larger
//! of target and one record, and a reader never meets half a record.

use super::offset::SourceOffset;
use super::pcap::{GlobalHeader, LengthRule, RecordFault};

/// Cuts a stream of records, fed in any pieces, into frames.
#[derive(Clone, Debug)]
pub struct Splitter {
    header: GlobalHeader,
    /// Source bytes a frame aims at.
    target: usize,
    /// Source offset of the first pending byte.
    start: SourceOffset,
    /// Pending bytes that are whole records and go into the next frame: what a flush writes.
    whole: usize,
    /// Pending bytes that were seen to be whole records, whichever frame they go into. Behind `whole` only while a frame that is
    /// full waits to be written.
    seen: usize,
}

impl Splitter {
    /// A splitter for records behind `header`, whose first pending byte lies at source offset `start`.
    #[must_use]
    pub fn new(header: GlobalHeader, start: SourceOffset, target: usize) -> Self {
        Self {
            header,
            target,
            start,
            whole: 0,
            seen: 0,
        }
    }

    /// The header that the records are behind.
    #[must_use]
    pub fn header(&self) -> &GlobalHeader {
        &self.header
    }

    /// Bytes from the start of `pending` that make the next frame; `None` until the target is reached. The same again until
    /// [`Self::commit`].
    ///
    /// `pending` holds all bytes since the last cut, and only grows between calls; the caller removes what was cut.
    ///
    /// # Errors
    /// A record whose captured length the format does not allow.
    pub fn cut(&mut self, pending: &[u8]) -> Result<Option<usize>, RecordFault> {
        if self.whole > 0 && self.whole >= self.target {
            return Ok(Some(self.whole));
        }
        loop {
            // Bytes that were pending still are, so none are missing.
            let rest = pending.get(self.whole..).unwrap_or_default();
            let len = self
                .header
                .record_len(rest, self.start, self.whole, LengthRule::Marked)?;
            let Some(len) = len else {
                return Ok(None);
            };
            if self.whole > 0 && self.whole + len > self.target {
                return Ok(Some(self.whole));
            }
            if rest.len() < len {
                return Ok(None);
            }
            self.whole += len;
            if self.whole >= self.target {
                return Ok(Some(self.whole));
            }
        }
    }

    /// Pending bytes that are whole records, as far as [`Self::cut`] has put them into the next frame.
    #[must_use]
    pub fn whole(&self) -> usize {
        self.whole
    }

    /// Bytes at the start of `pending` that are whole records, those behind the next frame included: what is pending from there
    /// on is half a record, or one that the format does not allow. `pending` as for [`Self::cut`].
    pub fn whole_records(&mut self, pending: &[u8]) -> usize {
        self.seen = self.seen.max(self.whole);
        loop {
            let rest = pending.get(self.seen..).unwrap_or_default();
            let len = self
                .header
                .record_len(rest, self.start, self.seen, LengthRule::Marked);
            match len {
                Ok(Some(len)) if len <= rest.len() => self.seen += len,
                _ => return self.seen,
            }
        }
    }

    /// Source offset of the pending byte with this number.
    #[must_use]
    pub fn offset(&self, pending: usize) -> SourceOffset {
        SourceOffset::new(self.start.as_u64().saturating_add(pending as u64))
    }

    /// Notes that the whole records so far are in a frame, and no longer pending.
    pub fn commit(&mut self) {
        self.start = self.offset(self.whole);
        self.seen = self.seen.saturating_sub(self.whole);
        self.whole = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::super::pcap::Magic;
    use super::*;

    fn record(payload: usize) -> Vec<u8> {
        let len = u32::try_from(payload).expect("small").to_le_bytes();
        let mut bytes = vec![0; 8];
        bytes.extend(len);
        bytes.extend(len);
        bytes.resize(16 + payload, 7);
        bytes
    }

    fn splitter(target: usize) -> Splitter {
        let header = GlobalHeader {
            magic: Magic::LeUs,
            version: (2, 4),
            snaplen: 0,
            network: 1,
            zone: [0; 8],
        };
        Splitter::new(header, SourceOffset::new(24), target)
    }

    /// The frames of `stream`, fed `piece` bytes at a time.
    fn frames(stream: &[u8], piece: usize, target: usize) -> Vec<usize> {
        let mut splitter = splitter(target);
        let mut pending = Vec::new();
        let mut frames = Vec::new();
        for piece in stream.chunks(piece) {
            pending.extend_from_slice(piece);
            while let Some(cut) = splitter.cut(&pending).expect("valid records") {
                pending.drain(..cut);
                splitter.commit();
                frames.push(cut);
            }
        }
        frames.push(splitter.whole());
        frames
    }

    #[test]
    fn frames_do_not_depend_on_how_the_records_arrive() {
        let stream: Vec<u8> = (0..200)
            .flat_map(|number| record(number * 13 % 97))
            .collect();
        let whole = frames(&stream, stream.len(), 500);
        assert_eq!(whole.iter().sum::<usize>(), stream.len());
        assert!(whole.iter().all(|len| *len <= 500));
        for piece in [1, 7, 16, 499] {
            assert_eq!(frames(&stream, piece, 500), whole);
        }
    }

    #[test]
    fn a_record_over_the_target_makes_a_frame_of_its_own() {
        let stream: Vec<u8> = [record(10), record(1000), record(10)].concat();
        assert_eq!(frames(&stream, stream.len(), 100), [26, 1016, 26]);
    }

    #[test]
    fn a_flush_leaves_half_a_record_pending() {
        let mut splitter = splitter(100);
        let pending = [record(10), record(10)[..20].to_vec()].concat();
        assert_eq!(splitter.cut(&pending), Ok(None));
        assert_eq!(
            (splitter.whole(), splitter.whole_records(&pending)),
            (26, 26)
        );
        assert_eq!(splitter.offset(26), SourceOffset::new(50));
        splitter.commit();
        assert_eq!(
            (splitter.whole(), splitter.whole_records(&pending[26..])),
            (0, 0)
        );
        assert_eq!(splitter.offset(0), SourceOffset::new(50));
    }

    #[test]
    fn what_is_behind_a_full_frame_is_half_a_record_only_if_it_is() {
        let mut splitter = splitter(60);
        let mut pending = [record(10), record(10), record(30)].concat();
        assert_eq!(splitter.cut(&pending), Ok(Some(52)));
        assert_eq!(splitter.whole_records(&pending), 98);
        pending.extend(&record(10)[..20]);
        assert_eq!(splitter.whole_records(&pending), 98);
        // The frame was not written yet, and is the same as before.
        assert_eq!(splitter.cut(&pending), Ok(Some(52)));
        splitter.commit();
        pending.drain(..52);
        assert_eq!(splitter.whole_records(&pending), 46);
        assert_eq!(splitter.cut(&pending), Ok(Some(46)));
        splitter.commit();
        pending.drain(..46);
        assert_eq!(
            (splitter.cut(&pending), splitter.whole_records(&pending)),
            (Ok(None), 0)
        );
        assert_eq!(splitter.offset(0), SourceOffset::new(24 + 98));
    }
}
