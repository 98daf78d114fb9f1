//! `mount` and `umount`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::args::{Mount, Umount};
use super::complain;
use super::exit::Exit;
use crate::fuse::mountinfo::{self, FSTYPE};
use crate::fuse::mounting::{Unmounted, unmount};
use crate::fuse::options::MountOptions;
use crate::fuse::session::{Request, serve, serve_in_background};

/// Mounts; in the foreground, serves until the mount ends.
pub(super) fn mount(args: &Mount) -> Exit {
    let all = args.all.then_some("all");
    let lists = args.options.iter().map(String::as_str).chain(all);
    let options = match MountOptions::parse(lists) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("pcapzst: {error}");
            return Exit::Usage;
        }
    };
    let request = Request {
        source: args.source.clone(),
        point: args.mountpoint.clone(),
        options,
    };
    let outcome = if args.foreground {
        serve(&request, |point| {
            eprintln!(
                "pcapzst: serving {} at {}",
                request.source.display(),
                point.display()
            );
        })
    } else {
        serve_in_background(&request)
    };
    match outcome {
        Ok(()) => Exit::Done,
        Err(error) => {
            eprintln!("pcapzst: {error}");
            Exit::Failed
        }
    }
}

/// Ends a mount of ours, whether its daemon lives or not.
pub(super) fn umount(args: &Umount) -> Exit {
    let point = match without_asking_it(&args.mountpoint) {
        Ok(point) => point,
        Err(error) => {
            complain(&args.mountpoint, error);
            return Exit::Failed;
        }
    };
    match mountinfo::at(&point) {
        Ok(Some(mount)) if mount.fstype == FSTYPE => {}
        Ok(_) => {
            complain(&args.mountpoint, "no pcapzst mount is there");
            return Exit::Failed;
        }
        Err(error) => {
            complain(Path::new("/proc/self/mountinfo"), error);
            return Exit::Failed;
        }
    }
    match unmount(&point) {
        Ok(Unmounted::Gone) => Exit::Done,
        Ok(Unmounted::Detached) => {
            complain(
                &point,
                "was busy: open files are served until they are closed",
            );
            Exit::Done
        }
        Err(error) => {
            complain(&point, error);
            Exit::Failed
        }
    }
}

/// The absolute path of a mount point, found without a request to what is mounted there: its daemon may be dead.
fn without_asking_it(point: &Path) -> std::io::Result<PathBuf> {
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

/// How this program was called.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Called {
    /// With our own arguments.
    Directly(Vec<OsString>),
    /// By mount(8), which wants all but the mounting done (`-f`, fake).
    Fake,
}

/// `arguments` as ours, when mount(8) calls this program as `mount.pcapzst` or `mount.fuse.pcapzst`:
/// `mount.pcapzst SOURCE MOUNTPOINT [-sfnv] [-N namespace] [-o options] [-t type]` (mount(8), external helpers).
pub(super) fn as_called(arguments: Vec<OsString>) -> Called {
    let mut rest = arguments.into_iter();
    let Some(program) = rest.next() else {
        return Called::Directly(Vec::new());
    };
    let is_helper = Path::new(&program)
        .file_name()
        .is_some_and(|name| name == "mount.pcapzst" || name == "mount.fuse.pcapzst");
    if !is_helper {
        return Called::Directly(std::iter::once(program).chain(rest).collect());
    }
    let mut ours = vec![program, OsString::from("mount")];
    while let Some(argument) = rest.next() {
        match argument.as_bytes() {
            b"-t" | b"-N" => {
                rest.next();
            }
            [b'-', letters @ ..]
                if !letters.is_empty() && letters.iter().all(|letter| b"sfnv".contains(letter)) =>
            {
                // Sloppy, no mtab and verbose change nothing here.
                if letters.contains(&b'f') {
                    return Called::Fake;
                }
            }
            _ => ours.push(argument),
        }
    }
    Called::Directly(ours)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mount_helper_takes_mount8s_arguments() {
        let given = [
            "/sbin/mount.pcapzst",
            "/src",
            "/mnt",
            "-s",
            "-o",
            "rw,nofail",
            "-t",
            "fuse.pcapzst",
        ];
        assert_eq!(
            as_called(given.map(OsString::from).to_vec()),
            Called::Directly(
                [
                    "/sbin/mount.pcapzst",
                    "mount",
                    "/src",
                    "/mnt",
                    "-o",
                    "rw,nofail"
                ]
                .map(OsString::from)
                .to_vec()
            )
        );
        let given = ["mount.pcapzst", "/src", "/mnt", "-vf"].map(OsString::from);
        assert_eq!(as_called(given.to_vec()), Called::Fake);
        let given = ["pcapzst", "cat", "-t"].map(OsString::from).to_vec();
        assert_eq!(as_called(given.clone()), Called::Directly(given));
    }
}
