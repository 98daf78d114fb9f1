//! FUSE requests as calls on the tree. Each operation translates, hands over and returns.
//!
//! The loops that call in here take every request of the mount. What may touch the disk or decode is done by the loop
//! itself only while another one is free to take the next request; else it goes to a lane: reads to one, everything about
//! names and attributes to another, so that neither slow reads nor slow walks hold up an `ls`. A read whose frame is decoded
//! already is answered at once.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use fuser::{
    Errno, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, InitFlags, KernelConfig,
    LockOwner, Notifier, OpenAccMode, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyXattr, Request,
};

use super::loops::Loops;
use super::passthrough::Passthrough;
use super::reply::{errno, file_attr, fill, lifetime};
use super::teller::{Teller, forget_attributes, refused};
use super::vectored::Device;
use crate::lane::{Lane, contain};
use crate::tree::attr;
use crate::tree::census::Asker;
use crate::tree::errno::Failure;
use crate::tree::{Seek, Tree};

/// Threads of either lane.
const LANE_THREADS: usize = 16;
/// Background requests the kernel keeps in flight; fuser's 16 starve parallel readers.
const MAX_BACKGROUND: u16 = 64;
/// Names are always asked for: the file behind one may be renamed, replaced or gone the next moment.
const ENTRY: Duration = Duration::ZERO;
/// `NAME_MAX` of the mount.
const NAME_LEN: u32 = 255;

/// The file system as fuser sees it.
#[derive(Debug)]
pub struct Adapter {
    tree: Arc<Tree>,
    reads: Lane,
    names: Lane,
    /// One thread: dropping pages waits for reads in flight, so nobody who answers requests may do it, and sizes are told
    /// in the order in which their pages went.
    pages: Lane,
    loops: Loops,
    passthrough: Arc<Passthrough>,
    notifier: Arc<OnceLock<Notifier>>,
    device: Arc<Device>,
}

impl Adapter {
    /// An adapter over `tree` for so many `loops`, which drops the kernel's pages through `notifier` once that is set.
    #[must_use]
    pub fn new(
        tree: Arc<Tree>,
        loops: usize,
        passthrough: Passthrough,
        notifier: Arc<OnceLock<Notifier>>,
        device: OwnedFd,
    ) -> Self {
        Self {
            tree,
            loops: Loops::new(loops),
            passthrough: Arc::new(passthrough),
            pages: Lane::new("pcapzst-pages", 1),
            notifier,
            device: Arc::new(Device::new(device)),
            reads: Lane::new("pcapzst-read", LANE_THREADS),
            names: Lane::new("pcapzst-name", LANE_THREADS),
        }
    }

    /// Has `job` done behind those of the same `key` on `lane`: by the calling loop while another one is free, else by a
    /// thread of the lane.
    fn on(&self, lane: &Lane, key: Option<u64>, job: impl FnOnce() + Send + 'static) {
        match (self.loops.take(), key) {
            (Some(_busy), key) => lane.run_here(key, job),
            (None, Some(key)) => lane.run_behind(key, job),
            (None, None) => lane.run(job),
        }
    }

    /// Has `job` done on the lane for names and attributes.
    fn on_names(&self, job: impl FnOnce(&Tree) + Send + 'static) {
        let tree = Arc::clone(&self.tree);
        self.on(&self.names, None, move || job(&tree));
    }

    /// As [`Self::on_names`], for a job that may walk the capture of the inode `ino`.
    fn on_names_of(&self, ino: INodeNo, job: impl FnOnce(&Tree) + Send + 'static) {
        let tree = Arc::clone(&self.tree);
        self.on(&self.names, Some(ino.0), move || job(&tree));
    }

    /// What tells attributes to the kernel, after the pages that must go before are gone.
    fn teller(&self) -> Teller {
        Teller::new(&self.tree, &self.pages, &self.notifier)
    }
}

/// Operations that would change something: each answers EROFS. The mount is read-only, so the kernel sends none of them
/// unless it is remounted.
macro_rules! read_only {
    ($($name:ident($($arg:ident: $kind:ty),*) -> $reply:ty;)*) => {
        $(#[allow(clippy::too_many_arguments, reason = "fuser's signature")]
        fn $name(&self, _req: &Request, $($arg: $kind,)* reply: $reply) {
            $(let _ = $arg;)*
            reply.error(errno(&Failure::ReadOnly));
        })*
    };
}

impl Filesystem for Adapter {
    fn init(&mut self, _req: &Request, config: &mut KernelConfig) -> io::Result<()> {
        for wanted in [
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
        ] {
            if config.add_capabilities(wanted).is_err() {
                log::info!("this kernel does not offer {wanted:?}");
            }
        }
        self.passthrough.ask(config);
        if config.set_max_background(MAX_BACKGROUND).is_err() {
            log::info!("max_background stays as it is");
        }
        Ok(())
    }

