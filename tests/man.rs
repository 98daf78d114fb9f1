//! The manual pages are what the code gives, say what `--help` says, and render.
//!
//! `PCAPZST_BLESS=1 cargo test --test man` writes them anew.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "a failed step of a test is a panic"
)]

mod common;
#[path = "man/page.rs"]
mod page;
#[path = "man/text.rs"]
mod text;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{env, fs};

use clap::CommandFactory;
use common::{names, pcapzst, run, tool};
use pcapzst::cli::args::Args;
use pcapzst::cli::exit::Exit;
use pcapzst::fuse::options::table::{WORDS, Word};
use pcapzst::sink::FILTER;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/man")
}

/// The commands, by name.
fn commands() -> Vec<String> {
    Args::command()
        .get_subcommands()
        .map(|command| command.get_name().to_owned())
        .collect()
}

/// `text` without what only makes bold, italic or a dash of it.
fn plain(text: &str) -> String {
    ["\\fB", "\\fI", "\\fR", "\\&"]
        .into_iter()
        .fold(text.to_owned(), |text, escape| text.replace(escape, ""))
        .replace("\\-", "-")
        .replace("\\*(Aq", "'")
        .replace("\\\\", "\\")
}

/// The tags of the lists in the section `name` of a page: the line behind each `.TP`.
fn tags(page: &str, name: &str) -> Vec<String> {
    let section = page
        .split("\n.SH ")
        .find(|section| section.trim_start_matches('"').starts_with(name))
        .unwrap_or_default();
    let lines: Vec<&str> = section.lines().collect();
    lines
        .windows(2)
        .filter(|pair| pair[0] == ".TP")
        .map(|pair| plain(pair[1]))
        .collect()
}

/// The options, arguments and commands that `help` lists below the heading `name`: what stands before two spaces.
fn listed(help: &str, name: &str) -> Vec<String> {
    help.lines()
        .skip_while(|line| *line != name)
        .skip(1)
        .take_while(|line| line.starts_with(' '))
        .filter(|line| {
            let indent = line.len() - line.trim_start().len();
            indent <= 6 && !line.trim().is_empty()
        })
        .map(|line| line.trim().split("  ").next().unwrap().to_owned())
        .collect()
}

/// Option names only: `-f, --foreground`, whatever value they take.
fn option_names(listed: &[String]) -> BTreeSet<String> {
    listed
        .iter()
        .map(|entry| {
            entry
                .split([' ', ','])
                .filter(|word| word.starts_with('-') && word.len() > 1)
                .collect::<Vec<_>>()
                .join(" ")
        })
        .collect()
}

#[test]
fn the_pages_in_the_tree_are_what_the_code_gives() {
    let made: BTreeMap<String, String> = page::all().into_iter().collect();
    if env::var_os("PCAPZST_BLESS").is_some() {
        fs::create_dir_all(folder()).unwrap();
        for name in names(&folder()) {
            let name = String::from_utf8(name).unwrap();
            if !made.contains_key(&name) {
                fs::remove_file(folder().join(name)).unwrap();
            }
        }
        for (name, text) in &made {
            fs::write(folder().join(name), text).unwrap();
        }
    }
    let there: BTreeSet<String> = names(&folder())
        .into_iter()
        .map(|name| String::from_utf8(name).unwrap())
        .collect();
    assert_eq!(there, made.keys().cloned().collect(), "packaging/man");
    for (name, text) in made {
        assert!(
            fs::read_to_string(folder().join(&name)).unwrap() == text,
            "packaging/man/{name} is not what the code gives: PCAPZST_BLESS=1 cargo test --test man"
        );
    }
}

#[test]
fn every_command_has_its_page_and_the_first_page_names_it() {
    let page = fs::read_to_string(folder().join("pcapzst.1")).unwrap();
    let help = run(pcapzst().arg("--help")).ok().text();
    let mut of_help = listed(&help, "Commands:");
    of_help.retain(|name| name != "help");
    assert_eq!(of_help, commands());
    let of_page = tags(&page, "COMMANDS");
    let wanted: Vec<String> = of_help
        .iter()
        .map(|name| format!("pcapzst-{name}(1)"))
        .collect();
    assert_eq!(of_page, wanted);
    for name in of_help {
        assert!(folder().join(format!("pcapzst-{name}.1")).is_file());
    }
}

