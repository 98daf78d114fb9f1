//! The `-o` options of a mount: ours, the kernel's, and fstab's own words.

pub mod table;

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::capture::{CACHE_SIZE, MAX_FRAME_SIZE};
use crate::tree::attr::Overrides;
use crate::tree::name::Naming;
use crate::tree::scan::Shown;
use crate::tree::way::Passing;

/// Words that fstab(5), mount(8) and systemd use among themselves, and kernel flags that say what holds anyway.
const IGNORED: [&str; 33] = [
    "defaults",
    "auto",
    "noauto",
    "user",
    "nouser",
    "users",
    "nousers",
    "owner",
    "noowner",
    "group",
    "nogroup",
    "_netdev",
    "nofail",
    "ro",
    "rw",
    "nodev",
    "nosuid",
    "dev",
    "suid",
    "async",
    "sync",
    "dirsync",
    "silent",
    "loud",
    "mand",
    "nomand",
    "iversion",
    "noiversion",
    "nostrictatime",
    "diratime",
    "nodiratime",
    "lazytime",
    "nolazytime",
];
/// Flags that [`table::WORDS`] does without, and [`table::REST`] names: they take another one back, or are refused in words of
/// their own.
const UNLISTED: [&str; 6] = [
    "exec",
    "atime",
    "relatime",
    "norelatime",
    "strictatime",
    "remount",
];
/// Beginnings of such words that carry a value.
const IGNORED_PREFIXES: [&str; 6] = ["x-", "X-", "comment=", "user=", "uhelper=", "helper="];
/// `SELinux` labels go to the kernel as they are.
const KERNEL_PREFIXES: [&str; 4] = ["context=", "fscontext=", "defcontext=", "rootcontext="];
/// The least cache: one frame of the default size and what is around it.
const CACHE_SIZE_LEAST: u64 = 1024 * 1024;
/// The most request loops.
const THREADS_MOST: usize = 64;

/// Whose requests are answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// The mounting user's.
    #[default]
    Owner,
    /// Root's too (`allow_root`).
    Root,
    /// Everybody's, within the permission bits (`allow_other`).
    Other,
}

/// Where frame tables are kept between mounts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum IndexDir {
    /// In the user's cache folder, if that can be used.
    #[default]
    Default,
    /// In this folder (`index_dir=`), an absolute path.
    Given(PathBuf),
    /// Nowhere (`no_index`).
    Off,
}

/// A mount's options.
#[derive(Clone, Debug)]
pub struct MountOptions {
    /// Whose requests are answered.
    pub access: Access,
    /// Whether fusermount3 unmounts when the daemon dies.
    pub auto_unmount: bool,
    /// `noexec` for the kernel.
    pub noexec: bool,
    /// `noatime` for the kernel.
    pub noatime: bool,
    /// The name of the source in /proc/mounts, in place of its path.
    pub fsname: Option<String>,
    /// Further options that the kernel takes as they are.
    pub kernel: Vec<String>,
    /// Rights that replace the physical files'.
    pub overrides: Overrides,
    /// Budget of the frame cache in bytes.
    pub cache_size: u64,
    /// The largest frame that is decoded, in source bytes.
    pub max_frame_size: u64,
    /// Loops that take requests; `None` for as many as there are CPUs, and two at least.
    pub threads: Option<usize>,
    /// How names are read.
    pub naming: Naming,
    /// What is shown beside captures.
    pub shown: Shown,
    /// Where frame tables are kept.
    pub index: IndexDir,
    /// What the kernel may read by itself.
    pub passing: Passing,
    /// Where the log goes, an absolute path; to syslog or standard error without it.
    pub log_file: Option<PathBuf>,
}

impl Default for MountOptions {
    fn default() -> Self {
        Self {
            access: Access::default(),
            auto_unmount: false,
            noexec: false,
            noatime: false,
            fsname: None,
            kernel: Vec::new(),
            overrides: Overrides::default(),
            cache_size: CACHE_SIZE,
            max_frame_size: MAX_FRAME_SIZE,
            threads: None,
            naming: Naming::default(),
            shown: Shown::Captures,
            index: IndexDir::default(),
            passing: Passing::Raw,
            log_file: None,
        }
    }
}

