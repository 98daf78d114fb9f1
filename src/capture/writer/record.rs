//! Packets one by one into a file that is written, in place of source bytes.

use super::{Splitter, Writer};
use crate::capture::error::Error;
use crate::format::FaultKind;
use crate::format::pcap::{GlobalHeader, LengthRule, Record, RecordFault, RecordFaultKind};

impl Writer {
    /// Writes the global header; where it is there already, and the same, does nothing.
    ///
    /// # Errors
    /// [`Error::NotResumable`] when there is another one; IO.
    pub fn begin(&mut self, header: &GlobalHeader) -> Result<(), Error> {
        match &self.splitter {
            None if self.pending.is_empty() => self.write(&header.to_bytes()),
            // It could not be written before.
            None if *self.pending == header.to_bytes() => self.write(&[]),
            Some(splitter) if splitter.header() == header => Ok(()),
            _ => Err(Error::NotResumable(
                "the file has another global header already",
            )),
        }
    }

    /// The global header that records are written behind; `None` before it is whole.
    #[must_use]
    pub fn header(&self) -> Option<&GlobalHeader> {
        self.splitter.as_ref().map(Splitter::header)
    }

    /// Writes one packet: `record` and its captured bytes, as many as it says.
    ///
    /// # Errors
    /// A length that the format or the header does not allow, or no header yet: nothing was taken then. IO: as of
    /// [`Self::write`], the packet was taken.
    pub fn add(&mut self, record: &Record, captured: &[u8]) -> Result<(), Error> {
        let Some(splitter) = &mut self.splitter else {
            return Err(self.fault(FaultKind::NoHeader { got: 0 }).into());
        };
        let header = *splitter.header();
        let limit = header.incl_len_limit(LengthRule::Marked);
        let bytes = header.record_to_bytes(record);
        // Version 2.3 tells the lengths apart by which is larger.
        let is_told = header.record(&bytes).incl_len == record.incl_len;
        if record.incl_len > limit || record.incl_len as usize != captured.len() || !is_told {
            let whole = splitter.whole_records(&self.pending);
            let at = splitter.offset(whole);
            return Err(self.record_fault(RecordFault {
                at,
                kind: RecordFaultKind::InclLen {
                    got: record.incl_len,
                    limit,
                },
            }));
        }
        self.write_parts([&bytes, captured])
    }

    /// Source bytes that no frame holds yet.
    #[must_use]
    pub fn pending_bytes(&self) -> u64 {
        self.pending.len() as u64
    }
}
