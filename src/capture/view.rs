//! What has been walked of a compressed capture, as readers see it: table, header, and how the file ended at the last look.
//!
//! A file that has to be walked anew gets its new table aside ([`View::begin_anew`]): until the walk has reached the end of
//! the file, readers go on with the old one. What the old one says of a frame that is no longer there does not decode, and
//! who meets that waits for the walk.

use super::bad_frame::BadFrames;
use super::cache::Key;
use super::source::{Known, Progress, State};
use super::survey::Head;
use crate::format::pcap::{GLOBAL_HEADER_LEN, GlobalHeader};
use crate::format::table::{Span, Table};
use crate::format::{Fault, FileId, FrameName, PhysicalOffset, SourceOffset};

/// What has been walked so far.
pub(super) struct View {
    pub(super) table: Table,
    pub(super) header: Option<Header>,
    pub(super) file_id: FileId,
    /// How the file starts, as far as it was walked.
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
    /// Frames of this table that do not decode.
    pub(super) bad_frames: BadFrames,
    /// The table of a walk that has begun anew and not yet reached the end of the file.
    anew: Option<Anew>,
    /// The table's number when a first record that is split over frames was looked for.
    pub(super) looked_for_split: Option<u64>,
    /// The global header of the capture that was open before.
    pub(super) known_header: Option<GlobalHeader>,
    /// Whether what is there is known to be this capture: not before the first record of one that was open before is there
    /// again.
    pub(super) is_vouched: bool,
    /// The file holds another capture than the one whose header and FileId these are.
    pub(super) is_replaced: bool,
}

struct Anew {
    table: Table,
    generation: u64,
    /// Frames taken over from the table before: what is known of them stays.
    kept: u64,
    /// The walk began with the first byte of the file.
    is_whole: bool,
    bad_frames: BadFrames,
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
    /// The global header, if bytes of it are shown.
    pub(super) header: Option<[u8; 24]>,
}

impl Extent {
    /// How many of `len` bytes from source offset `offset` on lie before the end.
    pub(super) fn within(&self, offset: u64, len: usize) -> usize {
        let rest = usize::try_from(self.size.saturating_sub(offset)).unwrap_or(usize::MAX);
        len.min(rest)
    }
}

