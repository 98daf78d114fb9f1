//! SOURCE and mount point, checked before anything is mounted.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::statfs::statfs;

use super::folder::{is_above, is_same};
use super::mountinfo::{self, FSTYPE};
use super::mounting::unmount_only;
use super::session::{MountError, Request, failed};

/// How long a mount at the mount point has for an answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The paths, absolute and without links, if one may be mounted on the other. A dead mount of ours at the mount point is
/// taken away.
pub(super) fn checked_paths(request: &Request) -> Result<(PathBuf, PathBuf), MountError> {
    let (given_source, given_point) = (&request.source, &request.point);
    let source = given_source
        .canonicalize()
        .map_err(failed(given_source.display()))?;
    clear_the_dead(given_point)?;
    let point = given_point
        .canonicalize()
        .map_err(failed(given_point.display()))?;
    refuse_a_mounted(&point)?;
    for folder in [&source, &point] {
        let attributes = folder.metadata().map_err(failed(folder.display()))?;
        if !attributes.is_dir() {
            return Err(MountError::new(format!(
                "{}: not a folder",
                folder.display()
            )));
        }
    }
    let overlap = if is_same(&source, &point) {
        Some("is the source folder itself")
    } else if is_above(&source, &point) {
        Some("lies inside the source folder")
    } else if is_above(&point, &source) {
        Some("lies above the source folder")
    } else {
        None
    };
    if let Some(overlap) = overlap {
        return Err(MountError::new(format!(
            "{}: the mount point {overlap}, {}: mounted there, it would hide or contain itself",
            point.display(),
            source.display()
        )));
    }
    Ok((source, point))
}

/// An error if a mount of ours is at `point`. Whom the kernel does not let in learns nothing of it, nor whether it is dead.
fn refuse_a_mounted(point: &Path) -> Result<(), MountError> {
    let mount = mountinfo::at(point).map_err(failed("/proc/self/mountinfo"))?;
    if mount.is_none_or(|mount| mount.fstype != FSTYPE) {
        return Ok(());
    }
    let shown = point.display();
    Err(MountError::new(match point.metadata() {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => format!(
            "{shown}: {error} (a pcapzst mount of another user is there, alive or dead: run `pcapzst umount {shown}` as that \
             user or as root, then mount again)"
        ),
        _ => format!(
            "{shown}: a pcapzst mount is there already (end it with `pcapzst umount {shown}`)"
        ),
    }))
}

/// What a mount itself says: the kernel may keep a dead one's attributes for a moment. Whom it does not let in, it answers
/// with zeros. `None` where no answer comes: then this leaves a thread behind that waits for one, and where the question was
/// taken the kernel lets this process end only once there is one, or the mount is cut off (`umount -f`).
fn state_of(point: &Path) -> Option<nix::Result<()>> {
    let (answer, answered) = channel();
    let owned = point.to_owned();
    let asking = thread::Builder::new().spawn(move || {
        // Nobody may wait for it any more.
        let _ = answer.send(statfs(&owned).map(drop));
    });
    match asking {
        Ok(asking) => {
            let answer = answered.recv_timeout(PATIENCE).ok();
            if answer.is_some() {
                // Signals are left to the threads that come.
                let _ = asking.join();
            }
            answer
        }
        Err(_) => Some(statfs(point).map(drop)),
    }
}

/// Takes away the mounts of ours at `given` whose daemon is dead: whoever starts a mount again, by hand, at boot or as a
/// restarted service, need not clean up first. Nobody can use them any more, so nothing is lost with them.
fn clear_the_dead(given: &Path) -> Result<(), MountError> {
    let failed = || failed(given.display());
    let Ok(point) = mountinfo::without_asking_it(given) else {
        // It is not there, which the next step tells.
        return Ok(());
    };
    loop {
        let mount = mountinfo::at(&point).map_err(failed())?;
        let Some(mount) = mount.filter(|mount| mount.fstype.starts_with("fuse")) else {
            return Ok(());
        };
        let shown = given.display();
        let error = match state_of(&point) {
            Some(Err(error @ Errno::ENOTCONN)) => error,
            Some(_) => return Ok(()),
            None => {
                return Err(MountError::new(format!(
                    "{shown}: the mount of type {} that is there does not answer (run `umount -f -l {shown}` to be rid of it)",
                    mount.fstype
                )));
            }
        };
        if mount.fstype != FSTYPE {
            let kind = mount.fstype;
            return Err(MountError::new(format!(
                "{shown}: {error} (a dead mount of type {kind} is there: run `umount {shown}`, then mount again)"
            )));
        }
        unmount_only(&mount).map_err(|why: io::Error| {
            MountError::new(format!(
                "{shown}: {error} (a dead mount is there, and cannot be taken away: {why}; run `pcapzst umount {shown}` \
                 as the user who made it or as root, then mount again)"
            ))
        })?;
        log::warn!("{shown}: a dead mount was there, and is taken away");
    }
}
