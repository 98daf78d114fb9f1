//! Positioned reads: the one way in which a capture's bytes are reached.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;

use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use nix::sys::stat::fstat;

use super::medium::Medium;
use super::stamp::Stamp;

/// Something that is read at offsets, without a position of its own: a file or a slice.
pub trait ReadAt: Send + Sync {
    /// Reads up to `buf.len()` bytes at `offset`; the number read, 0 at the end. May read fewer than asked.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;

    /// What the bytes lie on that are not in memory.
    fn medium(&self) -> Medium {
        Medium::Solid
    }

    /// Takes a hint about the reads to come, and does not wait. Nothing but time depends on it.
    fn advise(&self, advice: Advice) {
        let _ = advice;
    }

    /// Bytes there are now. A file's answer changes while it is written.
    fn len(&self) -> io::Result<u64>;

    /// Whether there is no byte now.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// What tells this content from what a file holds before and after; `None` where nothing does.
    fn stamp(&self) -> io::Result<Option<Stamp>> {
        Ok(None)
    }
}

/// What reads are to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Small ones far apart: nothing but what is asked for is to be read.
    Random,
    /// Whatever: the system's own guess is as good as any.
    Normal,
    /// `len` bytes from `offset` on, soon.
    WillNeed {
        /// Offset of the first.
        offset: u64,
        /// How many.
        len: u64,
    },
}

impl ReadAt for File {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(self, buf, offset)
    }

    fn medium(&self) -> Medium {
        Medium::of(self)
    }

    fn advise(&self, advice: Advice) {
        let (offset, len, advice) = match advice {
            Advice::Random => (0, 0, PosixFadviseAdvice::POSIX_FADV_RANDOM),
            Advice::Normal => (0, 0, PosixFadviseAdvice::POSIX_FADV_NORMAL),
            Advice::WillNeed { offset, len } => {
                let (Ok(offset), Ok(len)) = (offset.try_into(), len.try_into()) else {
                    return;
                };
                (offset, len, PosixFadviseAdvice::POSIX_FADV_WILLNEED)
            }
        };
        if let Err(error) = posix_fadvise(self, offset, len, advice) {
            log::debug!("posix_fadvise: {error}");
        }
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn stamp(&self) -> io::Result<Option<Stamp>> {
        Ok(Some(Stamp::of(&fstat(self)?)))
    }
}

impl ReadAt for [u8] {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut rest = usize::try_from(offset)
            .ok()
            .and_then(|start| self.get(start..))
            .unwrap_or_default();
        rest.read(buf)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(<[u8]>::len(self) as u64)
    }
}

impl ReadAt for Vec<u8> {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        ReadAt::read_at(self.as_slice(), buf, offset)
    }

    fn len(&self) -> io::Result<u64> {
        ReadAt::len(self.as_slice())
    }
}

impl<R: ReadAt + ?Sized> ReadAt for std::sync::Arc<R> {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        (**self).read_at(buf, offset)
    }

    fn medium(&self) -> Medium {
        (**self).medium()
    }

    fn advise(&self, advice: Advice) {
        (**self).advise(advice);
    }

    fn len(&self) -> io::Result<u64> {
        (**self).len()
    }

    fn stamp(&self) -> io::Result<Option<Stamp>> {
        (**self).stamp()
    }
}

/// Reads in a row that give nothing though the file's length says that there is more, before that is an error.
const EMPTY_READS_MOST: u32 = 4;

/// Fills `buf` from `offset` on; the number of bytes read, fewer than `buf.len()` only where the file ends.
///
/// Short reads are continued and interrupted ones repeated. Where a read gives nothing, the file is asked for its length: it
/// may have grown, or been cut off and written again meanwhile, and an end that is none would pass for damage, or for all there is.
///
/// # Errors
/// The disk's; `UnexpectedEof` where a file keeps giving nothing before its end.
pub fn read_full(file: &dyn ReadAt, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    let mut empty = 0;
    while let Some(rest) = buf.get_mut(done..).filter(|rest| !rest.is_empty()) {
        let at = offset
            .checked_add(done as u64)
            .ok_or(io::ErrorKind::InvalidInput)?;
        match file.read_at(rest, at) {
            Ok(0) if file.len()? <= at => break,
            Ok(0) if empty == EMPTY_READS_MOST => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(0) => empty += 1,
            Ok(len) => {
                done += len;
                // It goes on: what grows while it is read may come to its end any number of times.
                empty = 0;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// As [`read_full`]; the part of `buf` that was filled.
pub fn read_part<'a>(file: &dyn ReadAt, buf: &'a mut [u8], offset: u64) -> io::Result<&'a [u8]> {
    let got = read_full(file, buf, offset)?;
    // No more than there is room for: all of it otherwise.
    Ok(buf.get(..got).unwrap_or(buf))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// A file that is one byte longer whenever its length is asked for, up to `most`; it claims `claimed` more than it has.
    struct Appended {
        bytes: Vec<u8>,
        len: AtomicUsize,
        most: usize,
        claimed: u64,
    }

    impl ReadAt for Appended {
        fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
            self.bytes[..self.len.load(Ordering::Relaxed)].read_at(buf, offset)
        }

        fn len(&self) -> io::Result<u64> {
            let len = self.most.min(self.len.load(Ordering::Relaxed) + 1);
            self.len.store(len, Ordering::Relaxed);
            Ok(len as u64 + self.claimed)
        }
    }

    fn read(most: usize, claimed: u64) -> io::Result<Vec<u8>> {
        let file = Appended {
            bytes: (0..200).collect(),
            len: AtomicUsize::new(3),
            most,
            claimed,
        };
        let mut buf = [0; 200];
        read_part(&file, &mut buf, 0).map(<[u8]>::to_vec)
    }

    #[test]
    fn a_file_that_grows_whenever_a_read_came_to_its_end_is_read_to_its_last_byte() {
        let whole: Vec<u8> = (0..23).collect();
        assert_eq!(read(23, 0).unwrap(), whole);
    }

    #[test]
    fn a_file_that_claims_more_than_any_read_gives_is_an_error() {
        let error = read(23, 1).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
