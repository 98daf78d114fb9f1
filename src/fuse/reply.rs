//! What the tree answers, in fuser's types.

use std::ffi::OsStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{Errno, FileAttr, FileType, INodeNo, ReplyDirectory};

use crate::tree::attr::{Attributes, BLOCK_SIZE, Lifetime, Time};
use crate::tree::errno::Failure;
use crate::tree::handle::FolderEntry;
use crate::tree::scan::Listed;

/// A listing's inode number where it is not known without opening the file; libfuse's `FUSE_UNKNOWN_INO`.
const UNKNOWN_INODE: u64 = 0xFFFF_FFFF;
/// Attributes of a folder: the kernel counts in ticks, so this is one tick or two.
const MOMENT: Duration = Duration::from_millis(1);
/// Attributes of a complete capture; a look-up by name refreshes them whenever the path is walked.
const SETTLED: Duration = Duration::from_mins(1);

/// The errno of a failed operation.
pub(super) fn errno(failure: &Failure) -> Errno {
    Errno::from_i32(failure.errno())
}

fn system_time((secs, nanos): Time) -> SystemTime {
    let nanos = Duration::from_nanos(u64::from(nanos));
    match u64::try_from(secs) {
        Ok(secs) => UNIX_EPOCH + Duration::from_secs(secs) + nanos,
        Err(_) => UNIX_EPOCH - Duration::from_secs(secs.unsigned_abs()) + nanos,
    }
}

/// Attributes as FUSE has them.
pub(super) fn file_attr(attributes: &Attributes) -> FileAttr {
    FileAttr {
        ino: INodeNo(attributes.id),
        size: attributes.size,
        blocks: attributes.blocks,
        atime: system_time(attributes.atime),
        mtime: system_time(attributes.mtime),
        ctime: system_time(attributes.ctime),
        crtime: UNIX_EPOCH,
        kind: if attributes.is_folder {
            FileType::Directory
        } else {
            FileType::RegularFile
        },
        perm: attributes.mode,
        nlink: 1,
        uid: attributes.uid,
        gid: attributes.gid,
        rdev: 0,
        blksize: BLOCK_SIZE,
        flags: 0,
    }
}

/// How long the kernel may keep `attributes`.
pub(super) fn lifetime(attributes: &Attributes) -> Duration {
    match attributes.lifetime {
        Lifetime::Live => Duration::ZERO,
        Lifetime::Moment => MOMENT,
        Lifetime::Settled => SETTLED,
    }
}

/// Fills `reply` with the entries of a folder behind `offset`. Offset n is the place behind the n-th entry, of which `.` and
/// `..`, with the numbers `dots`, are the first two.
pub(super) fn fill(
    reply: &mut ReplyDirectory,
    listing: &[FolderEntry],
    dots: [u64; 2],
    offset: u64,
) {
    let dots = dots.into_iter().zip([".", ".."]);
    let dots = dots.map(|(id, name)| (id, FileType::Directory, OsStr::new(name)));
    let entries = listing.iter().map(|entry| {
        let kind = match entry.listed {
            Listed::Folder => FileType::Directory,
            Listed::Capture | Listed::Other => FileType::RegularFile,
        };
        (entry.id.unwrap_or(UNKNOWN_INODE), kind, &*entry.name)
    });
    let skipped = usize::try_from(offset).unwrap_or(usize::MAX);
    for (place, (id, kind, name)) in (1..).zip(dots.chain(entries)).skip(skipped) {
        if reply.add(INodeNo(id), place, kind, name) {
            break;
        }
    }
}
