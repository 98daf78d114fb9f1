//! Global headers and records of any bytes, and the frames that a writer cuts them into.

use super::Dice;
use crate::format::pcap::{GlobalHeader, LengthRule, RECORD_HEADER_LEN, Record, RecordFaultKind};
use crate::format::split::Splitter;
use crate::format::{FileId, SourceOffset};

/// A record as a plain loop finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NaiveRecord {
    /// Source offset of its header.
    pub at: usize,
    /// Time and lengths.
    pub record: Record,
}

/// What a plain loop makes of a pcap.
#[derive(Clone, Debug, Default)]
pub struct Naive {
    /// Whole records, by the rules of pcap files (libpcap's sf-pcap.c).
    pub records: Vec<NaiveRecord>,
    /// Source offset behind the last of them.
    pub end: usize,
    /// Source offset of a record that is too long, if one is there.
    pub too_long: Option<usize>,
}

/// The records of `bytes`, a pcap, no longer than `limit`; `None` if it is no pcap.
#[must_use]
pub fn naive_records(bytes: &[u8], limit: impl Fn(u32, u32) -> u32) -> Option<Naive> {
    let header = bytes.get(..24)?;
    let (is_big, unit) = match header[..4] {
        [0xD4, 0xC3, 0xB2, 0xA1] => (false, 1000),
        [0xA1, 0xB2, 0xC3, 0xD4] => (true, 1000),
        [0x4D, 0x3C, 0xB2, 0xA1] => (false, 1),
        [0xA1, 0xB2, 0x3C, 0x4D] => (true, 1),
        _ => return None,
    };
    let number = |bytes: &[u8]| {
        let add = |sum: u32, byte: &u8| sum << 8 | u32::from(*byte);
        if is_big {
            bytes.iter().fold(0, add)
        } else {
            bytes.iter().rev().fold(0, add)
        }
    };
    let version = (number(&header[4..6]), number(&header[6..8]));
    let limit = limit(number(&header[16..20]), number(&header[20..24]));
    let mut naive = Naive {
        end: 24,
        ..Naive::default()
    };
    while let Some(head) = bytes.get(naive.end..naive.end + RECORD_HEADER_LEN) {
        let word = |place: usize| number(&head[4 * place..4 * place + 4]);
        let (first, second) = (word(2), word(3));
        let is_swapped = match version {
            (2, 0..3) | (543, _) => true,
            (2, 3) => first > second,
            _ => false,
        };
        let (incl_len, orig_len) = if is_swapped {
            (second, first)
        } else {
            (first, second)
        };
        if incl_len > limit {
            naive.too_long = Some(naive.end);
            break;
        }
        let end = naive.end + RECORD_HEADER_LEN + incl_len as usize;
        if end > bytes.len() {
            break;
        }
        let ts_ns = u64::from(word(0)) * 1_000_000_000 + u64::from(word(1)) * unit;
        naive.records.push(NaiveRecord {
            at: naive.end,
            record: Record {
                ts_ns,
                incl_len,
                orig_len,
            },
        });
        naive.end = end;
    }
    Some(naive)
}

/// The most captured bytes of a record in a marked file (format document, section 9).
fn marked_limit(snaplen: u32, _: u32) -> u32 {
    if snaplen == 0 {
        262_144
    } else {
        snaplen.min(262_144)
    }
}

/// The same in a raw file: libpcap's `max_snaplen_for_dlt`.
pub(crate) fn libpcap_limit(_: u32, network: u32) -> u32 {
    match network % 65_536 {
        231 | 249 => 134_217_728,
        279 => 8_388_608,
        _ => 262_144,
    }
}

/// A pcap of any bytes: headers come back from what is written of them, records are those of a plain loop, and the frames that a
/// writer cuts are whole records, as many as the target takes, however the bytes arrive.
pub fn records(bytes: &[u8]) {
    let Some(head) = bytes.first_chunk::<24>() else {
        return;
    };
    let naive = naive_records(bytes, marked_limit);
    let header = match (GlobalHeader::parse(head), &naive) {
        (Ok(header), Some(_)) => header,
        (Err(magic), None) => {
            assert_eq!(magic, head[..4]);
            let id = FileId::new(head, &[7; RECORD_HEADER_LEN]);
            assert!(id.is_provisional(), "the id of what is no pcap");
            return;
        }
        (parsed, _) => panic!("a plain look says otherwise than {parsed:?}"),
    };
    assert_eq!(header.to_bytes(), *head, "a header as it was written");
    assert_eq!(header.link_type(), header.network % 65_536);
    for (rule, limit) in [
        (LengthRule::Marked, naive),
        (LengthRule::Libpcap, naive_records(bytes, libpcap_limit)),
    ] {
        check_whole(&header, bytes, rule, &limit.expect("a pcap"));
    }
    if let Some(first) = bytes[24..].first_chunk() {
        let id = FileId::new(head, first);
        let summed = crc32fast::hash(&bytes[..40]);
        assert_eq!(
            (id.header_crc32, id.first_packet_ts),
            (summed, header.record(first).ts_ns)
        );
    }
    check_split(&header, bytes);
}

