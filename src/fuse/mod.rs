//! The rim towards the kernel: translates FUSE requests to calls on the tree, and mounts it. Decides nothing.

pub mod adapter;
pub mod mountinfo;
pub mod mounting;
pub mod options;
mod reply;
pub mod session;
mod teller;
