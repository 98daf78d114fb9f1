//! A file system with one growing file, served as a growing file must not be: through the page cache.

use std::ffi::OsStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEntry, ReplyOpen,
    Request,
};
use tempfile::TempDir;

use crate::common::mounted::free;

const ROOT: u64 = 1;
const FILE: u64 = 2;

/// The mounted file system; its file is `grows`.
pub struct Trap {
    session: Option<BackgroundSession>,
    mnt: TempDir,
}

impl Trap {
    /// Shows the first `size` bytes of `truth`, opened with these flags.
    pub fn mount(truth: Arc<Vec<u8>>, size: Arc<AtomicUsize>, flags: FopenFlags) -> Self {
        let mnt = tempfile::Builder::new()
            .prefix("pcapzst-trap-")
            .tempdir()
            .unwrap();
        let mut config = Config::default();
        config.n_threads = Some(2);
        let system = System { truth, size, flags };
        let session = fuser::spawn_mount(system, mnt.path(), &config).unwrap();
        Self {
            session: Some(session),
            mnt,
        }
    }

    pub fn file(&self) -> std::path::PathBuf {
        self.mnt.path().join("grows")
    }
}

impl Drop for Trap {
    fn drop(&mut self) {
        free(self.mnt.path());
        drop(self.session.take());
    }
}

struct System {
    truth: Arc<Vec<u8>>,
    size: Arc<AtomicUsize>,
    flags: FopenFlags,
}

impl System {
    fn size(&self) -> usize {
        self.size.load(Ordering::SeqCst)
    }

    fn attributes(&self, id: u64) -> FileAttr {
        let is_file = id == FILE;
        FileAttr {
            ino: INodeNo(id),
            size: if is_file { self.size() as u64 } else { 0 },
            blocks: 1,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: if is_file {
                FileType::RegularFile
            } else {
                FileType::Directory
            },
            perm: 0o555,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }
}

impl Filesystem for System {
    fn lookup(&self, _req: &Request, _parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if name == "grows" {
            reply.entry(&Duration::ZERO, &self.attributes(FILE), Generation(0));
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn getattr(&self, _req: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&Duration::ZERO, &self.attributes(ino.0.max(ROOT)));
    }

    fn open(&self, _req: &Request, _ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), self.flags);
    }

    fn read(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let end = self.size();
        let start = usize::try_from(offset).unwrap().min(end);
        reply.data(&self.truth[start..end.min(start + size as usize)]);
    }
}
