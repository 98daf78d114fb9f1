//! The system calls that have no safe wrapper in our dependencies. All unsafe code of the program but the C library's.
#![allow(unsafe_code, reason = "each block says why it is sound")]

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg};
use nix::unistd::{ForkResult, fork};

/// Which side of a fork this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forked {
    /// The process that called.
    Parent,
    /// The new process.
    Child,
}

/// Forks the process.
///
/// # Errors
/// fork(2)'s, and `EBUSY` when other threads run: a child of a threaded process may call little more than exec.
pub(crate) fn fork_single_threaded() -> io::Result<Forked> {
    let threads = std::fs::read_dir("/proc/self/task")?.count();
    if threads != 1 {
        return Err(io::Error::from_raw_os_error(libc::EBUSY));
    }
    // SAFETY: no other thread exists, so no lock is held by one that the child would lack.
    match unsafe { fork() }? {
        ForkResult::Parent { .. } => Ok(Forked::Parent),
        ForkResult::Child => Ok(Forked::Child),
    }
}

/// Closes every descriptor but the standard streams and `kept`: those that the caller left open are not a daemon's to hold.
/// Left open where the kernel cannot do it (before Linux 5.9).
///
/// For a process that has just been forked: nothing else in it may own a descriptor.
pub(crate) fn close_inherited(kept: &File) {
    let Ok(kept) = libc::c_uint::try_from(kept.as_raw_fd()) else {
        return;
    };
    let first = 3;
    for (from, to) in [
        (first, kept.saturating_sub(1)),
        (kept + 1, libc::c_uint::MAX),
    ] {
        if from <= to {
            // SAFETY: by this function's contract no object of this process owns one of these descriptors.
            let outcome = unsafe { libc::close_range(from, to, 0) };
            if outcome != 0 {
                log::info!("close_range: {}", io::Error::last_os_error());
            }
        }
    }
}

/// Has the allocator give large buffers back to the system when they are freed, and keep few arenas.
///
/// Left alone, glibc learns to serve frame buffers from its arenas, one for each thread, and what is freed there stays
/// resident: the bound on memory would hold on paper only.
pub(crate) fn keep_memory_exact() {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: mallopt takes two integers and touches only the allocator's own settings.
        let outcomes = unsafe {
            [
                libc::mallopt(libc::M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES),
                libc::mallopt(libc::M_ARENA_MAX, ARENAS_MOST),
            ]
        };
        if outcomes.contains(&0) {
            log::info!("the allocator keeps its own settings");
        }
    }
}

/// Has the allocator give back what was freed in small pieces, too: left alone it keeps all but the end of each arena.
pub(crate) fn give_back_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim takes an integer and touches only what is free.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Buffers from here on are mappings of their own.
#[cfg(target_env = "gnu")]
const MMAP_THRESHOLD_BYTES: libc::c_int = 64 * 1024;
/// Enough for threads that allocate little beside those buffers.
#[cfg(target_env = "gnu")]
const ARENAS_MOST: libc::c_int = 2;

/// The descriptor that comes over `socket` with the next byte. Blocks until it comes or the other end is closed.
pub(crate) fn receive_descriptor(socket: &UnixStream) -> io::Result<OwnedFd> {
    let mut byte = [0];
    let mut buffers = [IoSliceMut::new(&mut byte)];
    let mut space = nix::cmsg_space!(RawFd);
    let message = recvmsg::<()>(
        socket.as_raw_fd(),
        &mut buffers,
        Some(&mut space),
        MsgFlags::MSG_CMSG_CLOEXEC,
    )?;
    for control in message.cmsgs()? {
        if let ControlMessageOwned::ScmRights(fds) = control
            && let [fd] = fds[..]
        {
            // SAFETY: the kernel has just made this descriptor for us, and nobody else knows its number.
            return Ok(unsafe { OwnedFd::from_raw_fd(fd) });
        }
    }
    Err(io::Error::other("no descriptor came"))
}

/// The value of the extended attribute `name` of the file at `path`; links are followed.
pub(crate) fn attribute(path: &Path, name: &OsStr) -> io::Result<Vec<u8>> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let name = CString::new(name.as_bytes())?;
    // The longest value the kernel passes on (XATTR_SIZE_MAX).
    let mut value = vec![0u8; 64 * 1024];
    // SAFETY: both strings end in NUL and outlive the call; the buffer is as long as the length says.
    let len = unsafe {
        libc::getxattr(
            path.as_ptr(),
            name.as_ptr(),
            value.as_mut_ptr().cast(),
            value.len(),
        )
    };
    let len = usize::try_from(len).map_err(|_| io::Error::last_os_error())?;
    value.truncate(len);
    Ok(value)
}
