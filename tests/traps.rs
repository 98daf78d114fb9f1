//! Traps of the table at the end of docs/SEMANTICS.md that have no better place: each test is the trial of one or two.
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
mod trap;
