//! Whatever records a writer takes, in whatever pieces: what is read back is what was written.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use super::{Folder, Growing, engine};
use crate::capture::follow::{Follower, Next};
use crate::capture::live::Live;
use crate::capture::records::{NextPacket, Records};
use crate::capture::report::{Verdict, verify};
use crate::capture::writer::{Existing, Options, Writer, Written};
use crate::capture::{Form, OnFault, Progress, Source};
use crate::format::fuzz::{Dice, NaiveRecord, naive_records};
use crate::format::pcap::{GlobalHeader, Magic, Record};

/// Source bytes of one case, and one record more.
const SOURCE_MOST: usize = 64 * 1024;

/// What the input says to do.
struct Case {
    source: Vec<u8>,
    options: Options,
    /// Source offsets at which a piece ends, and what is done then.
    pieces: Vec<(usize, Then)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    GoOn,
    Flush,
    /// The writer is killed, and another one goes on with its file.
    Resume,
}

/// Records, options and pieces made of any bytes: the file that a writer makes of them is sound, holds the frames that it says, and
/// gives the same bytes at every range, and the same packets.
pub fn round_trip(bytes: &[u8]) {
    let case = Case::of(bytes);
    let folder = Folder::new();
    let out = folder.path().join("x.pcap.zst");
    let (written, lasts) = case.write(&out);
    let physical = fs::read(&out).expect("the file");
    assert_eq!(physical.len() as u64, written.physical_bytes);
    let whole = case.source.len() - lasts;
    assert_eq!(
        (written.source_bytes, written.cut_bytes),
        (whole as u64, lasts as u64)
    );
    let source = Growing::whole(&physical).open(Form::Zst, Progress::Final);
    let truth = &case.source[..whole];
    case.check_frames(&source, &written, truth);
    check_reads(&source, truth, &mut Dice::of(bytes));
    check_packets(&physical, truth);
}

impl Case {
    fn of(bytes: &[u8]) -> Self {
        let mut input = bytes.iter().copied();
        let mut next = || input.next().map_or(0, usize::from);
        let magic = [Magic::LeUs, Magic::BeUs, Magic::LeNs, Magic::BeNs][next() % 4];
        let version = [(2, 4), (2, 3), (2, 2), (543, 0)][next() % 4];
        let header = GlobalHeader {
            magic,
            version,
            snaplen: [0, 65_535, 262_144, u32::MAX][next() % 4],
            network: 1,
            zone: [0; 8],
        };
        let options = Options {
            level: [2, 1, -5, 9][next() % 4],
            frame_target: [262_144, 1, 40, 1000, 65_536][next() % 5],
            existing: Existing::Resume { appends: false },
        };
        let mut source = header.to_bytes().to_vec();
        let mut pieces = Vec::new();
        let mut dice = Dice::of(bytes);
        while let Some(kind) = input.next() {
            let (low, high) = (input.next().unwrap_or(0), input.next().unwrap_or(0));
            let captured = match kind % 16 {
                0..8 => u32::from(low),
                8..14 => u32::from(low) << 4 | u32::from(high),
                // The longest records that the format holds, and those that are not whole at the end.
                14 => 65_535 - u32::from(low),
                _ => 0,
            };
            let record = Record {
                ts_ns: (u64::from(kind) << 55) | (u64::from(high) * 1_000_000_007),
                incl_len: captured,
                orig_len: captured + u32::from(high),
            };
            source.extend(header.record_to_bytes(&record));
            match kind >> 6 {
                0 => source.resize(source.len() + captured as usize, low),
                _ => source.extend((0..captured).map(|_| dice.below(256).to_le_bytes()[0])),
            }
            let then = match kind >> 4 & 3 {
                0 => Then::Flush,
                1 if high % 8 == 0 => Then::Resume,
                _ => Then::GoOn,
            };
            // Within this record, or behind it.
            pieces.push((source.len().saturating_sub(usize::from(high) % 40), then));
            if source.len() > SOURCE_MOST {
                break;
            }
        }
        // A last record that is not whole.
        if bytes.len().is_multiple_of(3) && source.len() > 24 {
            source.truncate(source.len() - dice.below(15).min(source.len() - 24));
        }
        let len = source.len();
        let mut least = 0;
        for (end, _) in &mut pieces {
            least = (*end).clamp(least, len);
            *end = least;
        }
        pieces.push((len, Then::GoOn));
        Self {
            source,
            options,
            pieces,
        }
    }

