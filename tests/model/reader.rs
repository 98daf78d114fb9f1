//! What a reader can ask, of the tree itself or through a mount.

use std::time::SystemTime;

/// What `stat` says of a capture.
#[derive(Clone, Copy, Debug)]
pub struct Stat {
    pub ino: u64,
    pub size: usize,
    pub blocks: u64,
    pub mtime: SystemTime,
}

/// How the kernel was told to read an opened file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Direct,
    /// Through the page cache, which is dropped first.
    Fresh,
    /// Through the page cache as it is.
    Keep,
    /// A reader behind the kernel cannot tell.
    Unknown,
}

/// An open file.
#[derive(Clone, Copy, Debug)]
pub struct Opened {
    pub handle: u64,
    pub ino: u64,
    pub mode: Mode,
}

/// A reader of one case's folder. Errors are an errno.
pub trait Reader {
    fn look_up(&mut self, name: &str) -> Result<Stat, i32>;

    /// An open by path, with the look-up that comes before it.
    fn open(&mut self, name: &str) -> Result<Opened, i32>;

    /// An open of a known inode with no look-up before it; `None` if this reader cannot do that.
    fn open_known(&mut self, ino: u64) -> Option<Result<Opened, i32>>;

    fn stat(&mut self, opened: &Opened) -> Result<usize, i32>;

    /// One read; it may be short.
    fn read(&mut self, opened: &Opened, from: usize, len: usize) -> Result<Vec<u8>, i32>;

    fn close(&mut self, opened: &Opened);

    /// The attribute `user.pcapzst.NAME` of the capture `logical`, whose inode is known as `ino`.
    fn attribute(&mut self, logical: &str, ino: u64, name: &str) -> Result<String, i32>;

    /// The names in the folder in their order, with inode numbers where they are known.
    fn list(&mut self) -> Vec<(String, Option<u64>)>;

    fn folder_mtime(&mut self) -> SystemTime;

    /// Forgets all look-ups of the inode; false if this reader cannot do that.
    fn forget(&mut self, ino: u64) -> bool;

    /// Whether two handles of one inode show one size, whatever file each of them reads.
    fn has_one_size(&self) -> bool;

    /// Closes and forgets everything; what is left then that should not be.
    fn finish(&mut self) -> Result<(), String>;
}
