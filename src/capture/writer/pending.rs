//! Source bytes that no frame holds yet.

use std::ops::Deref;

use crate::capture::error::Error;

/// Bytes that come in behind and are taken out in front.
#[derive(Default)]
pub(super) struct Pending {
    bytes: Vec<u8>,
    /// Bytes in front that were taken out already: the others are moved up only once these are as many, or a long backlog would
    /// be moved for each frame of it.
    gone: usize,
}

impl Pending {
    /// Takes in all `parts`, one after the other, or none.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub(super) fn add<const N: usize>(&mut self, parts: [&[u8]; N]) -> Result<(), Error> {
        let len = parts.iter().map(|part| part.len()).sum();
        self.bytes
            .try_reserve(len)
            .map_err(|_| Error::NoMemory(len as u64))?;
        for part in parts {
            self.bytes.extend_from_slice(part);
        }
        Ok(())
    }

    /// Takes out the first `len` bytes, or as many as there are.
    pub(super) fn take_out(&mut self, len: usize) {
        self.gone = self.gone.saturating_add(len).min(self.bytes.len());
        if self.gone >= self.bytes.len() / 2 {
            self.bytes.drain(..self.gone);
            self.gone = 0;
        }
    }

    pub(super) fn clear(&mut self) {
        self.take_out(usize::MAX);
    }
}

impl Deref for Pending {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes.get(self.gone..).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_out_in_front_is_gone_and_the_rest_stays_in_order() {
        let mut pending = Pending::default();
        let bytes: Vec<u8> = (0..=255).collect();
        pending.add([&bytes[..100], &bytes[100..]]).unwrap();
        for (taken, rest) in [(1, 1), (99, 100), (27, 127), (1, 128), (100, 228)] {
            pending.take_out(taken);
            assert_eq!(*pending, bytes[rest..]);
        }
        pending.add([&[7]]).unwrap();
        assert_eq!(*pending, [&bytes[228..], &[7]].concat());
        pending.take_out(1000);
        assert!(pending.is_empty());
        pending.add([&[8, 9]]).unwrap();
        pending.clear();
        assert!(pending.is_empty());
    }
}
