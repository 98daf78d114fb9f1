//! The packets of a compressed capture in order, as it grows.

use super::error::Error;
use super::follow::{Follower, Next};
use crate::format::SourceOffset;
use crate::format::pcap::{GlobalHeader, LengthRule, RECORD_HEADER_LEN, Record};

/// Packets from a record boundary on. Holds a copy of one decoded frame, and nothing of the cache: others may need the room.
#[derive(Debug)]
pub struct Records {
    follower: Follower,
    header: Option<GlobalHeader>,
    frame: Vec<u8>,
    /// Where the next record starts in `frame`.
    at: usize,
}

/// One packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Time and lengths.
    pub record: Record,
    /// Source offset of the record header.
    pub offset: u64,
    /// The captured bytes.
    pub bytes: &'a [u8],
}

/// What comes next.
#[derive(Clone, Debug)]
pub enum NextPacket<'a> {
    /// A packet.
    Packet(Packet<'a>),
    /// As of [`Next`], with all packets given.
    Ending(Next),
}

impl Records {
    /// The packets that `follower` will come to. It begins at a frame of a compressed capture, or behind the last one.
    #[must_use]
    pub fn new(follower: Follower) -> Self {
        Self {
            follower,
            header: None,
            frame: Vec::new(),
            at: 0,
        }
    }

    /// The next packet. Errors as [`Follower::take_next`], and [`Error::NoMemory`], behind which the same packet comes.
    pub fn take_next(&mut self) -> Result<NextPacket<'_>, Error> {
        if self.at >= self.frame.len() {
            match self.follower.take_next()? {
                Next::Bytes(bytes) => self.keep(&bytes).inspect_err(|_| {
                    // Without room none of its packets was given: it comes again.
                    self.follower.put_back(&bytes);
                })?,
                ending => return Ok(NextPacket::Ending(ending)),
            }
        }
        let header = match self.header {
            Some(header) => header,
            // A frame came, so the header is there.
            None => self
                .follower
                .live()
                .source()
                .facts()
                .header
                .ok_or(Error::CutOff)?,
        };
        self.header = Some(header);
        // `at` is a record's end, and so within the frame.
        let rest = self.frame.get(self.at..).unwrap_or_default();
        let start = self.follower.position() - rest.len() as u64;
        // The follower gives whole records only.
        let record = header
            .record_len(rest, SourceOffset::new(start), 0, LengthRule::Marked)
            .ok()
            .flatten()
            .and_then(|len| rest.get(..len));
        let Some((head, bytes)) = record.and_then(|record| record.split_first_chunk()) else {
            return Err(Error::CutOff);
        };
        self.at += RECORD_HEADER_LEN + bytes.len();
        Ok(NextPacket::Packet(Packet {
            record: header.record(head),
            offset: start,
            bytes,
        }))
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.frame.clear();
        self.at = 0;
        self.frame
            .try_reserve(bytes.len())
            .map_err(|_| Error::NoMemory(bytes.len() as u64))?;
        self.frame.extend_from_slice(bytes);
        Ok(())
    }
}
