//! A file system in memory, whose calls by which a file is written fail when a test says so. Every write and every call on a
//! name reaches it at once: nothing is kept by the kernel.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{
    BackgroundSession, BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem,
    FopenFlags, Generation, INodeNo, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate,
    ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use tempfile::TempDir;

use crate::common::mounted::free;

const ROOT: u64 = 1;

/// A call that can be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Call {
    Read,
    Truncate,
    /// Of a file.
    Sync,
    SyncFolder,
    Link,
    Unlink,
}

/// The mounted file system: one folder.
pub struct Failing {
    session: Option<BackgroundSession>,
    mnt: TempDir,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    files: HashMap<u64, Vec<u8>>,
    names: HashMap<OsString, u64>,
    /// Bytes that can still be written; all that come where there is none.
    room: Option<usize>,
    /// How many go well before; then with which errno, and how often.
    failing: HashMap<Call, (u32, i32, u32)>,
    /// A rename takes no flags, as on NFS.
    is_without_flags: bool,
}

impl Failing {
    #[track_caller]
    pub fn new() -> Self {
        let mnt = tempfile::Builder::new()
            .prefix("pcapzst-failing-")
            .tempdir()
            .unwrap();
        let state = Arc::default();
        let system = System(Arc::clone(&state));
        let session = fuser::spawn_mount(system, mnt.path(), &Config::default()).unwrap();
        Self {
            session: Some(session),
            mnt,
            state,
        }
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.mnt.path().join(name)
    }

    /// Leaves room for so many bytes: a write that needs more is cut short there, and the next one says ENOSPC.
    pub fn leave_room(&self, bytes: usize) {
        self.state().room = Some(bytes);
    }

    /// Has room for whatever comes.
    pub fn make_room(&self) {
        self.state().room = None;
    }

    /// Has the next `times` calls of a kind fail.
    pub fn fail(&self, call: Call, errno: i32, times: u32) {
        self.fail_behind(0, call, errno, times);
    }

    /// As `fail`, behind so many that go well.
    pub fn fail_behind(&self, passing: u32, call: Call, errno: i32, times: u32) {
        let failing = (passing, errno, times);
        self.state().failing.insert(call, failing);
    }

    /// Has renames with flags refused from now on.
    pub fn know_no_flags(&self) {
        self.state().is_without_flags = true;
    }

