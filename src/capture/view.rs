//! What has been walked of a compressed capture, as readers see it: table, header, and how the file ended at the last look.

use crate::format::pcap::{GLOBAL_HEADER_LEN, GlobalHeader};
use crate::format::table::Table;
use crate::format::{Fault, FileId, FrameName, PhysicalOffset, SourceOffset};

/// What has been walked so far.
pub(super) struct View {
    pub(super) table: Table,
    pub(super) header: Option<Header>,
    pub(super) file_id: FileId,
    /// Length of the file at the last look.
    pub(super) physical_len: u64,
    /// Physical bytes behind the last whole frame at the last look.
    pub(super) unmapped: u64,
    pub(super) ending: Ending,
    /// The largest source frontier there was: what was shown once is not taken back.
    published: u64,
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

impl Default for View {
    fn default() -> Self {
        Self {
            table: Table::new(SourceOffset::new(GLOBAL_HEADER_LEN)),
            header: None,
            file_id: FileId::PROVISIONAL,
            physical_len: 0,
            unmapped: 0,
            ending: Ending::Boundary,
            published: 0,
            is_replaced: false,
        }
    }
}

impl View {
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
        self.published = self.published.max(self.frontier());
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
        self.published = self.published.max(self.frontier());
        self.table = Table::new(SourceOffset::new(GLOBAL_HEADER_LEN));
        self.ending = Ending::Boundary;
        self.unmapped = 0;
        self.is_replaced = true;
    }

    fn frontier(&self) -> u64 {
        match &self.header {
            Some(_) => self.table.end().as_u64(),
            None => 0,
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
