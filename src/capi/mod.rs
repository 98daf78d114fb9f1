//! The C library: `capture/` behind `pcapzst.h`. Translates pointers and statuses, decides nothing.
//!
//! The header is made from these files by `tests/c_header.rs`, which fails when it is not what they export. No panic
//! passes: every function runs within `guard::call`. All unsafe code of the library is in this folder.
#![allow(
    unsafe_code,
    reason = "C callers hand over pointers; each block says what they promise"
)]
#![allow(
    clippy::missing_safety_doc,
    clippy::doc_markdown,
    reason = "these comments are the header's: its head tells what callers promise, and C has no backticks"
)]
#![allow(non_camel_case_types, reason = "C names")]
#![allow(
    clippy::enum_glob_use,
    reason = "C enumerators carry their prefix themselves"
)]

mod batch;
mod frames;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod guard;
mod open;
mod reader;
mod records;
mod status;
mod writer;

pub use batch::{PCAPZST_SLOT_NONE, PCAPZST_THREADS_AUTO, pcapzst_decode_frames};
pub use frames::{
    pcapzst_decode_frame, pcapzst_find_frame, pcapzst_frame_count, pcapzst_frame_info,
    pcapzst_frame_info_at, pcapzst_frame_info_range, pcapzst_read_prologue, pcapzst_read_stored,
};
pub use guard::pcapzst_last_error;
pub use open::{
    pcapzst_close, pcapzst_open, pcapzst_open_fd, pcapzst_open_memory, pcapzst_reader_options,
};
pub use reader::{
    pcapzst_get_info, pcapzst_info, pcapzst_magic, pcapzst_read, pcapzst_reader, pcapzst_refresh,
    pcapzst_state, pcapzst_wait,
};
pub use records::{
    pcapzst_next, pcapzst_packet, pcapzst_records, pcapzst_records_close, pcapzst_records_next,
    pcapzst_records_open,
};
pub use status::{pcapzst_status, pcapzst_status_message};
pub use writer::{
    PCAPZST_WRITER_REPLACE, PCAPZST_WRITER_RESUME, pcapzst_writer, pcapzst_writer_abandon,
    pcapzst_writer_add, pcapzst_writer_close, pcapzst_writer_create, pcapzst_writer_finish,
    pcapzst_writer_flush, pcapzst_writer_get_written, pcapzst_writer_header,
    pcapzst_writer_options, pcapzst_writer_write, pcapzst_written,
};

/// The version of this header. Raised by every change of it, additions included: compare for equality with what
/// pcapzst_abi_version() says, and call nothing else where they differ.
pub const PCAPZST_ABI_VERSION: u32 = 1;

/// The newest version of the file format that this header's library reads; at run time pcapzst_max_format_version().
pub const PCAPZST_FORMAT_VERSION_MAX: u32 = 1;

const _: () = assert!(
    PCAPZST_FORMAT_VERSION_MAX == crate::format::marker::VERSION as u32,
    "the header names the version that the reader knows"
);

/// The PCAPZST_ABI_VERSION that the library was built with.
#[unsafe(no_mangle)]
pub extern "C" fn pcapzst_abi_version() -> u32 {
    PCAPZST_ABI_VERSION
}

/// The newest version of the file format that this library reads and the one that it writes.
#[unsafe(no_mangle)]
pub extern "C" fn pcapzst_max_format_version() -> u32 {
    PCAPZST_FORMAT_VERSION_MAX
}