/// An option that is unknown or has a value that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionError {
    option: String,
    problem: &'static str,
}

impl fmt::Display for OptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "mount option '{}': {}", self.option, self.problem)
    }
}

impl std::error::Error for OptionError {}

impl MountOptions {
    /// The options in `lists`, each comma-separated, as `-o` gives them; later ones win.
    pub fn parse<'a>(lists: impl IntoIterator<Item = &'a str>) -> Result<Self, OptionError> {
        let mut options = Self::default();
        for list in lists {
            for word in words(list).filter(|word| !word.is_empty()) {
                options.take(word).map_err(|problem| OptionError {
                    option: word.to_owned(),
                    problem,
                })?;
            }
        }
        Ok(options)
    }

    fn take(&mut self, word: &str) -> Result<(), &'static str> {
        let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| word.starts_with(prefix));
        if IGNORED.contains(&word) || starts(&IGNORED_PREFIXES) {
            return Ok(());
        }
        if starts(&KERNEL_PREFIXES) {
            self.kernel.push(word.to_owned());
            return Ok(());
        }
        // What does something is in the table, or in the words behind it: help and manual have it.
        if !table::has(word) && !UNLISTED.contains(&word) {
            return Err("unknown");
        }
        match word.split_once('=') {
            None => self.take_flag(word),
            Some((name, value)) => self.take_value(name, unquoted(value)),
        }
    }

    fn take_flag(&mut self, word: &str) -> Result<(), &'static str> {
        match word {
            "allow_other" => self.access = Access::Other,
            "allow_root" => self.access = Access::Root,
            // default_permissions is always on: a file that others may not read in SOURCE is not theirs to read here.
            "default_permissions" => {}
            "no_index" => self.index = IndexDir::Off,
            "no_passthrough" => self.passing = Passing::Off,
            "auto_unmount" => self.auto_unmount = true,
            "noexec" => self.noexec = true,
            "exec" => self.noexec = false,
            "noatime" => self.noatime = true,
            "atime" | "relatime" | "norelatime" | "strictatime" => self.noatime = false,
            "remount" => return Err("a mount is not changed: end it, and mount again"),
            "all" => self.shown = Shown::All,
            _ => return Err("unknown"),
        }
        Ok(())
    }

    fn take_value(&mut self, name: &str, value: &str) -> Result<(), &'static str> {
        match name {
            "uid" => self.overrides.uid = Some(decimal(value)?),
            "gid" => self.overrides.gid = Some(decimal(value)?),
            "umask" => {
                let umask = u32::from_str_radix(value, 8).map_err(|_| "wanted an octal number")?;
                self.overrides.umask = Some(umask);
            }
            "fsname" => self.fsname = Some(value.to_owned()),
            // What mount(8) adds when the type is given as fuse.pcapzst.
            "subtype" if value == "pcapzst" => {}
            "cache_size" => {
                self.cache_size = size(value)?;
                if self.cache_size < CACHE_SIZE_LEAST {
                    return Err("wanted 1M at least");
                }
            }
            "max_frame_size" => self.max_frame_size = size(value)?,
            "threads" => {
                let threads = value.parse().map_err(|_| "wanted a number")?;
                if !(1..=THREADS_MOST).contains(&threads) {
                    return Err("wanted 1 to 64");
                }
                self.threads = Some(threads);
            }
            "index_dir" if value.is_empty() => return Err("wanted a folder"),
            "index_dir" => {
                let folder = absolute(Path::new(value)).ok_or("wanted a folder")?;
                self.index = IndexDir::Given(folder);
            }
            "log_file" => self.log_file = Some(log_file(Path::new(value))?),
            "partial_suffix" => {
                self.naming = Naming::with_partial_suffix(OsStr::new(value))
                    .ok_or("wanted a suffix such as .partial")?;
            }
            _ => return Err("unknown"),
        }
        Ok(())
    }
}

