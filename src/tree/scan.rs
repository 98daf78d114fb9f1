//! What a folder of the mount holds: the physical names of the source folder, folded into logical ones.
//!
//! A rename that falls into a listing can hide a file from it under both names. So a folder that changes meanwhile is
//! read twice: a capture is renamed once, and the second reading finds it under its final name. What only one reading
//! saw is looked up before it is listed.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::errno::Errno;
use nix::sys::stat::FileStat;

use super::name::{FORMS, Naming};
use super::origin::{self, EntryKind, Folder, Stamp, is_file, is_folder};
use crate::capture::stamp::TICK;
use crate::capture::{Form, Progress};

/// What a name in a listing leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listed {
    /// A folder.
    Folder,
    /// A capture, under its logical name.
    Capture,
    /// Another regular file, under its own name.
    Other,
}

/// Whether a listing shows other regular files beside captures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// Captures and folders.
    Captures,
    /// Other regular files too.
    All,
}

/// The physical file that a logical name leads to now.
#[derive(Clone, Debug)]
pub struct Found {
    /// How it is stored.
    pub form: Form,
    /// What its name says.
    pub progress: Progress,
    /// Its name in the folder.
    pub physical: OsString,
    /// Its status.
    pub stat: FileStat,
}

/// The form of the capture `logical` in `folder` that wins; `None` if there is none.
///
/// A capture that is renamed between two looks is found: final names are looked for again after the partial ones.
pub fn find(folder: &Folder<'_>, naming: &Naming, logical: &OsStr) -> Result<Option<Found>, Errno> {
    let finals = || FORMS.iter().filter(|form| form.1 == Progress::Final);
    let partials = FORMS.iter().filter(|form| form.1 == Progress::Partial);
    for (form, progress) in finals().chain(partials).chain(finals()) {
        let physical = naming.physical(logical, *form, *progress);
        if let Some(stat) = regular(folder, &physical)? {
            return Ok(Some(Found {
                form: *form,
                progress: *progress,
                physical,
                stat,
            }));
        }
    }
    Ok(None)
}

/// The names of the forms of `logical` beside `winner` that are in `folder`.
#[must_use]
pub fn other_forms(
    folder: &Folder<'_>,
    naming: &Naming,
    logical: &OsStr,
    winner: &Found,
) -> Vec<OsString> {
    // Those before the winner were looked for and are not there.
    let others = FORMS
        .iter()
        .skip_while(|form| **form != (winner.form, winner.progress));
    others
        .skip(1)
        .map(|(form, progress)| naming.physical(logical, *form, *progress))
        .filter(|physical| matches!(regular(folder, physical), Ok(Some(_))))
        .collect()
}

/// The status of the regular file `name` in `folder`; `None` if there is none, or something else.
fn regular(folder: &Folder<'_>, name: &OsStr) -> Result<Option<FileStat>, Errno> {
    match folder.stat(name) {
        Ok(stat) => Ok(is_file(&stat).then_some(stat)),
        Err(errno) if is_no_file(errno) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Whether `errno` says that there is no such file: also for a link that leads nowhere, out of SOURCE or round in a circle,
/// and for a name too long with its suffix.
fn is_no_file(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::ENOENT | Errno::EXDEV | Errno::ELOOP | Errno::ENAMETOOLONG | Errno::ENOTDIR
    )
}

/// What the folder that `enter` opens holds, by logical name. Links to folders that `is_within` knows, by device and inode
/// number, are left out: they hold this one.
pub fn list<'a>(
    enter: &dyn Fn() -> Result<Folder<'a>, Errno>,
    naming: &Naming,
    shown: Shown,
    is_within: &dyn Fn((u64, u64)) -> bool,
) -> Result<BTreeMap<OsString, Listed>, Errno> {
    let folder = enter()?;
    let before = folder.status()?;
    let names = read(&folder, naming, shown, is_within)?;
    let after = folder.status()?;
    if Stamp::of(&before) == Stamp::of(&after) && !is_recent(&before) {
        return Ok(names);
    }
    drop(folder);
    let folder = enter()?;
    let mut again = read(&folder, naming, shown, is_within)?;
    for (name, listed) in names {
        if !again.contains_key(&name) && is_there(&folder, naming, &name, listed)? {
            again.insert(name, listed);
        }
    }
    Ok(again)
}

fn is_there(
    folder: &Folder<'_>,
    naming: &Naming,
    name: &OsStr,
    listed: Listed,
) -> Result<bool, Errno> {
    let found = match listed {
        Listed::Capture => find(folder, naming, name).map(|found| found.is_some()),
        Listed::Folder | Listed::Other => folder.stat(name).map(|_| true),
    };
    found.or_else(is_listed)
}

/// Whether a name is listed at which a look failed with `errno`: who looks at it is told why.
///
/// # Errors
/// `errno` where descriptors are short: that says nothing of the name, and more can be had.
fn is_listed(errno: Errno) -> Result<bool, Errno> {
    match errno {
        Errno::EMFILE | Errno::ENFILE => Err(errno),
        errno => Ok(!is_no_file(errno)),
    }
}

fn is_recent(stat: &FileStat) -> bool {
    let mtime = Duration::new(
        u64::try_from(stat.st_mtime).unwrap_or(0),
        u32::try_from(stat.st_mtime_nsec).unwrap_or(0),
    );
    // A time in the future says as little as a recent one.
    SystemTime::now()
        .duration_since(UNIX_EPOCH + mtime)
        .map_or(true, |age| age < TICK)
}

/// One reading of the folder.
fn read(
    folder: &Folder<'_>,
    naming: &Naming,
    shown: Shown,
    is_within: &dyn Fn((u64, u64)) -> bool,
) -> Result<BTreeMap<OsString, Listed>, Errno> {
    let mut names = BTreeMap::new();
    for (physical, kind) in folder.names()? {
        let kind = match kind {
            EntryKind::Link | EntryKind::Unknown => match folder.stat(&physical) {
                // A link to a folder that holds it: a look-up finds nothing there.
                Ok(stat) if is_folder(&stat) && is_within((stat.st_dev, stat.st_ino)) => continue,
                Ok(stat) => origin::kind(&stat),
                Err(errno) if !is_listed(errno)? => continue,
                // Only the name says what it may be.
                Err(_) if shown == Shown::All || naming.parse(&physical).is_some() => {
                    EntryKind::File
                }
                Err(_) => EntryKind::Folder,
            },
            kind => kind,
        };
        match (kind, naming.parse(&physical)) {
            (EntryKind::File, Some(parsed)) => {
                // A capture hides a folder of the same name, as a look-up does.
                names.insert(parsed.logical.to_owned(), Listed::Capture);
            }
            (EntryKind::File, None) if shown == Shown::All => {
                names.entry(physical).or_insert(Listed::Other);
            }
            (EntryKind::Folder, _) => {
                names.entry(physical).or_insert(Listed::Folder);
            }
            _ => {}
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_looked_at_is_listed_unless_it_is_not_there_or_descriptors_are_short() {
        for errno in [Errno::EACCES, Errno::EIO, Errno::ENOMEM, Errno::ESTALE] {
            assert_eq!(is_listed(errno), Ok(true), "{errno}");
        }
        for errno in [Errno::ENOENT, Errno::EXDEV, Errno::ELOOP, Errno::ENOTDIR] {
            assert_eq!(is_listed(errno), Ok(false), "{errno}");
        }
        for errno in [Errno::EMFILE, Errno::ENFILE] {
            assert_eq!(is_listed(errno), Err(errno));
        }
    }
}
