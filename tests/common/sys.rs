//! The few system calls that neither std nor nix (with the features in use) offers. The only unsafe code of the tests.
#![allow(
    unsafe_code,
    reason = "mmap, zero-copy, extended attributes and directory positions are reached through libc only"
)]

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

#[derive(Clone, Copy, Debug)]
pub enum Sharing {
    Private,
    Shared,
}

/// The whole file, read through a memory map.
pub fn read_by_map(file: &File, sharing: Sharing) -> io::Result<Vec<u8>> {
    let len = usize::try_from(file.metadata()?.len()).unwrap();
    let flags = match sharing {
        Sharing::Private => libc::MAP_PRIVATE,
        Sharing::Shared => libc::MAP_SHARED,
    };
    // SAFETY: a new read-only map at an address of the kernel's choice; it is copied from within its length and
    // unmapped before the function returns, and nobody truncates the file meanwhile.
    unsafe {
        let map = libc::mmap(
            ptr::null_mut(),
            len,
            libc::PROT_READ,
            flags,
            file.as_raw_fd(),
            0,
        );
        if map == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let bytes = std::slice::from_raw_parts(map.cast::<u8>(), len).to_vec();
        libc::munmap(map, len);
        Ok(bytes)
    }
}

/// A map that is kept while others change the file.
pub struct Map {
    start: ptr::NonNull<libc::c_void>,
    len: usize,
}

// SAFETY: the map is only ever read, by the kernel, which takes care of what happens to the file meanwhile.
unsafe impl Send for Map {}

impl Map {
    /// Maps `len` bytes from `offset`, which must be a multiple of the page size. They may lie behind the file's end.
    pub fn new(file: &File, offset: usize, len: usize, sharing: Sharing) -> io::Result<Self> {
        let flags = match sharing {
            Sharing::Private => libc::MAP_PRIVATE,
            Sharing::Shared => libc::MAP_SHARED,
        };
        // SAFETY: a new read-only map at an address of the kernel's choice, unmapped when the value is dropped.
        let start = unsafe {
            let fd = file.as_raw_fd();
            let offset = libc::off_t::try_from(offset).unwrap();
            libc::mmap(ptr::null_mut(), len, libc::PROT_READ, flags, fd, offset)
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = ptr::NonNull::new(start).unwrap();
        Ok(Self { start, len })
    }

    /// Copies the bytes from `offset` of the map, as a load by this process would find them. The kernel does it: where a
    /// load would raise SIGBUS, this is EFAULT.
    pub fn copy(&self, offset: usize, to: &mut [u8]) -> io::Result<()> {
        assert!(offset + to.len() <= self.len);
        let wanted = to.len();
        let from = nix::sys::uio::RemoteIoVec {
            base: self.start.as_ptr() as usize + offset,
            len: wanted,
        };
        let pid = nix::unistd::Pid::this();
        let mut into = [io::IoSliceMut::new(to)];
        let copied = nix::sys::uio::process_vm_readv(pid, &mut into, &[from])?;
        if copied < wanted {
            return Err(Errno::EFAULT.into());
        }
        Ok(())
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: the map is this value's own, and no reference into it exists.
        unsafe { libc::munmap(self.start.as_ptr(), self.len) };
    }
}

/// Moves up to `len` bytes with `copy_file_range`, both positions implied.
pub fn copy_file_range(from: &File, to: &File, len: usize) -> io::Result<usize> {
    // SAFETY: both descriptors are open for the whole call, and null stands for "use the file's own position".
    let moved = unsafe {
        let none = ptr::null_mut();
        libc::copy_file_range(
            from.as_raw_fd(),
            none,
            to.as_raw_fd(),
            ptr::null_mut(),
            len,
            0,
        )
    };
    count(moved)
}

/// Moves up to `len` bytes with sendfile.
pub fn sendfile(from: &File, to: RawFd, len: usize) -> io::Result<usize> {
    // SAFETY: both descriptors are open for the whole call; null stands for the file's own position.
    count(unsafe { libc::sendfile(to, from.as_raw_fd(), ptr::null_mut(), len) })
}

/// Moves up to `len` bytes into a pipe with splice.
pub fn splice(from: &File, pipe: RawFd, len: usize) -> io::Result<usize> {
    // SAFETY: both descriptors are open for the whole call; null stands for the file's own position.
    let moved = unsafe {
        let none = ptr::null_mut();
        libc::splice(from.as_raw_fd(), none, pipe, ptr::null_mut(), len, 0)
    };
    count(moved)
}

/// A descriptor that is readable once the process has ended, also when it is nobody's child.
pub fn pidfd(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: the call takes two numbers; what it returns is a new descriptor that nobody else owns.
    unsafe {
        let fd = count(
            libc::syscall(libc::SYS_pidfd_open, pid, 0)
                .try_into()
                .unwrap(),
        )?;
        Ok(OwnedFd::from_raw_fd(fd.try_into().unwrap()))
    }
}

/// A descriptor whose reads return once something in the folder is created, written or renamed (inotify(7)).
pub fn changes_in(folder: &Path) -> io::Result<File> {
    let folder = c_path(folder);
    let wanted = libc::IN_CREATE | libc::IN_MODIFY | libc::IN_MOVED_TO;
    // SAFETY: the string ends with a zero byte; what the first call returns is a new descriptor that nobody else owns.
    unsafe {
        let fd = libc::inotify_init1(libc::IN_CLOEXEC);
        count(fd.try_into().unwrap())?;
        let file = File::from_raw_fd(fd);
        count(
            libc::inotify_add_watch(fd, folder.as_ptr(), wanted)
                .try_into()
                .unwrap(),
        )?;
        Ok(file)
    }
}

/// Waits until something changes in the folder that `changes` (`changes_in`) tells of, or the process ends that `running`
/// (`pidfd`) stands for; whether it goes on.
#[track_caller]
pub fn await_change(mut changes: &File, running: &OwnedFd) -> bool {
    let fds = [changes.as_fd(), running.as_fd()];
    let mut wanted = fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN));
    let told = poll(&mut wanted, PollTimeout::from(30_000_u16)).unwrap();
    assert!(told > 0, "nothing changes, and nothing ends");
    let [has_changed, has_ended] = wanted.map(|fd| fd.any().unwrap());
    if has_changed {
        // What has changed, the next look shows.
        let _events = changes.read(&mut [0; 4096]).unwrap();
    }
    !has_ended
}

