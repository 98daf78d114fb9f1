//! Raw captures whose files the kernel reads by itself: the same bytes, in every order of opens, and nothing left behind.
//!
//! That it does is told by the counters: an open is counted as passed, and no read reaches the program. Needs root.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "a failed step of a test is a panic"
)]

mod common;
mod passed;
