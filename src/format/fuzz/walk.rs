//! The walk over any bytes, and over the same bytes as they arrive.

use std::mem;

use zstd::zstd_safe;

use super::{check_frame, content_size};
use crate::format::table::{OFFSET_LIMIT, Span, Table};
use crate::format::walk::{Step, Torn, Walk, Window};
use crate::format::{Fault, PhysicalOffset, SourceOffset};

/// A file: bytes, and zeros behind them.
#[derive(Clone, Copy)]
struct Sparse<'a> {
    bytes: &'a [u8],
    start: u64,
    len: u64,
}

impl Sparse<'_> {
    fn read(&self, at: PhysicalOffset, len: usize) -> Vec<u8> {
        let skip = usize::try_from(at.as_u64() - self.start).unwrap_or(usize::MAX);
        let there = self.bytes.get(skip..).unwrap_or_default();
        let mut read = there[..there.len().min(len)].to_vec();
        read.resize(len, 0);
        read
    }
}

/// Any bytes as a file: every frame that the walk finds is one for libzstd, they lie end to end within the file, and the table
/// finds each byte again. Once more with a hole of 2^40 bytes behind, and at the end of what offsets can say.
pub fn walk(bytes: &[u8]) {
    whole(bytes);
    let sparse = Sparse {
        bytes,
        start: 0,
        len: bytes.len() as u64 + (1 << 40),
    };
    bounded(Walk::new(), &sparse);
    for (physical, source) in [
        (1, 1 << 20),
        (bytes.len() as u64 / 2, 1),
        (bytes.len() as u64 + 1, 3000),
    ] {
        let start = OFFSET_LIMIT - 1 - physical.min(OFFSET_LIMIT - 1);
        let mut walk = Walk::new();
        walk.rewind(
            PhysicalOffset::new(start),
            SourceOffset::new(OFFSET_LIMIT - 1 - source),
            7,
        );
        let far = Sparse {
            bytes,
            start,
            len: start + bytes.len() as u64,
        };
        bounded(walk, &far);
    }
}

fn whole(bytes: &[u8]) {
    let window = Window {
        at: PhysicalOffset::ZERO,
        bytes,
    };
    let len = bytes.len() as u64;
    let mut walk = Walk::new();
    let mut table = Table::new(SourceOffset::new(24));
    let mut spans = Vec::new();
    loop {
        let (at, frontier, frames) = (walk.position(), walk.frontier(), walk.frames());
        let step = walk.step(len, window);
        let passed = walk.position().checked_since(at).expect("never backwards");
        match step {
            Ok(Step::Need { .. }) => panic!("the window holds the whole file"),
            Ok(Step::Skipped) => {
                assert_eq!((walk.frontier(), walk.frames()), (frontier, frames));
                check_passed(bytes, at, passed, 0);
            }
            Ok(Step::HeaderFrame(span)) => {
                assert_eq!((span.src_start.as_u64(), span.src_len, frames), (0, 24, 0));
                check_span(&span, &walk, (at, frontier), passed);
                check_passed(bytes, at, passed, 24);
            }
            Ok(Step::DataFrame(span)) => {
                assert!(span.src_len > 0 && walk.frames() == frames + 1);
                check_span(&span, &walk, (at, frontier), passed);
                check_passed(bytes, at, passed, span.src_len);
                table.append(&span);
                spans.push(span);
            }
            Ok(end @ (Step::Torn(_) | Step::End)) => {
                let rest = len - at.as_u64();
                assert_eq!((passed, end == Step::End), (0, rest == 0));
                if end == Step::Torn(Torn::Zeros) && rest < 4 {
                    let tail = &bytes[bytes.len() - usize::try_from(rest).expect("less than 4")..];
                    assert!(tail.iter().all(|byte| *byte == 0), "{tail:?} are no zeros");
                }
                break;
            }
            Err(fault) => {
                assert_eq!((fault.at, fault.frame, passed), (at, walk.frame_name(), 0));
                assert_eq!(walk.step(len, window), Err(fault), "a fault is met again");
                break;
            }
        }
    }
    check_table(&table, &spans);
}

fn check_span(span: &Span, walk: &Walk, before: (PhysicalOffset, SourceOffset), passed: u64) {
    assert_eq!(
        (span.phys_start, span.src_start),
        before,
        "frames lie end to end"
    );
    assert_eq!((span.phys_len, span.src_end()), (passed, walk.frontier()));
}

