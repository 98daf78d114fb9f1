//! docs/TROUBLESHOOTING.md and the code have the same messages.
//!
//! A message is a text in `src/` that reads as prose, or that stands where only messages stand; `…` is what varies. What is
//! prose and no message is named in `NO_MESSAGES`, so that a new way to print one cannot slip by. The C library's own words
//! (`src/capi`) are its callers'.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "a failed step of a test is a panic"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// Files whose texts are help, which the manual pages are held against.
const HELP: [&str; 3] = ["cli/args.rs", "cli/exit.rs", "fuse/options/table.rs"];

/// Texts that read as prose and are data on stdout, or for nobody to read.
const NO_MESSAGES: [&str; 11] = [
    // What syslog is sent, and what a word of fuser's is known by.
    "<…>pcapzst[…]: …",
    "Failed to send FUSE reply",
    "(os error 2)",
    "logical name",
    "source size",
    "physical size",
    "torn bytes",
    "file id",
    "link type",
    "not in this format",
    "…: …: … packets, … source bytes, … frames, … torn bytes",
];

/// Calls that take what is being done, or what is wrong, in one word or more.
const TAKES_WORDS: [&str; 3] = ["io", "failed", "Err"];
/// Calls whose texts nobody sees unless the program is wrong.
const FOR_PANICS: [&str; 7] = [
    "assert",
    "assert_eq",
    "debug_assert",
    "debug_assert_eq",
    "expect",
    "unreachable",
    "debug_struct",
];

/// Adds the messages of `tokens`, the arguments of `call`.
fn collect(tokens: TokenStream, call: &str, found: &mut BTreeSet<String>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut name = String::new();
    let mut skips_item = false;
    let mut after_hash = false;
    for (index, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Group(group) if after_hash && group.delimiter() == Delimiter::Bracket => {
                // `#[doc]`, `#[arg]` and the like; and what is there for tests only.
                skips_item |= group.stream().to_string().replace(' ', "") == "cfg(test)";
                after_hash = false;
            }
            TokenTree::Group(group) => {
                if !(skips_item && group.delimiter() == Delimiter::Brace) {
                    let is_call = group.delimiter() == Delimiter::Parenthesis;
                    let called = if is_call { name.as_str() } else { "" };
                    collect(group.stream(), called, found);
                }
                skips_item &= group.delimiter() != Delimiter::Brace;
                name.clear();
            }
            TokenTree::Ident(ident) => name = ident.to_string(),
            TokenTree::Punct(punct) => {
                after_hash = punct.as_char() == '#' || after_hash && punct.as_char() == '!';
                skips_item &= punct.as_char() != ';';
                // A macro's name stays.
                if punct.as_char() != '!' {
                    name.clear();
                }
            }
            TokenTree::Literal(literal) => {
                if let Some(text) = text_of(&literal.to_string()) {
                    let takes_words = TAKES_WORDS.contains(&call) && index == 0;
                    let text = normal(&text);
                    if !FOR_PANICS.contains(&call)
                        && (takes_words && !text.starts_with('/') || is_prose(&text))
                    {
                        found.insert(text);
                    }
                }
            }
        }
    }
}

/// What a string literal says; `None` for other literals.
fn text_of(literal: &str) -> Option<String> {
    let inner = literal.strip_prefix('"')?.strip_suffix('"')?;
    let mut text = String::new();
    let mut chars = inner.chars().peekable();
    while let Some(char) = chars.next() {
        match (char, chars.peek()) {
            ('\\', Some('\n')) => while chars.next_if(|char| char.is_whitespace()).is_some() {},
            ('\\', Some('n')) => {
                chars.next();
                text.push('\n');
            }
            ('\\', Some(_)) => text.extend(chars.next()),
            _ => text.push(char),
        }
    }
    Some(text)
}

/// `text` as the page has it: `…` for what varies, and without the program's name in front.
fn normal(text: &str) -> String {
    let mut normal = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('{') {
        let Some(end) = rest[at..].find('}') else {
            break;
        };
        normal.push_str(&rest[..at]);
        if !normal.ends_with('…') {
            normal.push('…');
        }
        rest = &rest[at + end + 1..];
    }
    normal.push_str(rest);
    let normal = normal.trim();
    normal
        .strip_prefix("pcapzst: ")
        .unwrap_or(normal)
        .to_owned()
}

