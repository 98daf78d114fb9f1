//! How folders lie to each other, whatever they are called.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Whether `folder` holds what is at `path`, an absolute path without links, at any depth.
pub(super) fn is_above(folder: &Path, path: &Path) -> bool {
    path.ancestors()
        .skip(1)
        .any(|ancestor| is_same(folder, ancestor))
}

/// By device and inode number, so that a bind mount deceives nobody.
pub(super) fn is_same(a: &Path, b: &Path) -> bool {
    match (a.metadata(), b.metadata()) {
        (Ok(a), Ok(b)) => (a.dev(), a.ino()) == (b.dev(), b.ino()),
        _ => a == b,
    }
}

/// The one of `source` and `point` that is the folder `there`, an absolute path without links, or holds it; and what it is
/// called.
pub(super) fn holder_of<'a>(
    there: &Path,
    source: &'a Path,
    point: &'a Path,
) -> Option<(&'a Path, &'static str)> {
    [(source, "source folder"), (point, "mount point")]
        .into_iter()
        .find(|(holder, _)| is_same(holder, there) || is_above(holder, there))
}

/// What is there of `path`, without links, and the rest.
pub(super) fn nearest(path: &Path) -> (PathBuf, &Path) {
    path.ancestors()
        .find_map(|ancestor| {
            let rest = path.strip_prefix(ancestor).ok()?;
            Some((ancestor.canonicalize().ok()?, rest))
        })
        .unwrap_or_else(|| (PathBuf::from("/"), path))
}
