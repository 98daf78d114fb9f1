//! `verify`: every frame decoded, every record followed.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};

use super::args::Verify;
use super::exit::Exit;
use super::input::Input;
use super::inspect::describe;
use super::{complain, printed, progress};
use crate::capture::report::{self, Verdict, Verification};
use crate::capture::{Engine, Error};
use crate::plain::Plain;
use crate::tree::name::Naming;

/// Checks each file, and each capture in each folder.
pub(super) fn verify(args: &Verify) -> Exit {
    let engine = Arc::new(Engine::default());
    let mut exit = Exit::Done;
    for path in &args.paths {
        let files = if path.is_dir() {
            let mut unread = |folder: &Path, error| {
                complain(folder, Error::io("reading the folder")(error));
                exit = exit.worse(Exit::Failed);
            };
            captures_in(path, &mut unread)
        } else {
            vec![path.clone()]
        };
        for file in files {
            exit = exit.worse(match check(&engine, &file, args.json) {
                Ok(exit) => exit,
                Err(error) => {
                    complain(&file, &error);
                    Exit::from(&error)
                }
            });
        }
    }
    exit
}

/// The captures in `folder` and the folders in it, by name. Links are not followed. What cannot be read is told to
/// `unread`, and the rest is still looked at.
fn captures_in(folder: &Path, unread: &mut impl FnMut(&Path, io::Error)) -> Vec<PathBuf> {
    let naming = Naming::default();
    let listed = match folder.read_dir() {
        Ok(listed) => listed,
        Err(error) => {
            unread(folder, error);
            return Vec::new();
        }
    };
    let mut entries = Vec::new();
    for entry in listed {
        match entry {
            Ok(entry) => entries.push(entry),
            Err(error) => unread(folder, error),
        }
    }
    entries.sort_by_key(std::fs::DirEntry::file_name);
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => files.extend(captures_in(&path, unread)),
            Ok(kind) if kind.is_file() && naming.parse(&entry.file_name()).is_some() => {
                files.push(path);
            }
            Ok(_) => {}
            Err(error) => unread(&path, error),
        }
    }
    files
}

fn check(engine: &Arc<Engine>, path: &Path, as_json: bool) -> Result<Exit, Error> {
    let input = Input::open(engine, path)?;
    let bar = progress::bar(input.source.facts().size, input.logical_name.clone());
    let verification = report::verify(&input.source, |done| bar.set_position(done))?;
    bar.finish_and_clear();
    let printed = printed(if as_json {
        print_json(&input, &verification)
    } else {
        print_text(&input, &verification)
    });
    Ok(printed.worse(verification.verdict.into()))
}

fn print_json(input: &Input, verification: &Verification) -> io::Result<()> {
    let mut object = describe(input, &verification.facts);
    let faults: Vec<String> = verification
        .faults
        .iter()
        .map(ToString::to_string)
        .collect();
    object.insert("packets".to_owned(), json!(verification.packets));
    object.insert("error".to_owned(), json!(faults.first()));
    object.insert("faults".to_owned(), json!(faults));
    writeln!(io::stdout().lock(), "{}", Value::Object(object))
}

fn print_text(input: &Input, verification: &Verification) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let verdict = match verification.verdict {
        Verdict::Good => "good",
        Verdict::Incomplete => "incomplete",
        Verdict::Foreign => "not in this format",
        Verdict::Damaged => "damaged",
    };
    let path = Plain(input.path.display());
    writeln!(
        out,
        "{path}: {verdict}: {} packets, {} source bytes, {} frames, {} torn bytes",
        verification.packets,
        verification.facts.size,
        verification.facts.frames,
        verification.facts.torn_bytes
    )?;
    for fault in &verification.faults {
        writeln!(out, "{path}: {}", Plain(fault))?;
    }
    Ok(())
}
