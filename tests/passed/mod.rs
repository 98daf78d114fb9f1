//! The tests, by what they are about.

mod bytes;
mod change;
mod end;
mod order;
mod shown;
