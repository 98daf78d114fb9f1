//! House rules that neither the compiler nor clippy holds the sources to.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    reason = "a failed step of a test is a panic"
)]

use std::fs;
use std::path::{Path, PathBuf};

/// The files of `src/`, by their path in it, and their text.
fn sources() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut folders: Vec<PathBuf> = vec![root.clone()];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let name = path.strip_prefix(&root).unwrap().display().to_string();
                files.push((name, fs::read_to_string(&path).unwrap()));
            }
        }
    }
    files.sort();
    files
}

/// The attributes in `text`, each up to its end, or to the first one of a list in it.
fn attributes(text: &str) -> impl Iterator<Item = &str> {
    let starts = text.split("#[").skip(1);
    let starts = starts.chain(text.split("#![").skip(1));
    starts.filter_map(|attribute| attribute.split(']').next())
}

/// Whether an attribute in `text` takes this lint to one of these levels.
fn sets(text: &str, levels: &[&str], lint: &str) -> bool {
    let is_named = |attribute: &str| {
        let is_part = |letter: char| letter.is_alphanumeric() || "_:".contains(letter);
        attribute
            .split(|letter| !is_part(letter))
            .any(|word| word == lint)
    };
    attributes(text).any(|attribute| {
        let is_at = |level: &&str| attribute.contains(&format!("{level}("));
        levels.iter().any(is_at) && is_named(attribute)
    })
}

#[test]
fn unsafe_code_is_allowed_in_capi_and_the_one_libc_module_only() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let manifest = fs::read_to_string(manifest).unwrap();
    assert!(manifest.contains("unsafe_code = \"deny\""), "Cargo.toml");
    let files: Vec<String> = sources()
        .into_iter()
        .filter(|(_, text)| sets(text, &["allow", "expect", "warn"], "unsafe_code"))
        .map(|(name, _)| name)
        .collect();
    // That of capi/ holds for its modules.
    assert_eq!(files, ["capi/mod.rs", "sys.rs"]);
}

#[test]
fn what_may_panic_is_warned_of_for_the_whole_library() {
    let (_, root) = sources()
        .into_iter()
        .find(|(name, _)| name == "lib.rs")
        .unwrap();
    for lint in ["indexing_slicing", "string_slice", "panic", "unreachable"] {
        assert!(
            root.contains(&format!("clippy::{lint}")),
            "src/lib.rs: {lint}"
        );
    }
    // A file or module that lifts one of them would do so in silence. What fuzzers and tests alone are built with is to panic.
    let is_product = |name: &str| name.split(['/', '.']).all(|part| part != "fuzz");
    for lint in [
        "unwrap_used",
        "expect_used",
        "indexing_slicing",
        "string_slice",
        "panic",
        "unreachable",
    ] {
        let lint = format!("clippy::{lint}");
        let files = sources().into_iter();
        let lifting = files.filter(|(_, text)| sets(text, &["allow"], &lint));
        let (product, fuzz): (Vec<_>, Vec<_>) = lifting
            .map(|(name, _)| name)
            .partition(|name| is_product(name));
        assert!(
            product.is_empty(),
            "{product:?}: allow of {lint}; `expect` it at the site, with a reason"
        );
        // It is found where it is known to be, on lines of its own.
        assert!(
            lint == "clippy::unwrap_used" || fuzz.contains(&"format/fuzz.rs".to_owned()),
            "{lint}: {fuzz:?}"
        );
    }
}

#[test]
fn a_floor_uses_itself_and_those_below() {
    let floors = ["format", "capture", "tree"];
    let rim = ["fuse", "cli", "capi"];
    for (name, text) in sources() {
        let Some(floor) = floors
            .iter()
            .position(|floor| name.starts_with(&format!("{floor}/")))
        else {
            continue;
        };
        for above in floors[floor + 1..].iter().chain(&rim) {
            let used = text
                .lines()
                .filter(|line| !line.trim_start().starts_with("//"))
                .any(|line| line.contains(&format!("crate::{above}")));
            assert!(!used, "src/{name} uses {above}/, which is above it");
        }
    }
}
