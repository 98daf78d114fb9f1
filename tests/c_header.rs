//! The header of the C library is what its code exports.
//!
//! `PCAPZST_BLESS=1 cargo test --test c_header` writes it anew.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    reason = "a failed step of a test is a panic"
)]

use std::path::Path;
use std::{env, fs};

#[test]
fn the_header_in_the_tree_is_what_the_code_exports() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    // Its modules are followed from there.
    let builder = cbindgen::Builder::new()
        .with_config(cbindgen::Config::from_root_or_default(root))
        .with_src(root.join("src/capi/mod.rs"));
    let mut made = Vec::new();
    builder.generate().expect("a header").write(&mut made);
    let made = String::from_utf8(made).unwrap();
    let path = root.join("src/capi/pcapzst.h");
    if env::var_os("PCAPZST_BLESS").is_some() {
        fs::write(&path, &made).unwrap();
    }
    let there = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        there == made,
        "src/capi/pcapzst.h is not what src/capi exports: PCAPZST_BLESS=1 cargo test --test c_header"
    );
}

#[test]
fn every_file_of_the_c_library_is_read_for_the_header() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/capi");
    let mut exports = 0;
    for entry in folder.read_dir().unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|ending| ending == "rs") {
            let text = fs::read_to_string(path).unwrap();
            exports += text.matches("#[unsafe(no_mangle)]").count();
        }
    }
    let header = fs::read_to_string(folder.join("pcapzst.h")).unwrap();
    let declared = header
        .lines()
        .filter(|line| line.contains('(') && line.contains("pcapzst_"))
        .filter(|line| line.starts_with(|first: char| first.is_ascii_lowercase()))
        .count();
    assert_eq!(declared, exports, "functions in the header, and exported");
}