fn check_whole(header: &GlobalHeader, bytes: &[u8], rule: LengthRule, naive: &Naive) {
    let body = &bytes[24..];
    match (
        header.whole_records(body, SourceOffset::new(24), rule),
        naive.too_long,
    ) {
        (Ok(whole), None) => {
            assert_eq!(whole.len + 24, naive.end);
            assert_eq!(whole.count, naive.records.len() as u64);
        }
        (Err(fault), Some(at)) => {
            assert_eq!(fault.at.as_u64(), at as u64);
            let limit = header.incl_len_limit(rule);
            assert!(matches!(fault.kind, RecordFaultKind::InclLen { got, .. } if got > limit));
        }
        (got, wanted) => panic!("{rule:?}: {got:?}, a plain loop: {wanted:?}"),
    }
    for found in &naive.records {
        let stored: &[u8; RECORD_HEADER_LEN] = bytes[found.at..].first_chunk().expect("whole");
        let record = header.record(stored);
        assert_eq!(record, found.record);
        if record.ts_ns <= GlobalHeader::TS_NS_MOST {
            let written = header.record_to_bytes(&record);
            assert_eq!(
                header.record(&written),
                record,
                "a record as it was written"
            );
        }
    }
}

fn check_split(header: &GlobalHeader, bytes: &[u8]) {
    let mut dice = Dice::of(bytes);
    let target = [1, 40, 100, 1000, 262_144][dice.below(5)];
    let whole = cut(header, bytes, target, &[bytes.len()]);
    let pieces = dice.growth(bytes.len());
    assert_eq!(
        cut(header, bytes, target, &pieces),
        whole,
        "in pieces, at target {target}"
    );
    let naive = naive_records(bytes, marked_limit).expect("a pcap");
    assert_eq!(whole.fault, naive.too_long);
    if whole.fault.is_none() {
        assert_eq!(
            whole.frames.last().copied().unwrap_or(24),
            naive.end,
            "all whole records"
        );
    }
    let is_boundary =
        |at: &usize| *at == naive.end || naive.records.iter().any(|record| record.at == *at);
    assert!(
        whole.frames.iter().all(is_boundary),
        "{:?} at target {target}",
        whole.frames
    );
    let starts = [24].into_iter().chain(whole.frames.iter().copied());
    for (start, end) in starts.zip(whole.frames.iter().copied()) {
        let records = naive
            .records
            .iter()
            .filter(|record| (start..end).contains(&record.at));
        assert!(
            end > start && (end - start <= target || records.count() == 1),
            "a frame at its target"
        );
    }
}

/// What a splitter makes of a pcap.
#[derive(Debug, PartialEq, Eq)]
struct Cut {
    /// Source offsets behind each frame; the last one is what a flush at the end writes.
    frames: Vec<usize>,
    /// Source offset of a record that is refused.
    fault: Option<usize>,
}

fn cut(header: &GlobalHeader, bytes: &[u8], target: usize, lengths: &[usize]) -> Cut {
    let mut splitter = Splitter::new(*header, SourceOffset::new(24), target);
    let mut made = Cut {
        frames: Vec::new(),
        fault: None,
    };
    let mut start = 24;
    for length in lengths.iter().filter(|length| **length > 24) {
        loop {
            match splitter.cut(&bytes[start..*length]) {
                Ok(Some(len)) => {
                    assert_eq!(splitter.whole(), len);
                    splitter.commit();
                    start += len;
                    made.frames.push(start);
                }
                Ok(None) => break,
                Err(fault) => {
                    made.fault = usize::try_from(fault.at.as_u64()).ok();
                    return made;
                }
            }
        }
    }
    if splitter.whole() > 0 {
        made.frames.push(start + splitter.whole());
    }
    made
}
