//! The streaming `.pcap.zst` format: bytes in, facts out. No files, no clock, no threads, no log.
//!
//! A file of this format is a marker frame, a header frame that holds the 24-octet pcap global header, and data frames
//! that each hold whole pcap records. docs/FORMAT.md says when a file is valid; the modules here each hold one rule of it.

mod compose;
pub mod error;
pub mod file_id;
pub mod frame;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub mod marker;
pub mod offset;
pub mod pcap;
pub mod split;
pub mod table;
pub mod walk;

pub use error::{Fault, FaultKind, FrameName};
pub use file_id::FileId;
pub use offset::{PhysicalOffset, SourceOffset};
