//! The rim towards the kernel: translates FUSE requests to calls on the tree, and mounts it. Decides nothing.

pub mod adapter;
mod folder;
mod index_dir;
mod loops;
pub mod mountinfo;
pub mod mounting;
pub mod options;
mod passthrough;
mod reply;
pub mod session;
mod teller;
mod vectored;
