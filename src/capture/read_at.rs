//! Positioned reads: the one way in which a capture's bytes are reached.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use nix::sys::stat::fstat;

use super::stamp::Stamp;

/// Something that is read at offsets, without a position of its own: a file or a slice.
pub trait ReadAt: Send + Sync {
    /// Reads up to `buf.len()` bytes at `offset`; the number read, 0 at the end. May read fewer than asked.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;

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

impl ReadAt for File {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(self, buf, offset)
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
        let rest = usize::try_from(offset)
            .ok()
            .and_then(|start| self.get(start..))
            .unwrap_or_default();
        let len = rest.len().min(buf.len());
        buf[..len].copy_from_slice(&rest[..len]);
        Ok(len)
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

    fn len(&self) -> io::Result<u64> {
        (**self).len()
    }

    fn stamp(&self) -> io::Result<Option<Stamp>> {
        (**self).stamp()
    }
}

/// Fills `buf` from `offset` on; the number of bytes read, fewer than `buf.len()` only where the file ends.
///
/// Short reads are continued and interrupted ones repeated.
pub fn read_full(file: &dyn ReadAt, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < buf.len() {
        let at = offset
            .checked_add(done as u64)
            .ok_or(io::ErrorKind::InvalidInput)?;
        match file.read_at(&mut buf[done..], at) {
            Ok(0) => break,
            Ok(len) => done += len,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}
