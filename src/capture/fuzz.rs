//! Fuzz targets of this floor: captures of any bytes, in memory and on disk, as they grow, and as they were written.
//!
//! What does not hold is a panic, as in the floor below.
#![allow(
    clippy::missing_panics_doc,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::panic,
    clippy::unreachable,
    reason = "a property that does not hold is a panic"
)]

mod chunking;
mod frame;
mod raw;
mod round_trip;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

pub use super::index::fuzz::index;
pub use chunking::chunking;
pub use frame::frame;
pub use raw::raw;
pub use round_trip::round_trip;

use super::read_at::ReadAt;
use super::stamp::Stamp;
use super::{Engine, Form, OnFault, Progress, Source};
use crate::format::marker;
use crate::format::pcap::{GlobalHeader, Magic, Record};

/// Of decoded frames, and of one: small, so that limits are met.
pub(in crate::capture) const CACHE_SIZE: u64 = 4 << 20;
pub(in crate::capture) const FRAME_MOST: u64 = 1 << 20;

fn engine() -> Arc<Engine> {
    Arc::new(Engine::new(CACHE_SIZE, FRAME_MOST).without_threads())
}

/// A file in memory of which a part is there.
#[derive(Debug)]
pub(in crate::capture) struct Growing {
    bytes: Vec<u8>,
    shown: AtomicUsize,
    stamp: Option<Stamp>,
}

impl Growing {
    /// All of `bytes`.
    pub(in crate::capture) fn whole(bytes: &[u8]) -> Arc<Self> {
        let file = Self::none(bytes);
        file.grow(bytes.len());
        file
    }

    /// All of `bytes`, in a file with `stamp`.
    pub(in crate::capture) fn stamped(bytes: &[u8], stamp: Stamp) -> Arc<Self> {
        Arc::new(Self {
            bytes: bytes.to_vec(),
            shown: AtomicUsize::new(bytes.len()),
            stamp: Some(stamp),
        })
    }

    /// None of `bytes` yet.
    fn none(bytes: &[u8]) -> Arc<Self> {
        Arc::new(Self {
            bytes: bytes.to_vec(),
            shown: AtomicUsize::new(0),
            stamp: None,
        })
    }

    fn grow(&self, len: usize) {
        self.shown.store(len, Ordering::Relaxed);
    }

    fn shown(&self) -> &[u8] {
        &self.bytes[..self.shown.load(Ordering::Relaxed)]
    }

    pub(in crate::capture) fn open(self: &Arc<Self>, form: Form, progress: Progress) -> Source {
        let file = Box::new(Arc::clone(self));
        Source::open(engine(), file, form, progress).expect("memory does not fail")
    }
}

impl ReadAt for Growing {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.shown().read_at(buf, offset)
    }

    fn len(&self) -> io::Result<u64> {
        ReadAt::len(self.shown())
    }

    fn stamp(&self) -> io::Result<Option<Stamp>> {
        Ok(self.stamp)
    }
}

/// What can be read of `source` from `offset` on, at most `len` bytes, up to the first fault.
pub(in crate::capture) fn read(source: &Source, offset: u64, len: usize) -> Vec<u8> {
    let mut out = Vec::new();
    while out.len() < len {
        let at = offset + out.len() as u64;
        // A fault at the first byte ends it; one behind gives what is before.
        match source.read(at, len - out.len(), OnFault::ServeGood) {
            Ok(bytes) if !bytes.is_empty() => out.extend_from_slice(&bytes),
            _ => break,
        }
    }
    out
}

/// A small capture, and its source bytes: a header, and five frames of whole records.
pub(in crate::capture) fn sample() -> (Vec<u8>, Vec<u8>) {
    let header = GlobalHeader {
        magic: Magic::LeUs,
        version: (2, 4),
        snaplen: 0,
        network: 1,
        zone: [0; 8],
    };
    let mut source = header.to_bytes().to_vec();
    let mut physical = marker::FRAME.to_vec();
    physical.extend(compress(&source));
    for frame in 0..5 {
        let start = source.len();
        for number in 0..=frame {
            let record = Record {
                ts_ns: 1_700_000_000_000_000_000 + u64::from(number) * 1000,
                incl_len: 3 + number,
                orig_len: 60,
            };
            source.extend(header.record_to_bytes(&record));
            source.extend((0..record.incl_len).map(|byte| byte.to_le_bytes()[0] ^ 0x5A));
        }
        physical.extend(compress(&source[start..]));
    }
    (physical, source)
}

/// A frame as a writer makes it.
fn compress(source: &[u8]) -> Vec<u8> {
    let mut compressor = zstd::bulk::Compressor::new(2).expect("level 2");
    compressor.include_checksum(true).expect("a checksum");
    compressor.compress(source).expect("a small frame")
}

/// A folder of this call's own, removed at its end.
#[derive(Debug)]
pub(in crate::capture) struct Folder(PathBuf);

impl Folder {
    pub(in crate::capture) fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let name = format!("pcapzst-fuzz-{}-{number}", std::process::id());
            let path = std::env::temp_dir().join(name);
            match std::fs::create_dir(&path) {
                // Of a program that was killed and had this number before.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                outcome => {
                    outcome.expect("a folder for temporary files");
                    return Self(path);
                }
            }
        }
    }

    pub(in crate::capture) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Behind a property that does not hold, too.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
