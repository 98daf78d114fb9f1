//! The racing reader: threads that read a file by every means there is, while a writer makes it grow.
//!
//! Each byte is compared with the truth. A look is wrong when it shows a byte that the file does not have, more than was
//! ever there, or half a record, and late when it misses what was there before it began.

pub mod count;
pub mod look;
pub mod pace;
pub mod race;
pub mod trap;
