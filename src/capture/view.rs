//! What has been walked of a compressed capture, as readers see it: table, header, and how the file ended at the last look.

use crate::format::pcap::{GLOBAL_HEADER_LEN, GlobalHeader};
use crate::format::table::Table;
use crate::format::{Fault, FileId, FrameName, SourceOffset};

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
}

pub(super) struct Header {
    pub(super) bytes: [u8; 24],
    pub(super) parsed: GlobalHeader,
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

    pub(super) fn extent(&self) -> Extent {
        let frontier = match &self.header {
            Some(_) => self.table.end().as_u64(),
            None => 0,
        };
        let fault = self.fault();
        let size = match fault.map(|fault| fault.frame) {
            None => frontier,
            // What could not be mapped shows as bytes that fail, so that nobody takes the good prefix for all.
            Some(FrameName::Data(_)) => frontier + self.unmapped,
            Some(FrameName::Marker | FrameName::Header) => 0,
        };
        Extent {
            size,
            frontier: frontier.min(size),
            fault: fault.cloned(),
        }
    }
}
