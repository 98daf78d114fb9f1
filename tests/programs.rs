//! Programs that others made for other captures: analysers, backups and file servers find in a mount what they find in
//! ordinary files.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "a failed step of a test is a panic"
)]

#[path = "programs/backups.rs"]
mod backups;
mod common;
#[path = "programs/forms.rs"]
mod forms;
#[path = "programs/readers.rs"]
mod readers;
#[path = "programs/samba.rs"]
mod samba;
#[path = "programs/shares.rs"]
mod shares;
#[path = "programs/traffic.rs"]
mod traffic;