/// Two words with nothing but a space or punctuation between them, or words beside something that varies.
fn is_prose(text: &str) -> bool {
    let words: Vec<&str> = text
        .split_whitespace()
        .filter(|word| word.chars().filter(|char| char.is_alphabetic()).count() >= 2)
        .filter(|word| !word.starts_with(['/', '-']))
        .collect();
    words.len() >= 2 || (words.len() == 1 && text.contains('…') && text.contains(' '))
}

fn sources() -> Vec<(String, PathBuf)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(&root).unwrap().display().to_string();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs")
                && !name.ends_with("tests.rs")
                && !name.starts_with("capi/")
                // What fuzzers run, which panics.
                && !name.contains("fuzz")
                && !HELP.contains(&name.as_str())
            {
                files.push((name, path));
            }
        }
    }
    files.sort();
    files
}

/// Each message of the code, and the file that has it first.
fn of_code() -> BTreeMap<String, String> {
    let mut messages = BTreeMap::new();
    for (name, path) in sources() {
        let mut found = BTreeSet::new();
        collect(
            fs::read_to_string(path).unwrap().parse().unwrap(),
            "",
            &mut found,
        );
        for text in found {
            messages.entry(text).or_insert_with(|| name.clone());
        }
    }
    messages
}

/// The messages of the page: what stands in backticks in the first column of its tables.
fn of_page() -> BTreeSet<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/TROUBLESHOOTING.md");
    let page = fs::read_to_string(path).unwrap();
    let first_cells = page
        .lines()
        .filter_map(|line| line.strip_prefix("| "))
        .filter_map(|line| line.split(" | ").next());
    first_cells
        .filter_map(|cell| {
            let double = cell
                .strip_prefix("`` ")
                .and_then(|cell| cell.strip_suffix(" ``"));
            double.or_else(|| cell.strip_prefix('`')?.strip_suffix('`'))
        })
        .map(str::to_owned)
        .collect()
}

/// `text` as the first cell of a row.
fn cell(text: &str) -> String {
    if text.contains('`') {
        format!("`` {text} ``")
    } else {
        format!("`{text}`")
    }
}

#[test]
fn the_page_has_every_message_of_the_code_and_no_other() {
    let code = of_code();
    let page = of_page();
    let lacks: Vec<String> = code
        .iter()
        .filter(|(text, _)| !page.contains(*text) && !NO_MESSAGES.contains(&text.as_str()))
        .map(|(text, file)| {
            format!(
                "| {} | (src/{file}: what it means) | (what to do) |",
                cell(text)
            )
        })
        .collect();
    let stale: Vec<String> = page
        .iter()
        .filter(|text| !code.contains_key(*text))
        .map(|text| cell(text))
        .collect();
    assert!(
        lacks.is_empty() && stale.is_empty(),
        "docs/TROUBLESHOOTING.md lacks these rows:\n{}\n\nand has these messages that no code prints:\n{}\n",
        lacks.join("\n"),
        stale.join("\n")
    );
}

#[test]
fn what_is_no_message_is_in_the_code() {
    let code = of_code();
    let stale: Vec<&str> = NO_MESSAGES
        .into_iter()
        .filter(|text| !code.contains_key(*text))
        .collect();
    assert!(stale.is_empty(), "named in this test, and gone: {stale:?}");
}

#[test]
fn messages_are_found_wherever_they_stand() {
    let source = r#"
        //! No message here.
        /// Nor "here at all".
        #[arg(help = "nor in an attribute")]
        fn f() {
            log::warn!("{path}: first message of {count}");
            complain(path, format!("second message; {left}"));
            file.metadata().map_err(Error::io("reading"))?;
            let problem = match x { 1 => Err("unknown"), _ => Ok("no") };
            let hint = " (a hint: run `pcapzst umount {}`)";
            f.write_str("a line that goes \
                         on")?;
            debug_assert!(is_so, "not for users");
            let key = "torn_bytes";
            let path = "/proc/self/fd";
            write!(f, "{got:?} decoded")
        }
        #[cfg(test)]
        mod tests { fn g() { panic!("not in a test"); } }
    "#;
    let mut found = BTreeSet::new();
    collect(source.parse().unwrap(), "", &mut found);
    let wanted = [
        "(a hint: run `pcapzst umount …`)",
        "a line that goes on",
        "reading",
        "second message; …",
        "unknown",
        "… decoded",
        "…: first message of …",
    ];
    assert_eq!(found, wanted.map(str::to_owned).into());
}
