//! Which frames this reader decodes at all, by what their headers say.

use crate::capture::Engine;
use crate::format::table::Span;
use crate::format::{Fault, FaultKind, FrameName};

/// Physical bytes that a frame may take beyond its source bytes: block headers of a writer that flushes often.
const PADDING_MOST: u64 = 64 * 1024;

/// Whether the frame at `span` is one that this reader decodes: neither too large nor mostly padding.
pub(super) fn check_limit(engine: &Engine, span: &Span, frame: FrameName) -> Result<(), Fault> {
    let limit = engine.max_frame_size;
    let kind = if span.src_len > limit {
        FaultKind::OverLimit {
            declared: span.src_len,
            limit,
        }
    } else if span.phys_len > stored_most(span.src_len) {
        padded(span)
    } else {
        return Ok(());
    };
    Err(Fault {
        kind,
        frame,
        at: span.phys_start,
    })
}

/// The most physical bytes that a frame of `src_len` source bytes takes without being padded: zstd's own bound
/// (`ZSTD_COMPRESSBOUND`), and room for a writer that flushes often.
fn stored_most(src_len: u64) -> u64 {
    src_len + src_len / 64 + PADDING_MOST
}

pub(super) fn padded(span: &Span) -> FaultKind {
    FaultKind::Padded {
        got: span.phys_len,
        most: stored_most(span.src_len),
    }
}
