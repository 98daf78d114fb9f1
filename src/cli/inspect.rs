//! `inspect`: what a file is, from its headers.

use std::io::{self, Write};
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::args::Inspect;
use super::exit::Exit;
use super::input::Input;
use super::{complain, printed};
use crate::capture::report::Verdict;
use crate::capture::{Engine, Facts, Progress};
use crate::format::pcap::GlobalHeader;
use crate::plain::Plain;

/// Prints what each file is.
pub(super) fn inspect(args: &Inspect) -> Exit {
    let engine = Arc::new(Engine::default());
    let mut exit = Exit::Done;
    for path in &args.files {
        let input = match Input::open(&engine, path) {
            Ok(input) => input,
            Err(error) => {
                complain(path, &error);
                exit = exit.worse(Exit::from(&error));
                continue;
            }
        };
        let facts = input.source.facts();
        exit = exit.worse(Verdict::of(&facts, input.source.form()).into());
        exit = exit.worse(printed(if args.json {
            print_json(&input, &facts, args.frames)
        } else {
            print_text(&input, &facts, args.frames)
        }));
    }
    exit
}

/// The keys that `inspect` and `verify` share, in the order they are documented in.
pub(super) fn describe(input: &Input, facts: &Facts) -> Map<String, Value> {
    let source = &input.source;
    let file_id = if facts.file_id.is_provisional() {
        Value::Null
    } else {
        json!({
            "first_packet_ts": facts.file_id.first_packet_ts,
            "header_crc32": facts.file_id.header_crc32,
        })
    };
    let mut object = Map::new();
    for (key, value) in [
        ("path", json!(input.path.to_string_lossy())),
        ("logical_name", json!(input.logical_name)),
        ("form", json!(source.form().as_str())),
        ("partial", json!(source.progress() == Progress::Partial)),
        ("state", json!(facts.state.as_str())),
        ("source_size", json!(facts.size)),
        ("physical_size", json!(facts.physical_len)),
        ("frames", json!(facts.frames)),
        ("torn_bytes", json!(facts.torn_bytes)),
        ("file_id", file_id),
    ] {
        object.insert(key.to_owned(), value);
    }
    object
}

fn print_json(input: &Input, facts: &Facts, with_frames: bool) -> io::Result<()> {
    let header = facts.header.as_ref();
    let mut object = describe(input, facts);
    for (key, value) in [
        ("link_type", json!(header.map(GlobalHeader::link_type))),
        ("link_type_raw", json!(header.map(|header| header.network))),
        ("snaplen", json!(header.map(|header| header.snaplen))),
        ("magic", json!(header.map(|header| header.magic.as_str()))),
        (
            "error",
            json!(facts.error.as_ref().map(ToString::to_string)),
        ),
    ] {
        object.insert(key.to_owned(), value);
    }
    if with_frames {
        let frames = (0..)
            .map_while(|index| input.source.span(index))
            .map(|span| {
                json!({
                    "src_start": span.src_start.as_u64(),
                    "src_end": span.src_end().as_u64(),
                    "phys_start": span.phys_start.as_u64(),
                    "phys_len": span.phys_len,
                })
            })
            .collect();
        object.insert("frame_table".to_owned(), Value::Array(frames));
    }
    writeln!(io::stdout().lock(), "{}", Value::Object(object))
}

fn print_text(input: &Input, facts: &Facts, with_frames: bool) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{}", Plain(input.path.display()))?;
    let mut line = |label: &str, value: &str| writeln!(out, "  {label:14}{}", Plain(value));
    line("logical name", &input.logical_name)?;
    line("form", input.source.form().as_str())?;
    line("state", facts.state.as_str())?;
    line("source size", &facts.size.to_string())?;
    line("physical size", &facts.physical_len.to_string())?;
    line("frames", &facts.frames.to_string())?;
    line("torn bytes", &facts.torn_bytes.to_string())?;
    if !facts.file_id.is_provisional() {
        line("file id", &facts.file_id.to_string())?;
    }
    if let Some(header) = &facts.header {
        line("magic", header.magic.as_str())?;
        line("link type", &header.link_type().to_string())?;
        line("snaplen", &header.snaplen.to_string())?;
    }
    if let Some(error) = &facts.error {
        line("error", &error.to_string())?;
    }
    if with_frames {
        writeln!(
            out,
            "  {:>8} {:>16} {:>12} {:>16} {:>12}",
            "frame", "source", "bytes", "physical", "bytes"
        )?;
        for (index, span) in (0..).map_while(|index| Some((index, input.source.span(index)?))) {
            writeln!(
                out,
                "  {index:>8} {:>16} {:>12} {:>16} {:>12}",
                span.src_start, span.src_len, span.phys_start, span.phys_len
            )?;
        }
    }
    Ok(())
}
