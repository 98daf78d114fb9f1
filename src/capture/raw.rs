//! A raw capture: final ones pass through, partial ones end at their last whole record.
//!
//! A writer may preallocate a raw partial file, so its length says nothing: records are followed from header to header by
//! libpcap's rules, each byte once, and the walk stops at half a record, at a header of zeros, and at a record that
//! libpcap would not read.

use std::sync::RwLock;

use super::error::Error;
use super::read_at::{ReadAt, read_full};
use super::source::{Bytes, Facts, Progress, State};
use super::sync::{Turn, read, write};
use crate::format::pcap::{GLOBAL_HEADER_LEN, GlobalHeader, LengthRule, RECORD_HEADER_LEN};
use crate::format::{Fault, FaultKind, FileId, FrameName, PhysicalOffset, SourceOffset};

/// Bytes read at once while records are followed.
const CHUNK: usize = 256 * 1024;

pub(super) struct Raw {
    file: Box<dyn ReadAt>,
    follow: Turn<()>,
    view: RwLock<View>,
}

#[derive(Clone, Default)]
struct View {
    /// The global header; `Err` with the first four bytes when they are none of the four magics.
    header: Option<Result<GlobalHeader, [u8; 4]>>,
    file_id: FileId,
    physical_len: u64,
    /// Source frontier: the whole file when final, the end of the last whole record when partial.
    size: u64,
}

impl Raw {
    pub(super) fn new(file: Box<dyn ReadAt>) -> Self {
        Self {
            file,
            follow: Turn::new(()),
            view: RwLock::default(),
        }
    }

    /// Looks at the file's length and, in a partial file, follows the records that are new.
    pub(super) fn refresh(&self, progress: Progress) -> Result<(), Error> {
        let _turn = self.follow.take();
        let mut view = read(&self.view).clone();
        view.physical_len = self.file.len().map_err(Error::io("reading the length"))?;
        if view.file_id.is_provisional() {
            self.look_at_head(&mut view)?;
        }
        view.size = match (progress, view.header) {
            (Progress::Final, _) => view.physical_len,
            (Progress::Partial, Some(Ok(header))) => {
                let start = view.size.max(GLOBAL_HEADER_LEN);
                self.last_whole_record(&header, start, view.physical_len)?
            }
            (Progress::Partial, _) => 0,
        };
        if view.size < GLOBAL_HEADER_LEN + RECORD_HEADER_LEN as u64 {
            view.file_id = FileId::PROVISIONAL;
        }
        *write(&self.view) = view;
        Ok(())
    }

    fn look_at_head(&self, view: &mut View) -> Result<(), Error> {
        let mut head = [0; 40];
        let got = read_full(&*self.file, &mut head, 0).map_err(Error::io("reading"))?;
        if let Some(header) = head[..got].first_chunk::<24>() {
            view.header = Some(GlobalHeader::parse(header));
            if let Some(record) = head[24..got].first_chunk() {
                view.file_id = FileId::new(header, record);
            }
        }
        Ok(())
    }

    /// Source offset behind the last whole, valid record; `start` is a record boundary.
    fn last_whole_record(
        &self,
        header: &GlobalHeader,
        start: u64,
        physical_len: u64,
    ) -> Result<u64, Error> {
        if physical_len < start + RECORD_HEADER_LEN as u64 {
            return Ok(start);
        }
        let mut chunk = vec![0; CHUNK];
        let mut frontier = start;
        loop {
            let got = read_full(&*self.file, &mut chunk, frontier).map_err(Error::io("reading"))?;
            let base = SourceOffset::new(frontier);
            let mut at = 0;
            while let Some(record) = chunk[at..got].first_chunk::<RECORD_HEADER_LEN>() {
                let is_zero = record.iter().all(|byte| *byte == 0);
                let len = header.record_len(&record[..], base, at, LengthRule::Libpcap);
                let Some(len) = len.ok().flatten().filter(|_| !is_zero) else {
                    return Ok(frontier + at as u64);
                };
                if frontier + (at + len) as u64 > physical_len {
                    return Ok(frontier + at as u64);
                }
                at += len;
                if at >= got {
                    break;
                }
            }
            if at == 0 {
                return Ok(frontier);
            }
            frontier += at as u64;
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
            state: match progress {
                Progress::Partial => State::Growing,
                Progress::Final => State::Complete,
            },
            size: view.size,
            physical_len: view.physical_len,
            frames: 0,
            torn_bytes: view.physical_len.saturating_sub(view.size),
            file_id: view.file_id,
            header: view.header.and_then(Result::ok),
            error,
        }
    }

    pub(super) fn read(&self, offset: u64, len: usize) -> Result<Bytes, Error> {
        let rest = read(&self.view).size.saturating_sub(offset);
        let wanted = len.min(usize::try_from(rest).unwrap_or(usize::MAX));
        let mut out = Vec::new();
        out.try_reserve_exact(wanted)
            .map_err(|_| Error::NoMemory(wanted as u64))?;
        out.resize(wanted, 0);
        let got = read_full(&*self.file, &mut out, offset).map_err(Error::io("reading"))?;
        out.truncate(got);
        Ok(Bytes::from(out))
    }
}
