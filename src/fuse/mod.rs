//! The rim towards the kernel: translates FUSE requests to calls on the tree, and mounts it. Decides nothing.

pub mod adapter;
pub mod background;
mod ending;
mod folder;
mod index_dir;
mod log_file;
mod loops;
mod manager;
pub mod mountinfo;
pub mod mounting;
pub mod options;
mod passthrough;
mod paths;
mod reply;
pub mod session;
mod teller;
mod vectored;