    fn lookup(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let name = name.to_owned();
        let teller = self.teller();
        let tree = Arc::clone(&self.tree);
        let key = self.tree.key_of(parent.0, &name);
        let job = move || match tree.lookup(parent.0, &name) {
            Ok(attributes) => teller.tell(attributes, |attributes| {
                reply.entry_with_ttls(
                    &lifetime(attributes),
                    &ENTRY,
                    &file_attr(attributes),
                    Generation(0),
                );
            }),
            Err(failure) => reply.error(errno(&failure)),
        };
        self.on(&self.names, Some(key), job);
    }

    fn forget(&self, _req: &Request, ino: INodeNo, nlookup: u64) {
        contain(|| self.tree.forget(ino.0, nlookup));
    }

    fn getattr(&self, _req: &Request, ino: INodeNo, fh: Option<FileHandle>, reply: ReplyAttr) {
        let teller = self.teller();
        self.on_names_of(ino, move |tree| {
            match tree.getattr(ino.0, fh.map(|fh| fh.0)) {
                Ok(attributes) => teller.tell(attributes, |attributes| {
                    reply.attr(&lifetime(attributes), &file_attr(attributes));
                }),
                Err(failure) => reply.error(errno(&failure)),
            }
        });
    }

    fn open(&self, _req: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        if flags.acc_mode() != OpenAccMode::O_RDONLY {
            return reply.error(errno(&Failure::ReadOnly));
        }
        let passthrough = Arc::clone(&self.passthrough);
        let refused = refused(&self.notifier, ino);
        self.on_names_of(ino, move |tree| match tree.open_file(ino.0) {
            Ok((handle, caching)) => {
                passthrough.answer(tree, (ino, handle), caching, flags, reply);
            }
            Err(failure) => reply.error(refused(&failure)),
        });
    }

    fn read(
        &self,
        req: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        // A read() has an owner; the page cache has none, whose pages it fills for a page-cached handle, mmap or splice.
        if lock_owner.is_none() {
            self.tree.note_paged(fh.0);
        }
        let size = size as usize;
        let mut cached = None;
        contain(|| cached = self.tree.read_cached(fh.0, offset, size));
        if let Some(pieces) = cached {
            return self.device.reply(req.unique(), reply, &pieces);
        }
        let tree = Arc::clone(&self.tree);
        let notifier = Arc::clone(&self.notifier);
        let (device, unique) = (Arc::clone(&self.device), req.unique());
        let job = move || {
            let outcome = match lock_owner {
                None => tree.read_pages(fh.0, offset, size),
                Some(_) => tree.read(fh.0, offset, size),
            };
            if tree.is_longer_than_told(fh.0) {
                forget_attributes(&notifier, ino);
            }
            match outcome {
                Ok(pieces) => device.reply(unique, reply, &pieces),
                Err(failure) => reply.error(errno(&failure)),
            }
        };
        let walks_first = self.tree.walks_first(fh.0, offset, size);
        self.on(&self.reads, walks_first.then_some(ino.0), job);
    }

    fn release(
        &self,
        _req: &Request,
        ino: INodeNo,
        fh: FileHandle,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        let passthrough = Arc::clone(&self.passthrough);
        self.on_names(move |tree| {
            passthrough.release(ino, fh.0);
            tree.release(fh.0);
            reply.ok();
        });
    }

    fn lseek(
        &self,
        _req: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let seek = match whence {
            libc::SEEK_DATA => Seek::Data,
            libc::SEEK_HOLE => Seek::Hole,
            _ => return reply.error(errno(&Failure::Invalid)),
        };
        let Ok(offset) = u64::try_from(offset) else {
            return reply.error(errno(&Failure::NoData));
        };
        self.on_names_of(ino, move |tree| {
            let found = tree.seek(ino.0, fh.0, offset, seek);
            match found.map(i64::try_from) {
                Ok(Ok(at)) => reply.offset(at),
                Ok(Err(_)) => reply.error(errno(&Failure::Invalid)),
                Err(failure) => reply.error(errno(&failure)),
            }
        });
    }

    fn opendir(&self, _req: &Request, ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        contain(|| match self.tree.open_folder(ino.0) {
            Ok(handle) => reply.opened(FileHandle(handle), FopenFlags::empty()),
            Err(failure) => reply.error(errno(&failure)),
        });
    }