#[test]
fn help_and_page_of_each_command_have_the_same_options_and_arguments() {
    for command in commands() {
        let page = fs::read_to_string(folder().join(format!("pcapzst-{command}.1"))).unwrap();
        let help = run(pcapzst().args([&command, "--help"])).ok().text();
        let of_help = option_names(&listed(&help, "Options:"));
        let of_page: Vec<String> = tags(&page, "OPTIONS");
        let (options, arguments): (Vec<String>, Vec<String>) =
            of_page.into_iter().partition(|tag| tag.starts_with('-'));
        assert!(of_help.contains("-h --help"), "{command}: {of_help:?}");
        assert_eq!(option_names(&options), of_help, "{command}");
        let of_help: Vec<String> = listed(&help, "Arguments:")
            .into_iter()
            .map(|argument| argument.trim_matches(['<', '>', '.']).to_owned())
            .collect();
        let of_page: Vec<String> = arguments
            .into_iter()
            .map(|argument| argument.trim_matches(['<', '>']).to_owned())
            .collect();
        assert_eq!(of_page, of_help, "{command}");
    }
}

#[test]
fn every_mount_option_is_in_help_pages_and_readme() {
    let help = run(pcapzst().args(["mount", "--help"])).ok().text();
    let wanted: Vec<String> = WORDS.iter().map(Word::usage).collect();
    let of_help: Vec<String> = listed(&help, "Mount options (-o):")
        .into_iter()
        .map(|entry| entry.split(' ').next().unwrap().to_owned())
        .collect();
    assert_eq!(of_help, wanted, "--help");
    for name in ["pcapzst-mount.1", "mount.pcapzst.8"] {
        let page = fs::read_to_string(folder().join(name)).unwrap();
        assert_eq!(tags(&page, "MOUNT OPTIONS"), wanted, "{name}");
    }
    let readme = document("README.md");
    for word in WORDS {
        // What changes nothing need not be in an overview.
        let is_shown = readme.contains(&format!("`{}`", word.usage())) || word.name == "subtype";
        assert!(is_shown, "README.md lacks `{}`", word.usage());
    }
}

/// A document of the tree.
fn document(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap()
}

#[test]
fn documents_have_the_exit_codes_and_the_logs_filter_in_the_codes_words() {
    for name in ["README.md", "docs/SEMANTICS.md"] {
        let text = document(name);
        for exit in Exit::ALL {
            let row = format!("| {} | {}", exit as u8, exit.meaning());
            let is_there = text.lines().any(|line| line.starts_with(&row));
            assert!(is_there, "{name} lacks the row {row}");
        }
    }
    for name in ["docs/SEMANTICS.md", "docs/CONTRIBUTING.md"] {
        assert!(document(name).contains(FILTER), "{name} lacks {FILTER}");
    }
}

#[test]
fn every_page_has_the_exit_codes_and_what_a_page_is_to_have() {
    let wanted: Vec<String> = Exit::ALL
        .map(|exit| (exit as u8).to_string())
        .into_iter()
        .collect();
    for name in names(&folder()) {
        let name = String::from_utf8(name).unwrap();
        let page = fs::read_to_string(folder().join(&name)).unwrap();
        assert_eq!(tags(&page, "EXIT STATUS"), wanted, "{name}");
        for section in ["NAME", "SYNOPSIS", "DESCRIPTION", "EXAMPLES", "SEE ALSO"] {
            let is_there = page
                .lines()
                .any(|line| line.replace('"', "") == format!(".SH {section}"));
            assert!(is_there, "{name} has no {section}");
        }
    }
}

#[test]
fn every_reference_to_a_page_of_ours_leads_to_one() {
    let there = names(&folder());
    for name in &there {
        let name = str::from_utf8(name).unwrap();
        let text = plain(&fs::read_to_string(folder().join(name)).unwrap());
        for word in text.split(|c: char| !(c.is_alphanumeric() || "-.()".contains(c))) {
            let Some((page, section)) = word.split_once('(') else {
                continue;
            };
            let section = section.trim_end_matches(['.', ')']);
            if page.contains("pcapzst") && !section.is_empty() {
                let file = format!("{page}.{section}");
                assert!(there.contains(&file.clone().into_bytes()), "{name}: {file}");
            }
        }
    }
}

#[test]
fn man_mandoc_and_lexgrog_find_nothing_wrong() {
    for name in names(&folder()) {
        let name = String::from_utf8(name).unwrap();
        let path = folder().join(&name);
        let linted = run(tool("mandoc").args(["-Tlint", "-Wstyle"]).arg(&path));
        assert!(linted.is_ok(), "{name}: {}", linted.text());
        let parsed = run(tool("lexgrog").arg(&path)).ok().text();
        let title = name.rsplit_once('.').unwrap().0;
        assert!(
            parsed.contains(&format!("\"{title} - ")),
            "{name}: {parsed}"
        );
        let shown = run(tool("man")
            .args(["--warnings", "-E", "UTF-8", "-l"])
            .arg(&path)
            .env("MANWIDTH", "80"))
        .ok();
        assert_eq!(shown.stderr, "", "{name}");
        assert!(shown.text().contains("SEE ALSO"), "{name}");
    }
}
