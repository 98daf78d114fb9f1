//! docs/SEMANTICS.md, quoted fact by fact, each with the tests that hold the product to it.
//!
//! A fact that no other test asserts is asserted in `facts/`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "a failed step of a test is a panic"
)]

mod common;
mod facts;

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::Path;

/// Each fact in the document's words, and below it the tests that assert it, as `file: function`.
const QUOTED: &str = include_str!("facts/quoted.txt");

/// A fact: the anchor without its brackets, and the sentence behind it.
type Fact = (String, String);

/// The list items that begin with an anchor, in order. An item may go on in lines that are indented.
fn facts_of(document: &str) -> Vec<Fact> {
    let mut facts: Vec<Fact> = Vec::new();
    let mut is_open = false;
    for line in document.lines() {
        let anchored = line
            .strip_prefix("- [S")
            .and_then(|line| line.split_once("] "));
        if let Some((number, sentence)) = anchored {
            facts.push((format!("S{number}"), sentence.to_owned()));
        } else if let (true, Some(more), Some(last)) =
            (is_open, line.strip_prefix("  "), facts.last_mut())
        {
            last.1.push(' ');
            last.1.push_str(more.trim_start());
        }
        is_open = anchored.is_some() || (is_open && line.starts_with("  "));
    }
    facts
}

/// The quoted facts, each with its tests.
fn quoted() -> Vec<(Fact, Vec<(&'static str, &'static str)>)> {
    let mut quoted: Vec<(Fact, Vec<_>)> = Vec::new();
    for line in QUOTED.lines().filter(|line| !line.is_empty()) {
        match line.strip_prefix("    ") {
            Some(test) => {
                let (_, tests) = quoted.last_mut().unwrap();
                tests.push(test.split_once(": ").unwrap());
            }
            None => quoted.push((facts_of(line).remove(0), Vec::new())),
        }
    }
    quoted
}

fn folder(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

#[test]
fn every_fact_of_the_document_is_quoted_word_for_word() {
    let document = fs::read_to_string(folder("docs").join("SEMANTICS.md")).unwrap();
    let written = facts_of(&document);
    let anchors: HashSet<_> = written.iter().map(|(anchor, _)| anchor).collect();
    assert_eq!(anchors.len(), written.len(), "an anchor stands there twice");
    let quoted: Vec<_> = quoted().into_iter().map(|(fact, _)| fact).collect();
    let of = |facts: &[Fact]| facts.iter().cloned().collect::<BTreeMap<_, _>>();
    assert_eq!(of(&quoted).len(), quoted.len(), "an anchor is quoted twice");
    for fact in &written {
        assert!(
            quoted.contains(fact),
            "not quoted, or in other words: {fact:?}"
        );
    }
    for fact in &quoted {
        assert!(
            written.contains(fact),
            "not in the document, or in other words: {fact:?}"
        );
    }
}

#[test]
fn every_fact_names_tests_that_exist() {
    for ((anchor, _), tests) in quoted() {
        assert!(!tests.is_empty(), "{anchor}: no test");
        for (file, function) in tests {
            let text = fs::read_to_string(folder("tests").join(file))
                .unwrap_or_else(|error| panic!("{anchor}: {file}: {error}"));
            let is_there = text.contains(&format!("#[test]\nfn {function}() {{"));
            assert!(is_there, "{anchor}: {file} has no test {function}");
        }
    }
}

#[test]
fn a_fact_may_go_on_in_the_next_line() {
    let document = "- [S1] One\n  two.\n- [S2] Three.\n\n  No fact.\n";
    let wanted = [("S1", "One two."), ("S2", "Three.")];
    assert_eq!(
        facts_of(document),
        wanted.map(|(anchor, sentence)| (anchor.to_owned(), sentence.to_owned()))
    );
}

/// Words of four parts and more that look like a function's name.
fn functions_named(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| {
        !(letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_')
    })
    .filter(|word| word.split('_').filter(|part| !part.is_empty()).count() >= 4)
    // Shortened: the sentence goes on where the name does not.
    .filter(|word| !word.ends_with('_'))
}

fn sources(folder: &Path, into: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push_str(&fs::read_to_string(path).unwrap());
        }
    }
}

#[test]
fn each_trap_has_a_row_and_each_test_that_is_named_there_and_among_faults_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut code = String::new();
    sources(&root.join("src"), &mut code);
    sources(&root.join("tests"), &mut code);
    let semantics = fs::read_to_string(root.join("docs/SEMANTICS.md")).unwrap();
    let (_, traps) = semantics.split_once("\n## Traps\n").unwrap();
    for number in 1..=55 {
        let start = format!("\n| {number} | ");
        assert_eq!(traps.matches(&start).count(), 1, "rows of trap {number}");
    }
    let faults = fs::read_to_string(root.join("docs/RELIABILITY.md")).unwrap();
    let mut count = 0;
    for name in functions_named(traps).chain(functions_named(&faults)) {
        assert!(code.contains(&format!("fn {name}(")), "no test {name}");
        count += 1;
    }
    assert!(count > 100, "only {count} names were found");
}
