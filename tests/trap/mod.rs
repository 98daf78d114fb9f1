//! The trials.

mod asking;
mod container;
mod crowd;
mod frames;
mod limits;
mod listing;
mod map;
mod names;
mod pcaps;
