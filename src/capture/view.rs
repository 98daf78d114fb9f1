//! What has been walked of a compressed capture, as readers see it: table, header, and how the file ended at the last look.

use super::cache::Key;
use super::source::Known;
use super::survey::Head;
use crate::format::pcap::{GLOBAL_HEADER_LEN, GlobalHeader};
use crate::format::table::{Span, Table};
use crate::format::{Fault, FileId, FrameName, PhysicalOffset, SourceOffset};

/// What has been walked so far.
pub(super) struct View {
    pub(super) table: Table,
    pub(super) header: Option<Header>,
    pub(super) file_id: FileId,
    /// How the file starts, once frames of one that grows were walked.
    pub(super) head: Option<Head>,
    /// Length of the file at the last look.
    pub(super) physical_len: u64,
    /// Physical bytes behind the last whole frame at the last look.
    pub(super) unmapped: u64,
    pub(super) ending: Ending,
    /// The largest source frontier there was: what was shown once is not taken back.
    published: u64,
    /// What frame numbers are unique within, in the cache; another one whenever frames leave the table.
    pub(super) generation: u64,
    /// The global header of the capture that was open before.
    pub(super) known_header: Option<GlobalHeader>,
    /// Whether what is there is known to be this capture: not before the first record of one that was open before is there
    /// again.
    pub(super) is_vouched: bool,
    /// The file holds another capture than the one whose header and FileId these are.
    pub(super) is_replaced: bool,
}

pub(super) struct Header {
    pub(super) bytes: [u8; 24],
    pub(super) parsed: GlobalHeader,
    /// Physical offset behind the header frame.
    pub(super) end: PhysicalOffset,
}

/// How the walk stood at the last look.
pub(super) enum Ending {
    /// At the end of the file, or before it: not yet all of it walked.
    Boundary,
    Torn,
    Fault(Fault),
}

/// What a read takes from the view before it touches a frame.
pub(super) struct Extent {
    pub(super) size: u64,
    pub(super) frontier: u64,
    pub(super) fault: Option<Fault>,
}

/// A frame in the table: which, where, and how the cache knows it.
pub(super) struct Place {
    pub(super) index: u64,
    pub(super) span: Span,
    /// How the file started when the frame was walked, if that is known.
    pub(super) head: Option<Head>,
    generation: u64,
}

impl Place {
    pub(super) fn key(&self) -> Key {
        Key {
            source: self.generation,
            frame: self.index,
        }
    }
}

impl View {
    /// Nothing walked yet, of a capture of which `known` was shown before.
    pub(super) fn new(generation: u64, known: Known) -> Self {
        Self {
            table: Table::new(SourceOffset::new(GLOBAL_HEADER_LEN)),
            header: None,
            file_id: known.file_id,
            head: None,
            physical_len: 0,
            unmapped: 0,
            ending: Ending::Boundary,
            published: known.size,
            generation,
            is_vouched: known.file_id.is_provisional() || known.header.is_some(),
            known_header: known.header,
            is_replaced: false,
        }
    }

    /// The frame that holds the source byte at `offset`.
    pub(super) fn find(&self, offset: SourceOffset) -> Option<Place> {
        let (index, span) = self.table.find(offset)?;
        Some(self.place_of(index, span))
    }

    /// Frame number `index`.
    pub(super) fn place(&self, index: usize) -> Option<Place> {
        Some(self.place_of(index, self.table.span(index)?))
    }

    fn place_of(&self, index: usize, span: Span) -> Place {
        Place {
            index: index as u64,
            span,
            head: self.head,
            generation: self.generation,
        }
    }

    pub(super) fn fault(&self) -> Option<&Fault> {
        match &self.ending {
            Ending::Fault(fault) => Some(fault),
            _ => None,
        }
    }

    /// Whether the walk stepped over a header frame that does not hold a pcap header: refused for good.
    pub(super) fn has_broken_header(&self) -> bool {
        self.fault()
            .is_some_and(|fault| fault.frame == FrameName::Header)
    }

    /// Whether every byte on disk is a whole frame, the header frame among them.
    pub(super) fn is_drained(&self) -> bool {
        matches!(self.ending, Ending::Boundary) && self.header.is_some() && self.unmapped == 0
    }

    /// Takes the frames that reach past `physical_len` out of the table; the boundary behind the last one that stays, `None`
    /// for the start of the file. The published size stays.
    pub(super) fn cut_back(&mut self, physical_len: PhysicalOffset) -> Option<PhysicalOffset> {
        self.published = self.published();
        self.ending = Ending::Boundary;
        let header_end = self.header.as_ref().map(|header| header.end)?;
        if physical_len < header_end {
            self.table = Table::new(SourceOffset::new(GLOBAL_HEADER_LEN));
            return None;
        }
        let last = self.table.cut_back(physical_len);
        Some(last.unwrap_or(header_end))
    }

    /// Stops showing bytes of the file: they are another capture's.
    pub(super) fn replace(&mut self) {
        self.published = self.published();
        self.table = Table::new(SourceOffset::new(GLOBAL_HEADER_LEN));
        self.ending = Ending::Boundary;
        self.unmapped = 0;
        self.is_replaced = true;
    }

    /// The largest source frontier that was shown.
    pub(super) fn published(&self) -> u64 {
        self.published.max(self.frontier())
    }

    fn frontier(&self) -> u64 {
        match &self.header {
            Some(_) if self.is_vouched => self.table.end().as_u64(),
            _ => 0,
        }
    }

    pub(super) fn extent(&self) -> Extent {
        let frontier = self.frontier();
        let fault = self.fault();
        let size = match fault.map(|fault| fault.frame) {
            None => frontier,
            // What could not be mapped shows as bytes that fail, so that nobody takes the good prefix for all.
            Some(FrameName::Data(_)) => frontier + self.unmapped,
            Some(FrameName::Marker | FrameName::Header) => 0,
        };
        let size = size.max(self.published);
        Extent {
            size,
            frontier: frontier.min(size),
            fault: fault.cloned(),
        }
    }
}
