//! pcapzst: compressed and still growing packet captures, mounted as ordinary `.pcap` files.
//!
//! Four floors; each uses itself and what is below, never above (docs/ARCHITECTURE.md):
//!
//! - [`fuse`] and [`cli`]: the rim. They translate.
//! - [`tree`]: names, inodes, handles, attributes, errno.
//! - [`capture`]: one capture on disk: reads at source offsets, cache, growth, writer.
//! - [`format`](mod@format): bytes in, facts out.

// Not for the tests, whose failed steps are to panic. A site that cannot fail says why, in an `expect` of its own.
#![warn(
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::panic,
    clippy::unreachable
)]

pub mod capi;
pub mod capture;
pub mod cli;
pub mod format;
pub mod fuse;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod lane;
mod plain;
pub mod sink;
mod sys;
pub mod tree;
