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
    /// The mount's number in its namespace; it stays when the mount is moved, and is given out again when it is gone.
    pub id: u64,
    /// Device as `major:minor`: one for all mounts of a file system, and given out again when that is gone.
    pub device: String,
    /// Where it is mounted.
    pub point: PathBuf,
    /// File system type, subtype included.
    pub fstype: String,
}

/// Where a mount is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whereabouts {
    /// Nowhere: it was unmounted.
    Gone,
    /// It is what this path shows.
    Seen(PathBuf),
    /// It is on this path, under another mount of this type.
    Hidden(PathBuf, String),
}

/// The mount that is visible at `point`, an absolute path without links: the last of those stacked there.
pub fn at(point: &Path) -> io::Result<Option<Mount>> {
    Ok(last_at(&table()?, point))
}

/// Where `mount` is now: on the same path, or on another to which it was moved.
pub fn find(mount: &Mount) -> io::Result<Whereabouts> {
    Ok(find_in(&table()?, mount))
}

fn table() -> io::Result<Vec<u8>> {
    std::fs::read("/proc/self/mountinfo")
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

fn mounts(mountinfo: &[u8]) -> impl DoubleEndedIterator<Item = Mount> {
    mountinfo.split(|byte| *byte == b'\n').filter_map(parse)
}

fn last_at(mountinfo: &[u8], point: &Path) -> Option<Mount> {
    mounts(mountinfo).rfind(|mount| mount.point == point)
}

fn find_in(mountinfo: &[u8], wanted: &Mount) -> Whereabouts {
    let identity = (wanted.id, &wanted.device, &wanted.fstype);
    let is_it = |mount: &Mount| (mount.id, &mount.device, &mount.fstype) == identity;
    let Some(found) = mounts(mountinfo).find(is_it) else {
        return Whereabouts::Gone;
    };
    match last_at(mountinfo, &found.point) {
        Some(seen) if seen.id != found.id => Whereabouts::Hidden(found.point, seen.fstype),
        _ => Whereabouts::Seen(found.point),
    }
}

/// One line: `id parent major:minor root point options [optional…] - fstype source super` (`proc_pid_mountinfo(5)`).
fn parse(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|byte| *byte == b' ');
    let id = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    let device = String::from_utf8(fields.nth(1)?.to_vec()).ok()?;
    let point = unescape(fields.nth(1)?);
    let fstype = fields.skip_while(|field| *field != b"-").nth(1)?;
    Some(Mount {
        id,
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

    #[test]
    fn a_mount_is_found_where_it_was_moved_and_no_other_passes_for_it() {
        let ours = Mount {
            id: 36,
            device: "0:40".to_owned(),
            point: PathBuf::from("/mnt"),
            fstype: FSTYPE.to_owned(),
        };
        let seen = |lines: &[&str]| find_in(lines.join("\n").as_bytes(), &ours);
        let at = |point: &str| format!("36 1 0:40 / {point} ro - fuse.pcapzst src ro");
        let moved = seen(&[&at("/elsewhere"), "37 1 0:41 / /mnt rw - tmpfs tmpfs rw"]);
        assert_eq!(moved, Whereabouts::Seen("/elsewhere".into()));
        let hidden = seen(&[&at("/mnt"), "37 36 0:41 / /mnt rw - tmpfs tmpfs rw"]);
        assert_eq!(hidden, Whereabouts::Hidden("/mnt".into(), "tmpfs".into()));
        for other in [
            "36 1 0:40 / /mnt rw - tmpfs tmpfs rw",
            "36 1 0:41 / /mnt ro - fuse.pcapzst src ro",
            "38 1 0:40 / /mnt ro - fuse.pcapzst src ro",
        ] {
            assert_eq!(seen(&[other]), Whereabouts::Gone, "{other}");
        }
    }
}
