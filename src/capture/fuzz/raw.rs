//! A raw capture that grows.

use super::{Growing, read};
use crate::capture::{Form, Progress};
use crate::format::fuzz::{Dice, NaiveRecord, libpcap_limit, naive_records};

/// A raw capture of any bytes as it grows: at each length it shows what a plain loop finds whole there, and no more.
pub fn raw(bytes: &[u8]) {
    let file = Growing::none(bytes);
    let growing = file.open(Form::Raw, Progress::Partial);
    let naive = naive_records(bytes, libpcap_limit);
    let records: Vec<_> = naive.iter().flat_map(|naive| &naive.records).collect();
    // A header of zeros is what a writer has preallocated.
    let is_zeros = |record: &&NaiveRecord| {
        bytes[record.at..record.at + 16]
            .iter()
            .all(|byte| *byte == 0)
    };
    let ends: Vec<_> = records
        .iter()
        .take_while(|record| !is_zeros(record))
        .map(|record| record.at + 16 + record.record.incl_len as usize)
        .collect();
    for length in Dice::of(bytes).growth(bytes.len()) {
        file.grow(length);
        growing.refresh().expect("memory does not fail");
        let header = if naive.is_some() && length >= 24 {
            24
        } else {
            0
        };
        let whole = ends.iter().take_while(|end| **end <= length).last();
        let wanted = whole.copied().unwrap_or(header);
        let facts = growing.facts();
        assert_eq!(
            (facts.size, growing.reachable()),
            (wanted as u64, wanted as u64),
            "{length} bytes are there"
        );
        assert_eq!(facts.file_id.is_provisional(), whole.is_none());
        assert!(!facts.is_replaced, "it only grew");
    }
    let size = usize::try_from(growing.size()).expect("in memory");
    assert!(
        read(&growing, 0, bytes.len() + 1) == bytes[..size],
        "other bytes than the file's"
    );
    let whole = Growing::whole(bytes).open(Form::Raw, Progress::Final);
    assert!(
        read(&whole, 0, bytes.len() + 1) == bytes,
        "a final one is passed through"
    );
}
