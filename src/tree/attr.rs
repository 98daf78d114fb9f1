//! What `stat` shows of an inode, and the attributes by name.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use nix::sys::stat::FileStat;

use super::capture_node::CaptureNode;
use super::errno::Failure;
use super::inode::{Node, NodeKind};
use crate::capture::{Facts, Form, State};

/// The block size reported for captures: readers that follow it ask for as much as one frame holds.
pub const BLOCK_SIZE: u32 = 256 * 1024;
/// Write bits: no file here can be written.
const WRITE_BITS: u32 = 0o222;
/// The prefix of every attribute by name.
pub const PREFIX: &str = "user.pcapzst.";

/// Why no file can have an attribute of this name; `None` for one that a file may have.
///
/// Beside users' own attributes there are labels, access lists and capabilities. That those are "not supported" `ls -l`
/// remembers for the whole file system; that one file has none of them it would ask again for every file.
#[must_use]
pub fn refusal(name: &OsStr) -> Option<Failure> {
    let name = name.as_bytes();
    if name.starts_with(PREFIX.as_bytes()) {
        None
    } else if name.starts_with(b"user.") {
        Some(Failure::NoAttribute)
    } else {
        Some(Failure::NoSuchAttributes)
    }
}

/// Rights that mount options put in place of the physical file's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// Owner of every file and folder.
    pub uid: Option<u32>,
    /// Group of every file and folder.
    pub gid: Option<u32>,
    /// Bits taken from 0666 (files) or 0777 (folders); write bits are taken in any case.
    pub umask: Option<u32>,
}

/// A point in time: seconds since the epoch, and nanoseconds below one second.
pub type Time = (i64, u32);

/// How long the kernel may rely on attributes without asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// Not at all: they change while nobody looks.
    Live,
    /// A folder's: a moment. The kernel looks at its rights for every name in it.
    Moment,
    /// A complete compressed capture's: long. Every look-up by name asks anyhow.
    Settled,
}

/// What `stat` shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// The inode's number.
    pub id: u64,
    /// Whether it is a folder; else it is a regular file.
    pub is_folder: bool,
    /// Source bytes of a capture.
    pub size: u64,
    /// Blocks of 512 bytes on disk, never 0 where there are bytes.
    pub blocks: u64,
    /// Permission bits.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Last access.
    pub atime: Time,
    /// Last write.
    pub mtime: Time,
    /// Last change of the inode.
    pub ctime: Time,
    /// How long this holds.
    pub lifetime: Lifetime,
    /// Whether [`super::Tree::pages_to_drop`] is to be asked before this is told.
    pub is_mapped: bool,
}

impl Attributes {
    /// The attributes of `node`, whose physical file or folder has status `stat`; `facts` for a capture.
    #[must_use]
    pub fn new(node: &Node, stat: &FileStat, facts: Option<&Facts>, overrides: &Overrides) -> Self {
        let is_folder = matches!(node.kind, NodeKind::Folder(_));
        let size = facts.map_or(0, |facts| facts.size);
        let blocks = u64::try_from(stat.st_blocks).unwrap_or(0);
        let mode = match overrides.umask {
            Some(umask) if is_folder => 0o777 & !umask,
            Some(umask) => 0o666 & !umask,
            None => stat.st_mode & 0o7777,
        };
        Self {
            id: node.id,
            is_folder,
            size,
            blocks: if size > 0 { blocks.max(1) } else { blocks },
            // Twelve bits are left.
            mode: u16::try_from(mode & 0o7777 & !WRITE_BITS).unwrap_or(0),
            uid: overrides.uid.unwrap_or(stat.st_uid),
            gid: overrides.gid.unwrap_or(stat.st_gid),
            atime: time(stat.st_atime, stat.st_atime_nsec),
            mtime: time(stat.st_mtime, stat.st_mtime_nsec),
            ctime: time(stat.st_ctime, stat.st_ctime_nsec),
            lifetime: match (node.capture().map(CaptureNode::form), facts) {
                (Some(Form::Zst), Some(facts)) if facts.state == State::Complete => {
                    Lifetime::Settled
                }
                _ if is_folder => Lifetime::Moment,
                _ => Lifetime::Live,
            },
            is_mapped: node.capture().is_some_and(CaptureNode::is_mapped),
        }
    }
}

fn time(secs: i64, nanos: i64) -> Time {
    (secs, u32::try_from(nanos).unwrap_or(0))
}

/// The value of the attribute `name` (without its prefix) of a capture; `None` if there is none by that name, or none now.
#[must_use]
pub fn value(name: &str, facts: &Facts, form: Form, physical_name: &[u8]) -> Option<Vec<u8>> {
    let text = match name {
        "state" => facts.state.as_str().to_owned(),
        "format" => form.as_str().to_owned(),
        "file_id" => facts.file_id.to_string(),
        "frames" => facts.frames.to_string(),
        "physical_name" => return Some(physical_name.to_vec()),
        "physical_size" => facts.physical_len.to_string(),
        "torn_bytes" => facts.torn_bytes.to_string(),
        "error" => facts.error.as_ref()?.to_string(),
        _ => return None,
    };
    Some(text.into_bytes())
}