    fn readdir(
        &self,
        _req: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        self.on_names(move |tree| {
            let listing = tree.list(fh.0, offset == 0);
            match (listing, tree.parent_id(ino.0)) {
                (Ok(listing), Ok(parent)) => {
                    fill(&mut reply, &listing, [ino.0, parent], offset);
                    reply.ok();
                }
                (Err(failure), _) | (_, Err(failure)) => reply.error(errno(&failure)),
            }
        });
    }

    fn releasedir(
        &self,
        _req: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        _flags: OpenFlags,
        reply: ReplyEmpty,
    ) {
        contain(|| self.tree.release_folder(fh.0));
        reply.ok();
    }

    fn getxattr(&self, req: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        // What `ls -l` asks for every file: labels and access lists. Answered without a thread.
        if let Some(failure) = attr::refusal(name) {
            return reply.error(errno(&failure));
        }
        let (name, asker) = (name.to_owned(), Asker::with_uid(req.uid()));
        let refused = refused(&self.notifier, ino);
        self.on_names_of(ino, move |tree| {
            let value = match tree.attribute(ino.0, &name, asker) {
                Ok(value) => value,
                Err(failure) => return reply.error(refused(&failure)),
            };
            match u32::try_from(value.len()) {
                Ok(len) if size == 0 => reply.size(len),
                Ok(len) if len <= size => reply.data(&value),
                _ => reply.error(errno(&Failure::Range)),
            }
        });
    }

    fn listxattr(&self, _req: &Request, _ino: INodeNo, size: u32, reply: ReplyXattr) {
        // None is listed, so that cp -a and rsync -X copy none.
        if size == 0 {
            reply.size(0);
        } else {
            reply.data(&[]);
        }
    }

    fn statfs(&self, _req: &Request, _ino: INodeNo, reply: ReplyStatfs) {
        self.on_names(move |tree| match tree.statfs() {
            Ok(fs) => reply.statfs(
                fs.blocks(),
                fs.blocks_free(),
                fs.blocks_available(),
                fs.files(),
                fs.files_free(),
                u32::try_from(fs.block_size()).unwrap_or(u32::MAX),
                NAME_LEN,
                u32::try_from(fs.fragment_size()).unwrap_or(u32::MAX),
            ),
            Err(failure) => reply.error(errno(&failure)),
        });
    }

    // "Not implemented" is the answer that makes the kernel do without, and ask no more.
    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    read_only! {
        setattr(
            ino: INodeNo, mode: Option<u32>, uid: Option<u32>, gid: Option<u32>, size: Option<u64>,
            atime: Option<fuser::TimeOrNow>, mtime: Option<fuser::TimeOrNow>,
            ctime: Option<SystemTime>, fh: Option<FileHandle>, crtime: Option<SystemTime>,
            chgtime: Option<SystemTime>, bkuptime: Option<SystemTime>,
            flags: Option<fuser::BsdFileFlags>
        ) -> ReplyAttr;
        mknod(parent: INodeNo, name: &OsStr, mode: u32, umask: u32, rdev: u32) -> ReplyEntry;
        mkdir(parent: INodeNo, name: &OsStr, mode: u32, umask: u32) -> ReplyEntry;
        unlink(parent: INodeNo, name: &OsStr) -> ReplyEmpty;
        rmdir(parent: INodeNo, name: &OsStr) -> ReplyEmpty;
        symlink(parent: INodeNo, name: &OsStr, target: &std::path::Path) -> ReplyEntry;
        rename(
            parent: INodeNo, name: &OsStr, newparent: INodeNo, newname: &OsStr,
            flags: fuser::RenameFlags
        ) -> ReplyEmpty;
        link(ino: INodeNo, newparent: INodeNo, newname: &OsStr) -> ReplyEntry;
        write(
            ino: INodeNo, fh: FileHandle, offset: u64, data: &[u8], write_flags: fuser::WriteFlags,
            flags: OpenFlags, lock_owner: Option<LockOwner>
        ) -> fuser::ReplyWrite;
        create(parent: INodeNo, name: &OsStr, mode: u32, umask: u32, flags: i32)
            -> fuser::ReplyCreate;
        setxattr(ino: INodeNo, name: &OsStr, value: &[u8], flags: i32, position: u32) -> ReplyEmpty;
        removexattr(ino: INodeNo, name: &OsStr) -> ReplyEmpty;
        fallocate(ino: INodeNo, fh: FileHandle, offset: u64, length: u64, mode: i32) -> ReplyEmpty;
        copy_file_range(
            ino_in: INodeNo, fh_in: FileHandle, offset_in: u64, ino_out: INodeNo,
            fh_out: FileHandle, offset_out: u64, len: u64, flags: fuser::CopyFileRangeFlags
        ) -> fuser::ReplyWrite;
    }
}
