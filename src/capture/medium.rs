//! What the physical bytes of a file lie on, as far as a walk cares: what a small read costs that is not in memory.
//!
//! Looked up once a file system, and never a reason to fail: where nothing can be learned, the answer is
//! [`Medium::Unknown`].

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::sync::Mutex;

use nix::libc::{major, minor};
use nix::sys::statfs::fstatfs;

use super::sync::lock;

/// What a small read costs that is not in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// Memory, or a disk without moving parts: a small read is cheap wherever it lies.
    Solid,
    /// Behind a network or another program: each read costs a round trip, and many are answered at a time.
    Remote,
    /// Not known before it was tried: a disk that says it turns, or a file system that does not say what it lies on.
    /// Virtual disks say that they turn, whatever they are: virtio has no word for it.
    Unknown,
}

/// `statfs` types of file systems that ask somebody else for each read (statfs(2), linux/magic.h).
const REMOTE: [u64; 9] = [
    0x6969,      // NFS
    0x517B,      // SMB
    0xFF53_4D42, // CIFS
    0xFE53_4D42, // SMB2
    0x6573_5546, // FUSE: sshfs, object stores, and our own mounts
    0x0102_1997, // 9p
    0x00C3_6400, // Ceph
    0x5346_414F, // AFS
    0x0BD0_0BD3, // Lustre
];

/// File systems remembered. More are asked each time; nobody has as many beneath one folder.
const KNOWN_MOST: usize = 256;

/// By device number. One that is given to another file system later on makes a walk slower or faster, nothing else.
static KNOWN: Mutex<BTreeMap<u64, Medium>> = Mutex::new(BTreeMap::new());

impl Medium {
    /// What `file` lies on. Reads a file of sysfs the first time.
    #[must_use]
    pub fn of(file: &File) -> Self {
        let Ok(metadata) = file.metadata() else {
            return Self::Unknown;
        };
        let device = metadata.dev();
        if let Some(medium) = lock(&KNOWN).get(&device) {
            return *medium;
        }
        let fs_type = fstatfs(file)
            .ok()
            .and_then(|statfs| u64::try_from(statfs.filesystem_type().0).ok());
        let medium = Self::judge(fs_type, rotational(device));
        log::debug!("device {}:{}: {medium:?}", major(device), minor(device));
        let mut known = lock(&KNOWN);
        if known.len() < KNOWN_MOST {
            known.insert(device, medium);
        }
        medium
    }

    /// The medium of a file system of type `fs_type` on a device that says whether it turns; `None` where it is not told.
    fn judge(fs_type: Option<u64>, is_rotational: Option<bool>) -> Self {
        match (fs_type, is_rotational) {
            (Some(fs_type), _) if REMOTE.contains(&fs_type) => Self::Remote,
            (_, Some(false)) => Self::Solid,
            (_, Some(true) | None) => Self::Unknown,
        }
    }
}

/// Whether the block device with this number says that it turns; `None` if it is none, or does not say.
fn rotational(device: u64) -> Option<bool> {
    let device = format!("/sys/dev/block/{}:{}", major(device), minor(device));
    // A partition has no queue of its own: its disk's is one folder up.
    ["queue", "../queue"].iter().find_map(|queue| {
        let told = fs::read(format!("{device}/{queue}/rotational")).ok()?;
        match told.first() {
            Some(b'0') => Some(false),
            Some(b'1') => Some(true),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXT4: Option<u64> = Some(0xEF53);

    #[test]
    fn a_disk_that_does_not_turn_is_solid_and_one_that_says_it_turns_is_to_be_tried() {
        assert_eq!(Medium::judge(EXT4, Some(false)), Medium::Solid);
        assert_eq!(Medium::judge(EXT4, Some(true)), Medium::Unknown);
    }

    #[test]
    fn file_systems_that_ask_others_are_remote_whatever_they_lie_on() {
        for fs_type in REMOTE {
            assert_eq!(Medium::judge(Some(fs_type), None), Medium::Remote);
            assert_eq!(Medium::judge(Some(fs_type), Some(false)), Medium::Remote);
        }
    }

    #[test]
    fn what_is_not_told_is_unknown_and_no_failure() {
        assert_eq!(Medium::judge(None, None), Medium::Unknown);
        assert_eq!(Medium::judge(EXT4, None), Medium::Unknown);
        assert_eq!(rotational(u64::MAX), None);
    }

    #[test]
    fn a_file_of_the_kernels_is_asked_without_a_failure() {
        let file = File::open("/proc/self/stat").expect("procfs");
        assert_eq!(Medium::of(&file), Medium::Unknown);
        assert_eq!(Medium::of(&file), Medium::Unknown, "and remembered");
    }
}
