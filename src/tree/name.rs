//! Which capture a physical name belongs to, and under which physical names a capture can lie.
//!
//! Strip the partial suffix, then `.zst`; what is left is the logical name and must end in `.pcap` (format document,
//! section 7.1). Names are bytes: nothing here decodes them.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use crate::capture::writer::PARTIAL_SUFFIX;
use crate::capture::{Form, Progress};

const PCAP: &[u8] = b".pcap";
const ZST: &[u8] = b".zst";

/// The four physical forms, the one that wins first: final before partial, then raw before compressed.
pub const FORMS: [(Form, Progress); 4] = [
    (Form::Raw, Progress::Final),
    (Form::Zst, Progress::Final),
    (Form::Raw, Progress::Partial),
    (Form::Zst, Progress::Partial),
];

/// The rules by which names are read.
#[derive(Clone, Debug)]
pub struct Naming {
    partial_suffix: Vec<u8>,
}

impl Default for Naming {
    fn default() -> Self {
        Self {
            partial_suffix: PARTIAL_SUFFIX.as_bytes().to_vec(),
        }
    }
}

/// What a physical name says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parsed<'a> {
    /// The logical name, `<name>.pcap`.
    pub logical: &'a OsStr,
    /// How the capture is stored.
    pub form: Form,
    /// Whether it is still being written.
    pub progress: Progress,
}

impl Naming {
    /// Names whose partial suffix is `suffix`; `None` if that could not be told from a name without it.
    #[must_use]
    pub fn with_partial_suffix(suffix: &OsStr) -> Option<Self> {
        let bytes = suffix.as_bytes();
        let is_usable = bytes.len() > 1
            && !bytes.contains(&b'/')
            && !bytes.contains(&0)
            && ![PCAP, ZST]
                .iter()
                // The end of `.pcap` would make partial ones of all.
                .any(|ending| bytes.ends_with(ending) || ending.ends_with(bytes));
        is_usable.then(|| Self {
            partial_suffix: bytes.to_vec(),
        })
    }

    /// What `physical` says; `None` if it is no capture's name.
    #[must_use]
    pub fn parse<'a>(&self, physical: &'a OsStr) -> Option<Parsed<'a>> {
        let bytes = physical.as_bytes();
        let (bytes, progress) = match bytes.strip_suffix(&self.partial_suffix[..]) {
            Some(rest) => (rest, Progress::Partial),
            None => (bytes, Progress::Final),
        };
        let (bytes, form) = match bytes.strip_suffix(ZST) {
            Some(rest) => (rest, Form::Zst),
            None => (bytes, Form::Raw),
        };
        bytes.ends_with(PCAP).then(|| Parsed {
            logical: OsStr::from_bytes(bytes),
            form,
            progress,
        })
    }

    /// Whether `name` is a logical name.
    #[must_use]
    pub fn is_logical(&self, name: &OsStr) -> bool {
        self.parse(name)
            .is_some_and(|parsed| parsed.logical == name)
    }

    /// The physical name of the capture `logical` in `form`.
    #[must_use]
    pub fn physical(&self, logical: &OsStr, form: Form, progress: Progress) -> OsString {
        let mut bytes = logical.as_bytes().to_vec();
        if form == Form::Zst {
            bytes.extend(ZST);
        }
        if progress == Progress::Partial {
            bytes.extend(&self.partial_suffix);
        }
        OsString::from_vec(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_forms_have_one_logical_name_and_back() {
        let naming = Naming::default();
        let logical = OsStr::from_bytes(b"\xff\n:.pcap");
        for (form, progress) in FORMS {
            let physical = naming.physical(logical, form, progress);
            let parsed = naming.parse(&physical).expect("a capture's name");
            assert_eq!(
                parsed,
                Parsed {
                    logical,
                    form,
                    progress
                }
            );
        }
    }

    #[test]
    fn other_names_are_no_captures() {
        let naming = Naming::default();
        for name in [
            "a.PCAP",
            "a.pcap.zst.zst",
            "a.pcap.partial.zst",
            "a.pcap.gz",
            "a.zst",
            "pcap",
            "",
        ] {
            assert_eq!(naming.parse(OsStr::new(name)), None, "{name}");
        }
        assert!(naming.is_logical(OsStr::new(".pcap")));
        assert!(!naming.is_logical(OsStr::new("a.pcap.zst")));
    }

    #[test]
    fn a_suffix_that_makes_names_ambiguous_is_refused() {
        for suffix in ["", ".", ".pcap", ".x.zst", "a/b", "ap", "pcap", "st", "zst"] {
            assert!(Naming::with_partial_suffix(OsStr::new(suffix)).is_none());
        }
        let naming = Naming::with_partial_suffix(OsStr::new(".tmp")).expect("usable");
        assert!(naming.parse(OsStr::new("a.pcap.zst.tmp")).is_some());
        assert!(naming.parse(OsStr::new("a.pcap.partial")).is_none());
    }
}
