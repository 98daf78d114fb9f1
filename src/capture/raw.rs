//! A raw capture: final ones pass through, partial ones end at their last whole record.
//!
//! A writer may preallocate a raw partial file, so its length says nothing: records are followed from header to header by
//! libpcap's rules, each byte once, and the walk stops at half a record, at a header of zeros, and at a record that
//! libpcap would not read. A file that gets shorter keeps its published size, and is followed anew if it is still the
//! same capture.

use std::sync::{Arc, RwLock};

use super::bytes::{Bytes, Gathered};
use super::error::Error;
use super::reach::{Reach, WALK_STEP};
use super::read_at::{ReadAt, read_full, read_part};
use super::source::{Facts, Known, OnFault, Progress, State};
use super::sync::{Turn, read, write};
use crate::format::pcap::{GLOBAL_HEADER_LEN, GlobalHeader, LengthRule, RECORD_HEADER_LEN};
use crate::format::{Fault, FaultKind, FileId, FrameName, PhysicalOffset, SourceOffset};

/// Bytes read at once while records are followed.
const CHUNK: usize = 256 * 1024;
/// Global header and first record header: what a FileId is made of.
const HEAD_LEN: usize = 24 + RECORD_HEADER_LEN;

pub(super) struct Raw {
    file: Arc<dyn ReadAt>,
    /// Behind the last whole record that was followed.
    follow: Turn<u64>,
    view: RwLock<View>,
}

#[derive(Clone, Default)]
struct View {
    /// The global header; `Err` with the first four bytes when they are none of the four magics.
    header: Option<Result<GlobalHeader, [u8; 4]>>,
    file_id: FileId,
    physical_len: u64,
    /// Where reads of a partial file end: behind the last whole record.
    frontier: u64,
    /// What is shown: the whole file when final, else the largest frontier there was.
    size: u64,
    is_replaced: bool,
    /// Whether what is there is known to be this capture: not before the first record of one that was open before is there
    /// again.
    is_vouched: bool,
}

impl Raw {
    pub(super) fn new(file: Arc<dyn ReadAt>, known: Known) -> Self {
        Self {
            file,
            follow: Turn::new(GLOBAL_HEADER_LEN),
            view: RwLock::new(View {
                file_id: known.file_id,
                size: known.size,
                is_vouched: known.file_id.is_provisional() || known.header.is_some(),
                header: known.header.map(Ok),
                ..View::default()
            }),
        }
    }

    /// Looks at the file's length and, in a partial file, follows the records that are new, for [`WALK_STEP`] bytes and the
    /// rest of a record at most.
    pub(super) fn refresh_step(&self, progress: Progress) -> Result<Reach, Error> {
        let mut followed = self.follow.take();
        let mut view = read(&self.view).clone();
        if view.is_replaced {
            return Ok(Reach::all(view.physical_len));
        }
        view.physical_len = self.file.len().map_err(Error::io("reading the length"))?;
        if view.physical_len < *followed {
            *followed = GLOBAL_HEADER_LEN;
        }
        let has_header = self.look_at_head(&mut view, progress)?;
        let mut reach = Reach::all(view.physical_len);
        if !view.is_replaced {
            view.frontier = match (progress, view.header) {
                (Progress::Final, _) => view.physical_len,
                (Progress::Partial, Some(Ok(header))) if view.is_vouched && has_header => {
                    reach = self.follow(&header, *followed, view.physical_len)?;
                    *followed = reach.position();
                    *followed
                }
                (Progress::Partial, _) => {
                    // What was followed is gone with the header, though the file may be as long as before.
                    *followed = GLOBAL_HEADER_LEN;
                    0
                }
            };
            view.size = match progress {
                Progress::Final => view.physical_len,
                Progress::Partial => view.size.max(view.frontier),
            };
        }
        *write(&self.view) = view;
        Ok(reach)
    }

