//! Which capture a file holds: its header frame and its first record, checked before anything of it is published.

use super::limit::{check_limit, padded};
use super::{Advance, Zst};
use crate::capture::Engine;
use crate::capture::cache::Key;
use crate::capture::error::Error;
use crate::capture::source::OnFault;
use crate::capture::survey::Survey;
use crate::capture::sync::{read, write};
use crate::capture::view::Header;
use crate::format::pcap::{GLOBAL_HEADER_LEN, GlobalHeader, RECORD_HEADER_LEN};
use crate::format::table::Span;
use crate::format::{Fault, FaultKind, FileId, FrameName, PhysicalOffset};

/// Physical bytes of a header frame that are looked at; zstd takes 37.
const HEADER_FRAME_MOST: usize = 4096;

impl Zst {
    /// The header frame at `span`, decoded and parsed.
    pub(super) fn read_header(
        &self,
        engine: &Engine,
        survey: &Survey,
        span: &Span,
    ) -> Result<Header, Error> {
        let mut bytes = [0; 24];
        let name = FrameName::Header;
        if let Some(stored) = survey.seen(span) {
            let decoder = &engine.decoder;
            decoder.decode_stored(stored, span, name, &mut bytes)?;
        } else {
            // A header frame holds 24 bytes: more than this is padding.
            let mut stored = [0; HEADER_FRAME_MOST];
            let stored = usize::try_from(span.phys_len)
                .ok()
                .and_then(|len| stored.get_mut(..len))
                .ok_or(Fault {
                    kind: padded(span),
                    frame: name,
                    at: span.phys_start,
                })?;
            let file = &*self.file;
            engine
                .decoder
                .decode(file, span, name, &mut bytes, stored)?;
        }
        let parsed = GlobalHeader::parse(&bytes).map_err(|magic| Fault {
            kind: FaultKind::NotPcap { magic },
            frame: name,
            at: span.phys_start,
        })?;
        Ok(Header {
            bytes,
            parsed,
            end: PhysicalOffset::new(span.phys_start.as_u64().saturating_add(span.phys_len)),
        })
    }

    /// Takes a header frame that was walked; after a restart it must be the one that was there.
    pub(super) fn take_header(&self, header: Header) -> Advance {
        let mut view = write(&self.view);
        let is_other = match (&view.header, view.known_header) {
            (Some(before), _) => before.bytes != header.bytes,
            (None, Some(before)) => before != header.parsed,
            (None, None) => false,
        };
        if is_other && view.file_id.is_provisional() {
            return Advance::Replaced;
        }
        // With the same header as before it is this capture, so far; another one is withheld until the first record tells.
        view.is_vouched &= !is_other;
        view.header = Some(header);
        Advance::More
    }

    /// Takes the FileId from the first data frame (format document, section 6), before anything of it is published; after a
    /// restart it must be the one that was known.
    pub(super) fn take_first_frame(
        &self,
        engine: &Engine,
        span: &Span,
    ) -> Result<Result<(), Advance>, Error> {
        let (header, known) = {
            let view = read(&self.view);
            (
                view.header.as_ref().map(|header| header.bytes),
                view.file_id,
            )
        };
        let Some(header) = header else {
            return Ok(Ok(()));
        };
        let id = match self.first_record(engine, span)? {
            Some(record) => FileId::new(&header, &record),
            None => FileId::PROVISIONAL,
        };
        if known.is_provisional() {
            write(&self.view).file_id = id;
        } else if id != known {
            return Ok(Err(Advance::Replaced));
        }
        write(&self.view).is_vouched = true;
        Ok(Ok(()))
    }

    /// The first record header in the frame at `span`; `None` where it does not decode, which reads will report.
    fn first_record(
        &self,
        engine: &Engine,
        span: &Span,
    ) -> Result<Option<[u8; RECORD_HEADER_LEN]>, Error> {
        if let Some(record) = engine.decoder.prefix(&*self.file, span)? {
            return Ok(Some(record));
        }
        let name = FrameName::Data(0);
        if check_limit(engine, span, name).is_err() {
            return Ok(None);
        }
        let key = Key {
            source: read(&self.view).walked_generation(),
            frame: 0,
        };
        let frame = engine
            .cache
            .frame(key, span.src_len, span.phys_len, |out, stored| {
                engine.decoder.decode(&*self.file, span, name, out, stored)
            });
        match frame {
            Ok(frame) => Ok(frame.bytes().first_chunk().copied()),
            Err(Error::Fault(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Computes the FileId where the first frame does not hold a whole record header, as no writer makes it.
    pub(super) fn look_for_split_record(&self, engine: &Engine) -> Result<(), Error> {
        let (header, generation) = {
            let view = read(&self.view);
            let is_there =
                view.table.end().as_u64() >= GLOBAL_HEADER_LEN + RECORD_HEADER_LEN as u64;
            // Once for each table: what does not decode now does not at the next look either.
            let is_new = view.looked_for_split != Some(view.generation);
            match &view.header {
                Some(header)
                    if view.file_id.is_provisional()
                        && is_there
                        && is_new
                        && !view.is_begun_anew() =>
                {
                    (header.bytes, view.generation)
                }
                _ => return Ok(()),
            }
        };
        let found = self.gather(
            GLOBAL_HEADER_LEN,
            RECORD_HEADER_LEN,
            OnFault::Fail,
            |place| self.frame(engine, place),
        );
        let record = match found {
            Ok(bytes) => bytes.first_chunk().copied(),
            Err(Error::Fault(_)) => None,
            // The disk may answer the next time.
            Err(error) => return Err(error),
        };
        let mut view = write(&self.view);
        view.looked_for_split = Some(generation);
        if let Some(record) = record {
            view.file_id = FileId::new(&header, &record);
        }
        Ok(())
    }
}
