//! A slow and failing disk: a file system that shows one folder as it is, and whose reads can be held, or made to fail,
//! until the test lets them go. Nothing here waits for a clock.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyOpen, Request,
};
use tempfile::TempDir;

use crate::common::mounted::free;

const ROOT: u64 = 1;
const PATIENCE: Duration = Duration::from_mins(1);

/// What becomes of reads of a file from an offset on.
#[derive(Clone, Copy)]
pub enum Rule {
    /// They wait.
    Hold,
    /// So many of them fail with this errno.
    Fail(i32, u32),
    /// So many of them give nothing, as at the end of the file.
    Nothing(u32),
}

/// The mounted file system.
pub struct Gate {
    session: Option<BackgroundSession>,
    mnt: TempDir,
    control: Arc<Control>,
}

struct Control {
    folder: PathBuf,
    state: Mutex<State>,
    /// Notified with every read that is held.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// By the file's name: from which offset on, and what.
    rules: HashMap<OsString, (u64, Rule)>,
    held: Vec<(Waiting, ReplyData)>,
    names: HashMap<u64, OsString>,
    files: HashMap<u64, Arc<File>>,
    opens: u64,
    /// Reads that were made to fail.
    failed: u64,
}

/// A read that waits.
struct Waiting {
    file: Arc<File>,
    offset: u64,
    size: u32,
}

impl Waiting {
    fn answer(&self, reply: ReplyData) {
        let mut bytes = vec![0; self.size as usize];
        match self.file.read_at(&mut bytes, self.offset) {
            Ok(len) => reply.data(&bytes[..len]),
            Err(error) => reply.error(error.into()),
        }
    }
}

impl Gate {
    /// Shows the files in `folder`.
    #[track_caller]
    pub fn over(folder: &Path) -> Self {
        let mnt = tempfile::Builder::new()
            .prefix("pcapzst-gate-")
            .tempdir()
            .unwrap();
        let control = Arc::new(Control {
            folder: folder.to_owned(),
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let mut config = Config::default();
        config.n_threads = Some(2);
        let system = System(Arc::clone(&control));
        let session = fuser::spawn_mount(system, mnt.path(), &config).unwrap();
        Self {
            session: Some(session),
            mnt,
            control,
        }
    }

    pub fn path(&self) -> &Path {
        self.mnt.path()
    }

    /// Has reads of the file `name` from `offset` on come under a rule.
    pub fn set(&self, name: &str, offset: usize, rule: Rule) {
        let rule = (offset as u64, rule);
        self.state().rules.insert(name.into(), rule);
    }

    /// Lets everything pass: what is held is answered, and nothing fails any more. How many reads were made to fail.
    pub fn open(&self) -> u64 {
        let (held, failed) = {
            let mut state = self.state();
            state.rules.clear();
            let held = std::mem::take(&mut state.held);
            (held, std::mem::take(&mut state.failed))
        };
        for (request, reply) in held {
            request.answer(reply);
        }
        failed
    }

    /// Waits until so many reads are held.
    #[track_caller]
    pub fn wait_for(&self, held: usize) {
        let lacks = |state: &mut State| state.held.len() < held;
        let changed = &self.control.changed;
        let outcome = changed.wait_timeout_while(self.state(), PATIENCE, lacks);
        // Not held while this panics: what is held has to be let go of behind it.
        let there = outcome.unwrap().0.held.len();
        assert!(there >= held, "{there} reads wait, not {held}");
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.control.state.lock().unwrap()
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.open();
        free(self.mnt.path());
        drop(self.session.take());
    }
}

struct System(Arc<Control>);

impl System {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap()
    }

    /// Where the inode's file is, if it was looked up.
    fn path(&self, ino: INodeNo) -> Option<PathBuf> {
        match ino.0 {
            ROOT => Some(self.0.folder.clone()),
            ino => Some(self.0.folder.join(self.state().names.get(&ino)?)),
        }
    }

    fn attributes(&self, ino: INodeNo) -> Result<FileAttr, Errno> {
        let path = self.path(ino).ok_or(Errno::ESTALE)?;
        let found = fs::metadata(path).map_err(Errno::from)?;
        Ok(attributes(&found, ino.0))
    }
}

fn attributes(found: &Metadata, ino: u64) -> FileAttr {
    let changed = Duration::new(
        found.ctime().try_into().unwrap(),
        found.ctime_nsec().try_into().unwrap(),
    );
    FileAttr {
        ino: INodeNo(ino),
        size: found.len(),
        blocks: found.blocks(),
        atime: UNIX_EPOCH,
        mtime: found.modified().unwrap(),
        ctime: UNIX_EPOCH + changed,
        crtime: UNIX_EPOCH,
        kind: if found.is_dir() {
            FileType::Directory
        } else {
            FileType::RegularFile
        },
        perm: 0o755,
        nlink: 1,
        uid: found.uid(),
        gid: found.gid(),
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

impl Filesystem for System {
    fn lookup(&self, _req: &Request, _parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match fs::metadata(self.0.folder.join(name)) {
            Ok(found) => {
                self.state().names.insert(found.ino(), name.to_owned());
                let attributes = attributes(&found, found.ino());
                reply.entry(&Duration::ZERO, &attributes, Generation(0));
            }
            Err(error) => reply.error(error.into()),
        }
    }

    fn getattr(&self, _req: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(ino) {
            Ok(attributes) => reply.attr(&Duration::ZERO, &attributes),
            Err(errno) => reply.error(errno),
        }
    }

    fn open(&self, _req: &Request, ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        match self.path(ino).map(File::open) {
            Some(Ok(file)) => {
                let mut state = self.state();
                state.opens += 1;
                let handle = state.opens;
                state.files.insert(handle, Arc::new(file));
                // Direct: every read of whoever has it open comes here.
                reply.opened(FileHandle(handle), FopenFlags::FOPEN_DIRECT_IO);
            }
            Some(Err(error)) => reply.error(error.into()),
            None => reply.error(Errno::ESTALE),
        }
    }

    fn read(
        &self,
        _req: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let mut state = self.state();
        let Some(file) = state.files.get(&fh.0).cloned() else {
            return reply.error(Errno::EBADF);
        };
        let request = Waiting { file, offset, size };
        let name = state.names.get(&ino.0).cloned().unwrap_or_default();
        let end = offset + u64::from(size);
        let rule = match state.rules.get_mut(&name) {
            Some((from, rule)) if end > *from => rule,
            _ => {
                drop(state);
                return request.answer(reply);
            }
        };
        match rule {
            Rule::Hold => {
                state.held.push((request, reply));
                self.0.changed.notify_all();
            }
            Rule::Fail(_, 0) | Rule::Nothing(0) => {
                drop(state);
                request.answer(reply);
            }
            Rule::Fail(errno, times) => {
                *times -= 1;
                let errno = Errno::from_i32(*errno);
                state.failed += 1;
                reply.error(errno);
            }
            Rule::Nothing(times) => {
                *times -= 1;
                state.failed += 1;
                reply.data(&[]);
            }
        }
    }

    fn release(
        &self,
        _req: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        self.state().files.remove(&fh.0);
        reply.ok();
    }

    fn readdir(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let entries = fs::read_dir(&self.0.folder).unwrap().map(Result::unwrap);
        let mut entries: Vec<_> = entries
            .map(|entry| (entry.metadata().unwrap().ino(), entry.file_name()))
            .collect();
        entries.sort();
        for (place, (ino, name)) in (1..).zip(entries).skip(offset.try_into().unwrap()) {
            if reply.add(INodeNo(ino), place, FileType::RegularFile, name) {
                break;
            }
        }
        reply.ok();
    }
}