    /// Reads header and FileId, and compares them with what was known; whether a global header is there. Zeros are none:
    /// a writer may have preallocated them.
    fn look_at_head(&self, view: &mut View, progress: Progress) -> Result<bool, Error> {
        let mut head = [0; HEAD_LEN];
        let there = read_part(&*self.file, &mut head, 0).map_err(Error::io("reading"))?;
        let Some((header, behind)) = there.split_first_chunk::<24>() else {
            return Ok(false);
        };
        if progress == Progress::Partial && header.iter().all(|byte| *byte == 0) {
            return Ok(false);
        }
        let parsed = GlobalHeader::parse(header);
        let id = match (parsed, behind.first_chunk()) {
            // Half a record is no record yet: in a partial file its header may still be zeros in part.
            (Ok(parsed), Some(record))
                if progress == Progress::Final || is_whole(&parsed, record, view.physical_len) =>
            {
                FileId::new(header, record)
            }
            _ => FileId::PROVISIONAL,
        };
        let is_other_header = matches!(view.header, Some(Ok(before)) if Ok(before) != parsed);
        let is_other_record =
            !view.file_id.is_provisional() && !id.is_provisional() && view.file_id != id;
        let was_known = !view.file_id.is_provisional();
        // A final one is passed through as long as nothing says that it is another capture; no first record is awaited.
        let is_replaced = match progress {
            _ if is_other_record => true,
            Progress::Final => is_other_header || (was_known && id.is_provisional()),
            Progress::Partial => is_other_header && !was_known,
        };
        if is_replaced {
            view.is_replaced = true;
            return Ok(true);
        }
        // With the same header as before, or the same id, it is this capture, so far; another one is withheld until the first
        // record tells.
        view.is_vouched = view.file_id == id || (view.is_vouched && !is_other_header);
        view.header = Some(parsed);
        if view.file_id.is_provisional() {
            view.file_id = id;
        }
        Ok(true)
    }

    /// Follows whole, valid records from `start`, a record boundary, to the last one or for [`WALK_STEP`] bytes.
    fn follow(&self, header: &GlobalHeader, start: u64, physical_len: u64) -> Result<Reach, Error> {
        if physical_len < start + RECORD_HEADER_LEN as u64 {
            return Ok(Reach::end_at(start, physical_len));
        }
        let mut chunk = vec![0; CHUNK];
        let mut frontier = start;
        while frontier - start < WALK_STEP {
            let there =
                read_part(&*self.file, &mut chunk, frontier).map_err(Error::io("reading"))?;
            let base = SourceOffset::new(frontier);
            let mut at = 0;
            while let Some(record) = there
                .get(at..)
                .and_then(|rest| rest.first_chunk::<RECORD_HEADER_LEN>())
            {
                let is_zero = record.iter().all(|byte| *byte == 0);
                let len = header.record_len(&record[..], base, at, LengthRule::Libpcap);
                let Some(len) = len.ok().flatten().filter(|_| !is_zero) else {
                    return Ok(Reach::end_at(frontier + at as u64, physical_len));
                };
                if frontier + (at + len) as u64 > physical_len {
                    return Ok(Reach::end_at(frontier + at as u64, physical_len));
                }
                at += len;
            }
            if at == 0 {
                return Ok(Reach::end_at(frontier, physical_len));
            }
            frontier += at as u64;
        }
        Ok(Reach::part(frontier, physical_len))
    }

    pub(super) fn state(progress: Progress) -> State {
        match progress {
            Progress::Partial => State::Growing,
            Progress::Final => State::Complete,
        }
    }

    pub(super) fn size(&self) -> u64 {
        read(&self.view).size
    }

    pub(super) fn reachable(&self, progress: Progress) -> u64 {
        let view = read(&self.view);
        match progress {
            _ if view.is_replaced => 0,
            Progress::Final => view.physical_len,
            Progress::Partial => view.frontier,
        }
    }

