//! `mount` and `umount`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::args::{Mount, Umount};
use super::exit::Exit;
use super::{complain, say};
use crate::fuse::background::serve_in_background;
use crate::fuse::mountinfo::{self, FSTYPE};
use crate::fuse::mounting::{Unmounted, unmount};
use crate::fuse::options::{self, MountOptions};
use crate::fuse::session::{Ground, Request, serve};

/// Mounts; in the foreground, serves until the mount ends.
pub(super) fn mount(args: &Mount) -> Exit {
    let all = args.all.then_some("all");
    let lists = args.options.iter().map(String::as_str).chain(all);
    let mut options = match MountOptions::parse(lists) {
        Ok(options) => options,
        Err(error) => {
            say(error);
            return Exit::Usage;
        }
    };
    if let Some(file) = &args.log_file {
        match options::log_file(file) {
            Ok(file) => options.log_file = Some(file),
            Err(problem) => {
                complain(file, problem);
                return Exit::Usage;
            }
        }
    }
    let request = Request {
        source: args.source.clone(),
        point: args.mountpoint.clone(),
        options,
    };
    let outcome = if args.foreground {
        serve(&request, Ground::Fore, |point| {
            say(format_args!(
                "serving {} at {}",
                request.source.display(),
                point.display()
            ));
            Ok(())
        })
    } else {
        serve_in_background(&request)
    };
    match outcome {
        Ok(()) => Exit::Done,
        Err(error) => {
            say(error);
            Exit::Failed
        }
    }
}

/// Ends a mount of ours, whether its daemon lives or not.
pub(super) fn umount(args: &Umount) -> Exit {
    let point = match mountinfo::without_asking_it(&args.mountpoint) {
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

/// How this program was called.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Called {
    /// With our own arguments.
    Directly(Vec<OsString>),
    /// By mount(8), which wants all but the mounting done (`-f`, fake).
    Fake,
}

/// `arguments` as ours, when mount(8) calls this program as `mount.pcapzst` or `mount.fuse.pcapzst`:
/// `mount.pcapzst SOURCE MOUNTPOINT [-sfnv] [-N namespace] [-o options] [-t type]` (mount(8), external helpers). Where
/// libfuse's mount.fuse is that helper, it calls `pcapzst SOURCE MOUNTPOINT -o options` (fuse(8)): an absolute path is no
/// command of ours. By hand that is how libfuse's programs are called, whose `-f` is the foreground.
pub(super) fn as_called(arguments: Vec<OsString>) -> Called {
    let mut rest = arguments.into_iter();
    let Some(program) = rest.next() else {
        return Called::Directly(Vec::new());
    };
    let mut rest = rest.peekable();
    let is_helper = Path::new(&program)
        .file_name()
        .is_some_and(|name| name == "mount.pcapzst" || name == "mount.fuse.pcapzst");
    let is_by_fuse = rest
        .peek()
        .is_some_and(|first| first.as_bytes().starts_with(b"/"));
    if !is_helper && !is_by_fuse {
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
                    if is_helper {
                        return Called::Fake;
                    }
                    ours.push(OsString::from("-f"));
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
        let given = ["pcapzst", "/src", "/mnt", "-o", "rw,dev"].map(OsString::from);
        let wanted = ["pcapzst", "mount", "/src", "/mnt", "-o", "rw,dev"].map(OsString::from);
        assert_eq!(
            as_called(given.to_vec()),
            Called::Directly(wanted.to_vec()),
            "as mount.fuse3 calls it"
        );
        for flags in ["-f", "-sf"] {
            let given = ["pcapzst", "/src", "/mnt", flags].map(OsString::from);
            let wanted = ["pcapzst", "mount", "/src", "/mnt", "-f"].map(OsString::from);
            assert_eq!(
                as_called(given.to_vec()),
                Called::Directly(wanted.to_vec()),
                "by hand, as libfuse's own programs"
            );
        }
        let given = ["pcapzst", "cat", "-t"].map(OsString::from).to_vec();
        assert_eq!(as_called(given.clone()), Called::Directly(given));
    }
}
