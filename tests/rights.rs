//! Who may read what: users other than the one who mounts, and mounts by users other than root.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "a failed step of a test is a panic"
)]

mod common;
mod right;
