//! SOURCE is only ever read: what a real daemon, the commands and the C library ask of the kernel, as strace sees it, and
//! a source that cannot be written to at all.
#![allow(
    unsafe_code,
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "C functions are called; a failed step of a test is a panic"
)]

mod common;
mod odd;
mod untouched;
