//! The options of `-o` that do something here, each with its value and its meaning, and a few words on the others: what
//! `--help` and the manual pages show.

use std::fmt::Write;

/// One option.
#[derive(Clone, Copy, Debug)]
pub struct Word {
    /// What stands before the `=`.
    pub name: &'static str,
    /// What stands behind it, if it takes a value.
    pub value: Option<&'static str>,
    /// What it does, without a full stop.
    pub means: &'static str,
}

impl Word {
    const fn flag(name: &'static str, means: &'static str) -> Self {
        Self {
            name,
            value: None,
            means,
        }
    }

    const fn with(name: &'static str, value: &'static str, means: &'static str) -> Self {
        Self {
            name,
            value: Some(value),
            means,
        }
    }

    /// `name`, or `name=VALUE`.
    #[must_use]
    pub fn usage(&self) -> String {
        match self.value {
            Some(value) => format!("{}={value}", self.name),
            None => self.name.to_owned(),
        }
    }
}

/// All options but those that are ignored (`IGNORED`, `IGNORED_PREFIXES`), go to the kernel as they are (`KERNEL_PREFIXES`), or
/// are told of in [`REST`] (`UNLISTED`). The parser takes those by themselves; any other that is not here is unknown.
pub const WORDS: [Word; 20] = [
    Word::flag(
        "allow_other",
        "everybody may enter, within the permission bits; for users other than root, /etc/fuse.conf must have \
         user_allow_other",
    ),
    Word::flag("allow_root", "root may enter too"),
    Word::with("uid", "N", "owner of all files and folders"),
    Word::with("gid", "N", "group of all files and folders"),
    Word::with(
        "umask",
        "OCTAL",
        "permissions of all files and folders: those that it leaves, without write",
    ),
    Word::with(
        "cache_size",
        "BYTES",
        "memory for decoded frames; 256M by default, 1M at least",
    ),
    Word::with(
        "max_frame_size",
        "BYTES",
        "largest frame that is decoded; 64M by default, at most two fifths of the cache",
    ),
    Word::with(
        "threads",
        "N",
        "loops that take requests, 1 to 64; by default one per CPU, two at least",
    ),
    Word::with(
        "partial_suffix",
        "SUFFIX",
        "suffix of unfinished files; .partial by default",
    ),
    Word::flag("all", "show other regular files too, byte for byte"),
    Word::with(
        "fsname",
        "NAME",
        "what /proc/mounts names as the source; by default its path",
    ),
    Word::flag(
        "auto_unmount",
        "fusermount3 removes the mount when the daemon dies",
    ),
    Word::with(
        "index_dir",
        "DIR",
        "where frame tables are kept between mounts, outside SOURCE; by default pcapzst in the user's cache folder",
    ),
    Word::flag("no_index", "keep no frame tables, use none"),
    Word::flag(
        "no_passthrough",
        "never let the kernel read raw captures by itself",
    ),
    Word::with(
        "log_file",
        "FILE",
        "append the log to this file, outside SOURCE; by default it goes to standard error with -f, else to syslog",
    ),
    Word::flag("noexec", "passed to the kernel"),
    Word::flag("noatime", "passed to the kernel"),
    Word::flag(
        "default_permissions",
        "holds in any case: the kernel checks permission bits",
    ),
    Word::with(
        "subtype",
        "pcapzst",
        "changes nothing: what mount(8) may add for the type fuse.pcapzst",
    ),
];

/// What is said of options that are not in [`WORDS`], and of values.
pub const REST: &str = "\
BYTES may end in K, M, G or T (powers of 1024). context=, fscontext=, defcontext= and rootcontext= go to the kernel \
where there is SELinux, and are left out where there is none. exec takes noexec back; atime, relatime, norelatime and \
strictatime take noatime back. remount is refused. ro, nosuid and nodev hold in any case; they and the words that fstab \
and systemd use among themselves (nofail, _netdev, noauto, user, x-*, defaults and the like) are accepted and change \
nothing. An unknown word is an error that names it.";

/// Whether `word`, as the user gave it, is an option by name, and has a value or none as that one does.
pub(super) fn has(word: &str) -> bool {
    let (name, has_value) = match word.split_once('=') {
        Some((name, _)) => (name, true),
        None => (word, false),
    };
    WORDS
        .iter()
        .any(|known| known.name == name && known.value.is_some() == has_value)
}

/// Columns of a line of help.
const WIDTH: usize = 80;
/// Where an option's meaning begins.
const INDENT: usize = 26;

/// The options as `--help` shows them: a line or more for each.
#[must_use]
pub fn help() -> String {
    let mut text = "Mount options (-o):\n".to_owned();
    for word in &WORDS {
        let usage = format!("  {}", word.usage());
        // Writing to a string cannot fail.
        let _ = write!(text, "{usage:INDENT$}");
        fill(&mut text, word.means, INDENT);
    }
    text.push('\n');
    fill(&mut text, REST, 0);
    text.truncate(text.trim_end().len());
    text
}

/// Adds `words` in lines of [`WIDTH`] at most, the first one begun already; the others begin at `indent`.
fn fill(text: &mut String, words: &str, indent: usize) {
    let mut column = indent;
    for word in words.split(' ') {
        let len = word.chars().count();
        if column > indent && column + 1 + len > WIDTH {
            text.push('\n');
            text.extend(std::iter::repeat_n(' ', indent));
            column = indent;
        } else if column > indent {
            text.push(' ');
            column += 1;
        }
        text.push_str(word);
        column += len;
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::super::MountOptions;
    use super::*;

    #[test]
    fn every_option_of_the_table_is_taken_and_no_other() {
        for word in WORDS {
            let values: &[&str] = match word.value {
                None => &[""],
                Some("N") => &["=1"],
                Some("OCTAL") => &["=022"],
                Some("BYTES") => &["=8M"],
                Some("SUFFIX") => &["=.tmp"],
                Some("FILE") => &["=/var/log/x"],
                Some("DIR") => &["=/var/cache/x"],
                Some("NAME") => &["=captures"],
                Some("pcapzst") => &["=pcapzst"],
                Some(other) => panic!("no value of the kind {other} is known here"),
            };
            for value in values {
                let given = format!("{}{value}", word.name);
                MountOptions::parse([given.as_str()]).expect(&given);
            }
            // With a value where there is none, and the other way round.
            let other = if word.value.is_some() {
                word.name.to_owned()
            } else {
                format!("{}=1", word.name)
            };
            let error = MountOptions::parse([other.as_str()]).expect_err(&other);
            assert_eq!(
                error.to_string(),
                format!("mount option '{other}': unknown")
            );
        }
    }

    #[test]
    fn what_the_table_lacks_and_does_something_is_named() {
        let named: Vec<&str> = REST.split([' ', ',', '.', ';']).collect();
        for word in [&super::super::KERNEL_PREFIXES[..], &super::super::UNLISTED].concat() {
            assert!(named.contains(&word), "{word}");
        }
    }

    #[test]
    fn help_has_a_line_for_each_option_and_none_is_too_long() {
        let text = help();
        for word in WORDS {
            let begins = format!("  {}", word.usage());
            assert!(
                text.lines().any(|line| line.starts_with(&begins)),
                "{begins}"
            );
        }
        for line in text.lines() {
            assert!(line.chars().count() <= WIDTH, "{line}");
        }
    }
}
