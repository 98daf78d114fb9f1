//! A READ's answer from several frames in one call, without putting them together first.
//!
//! fuser answers with one slice. The answer itself is simple (`fuse_out_header` of `linux/fuse.h`, then the bytes), so one of
//! several runs is written here, to the same device; fuser's reply object is then not to answer again.

use std::io::IoSlice;
use std::os::fd::OwnedFd;

use fuser::{ReplyData, RequestId};
use nix::errno::Errno;
use nix::sys::uio::writev;

use crate::capture::Pieces;

/// Length of `struct fuse_out_header`.
const HEADER_LEN: usize = 16;
/// The most runs of one call, well below `IOV_MAX`; more of them are small, and as well put together.
const RUNS_MOST: usize = 64;

/// The FUSE device of the session.
#[derive(Debug)]
pub(super) struct Device(OwnedFd);

impl Device {
    /// A device that answers requests of the session on `fd`, of which it is a duplicate.
    pub(super) fn new(fd: OwnedFd) -> Self {
        Self(fd)
    }

    /// Answers the request `unique`, whose reply object is `reply`, with the bytes of `pieces`.
    pub(super) fn reply(&self, unique: RequestId, reply: ReplyData, pieces: &Pieces) {
        match pieces.runs() {
            [] => reply.data(&[]),
            [run] => reply.data(run),
            runs if runs.len() > RUNS_MOST => reply.data(&pieces.to_vec()),
            _ => match self.write(unique, pieces) {
                // Dropped it would answer again. What it holds is one reference to the session's device, which lives as long as
                // the process. ENOENT: the reader was killed and waits no more.
                Ok(()) | Err(Errno::ENOENT) => std::mem::forget(reply),
                Err(error) => {
                    log::warn!("answering a read of {} bytes: {error}", pieces.len());
                    reply.error(fuser::Errno::EIO);
                }
            },
        }
    }

    fn write(&self, unique: RequestId, pieces: &Pieces) -> Result<(), Errno> {
        let len = u32::try_from(HEADER_LEN + pieces.len()).map_err(|_| Errno::EOVERFLOW)?;
        let mut header = [0; HEADER_LEN];
        header[..4].copy_from_slice(&len.to_ne_bytes());
        // Bytes 4 to 8: the error, none.
        header[8..].copy_from_slice(&unique.0.to_ne_bytes());
        let runs = pieces.runs().iter().map(|run| IoSlice::new(run));
        let parts: Vec<_> = std::iter::once(IoSlice::new(&header)).chain(runs).collect();
        writev(&self.0, &parts)?;
        Ok(())
    }
}