/// That libzstd finds a frame of `passed` bytes at `at` that declares `content` source bytes.
fn check_passed(bytes: &[u8], at: PhysicalOffset, passed: u64, content: u64) {
    let at = usize::try_from(at.as_u64()).expect("within the file");
    let rest = &bytes[at..];
    let len = zstd_safe::find_frame_compressed_size(rest).map(|len| len as u64);
    assert_eq!(len, Ok(passed), "at {at}");
    if rest.starts_with(&[0x28]) {
        assert_eq!(content_size(rest), Some(content), "at {at}");
        check_frame(
            &rest[..len.map_or(0, |_| usize::try_from(passed).unwrap_or(0))],
            content,
        );
    } else {
        assert_eq!(content, 0, "a skippable frame carries nothing");
    }
}

fn check_table(table: &Table, spans: &[Span]) {
    assert!(
        table.spans().eq(spans.iter().copied()),
        "the table gives what was put in"
    );
    for (index, span) in spans.iter().enumerate() {
        for source in [span.src_start.as_u64(), span.src_end().as_u64() - 1] {
            assert_eq!(table.find(SourceOffset::new(source)), Some((index, *span)));
        }
    }
    assert_eq!(
        (table.find(table.end()), table.find(SourceOffset::new(23))),
        (None, None)
    );
    if let Some(span) = spans.last() {
        let mut cut = table.clone();
        let end = span.phys_start.as_u64() + span.phys_len;
        let before = cut.cut_back(PhysicalOffset::new(end - 1));
        assert_eq!((cut.len(), cut.end()), (spans.len() - 1, span.src_start));
        assert!(before.is_none_or(|before| before <= span.phys_start));
    }
}

/// That a walk over `file` comes to an end by few and small reads, all within the file, and never passes the limit of offsets.
fn bounded(mut walk: Walk, file: &Sparse<'_>) {
    // Each block takes three bytes; a hole is told after a thousand empty ones. One read each, and one more each frame.
    let most = file.bytes.len() + 4096;
    let (mut at, mut read) = (PhysicalOffset::new(file.start), Vec::new());
    for _ in 0..most {
        let step = walk.step(file.len, Window { at, bytes: &read });
        assert!(walk.position().as_u64() < OFFSET_LIMIT && walk.frontier().as_u64() < OFFSET_LIMIT);
        match step {
            Ok(Step::Need { at: wanted, len }) => {
                assert!(len > 0 && len <= 64 && wanted.as_u64() + len as u64 <= file.len);
                (at, read) = (wanted, file.read(wanted, len));
            }
            Ok(Step::Skipped | Step::HeaderFrame(_) | Step::DataFrame(_)) => {
                assert!(
                    walk.position().as_u64() <= file.len,
                    "a frame within the file"
                );
            }
            Ok(Step::Torn(_) | Step::End) | Err(_) => return,
        }
    }
    panic!("{most} reads and steps are not enough");
}

/// A walk as far as it has come: its steps, and how it ended.
#[derive(Clone, Debug, Default)]
pub struct Grown {
    /// Frames passed.
    pub steps: Vec<Step>,
    /// The fault, or `None` for the end or a torn one.
    pub fault: Option<Fault>,
    /// How the bytes behind the last frame look.
    pub torn: Option<Torn>,
}

/// All further steps of `walk` over `bytes`, of which each look shows `window` bytes.
pub fn steps(walk: &mut Walk, bytes: &[u8], window: usize, grown: &mut Grown) {
    let mut seen = 0..0;
    (grown.fault, grown.torn) = (None, None);
    loop {
        let step = walk.step(
            bytes.len() as u64,
            Window {
                at: PhysicalOffset::new(seen.start as u64),
                bytes: &bytes[seen.clone()],
            },
        );
        match step {
            Ok(Step::Need { at, len }) => {
                let at = usize::try_from(at.as_u64()).expect("within the file");
                assert!(
                    at + len <= bytes.len() && len <= 64,
                    "a small read within the file"
                );
                seen = at..(at + window.max(len)).min(bytes.len());
            }
            Ok(Step::End) => return,
            Ok(Step::Torn(torn)) => {
                grown.torn = Some(torn);
                return;
            }
            Ok(step) => grown.steps.push(step),
            Err(fault) => {
                grown.fault = Some(fault);
                return;
            }
        }
    }
}

/// That two faults, or none, are the same: where, and of which kind. How many bytes of a wrong magic were there may differ.
pub fn assert_same_end(left: Option<&Fault>, right: Option<&Fault>, what: &str) {
    let place = |fault: Option<&Fault>| {
        fault.map(|fault| (fault.at, fault.frame, mem::discriminant(&fault.kind)))
    };
    assert_eq!(place(left), place(right), "{what}: {left:?}, {right:?}");
}