    /// Writes the capture to `out`; what was written, and how many bytes of a half record are left out at the end.
    fn write(&self, out: &Path) -> (Written, usize) {
        let create = || Writer::create(out, self.options).expect("nobody else writes it");
        let mut writer = create();
        let mut from = 0;
        for (end, then) in &self.pieces {
            writer
                .write(&self.source[from..*end])
                .expect("sound records");
            from = *end;
            match then {
                Then::GoOn => {}
                Then::Flush => writer.flush().expect("a file in memory"),
                Then::Resume => {
                    let before = writer.written();
                    drop(writer);
                    writer = create();
                    let resumed = writer.written();
                    assert_eq!(
                        (resumed.source_bytes, resumed.physical_bytes, resumed.frames),
                        (before.source_bytes, before.physical_bytes, before.frames),
                        "what was written is gone on with"
                    );
                    // It is told all of it again.
                    writer
                        .write(&self.source[..from])
                        .expect("the same records");
                }
            }
        }
        let ends = self.records().last().map_or(24, end_of);
        let lasts = self.source.len() - ends;
        assert_eq!(writer.cut_record().is_some(), lasts > 0);
        (writer.finish().expect("a file in memory"), lasts)
    }

    fn records(&self) -> Vec<NaiveRecord> {
        let naive = naive_records(&self.source, |_, _| 262_144);
        naive.expect("a pcap").records
    }

    fn check_frames(&self, source: &Source, written: &Written, truth: &[u8]) {
        let facts = source.facts();
        assert_eq!(
            (facts.size, facts.frames, facts.torn_bytes),
            (truth.len() as u64, written.frames, 0)
        );
        let records = self.records();
        let mut starts = records.iter().map(|record| record.at);
        for (_, span) in (0..).map_while(|index| Some((index, source.span(index)?))) {
            let is_start = starts.any(|start| start as u64 == span.src_start.as_u64());
            assert!(is_start, "a frame that starts within a record");
            let within = |record: &&NaiveRecord| {
                (span.src_start.as_u64()..span.src_end().as_u64()).contains(&(record.at as u64))
            };
            assert!(
                span.src_len <= self.options.frame_target as u64
                    || records.iter().filter(within).count() == 1,
                "over its target"
            );
        }
        let verified = verify(source, |_| {}).expect("memory does not fail");
        assert_eq!(
            (verified.verdict, verified.faults.len()),
            (Verdict::Good, 0),
            "{:?}",
            verified.faults
        );
        assert_eq!(verified.packets, records.len() as u64);
    }
}

fn end_of(record: &NaiveRecord) -> usize {
    record.at + 16 + record.record.incl_len as usize
}

fn check_reads(source: &Source, truth: &[u8], dice: &mut Dice) {
    for round in 0..20 {
        let offset = if round == 0 {
            0
        } else {
            dice.below(truth.len() + 10)
        };
        let scale = dice.below(20);
        let len = if round == 0 {
            usize::MAX
        } else {
            dice.below(1 << scale)
        };
        let bytes = source
            .read(offset as u64, len, OnFault::Fail)
            .expect("a sound capture");
        let start = offset.min(truth.len());
        let end = start.saturating_add(len).min(truth.len());
        assert!(*bytes == truth[start..end], "{offset}+{len} differs");
    }
}

fn check_packets(physical: &[u8], truth: &[u8]) {
    let live =
        Live::in_memory(&engine(), Box::new(physical.to_vec())).expect("memory does not fail");
    let mut records = Records::new(Follower::new(Arc::new(live), 24));
    let naive = naive_records(truth, |_, _| 262_144).expect("a pcap");
    for wanted in naive.records {
        match records.take_next().expect("a sound capture") {
            NextPacket::Packet(packet) => {
                assert_eq!(
                    (packet.offset, packet.record),
                    (wanted.at as u64, wanted.record)
                );
                assert!(
                    packet.bytes == &truth[wanted.at + 16..end_of(&wanted)],
                    "another packet"
                );
            }
            NextPacket::Ending(ending) => panic!("{ending:?} before the packet at {}", wanted.at),
        }
    }
    let last = records.take_next().expect("a sound capture");
    assert!(
        matches!(last, NextPacket::Ending(Next::Complete)),
        "{last:?}"
    );
}
