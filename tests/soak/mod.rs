//! The soak: capture machines and analysts at work on one mount for as long as one likes.

pub mod daemon;
pub mod field;
pub mod latency;
pub mod reader;
pub mod writer;