/// Times of the last write and of the last change, whatever the kernel remembers of them: seconds, nanoseconds.
pub fn times_now(path: &Path) -> io::Result<[(i64, u32); 2]> {
    let path = c_path(path);
    // SAFETY: all its fields are numbers.
    let mut found: libc::statx = unsafe { std::mem::zeroed() };
    // SAFETY: the string ends with a zero byte, and the kernel writes one structure.
    let outcome = unsafe {
        libc::statx(
            libc::AT_FDCWD,
            path.as_ptr(),
            libc::AT_STATX_FORCE_SYNC,
            libc::STATX_BASIC_STATS,
            &raw mut found,
        )
    };
    if outcome != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok([found.stx_mtime, found.stx_ctime].map(|time| (time.tv_sec, time.tv_nsec)))
}

/// What the kernel's NFS server gives its clients to name a file by (`struct file_handle` of `open_by_handle_at(2)`).
#[repr(C)]
pub struct Handle {
    len: u32,
    kind: i32,
    bytes: [u8; 128],
}

impl Handle {
    pub fn of(path: &Path) -> io::Result<Self> {
        let path = c_path(path);
        let mut handle = Self {
            len: 128,
            kind: 0,
            bytes: [0; 128],
        };
        let mut mount = 0;
        // SAFETY: the path ends with a zero byte; the handle is laid out as the kernel's, and says how much it can take.
        let done = unsafe {
            let handle = (&raw mut handle).cast();
            libc::name_to_handle_at(libc::AT_FDCWD, path.as_ptr(), handle, &raw mut mount, 0)
        };
        count(done.try_into().unwrap()).map(|_| handle)
    }

    /// Opens the file for reading, by any descriptor of its file system.
    pub fn open(&mut self, file_system: &File) -> io::Result<File> {
        // SAFETY: the handle is laid out as the kernel's and was filled by it; a descriptor that comes back is ours.
        unsafe {
            let handle = (&raw mut *self).cast();
            let fd = libc::open_by_handle_at(file_system.as_raw_fd(), handle, libc::O_RDONLY);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(OwnedFd::from_raw_fd(fd).into())
        }
    }
}

/// The value of an extended attribute.
pub fn attribute(path: &Path, name: &str) -> io::Result<String> {
    let (path, name) = (c_path(path), CString::new(name).unwrap());
    let mut value = vec![0_u8; 64 * 1024];
    // SAFETY: both strings end with a zero byte, and the kernel writes at most the buffer's length.
    let len = count(unsafe {
        libc::getxattr(
            path.as_ptr(),
            name.as_ptr(),
            value.as_mut_ptr().cast(),
            value.len(),
        )
    })?;
    value.truncate(len);
    Ok(String::from_utf8_lossy(&value).into_owned())
}

fn count(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

fn c_path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).unwrap()
}

/// A directory stream with its positions, as C programs see it. `.` and `..` are left out.
pub struct Listing(ptr::NonNull<libc::DIR>);

impl Listing {
    pub fn open(path: &Path) -> io::Result<Self> {
        let path = c_path(path);
        // SAFETY: the string ends with a zero byte.
        let stream = unsafe { libc::opendir(path.as_ptr()) };
        ptr::NonNull::new(stream)
            .map(Self)
            .ok_or_else(io::Error::last_os_error)
    }

    /// The next name and its inode number, `None` at the end.
    pub fn entry(&mut self) -> Option<(Vec<u8>, u64)> {
        loop {
            Errno::clear();
            // SAFETY: the stream is open, and the entry is copied before the next call can overwrite it.
            let (name, inode) = unsafe {
                let entry = libc::readdir64(self.0.as_ptr());
                if entry.is_null() {
                    assert_eq!(Errno::last_raw(), 0, "readdir failed");
                    return None;
                }
                let name = CStr::from_ptr((*entry).d_name.as_ptr());
                (name.to_bytes().to_vec(), (*entry).d_ino)
            };
            if name != b"." && name != b".." {
                return Some((name, inode));
            }
        }
    }

    /// All names from here on, in the order given.
    pub fn rest(&mut self) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| self.entry())
            .map(|(name, _)| name)
            .collect()
    }

    pub fn position(&mut self) -> i64 {
        // SAFETY: the stream is open.
        unsafe { libc::telldir(self.0.as_ptr()) }
    }

    /// Goes back to what `position` gave.
    pub fn seek(&mut self, position: i64) {
        // SAFETY: the stream is open, and the position came from telldir on it.
        unsafe { libc::seekdir(self.0.as_ptr(), position) }
    }

    pub fn rewind(&mut self) {
        // SAFETY: the stream is open.
        unsafe { libc::rewinddir(self.0.as_ptr()) }
    }
}

impl Drop for Listing {
    fn drop(&mut self) {
        // SAFETY: the stream is open and not used again.
        unsafe { libc::closedir(self.0.as_ptr()) };
    }
}