    pub(super) fn facts(&self, progress: Progress) -> Facts {
        let view = read(&self.view);
        let error = match view.header {
            Some(Err(magic)) => Some(Fault {
                kind: FaultKind::NotPcap { magic },
                frame: FrameName::Header,
                at: PhysicalOffset::ZERO,
            }),
            _ => None,
        };
        Facts {
            state: Self::state(progress),
            size: view.size,
            frontier: view.size,
            physical_len: view.physical_len,
            frames: 0,
            torn_bytes: view.physical_len.saturating_sub(view.frontier),
            file_id: view.file_id,
            header: view.header.and_then(Result::ok).filter(|_| view.is_vouched),
            error,
            is_replaced: view.is_replaced,
        }
    }

    /// Whether the file still starts as the capture that was opened; true where that cannot be told.
    pub(super) fn is_as_opened(&self) -> Result<bool, Error> {
        let again = Self::new(Arc::clone(&self.file), Known::default());
        again.refresh_step(Progress::Final)?;
        let (before, now) = (read(&self.view), read(&again.view));
        let is_same_header = !matches!(before.header, Some(Ok(_))) || before.header == now.header;
        let is_same_record = before.file_id.is_provisional() || before.file_id == now.file_id;
        Ok(!before.is_replaced && is_same_header && is_same_record)
    }

    /// Whether the file no longer starts with the header in `view` and, where `end` is behind that, with its first record
    /// header; false where it never had them. Blocks on one small read.
    fn has_other_head(&self, view: &View, end: u64) -> Result<bool, Error> {
        let Some(Ok(before)) = view.header else {
            return Ok(false);
        };
        let mut head = [0; HEAD_LEN];
        let there = read_part(&*self.file, &mut head, 0).map_err(Error::io("reading"))?;
        let Some((header, behind)) = there.split_first_chunk::<24>() else {
            return Ok(true);
        };
        let is_same_record = match behind.first_chunk() {
            _ if end <= GLOBAL_HEADER_LEN || view.file_id.is_provisional() => true,
            Some(record) => FileId::new(header, record) == view.file_id,
            None => false,
        };
        Ok(GlobalHeader::parse(header) != Ok(before) || !is_same_record)
    }

    pub(super) fn read(
        &self,
        progress: Progress,
        offset: u64,
        len: usize,
        on_fault: OnFault,
    ) -> Result<Bytes, Error> {
        let view = read(&self.view).clone();
        // A final file is passed through as it is now, however long it was at the last look. Of a partial one, what lies
        // behind the last whole record is nothing to show, though it may be there.
        let (size, there) = match progress {
            _ if view.is_replaced => (view.size, 0),
            Progress::Final => {
                let len = self.file.len().map_err(Error::io("reading the length"))?;
                (len, len)
            }
            Progress::Partial => (view.size, view.frontier),
        };
        let within = |end: u64| usize::try_from(end.saturating_sub(offset)).unwrap_or(usize::MAX);
        let wanted = len.min(within(size));
        let readable = wanted.min(within(there));
        let mut out = Gathered::with_room(readable)?;
        let got = out
            .append_with(readable, |space| read_full(&*self.file, space, offset))
            .map_err(Error::io("reading"))?;
        // Behind the read: a writer that starts over writes the first bytes first.
        let end = offset.saturating_add(got as u64);
        if got > 0 && self.has_other_head(&view, end)? {
            return Err(Error::CutOff);
        }
        if got < wanted && (got == 0 || on_fault == OnFault::Fail) {
            return Err(Error::CutOff);
        }
        Ok(Bytes::from(out))
    }
}

/// Whether the first record, which starts with `record`, is whole and valid in a file of `physical_len` bytes.
fn is_whole(header: &GlobalHeader, record: &[u8; RECORD_HEADER_LEN], physical_len: u64) -> bool {
    let base = SourceOffset::new(GLOBAL_HEADER_LEN);
    let len = header.record_len(record, base, 0, LengthRule::Libpcap);
    let is_zero = record.iter().all(|byte| *byte == 0);
    matches!(len, Ok(Some(len)) if !is_zero && GLOBAL_HEADER_LEN + len as u64 <= physical_len)
}
