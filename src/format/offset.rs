//! Offsets in the two coordinate systems of a compressed capture, as types that do not mix.
//!
//! A *source offset* counts bytes of the uncompressed pcap; a *physical offset* counts bytes of the file on disk
//! (format document, section 4). Arithmetic is checked: both come from files, and files lie.

use std::fmt;

macro_rules! offset {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u64);

        impl $name {
            /// The first byte.
            pub const ZERO: Self = Self(0);

            /// The offset of byte number `bytes`, counted from 0.
            #[must_use]
            pub const fn new(bytes: u64) -> Self {
                Self(bytes)
            }

            /// The plain number, for system calls, replies and text.
            #[must_use]
            pub const fn as_u64(self) -> u64 {
                self.0
            }

            /// The offset `bytes` further on; `None` past 2^64.
            #[must_use]
            pub fn checked_add(self, bytes: u64) -> Option<Self> {
                self.0.checked_add(bytes).map(Self)
            }

            /// Bytes from `earlier` (inclusive) to `self` (exclusive); `None` if `earlier` lies behind `self`.
            #[must_use]
            pub fn checked_since(self, earlier: Self) -> Option<u64> {
                self.0.checked_sub(earlier.0)
            }

            /// Bytes from `earlier` to `self`, 0 if `earlier` lies behind `self`.
            #[must_use]
            pub fn since(self, earlier: Self) -> u64 {
                self.0.saturating_sub(earlier.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

offset! {
    /// A byte offset into the uncompressed pcap: the global header is `[0, 24)`, the first record starts at 24.
    SourceOffset
}

offset! {
    /// A byte offset into the file on disk: the marker frame starts at 0.
    PhysicalOffset
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_past_the_ends_is_none_not_wrapped() {
        assert_eq!(SourceOffset::new(u64::MAX).checked_add(1), None);
        assert_eq!(
            SourceOffset::new(3).checked_since(SourceOffset::new(4)),
            None
        );
        assert_eq!(PhysicalOffset::new(3).since(PhysicalOffset::new(4)), 0);
        assert_eq!(
            PhysicalOffset::new(9).checked_since(PhysicalOffset::new(4)),
            Some(5)
        );
    }
}
