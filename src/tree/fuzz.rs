//! Names of any bytes.
#![allow(
    clippy::missing_panics_doc,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::panic,
    clippy::unreachable,
    reason = "a property that does not hold is a panic"
)]

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use super::name::{FORMS, Naming, Parsed};
use crate::capture::{Form, Progress};

/// A partial suffix, `/`, and a name in a folder: what is one capture has one logical name, and comes back from it in each of its
/// forms. Without a `/` the suffix is the usual one.
pub fn name(bytes: &[u8]) {
    let mut parts = bytes.splitn(2, |byte| *byte == b'/');
    let (first, second) = (parts.next().unwrap_or_default(), parts.next());
    let (suffix, physical) = match second {
        Some(name) => (first, name),
        None => (&b".partial"[..], first),
    };
    // No name of a folder's entry has these.
    if physical.contains(&b'/') || physical.contains(&0) {
        return;
    }
    let Some(naming) = Naming::with_partial_suffix(OsStr::from_bytes(suffix)) else {
        assert!(second.is_some(), "the usual suffix is refused");
        return;
    };
    let physical = OsStr::from_bytes(physical);
    let parsed = naming.parse(physical);
    assert_eq!(
        parsed.is_some(),
        is_capture(physical.as_bytes(), suffix),
        "{}",
        physical.display()
    );
    if let Some(parsed) = parsed {
        check(&naming, &parsed);
        let back = naming.physical(parsed.logical, parsed.form, parsed.progress);
        assert_eq!(back, physical, "another physical name");
        assert!(physical.as_bytes().starts_with(parsed.logical.as_bytes()));
        let is_final_raw = (parsed.form, parsed.progress) == (Form::Raw, Progress::Final);
        assert_eq!(naming.is_logical(physical), is_final_raw);
    }
    // Whatever is a capture's stays one under any suffix, while that is not at its end.
    let mut logical = physical.as_bytes().to_vec();
    logical.extend(b".pcap");
    let logical = OsStr::from_bytes(&logical);
    assert!(
        naming.is_logical(logical),
        "{} with the partial suffix {suffix:?}",
        logical.display()
    );
}

fn check(naming: &Naming, parsed: &Parsed<'_>) {
    let logical = parsed.logical;
    assert!(logical.as_bytes().ends_with(b".pcap"));
    assert!(
        naming.is_logical(logical),
        "{} is shown and not found",
        logical.display()
    );
    for (form, progress) in FORMS {
        let physical = naming.physical(logical, form, progress);
        let wanted = Parsed {
            logical,
            form,
            progress,
        };
        assert_eq!(
            naming.parse(&physical),
            Some(wanted),
            "{}",
            physical.display()
        );
    }
}

/// The rule of the format document, section 7.1: without the partial suffix, then without `.zst`, it ends in `.pcap`.
fn is_capture(name: &[u8], suffix: &[u8]) -> bool {
    let text = |ending: &[u8]| name.ends_with(ending);
    [b".pcap".to_vec(), b".pcap.zst".to_vec()]
        .iter()
        .any(|ending| {
            let partial = [&ending[..], suffix].concat();
            text(&partial) || (text(ending) && !text(suffix))
        })
}
