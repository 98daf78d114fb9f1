//! What is mounted where, from /proc/self/mountinfo: asked without a request to any mounted file system.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// The file system type of our mounts.
pub const FSTYPE: &str = "fuse.pcapzst";

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Device as `major:minor`, unique to one mounted file system.
    pub device: String,
    /// Where it is mounted.
    pub point: PathBuf,
    /// File system type, subtype included.
    pub fstype: String,
}

/// The mount that is visible at `point`, an absolute path without links: the last of those stacked there.
pub fn at(point: &Path) -> io::Result<Option<Mount>> {
    let text = std::fs::read("/proc/self/mountinfo")?;
    Ok(last_at(&text, point))
}

/// The absolute path of a mount point, found without a request to what is mounted there: its daemon may be dead.
pub fn without_asking_it(point: &Path) -> io::Result<PathBuf> {
    let absolute = std::path::absolute(point)?;
    // A mount point is no link, so this asks nothing of the mount.
    if absolute.read_link().is_ok() {
        return absolute.canonicalize();
    }
    match (absolute.parent(), absolute.file_name()) {
        (Some(parent), Some(name)) => Ok(parent.canonicalize()?.join(name)),
        _ => absolute.canonicalize(),
    }
}

fn last_at(mountinfo: &[u8], point: &Path) -> Option<Mount> {
    mountinfo
        .split(|byte| *byte == b'\n')
        .filter_map(parse)
        .rfind(|mount| mount.point == point)
}

/// One line: `id parent major:minor root point options [optional…] - fstype source super` (`proc_pid_mountinfo(5)`).
fn parse(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|byte| *byte == b' ');
    let device = String::from_utf8(fields.nth(2)?.to_vec()).ok()?;
    let point = unescape(fields.nth(1)?);
    let fstype = fields.skip_while(|field| *field != b"-").nth(1)?;
    Some(Mount {
        device,
        point: PathBuf::from(OsString::from_vec(point)),
        fstype: String::from_utf8(fstype.to_vec()).ok()?,
    })
}

/// Space, tab, newline and backslash stand as three octal digits behind a backslash.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, tail @ ..] = rest {
        match tail {
            [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', tail @ ..] if *first == b'\\' => {
                bytes.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest = tail;
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_mount_on_a_point_with_odd_bytes_is_found() {
        let text = b"1 0 8:1 / / rw - ext4 /dev/sda rw\n\
            36 1 0:40 / /m\\040\\134x rw,nosuid shared:1 - fuse.pcapzst src rw,user_id=0\n\
            37 36 0:41 / /m\\040\\134x rw - tmpfs tmpfs rw\n";
        let mount = last_at(text, Path::new("/m \\x")).expect("mounted");
        assert_eq!(
            (mount.device.as_str(), mount.fstype.as_str()),
            ("0:41", "tmpfs")
        );
        assert_eq!(last_at(text, Path::new("/n")), None);
    }
}
