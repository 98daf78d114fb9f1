//! The folder in which frame tables are kept: which one, and whether it may be.
//!
//! What a user names must work, or there is no mount; the folder that is taken otherwise is a convenience, and where it
//! cannot be used nothing is kept.

use std::env;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use nix::unistd::geteuid;

use super::folder::{holder_of, nearest};
use super::options::IndexDir;
use crate::capture::index::{INDEX_BYTES, Index};

/// The folder's name within the user's cache folder.
const NAME: &str = "pcapzst";
/// Where the cache folder is for root without a home: at boot, mount(8) has no `HOME`.
const SYSTEM_CACHE: &str = "/var/cache";

/// The index in the folder that `wanted` names, for a mount of `source` on `point`; `None` where nothing is to be kept, or
/// the folder that nobody named cannot be used.
///
/// # Errors
/// Why the folder that was named cannot be used.
pub(super) fn open(
    wanted: &IndexDir,
    source: &Path,
    point: &Path,
) -> Result<Option<Index>, String> {
    let folder = match wanted {
        IndexDir::Off => return Ok(None),
        IndexDir::Given(folder) => folder.clone(),
        IndexDir::Default => {
            let is_root = geteuid().is_root();
            let (cache_home, home) = (env::var_os("XDG_CACHE_HOME"), env::var_os("HOME"));
            let Some(folder) = default_folder(cache_home, home, is_root) else {
                log::warn!("no HOME: frame tables are not kept between mounts");
                return Ok(None);
            };
            folder
        }
    };
    match (open_in(&folder, source, point), wanted) {
        (Ok(index), _) => Ok(Some(index)),
        (Err(problem), IndexDir::Given(_)) => Err(problem),
        (Err(problem), _) => {
            log::warn!("{problem}; frame tables are not kept between mounts");
            Ok(None)
        }
    }
}

fn open_in(folder: &Path, source: &Path, point: &Path) -> Result<Index, String> {
    // Before anything is made there: SOURCE is only ever read.
    let (there, rest) = nearest(folder);
    if rest.components().any(|part| part == Component::ParentDir) {
        return Err(format!(
            "{}: the index folder: `..` behind a folder that is not there",
            folder.display()
        ));
    }
    if let Some((holder, kind)) = holder_of(&there, source, point) {
        return Err(format!(
            "{}: the index folder lies in the {kind}, {}",
            folder.display(),
            holder.display()
        ));
    }
    Index::open(folder, INDEX_BYTES)
        .map_err(|error| format!("{}: the index folder: {error}", folder.display()))
}

/// The folder for a user with these variables, as the XDG base directory specification has it: relative paths do not count.
fn default_folder(
    cache_home: Option<OsString>,
    home: Option<OsString>,
    is_root: bool,
) -> Option<PathBuf> {
    let absolute =
        |path: Option<OsString>| path.map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = absolute(cache_home)
        .or_else(|| absolute(home).map(|home| home.join(".cache")))
        .or_else(|| is_root.then(|| PathBuf::from(SYSTEM_CACHE)))?;
    Some(cache.join(NAME))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_folder_is_found_as_xdg_says_and_roots_without_a_home_is_the_systems() {
        let some = |path: &str| Some(OsString::from(path));
        let of = |cache, home, is_root| default_folder(cache, home, is_root);
        let is = |path: &str| Some(PathBuf::from(path));
        assert_eq!(of(some("/x"), some("/h"), false), is("/x/pcapzst"));
        assert_eq!(of(some("x"), some("/h"), false), is("/h/.cache/pcapzst"));
        assert_eq!(of(None, some("/h"), true), is("/h/.cache/pcapzst"));
        assert_eq!(of(some(""), some(""), true), is("/var/cache/pcapzst"));
        assert_eq!(of(None, None, false), None);
    }
}
