//! What `inspect` and `verify` find, as data: how good a capture is, and every fault in it.

use super::error::Error;
use super::source::{Facts, Form, Source, State};
use crate::format::pcap::{
    GLOBAL_HEADER_LEN, GlobalHeader, LengthRule, RecordFault, RecordFaultKind,
};
use crate::format::table::Span;
use crate::format::{Fault, FaultKind, FrameName, PhysicalOffset, SourceOffset};

/// Faults reported of one file; a file may have as many as frames.
const FAULTS_MOST: usize = 100;
/// Source bytes of a raw capture looked at in one step.
const RAW_STEP: usize = 1024 * 1024;

/// How good a capture is, worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// Whole and well.
    Good,
    /// Torn or still growing; what is there is good.
    Incomplete,
    /// Not this format, an unknown version, or a raw file that is no pcap.
    Foreign,
    /// Malformed.
    Damaged,
}

impl Verdict {
    /// What `facts` of a capture in `form` say by themselves, its frames not decoded.
    #[must_use]
    pub fn of(facts: &Facts, form: Form) -> Self {
        let is_foreign = match &facts.error {
            Some(fault) => form == Form::Raw || fault.kind.is_foreign(),
            None => false,
        };
        match facts.state {
            _ if is_foreign => Self::Foreign,
            State::Refused | State::Damaged => Self::Damaged,
            State::Growing | State::Draining => Self::Incomplete,
            State::Complete => Self::Good,
        }
    }
}

/// What a whole check of a capture found.
#[derive(Clone, Debug)]
pub struct Verification {
    /// The facts after the check.
    pub facts: Facts,
    /// Whole records in the frames that decode.
    pub packets: u64,
    /// The faults, in source order; the first hundred.
    pub faults: Vec<Fault>,
    /// The verdict over all of it.
    pub verdict: Verdict,
}

/// Decodes every frame of `source` and follows every record.
///
/// `on_progress` is called with the source bytes checked so far.
///
/// # Errors
/// IO and memory; what is wrong with the content is in the answer.
pub fn verify(source: &Source, mut on_progress: impl FnMut(u64)) -> Result<Verification, Error> {
    let mut check = Check::default();
    match source.form() {
        Form::Zst => check.frames(source, &mut on_progress)?,
        Form::Raw => check.raw_records(source, &mut on_progress)?,
    }
    let facts = source.facts();
    let mut verdict = Verdict::of(&facts, source.form());
    for fault in &check.faults {
        verdict = verdict.max(match &fault.kind {
            // The end of a raw file in the middle of a record is a torn tail.
            FaultKind::Record(RecordFault {
                kind: RecordFaultKind::Cut { .. },
                ..
            }) => Verdict::Incomplete,
            _ => Verdict::Damaged,
        });
    }
    if let Some(error) = &facts.error
        && !check.faults.contains(error)
    {
        check.note(error.clone());
    }
    Ok(Verification {
        facts,
        packets: check.packets,
        faults: check.faults,
        verdict,
    })
}

#[derive(Default)]
struct Check {
    packets: u64,
    faults: Vec<Fault>,
}

impl Check {
    fn frames(&mut self, source: &Source, on_progress: &mut dyn FnMut(u64)) -> Result<(), Error> {
        let Some(header) = source.facts().header else {
            return Ok(());
        };
        for index in 0.. {
            let Some((span, decoded)) = source.frame(index) else {
                break;
            };
            let bytes = match decoded {
                Ok(bytes) => bytes,
                Err(Error::Fault(fault)) => {
                    self.note(fault);
                    continue;
                }
                Err(error) => return Err(error),
            };
            let records = check_frame(&header, index as u64, &span, &bytes);
            self.packets += records.packets;
            if let Some((_, fault)) = records.fault {
                self.note(fault);
            }
            on_progress(span.src_end().as_u64());
        }
        Ok(())
    }

    fn raw_records(
        &mut self,
        source: &Source,
        on_progress: &mut dyn FnMut(u64),
    ) -> Result<(), Error> {
        let facts = source.facts();
        let Some(header) = facts.header else {
            return Ok(());
        };
        let mut at = GLOBAL_HEADER_LEN;
        let mut step = RAW_STEP;
        while at < facts.size {
            let bytes = source.read(at, step, super::OnFault::Fail)?;
            let base = SourceOffset::new(at);
            let whole = match header.whole_records(&bytes, base, LengthRule::Libpcap) {
                Ok(whole) => whole,
                Err(fault) => {
                    self.note(raw_fault(fault));
                    break;
                }
            };
            self.packets += whole.count;
            at += whole.len as u64;
            if bytes.len()
                < step.min(usize::try_from(facts.size - base.as_u64()).unwrap_or(usize::MAX))
            {
                return Err(Error::Shrank);
            }
            if whole.len == 0 {
                let rest = usize::try_from(facts.size - at).unwrap_or(usize::MAX);
                if bytes.len() >= rest {
                    let cut = |got| RecordFaultKind::Cut { got };
                    let record = half_record(base, 0, bytes.len(), cut);
                    self.faults.extend(record.map(raw_fault));
                    break;
                }
                // One record is longer than the step; lengths are capped by libpcap's rule, so this ends.
                step = step.saturating_mul(2);
            }
            on_progress(at);
        }
        Ok(())
    }

    fn note(&mut self, fault: Fault) {
        if self.faults.len() < FAULTS_MOST {
            self.faults.push(fault);
        }
    }
}

/// The records of one data frame.
#[derive(Debug)]
pub(super) struct FrameRecords {
    /// Whole records; 0 where one is too long.
    packets: u64,
    /// The first record that breaks the rules, and the fault that this is of the frame.
    pub(super) fault: Option<(RecordFault, Fault)>,
}

/// Follows the records of data frame number `index` at `span`, whose source bytes are `bytes`: all of them whole, and as
/// long as a marked file may hold.
pub(super) fn check_frame(
    header: &GlobalHeader,
    index: u64,
    span: &Span,
    bytes: &[u8],
) -> FrameRecords {
    let (packets, record) = match header.whole_records(bytes, span.src_start, LengthRule::Marked) {
        Ok(whole) => (
            whole.count,
            half_record(span.src_start, whole.len, bytes.len(), |got| {
                RecordFaultKind::Split { got }
            }),
        ),
        Err(record) => (0, Some(record)),
    };
    let fault = record.map(|record| {
        let fault = Fault {
            kind: FaultKind::Record(record),
            frame: FrameName::Data(index),
            at: span.phys_start,
        };
        (record, fault)
    });
    FrameRecords { packets, fault }
}

/// What is behind the `whole` bytes of whole records among `len` from source offset `start` on, as `kind` calls it.
fn half_record(
    start: SourceOffset,
    whole: usize,
    len: usize,
    kind: impl FnOnce(u64) -> RecordFaultKind,
) -> Option<RecordFault> {
    (whole < len).then(|| RecordFault {
        at: SourceOffset::new(start.as_u64().saturating_add(whole as u64)),
        kind: kind((len - whole) as u64),
    })
}

/// In a raw file source and physical offset coincide, and there are no frames: the whole body counts as frame 0.
fn raw_fault(fault: RecordFault) -> Fault {
    Fault {
        kind: FaultKind::Record(fault),
        frame: FrameName::Data(0),
        at: PhysicalOffset::new(GLOBAL_HEADER_LEN),
    }
}
