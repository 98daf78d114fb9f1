//! What the tree answers, in fuser's types.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{Errno, FileAttr, FileType, INodeNo};

use crate::tree::attr::{Attributes, BLOCK_SIZE, Lifetime, Time};
use crate::tree::errno::Failure;

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
        Lifetime::Settled => SETTLED,
    }
}
