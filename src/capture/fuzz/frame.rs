//! One frame, decoded in one go and, by libzstd's other interface, in a stream.

use std::io::Read;

use super::FRAME_MOST;
use crate::capture::decode::Decoder;
use crate::capture::error::Error;
use crate::format::table::Span;
use crate::format::{FaultKind, FrameName, PhysicalOffset, SourceOffset, frame as headers};

/// A frame of any bytes: what [`crate::format::fuzz::frame`] holds against libzstd, then its decode against libzstd's stream.
pub fn frame(bytes: &[u8]) {
    crate::format::fuzz::frame(bytes);
    let Ok(Some(measured)) = headers::measure(bytes) else {
        return;
    };
    let (Ok(len), Ok(phys_len)) = (
        usize::try_from(measured.content_size),
        usize::try_from(measured.len),
    ) else {
        return;
    };
    let Some(stored) = bytes.get(..phys_len).filter(|_| len as u64 <= FRAME_MOST) else {
        return;
    };
    let span = Span {
        src_start: SourceOffset::new(24),
        src_len: measured.content_size,
        phys_start: PhysicalOffset::ZERO,
        phys_len: measured.len,
    };
    let decoder = Decoder::default();
    let mut out = vec![0; len];
    let outcome = decoder.decode_stored(stored, &span, FrameName::Data(0), &mut out);
    let prefix: Option<[u8; 16]> = decoder
        .prefix(&bytes.to_vec(), &span)
        .expect("memory does not fail");
    let streamed = stream(stored);
    match &outcome {
        Ok(()) => {
            if let Some(streamed) = streamed {
                assert!(streamed == out, "the stream gives other bytes");
            }
            if let Some(prefix) = prefix {
                assert!(out.starts_with(&prefix), "the first bytes are others");
            }
        }
        Err(Error::Fault(fault)) => {
            assert!(
                matches!(fault.kind, FaultKind::Undecodable { .. }),
                "{fault}"
            );
            assert!(
                streamed.is_none() || has_null_block(stored),
                "libzstd streams it: {fault}"
            );
        }
        Err(error) => panic!("{error}"),
    }
    // Of a frame that is not the one walked nothing is decoded.
    let other = Span {
        src_len: span.src_len + 1,
        ..span
    };
    out.push(0);
    let refused = decoder.decode_stored(stored, &other, FrameName::Data(0), &mut out);
    assert!(matches!(refused, Err(Error::Fault(fault)) if fault.kind.is_changed()));
}

/// Whether the whole frame `stored` has a compressed block of no bytes. It lacks the headers that such a block begins with (RFC
/// 8878, 3.1.1.3); libzstd's stream passes over it all the same.
fn has_null_block(stored: &[u8]) -> bool {
    const COMPRESSED: usize = 2;
    crate::format::fuzz::blocks(stored).contains(&(COMPRESSED, 0))
}

/// The bytes of `stored` by libzstd's stream; `None` if it refuses them, or they want a large window.
fn stream(stored: &[u8]) -> Option<Vec<u8>> {
    let mut decoder = zstd::stream::Decoder::with_buffer(stored).ok()?;
    decoder.window_log_max(20).ok()?;
    let mut out = Vec::new();
    let most = FRAME_MOST + 1;
    decoder
        .single_frame()
        .take(most)
        .read_to_end(&mut out)
        .ok()?;
    Some(out)
}
