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

#[test]
fn unsafe_code_is_allowed_in_capi_and_the_one_libc_module_only() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let manifest = fs::read_to_string(manifest).unwrap();
    assert!(manifest.contains("unsafe_code = \"deny\""), "Cargo.toml");
    let lifts = |text: &str| {
        text.split("#[")
            .chain(text.split("#!["))
            .filter_map(|attribute| attribute.split(']').next())
            .any(|attribute| {
                let is_lift = ["allow(", "expect(", "warn("]
                    .iter()
                    .any(|level| attribute.starts_with(level));
                is_lift && attribute.contains("unsafe_code")
            })
    };
    let files: Vec<String> = sources()
        .into_iter()
        .filter(|(_, text)| lifts(text))
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
    for (name, text) in sources().into_iter().filter(|(name, _)| is_product(name)) {
        for lint in [
            "unwrap_used",
            "expect_used",
            "indexing_slicing",
            "string_slice",
        ] {
            let lifted = text
                .lines()
                .any(|line| line.contains("allow(") && line.contains(lint));
            assert!(
                !lifted,
                "src/{name}: allow of clippy::{lint}; `expect` it at the site, with a reason"
            );
        }
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