    /// All names there are, sorted.
    pub fn names(&self) -> Vec<String> {
        let names = self.state().names.clone();
        let mut names: Vec<_> = names
            .into_keys()
            .map(|name| name.into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// What the file `name` holds.
    #[track_caller]
    pub fn bytes(&self, name: &str) -> Vec<u8> {
        let state = self.state();
        state.files[&state.names[OsStr::new(name)]].clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

impl Drop for Failing {
    fn drop(&mut self) {
        free(self.mnt.path());
        drop(self.session.take());
    }
}

impl State {
    /// Whether a call goes well now.
    fn call(&mut self, call: Call) -> Result<(), Errno> {
        match self.failing.get_mut(&call) {
            Some((passing, ..)) if *passing > 0 => {
                *passing -= 1;
                Ok(())
            }
            Some((_, errno, times)) if *times > 0 => {
                *times -= 1;
                Err(Errno::from_i32(*errno))
            }
            _ => Ok(()),
        }
    }

    fn attributes(&self, ino: u64) -> Result<FileAttr, Errno> {
        let (kind, size) = match (ino, self.files.get(&ino)) {
            (ROOT, _) => (FileType::Directory, 0),
            (_, Some(bytes)) => (FileType::RegularFile, bytes.len() as u64),
            (_, None) => return Err(Errno::ESTALE),
        };
        Ok(FileAttr {
            ino: INodeNo(ino),
            size,
            blocks: size.div_ceil(512),
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm: 0o700,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }

    fn named(&self, name: &OsStr) -> Result<FileAttr, Errno> {
        self.attributes(*self.names.get(name).ok_or(Errno::ENOENT)?)
    }

    fn create(&mut self, name: &OsStr) -> Result<FileAttr, Errno> {
        // Files are never forgotten: so this number was not given before.
        let ino = ROOT + 1 + self.files.len() as u64;
        self.files.insert(ino, Vec::new());
        self.names.insert(name.to_owned(), ino);
        self.attributes(ino)
    }

    fn write(&mut self, ino: u64, offset: u64, data: &[u8]) -> Result<usize, Errno> {
        let len = self.room.unwrap_or(usize::MAX).min(data.len());
        if len == 0 {
            return Err(Errno::ENOSPC);
        }
        self.room = self.room.map(|room| room - len);
        let bytes = self.files.get_mut(&ino).ok_or(Errno::ESTALE)?;
        let start = usize::try_from(offset).unwrap();
        bytes.resize(bytes.len().max(start + len), 0);
        bytes[start..start + len].copy_from_slice(&data[..len]);
        Ok(len)
    }

    fn truncate(&mut self, ino: u64, size: u64) -> Result<(), Errno> {
        self.call(Call::Truncate)?;
        let bytes = self.files.get_mut(&ino).ok_or(Errno::ESTALE)?;
        bytes.resize(usize::try_from(size).unwrap(), 0);
        Ok(())
    }

    fn rename(&mut self, name: &OsStr, to: &OsStr, flags: RenameFlags) -> Result<(), Errno> {
        if !flags.is_empty() && self.is_without_flags {
            return Err(Errno::EINVAL);
        }
        if flags.contains(RenameFlags::RENAME_NOREPLACE) && self.names.contains_key(to) {
            return Err(Errno::EEXIST);
        }
        let ino = self.names.remove(name).ok_or(Errno::ENOENT)?;
        self.names.insert(to.to_owned(), ino);
        Ok(())
    }

    fn link(&mut self, ino: u64, name: &OsStr) -> Result<FileAttr, Errno> {
        self.call(Call::Link)?;
        if self.names.contains_key(name) {
            return Err(Errno::EEXIST);
        }
        self.names.insert(name.to_owned(), ino);
        self.attributes(ino)
    }

    fn unlink(&mut self, name: &OsStr) -> Result<(), Errno> {
        self.call(Call::Unlink)?;
        self.names.remove(name).map(drop).ok_or(Errno::ENOENT)
    }
}

struct System(Arc<Mutex<State>>);

impl System {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }
}

fn entry(outcome: Result<FileAttr, Errno>, reply: ReplyEntry) {
    match outcome {
        Ok(attributes) => reply.entry(&Duration::ZERO, &attributes, Generation(0)),
        Err(errno) => reply.error(errno),
    }
}

fn attributes(outcome: Result<FileAttr, Errno>, reply: ReplyAttr) {
    match outcome {
        Ok(attributes) => reply.attr(&Duration::ZERO, &attributes),
        Err(errno) => reply.error(errno),
    }
}

fn nothing(outcome: Result<(), Errno>, reply: ReplyEmpty) {
    match outcome {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(errno),
    }
}

impl Filesystem for System {
    fn lookup(&self, _req: &Request, _parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        entry(self.state().named(name), reply);
    }

    fn getattr(&self, _req: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        attributes(self.state().attributes(ino.0), reply);
    }

    fn setattr(
        &self,
        _req: &Request,
        ino: INodeNo,
        _mode: Option<u32>,
        _uid: Option<u32>,
        _gid: Option<u32>,
        size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let mut state = self.state();
        let cut = size.map_or(Ok(()), |size| state.truncate(ino.0, size));
        attributes(cut.and_then(|()| state.attributes(ino.0)), reply);
    }

    fn create(
        &self,
        _req: &Request,
        _parent: INodeNo,
        name: &OsStr,
        _mode: u32,
        _umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        let (handle, direct) = (FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
        match self.state().create(name) {
            Ok(attributes) => {
                reply.created(&Duration::ZERO, &attributes, Generation(0), handle, direct);
            }
            Err(errno) => reply.error(errno),
        }
    }

    fn open(&self, _req: &Request, _ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn read(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let mut state = self.state();
        if let Err(errno) = state.call(Call::Read) {
            return reply.error(errno);
        }
        let start = usize::try_from(offset).unwrap();
        let bytes = state.files.get(&ino.0).and_then(|bytes| bytes.get(start..));
        let bytes = bytes.unwrap_or_default();
        reply.data(&bytes[..bytes.len().min(size as usize)]);
    }

    fn write(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.state().write(ino.0, offset, data) {
            Ok(len) => reply.written(u32::try_from(len).unwrap()),
            Err(errno) => reply.error(errno),
        }
    }

    fn fsync(&self, _req: &Request, _ino: INodeNo, _fh: FileHandle, _: bool, reply: ReplyEmpty) {
        nothing(self.state().call(Call::Sync), reply);
    }

    fn fsyncdir(&self, _req: &Request, _ino: INodeNo, _fh: FileHandle, _: bool, reply: ReplyEmpty) {
        nothing(self.state().call(Call::SyncFolder), reply);
    }

    fn rename(
        &self,
        _req: &Request,
        _parent: INodeNo,
        name: &OsStr,
        _newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        nothing(self.state().rename(name, newname, flags), reply);
    }

    fn link(
        &self,
        _req: &Request,
        ino: INodeNo,
        _newparent: INodeNo,
        newname: &OsStr,
        reply: ReplyEntry,
    ) {
        entry(self.state().link(ino.0, newname), reply);
    }

    fn unlink(&self, _req: &Request, _parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        nothing(self.state().unlink(name), reply);
    }
}