/// The options of a list: commas within double quotes part none (mount(8), as for labels).
fn words(list: &str) -> impl Iterator<Item = &str> {
    let mut is_quoted = false;
    list.split(move |letter| {
        is_quoted ^= letter == '"';
        letter == ',' && !is_quoted
    })
}

fn unquoted(value: &str) -> &str {
    let inner = value
        .strip_prefix('"')
        .and_then(|value| value.strip_suffix('"'));
    inner.unwrap_or(value)
}

/// The log file that a user names, as an absolute path.
pub fn log_file(value: &Path) -> Result<PathBuf, &'static str> {
    absolute(value).ok_or("wanted a file")
}

/// The daemon leaves the folder that relative paths start from. `None` for an empty one.
fn absolute(path: &Path) -> Option<PathBuf> {
    std::path::absolute(path).ok()
}

fn decimal(value: &str) -> Result<u32, &'static str> {
    value.parse().map_err(|_| "wanted a number")
}

/// A number of bytes: digits, then K, M, G or T for powers of 1024, or nothing.
pub fn size(value: &str) -> Result<u64, &'static str> {
    let problem = "wanted a number of bytes such as 64M";
    let digits = value.trim_end_matches(|unit: char| unit.is_ascii_alphabetic());
    let (_, unit) = value.split_at(digits.len());
    let shift = match unit {
        "" => 0,
        "k" | "K" => 10,
        "m" | "M" => 20,
        "g" | "G" => 30,
        "t" | "T" => 40,
        _ => return Err(problem),
    };
    let number: u64 = digits.parse().map_err(|_| problem)?;
    number.checked_mul(1 << shift).ok_or(problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fstab_words_are_ignored_and_an_unknown_one_is_named() {
        let options = MountOptions::parse([
            "defaults,nofail,_netdev,noauto,user,x-systemd.automount,ro",
            "allow_other,cache_size=64M,umask=027,uid=7,all,no_passthrough",
        ])
        .expect("all known");
        assert_eq!(options.access, Access::Other);
        assert_eq!(options.cache_size, 64 << 20);
        assert_eq!(options.passing, Passing::Off);
        assert_eq!(options.overrides.umask, Some(0o27));
        let error = MountOptions::parse(["ro,bogus=1"]).expect_err("unknown");
        assert_eq!(error.to_string(), "mount option 'bogus=1': unknown");
    }

    #[test]
    fn a_comma_in_quotes_parts_no_options() {
        let options = MountOptions::parse([
            "ro,context=\"system_u:object_r:tmp_t:s0:c1,c2\",uid=7,log_file=\"/a,b\"",
        ])
        .expect("all known");
        assert_eq!(
            options.kernel,
            ["context=\"system_u:object_r:tmp_t:s0:c1,c2\""]
        );
        assert_eq!(options.overrides.uid, Some(7));
        assert_eq!(options.log_file.as_deref(), Some(Path::new("/a,b")));
    }

    #[test]
    fn of_flags_and_their_opposites_the_last_one_wins() {
        let flags = |list| MountOptions::parse([list]).map(|found| (found.noexec, found.noatime));
        assert_eq!(flags("noexec,noatime,exec,relatime"), Ok((false, false)));
        assert_eq!(flags("exec,atime,noexec,noatime"), Ok((true, true)));
    }

    #[test]
    fn of_index_options_the_last_one_wins() {
        let index = |list| MountOptions::parse([list]).map(|options| options.index);
        assert_eq!(index("ro"), Ok(IndexDir::Default));
        assert_eq!(index("index_dir=/a/b,no_index"), Ok(IndexDir::Off));
        let given = IndexDir::Given(PathBuf::from("/a/b"));
        assert_eq!(index("no_index,index_dir=/a/b"), Ok(given));
        assert!(index("index_dir=").is_err());
    }

    #[test]
    fn sizes_with_units_are_bytes_and_overflow_is_refused() {
        assert_eq!(size("3k"), Ok(3072));
        assert_eq!(size("17"), Ok(17));
        assert!(size("16777216T").is_err());
        assert!(size("64MB").is_err());
        assert!(size("").is_err());
    }
}