/// A frame in the table: which, where, and how the cache knows it.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) index: u64,
    pub(super) span: Span,
    /// How the file starts as long as the frame is this capture's, if that is known.
    pub(super) head: Option<Head>,
    pub(super) generation: u64,
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
            table: empty_table(),
            header: None,
            file_id: known.file_id,
            head: None,
            physical_len: 0,
            unmapped: 0,
            ending: Ending::Boundary,
            published: known.size,
            generation,
            bad_frames: BadFrames::default(),
            anew: None,
            looked_for_split: None,
            is_vouched: known.file_id.is_provisional() || known.header.is_some(),
            known_header: known.header,
            is_replaced: false,
        }
    }

    /// Takes a table that was kept, and what belongs to it, as if the whole file of `physical_len` bytes were walked.
    pub(super) fn take_kept(
        &mut self,
        table: Table,
        header: Header,
        file_id: FileId,
        head: Head,
        physical_len: u64,
    ) {
        self.table = table;
        self.header = Some(header);
        self.file_id = file_id;
        self.head = Some(head);
        self.physical_len = physical_len;
        self.unmapped = 0;
        self.ending = Ending::Boundary;
        self.is_vouched = true;
    }

    /// Whether `other` shows the same capture in the same frames.
    pub(super) fn is_same_capture(&self, other: &Self) -> bool {
        self.file_id == other.file_id && self.table == other.table
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

    /// The fault that ended the walk, else the first frame's that does not decode.
    pub(super) fn first_fault(&self) -> Option<&Fault> {
        self.fault().or_else(|| self.bad_frames.first())
    }

    pub(super) fn state(&self, progress: Progress) -> State {
        match (self.fault(), self.first_fault(), progress) {
            (Some(fault), _, _) if !matches!(fault.frame, FrameName::Data(_)) => State::Refused,
            (_, Some(_), _) => State::Damaged,
            (_, None, Progress::Partial) => State::Growing,
            (_, None, Progress::Final) if self.is_drained() => State::Complete,
            (_, None, Progress::Final) => State::Draining,
        }
    }

    /// Whether the walk stands behind a header frame that does not hold a pcap header.
    pub(super) fn stands_behind_broken_header(&self) -> bool {
        self.anew.is_none()
            && self
                .fault()
                .is_some_and(|fault| fault.frame == FrameName::Header)
    }

    /// Whether every byte on disk is a whole frame, the header frame among them: that of this capture, and not one that was there
    /// before the file was cut back to less.
    fn is_drained(&self) -> bool {
        let has_header = |header: &Header| header.end.as_u64() <= self.physical_len;
        matches!(self.ending, Ending::Boundary)
            && self.unmapped == 0
            && self.is_vouched
            && self.header.as_ref().is_some_and(has_header)
    }

    /// The table of a walk that begins anew: the frames that end within the first `boundary` bytes on disk; and where the last
    /// of them ends, `None` for the start of the file.
    pub(super) fn table_before(&self, boundary: PhysicalOffset) -> (Table, Option<PhysicalOffset>) {
        let header_end = self.header.as_ref().map(|header| header.end);
        match header_end.filter(|end| boundary >= *end) {
            Some(header_end) => {
                let mut table = self.table.clone();
                let last = table.cut_back(boundary);
                (table, Some(last.unwrap_or(header_end)))
            }
            None => (empty_table(), None),
        }
    }

    /// Starts a walk anew, which fills `table` aside, under the number `generation`; `boundary` is where it starts, `None` for
    /// the start of the file. What is shown stays.
    pub(super) fn begin_anew(
        &mut self,
        table: Table,
        boundary: Option<PhysicalOffset>,
        generation: u64,
    ) {
        self.published = self.published();
        self.anew = Some(Anew {
            kept: table.len() as u64,
            is_whole: boundary.is_none(),
            table,
            generation,
            bad_frames: BadFrames::default(),
        });
    }

    /// Takes the table that was filled aside, if there is one: its walk has reached the end of the file. Frames where they were
    /// keep their numbers, in the cache too; unless all of the file was walked anew, since other bytes may lie there now.
    pub(super) fn finish_anew(&mut self) {
        if let Some(anew) = self.anew.take() {
            if anew.is_whole || self.table != anew.table {
                self.table = anew.table;
                self.generation = anew.generation;
            }
            self.bad_frames.forget_from(anew.kept);
            self.bad_frames.append(anew.bad_frames);
        }
    }

    /// Whether a walk has begun anew and not yet reached the end of the file.
    pub(super) fn is_begun_anew(&self) -> bool {
        self.anew.is_some()
    }

    /// The table that the walk fills.
    pub(super) fn walked(&self) -> &Table {
        self.anew.as_ref().map_or(&self.table, |anew| &anew.table)
    }

    /// The cache's number for frames of [`Self::walked`].
    pub(super) fn walked_generation(&self) -> u64 {
        self.anew
            .as_ref()
            .map_or(self.generation, |anew| anew.generation)
    }

    /// Appends the next frames of the walk.
    pub(super) fn append(&mut self, spans: impl IntoIterator<Item = Span>) {
        let table = match &mut self.anew {
            Some(anew) => &mut anew.table,
            None => &mut self.table,
        };
        for span in spans {
            table.append(&span);
        }
    }

    /// Notes that frame number `index` of the walk will not be decoded.
    pub(super) fn note_walked(&mut self, index: u64, fault: &Fault) {
        let bad_frames = match &mut self.anew {
            Some(anew) => &mut anew.bad_frames,
            None => &mut self.bad_frames,
        };
        bad_frames.note(index, fault);
    }

    /// Stops showing bytes of the file: they are another capture's.
    pub(super) fn replace(&mut self) {
        self.published = self.published();
        self.table = empty_table();
        self.anew = None;
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

    /// Bytes that are shown.
    pub(super) fn size(&self) -> u64 {
        let frontier = self.frontier();
        let size = match self.fault().map(|fault| fault.frame) {
            None => frontier,
            // What could not be mapped shows as bytes that fail, so that nobody takes the good prefix for all.
            Some(FrameName::Data(_)) => frontier + self.unmapped,
            Some(FrameName::Marker | FrameName::Header) => 0,
        };
        size.max(self.published)
    }

    pub(super) fn extent(&self) -> Extent {
        let size = self.size();
        Extent {
            size,
            frontier: self.frontier().min(size),
            fault: self.fault().cloned(),
            header: self.header.as_ref().map(|header| header.bytes),
        }
    }

    /// Bytes of memory behind the tables.
    pub(super) fn table_bytes(&self) -> usize {
        let anew = self.anew.as_ref();
        self.table.heap_bytes() + anew.map_or(0, |anew| anew.table.heap_bytes())
    }
}

fn empty_table() -> Table {
    Table::new(SourceOffset::new(GLOBAL_HEADER_LEN))
}
