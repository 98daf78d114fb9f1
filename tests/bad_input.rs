//! Every odd input of the table (`odd/`), looked at by `inspect` and `verify`, under limits of time and memory.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "a failed step of a test is a panic"
)]

mod common;
mod odd;

use std::path::Path;

use common::{assert_same, frugal_pcapzst, pcapzst, run, tool};
use odd::{Odd, Served, on_disk};
use serde_json::{Map, Value};

/// Runs a command on one file under limits, checks its exit code, and gives its one JSON object.
fn report(command: &str, odd: &Odd, folder: &Path, code: i32) -> Map<String, Value> {
    let mut program = frugal_pcapzst();
    let ran = run(program
        .args([command, "--json"])
        .arg(folder.join(&odd.file)))
    .exits(code);
    let mut objects = ran.json();
    assert_eq!(objects.len(), 1, "{command} {}: {}", odd.file, ran.text());
    let object = objects.remove(0);
    let file = &odd.file;
    let form = if file.contains(".zst") { "zst" } else { "raw" };
    assert_eq!(object["logical_name"], odd.logical(), "{command} {file}");
    assert_eq!(object["physical_size"], odd.bytes.len(), "{command} {file}");
    assert_eq!(
        object["partial"],
        file.ends_with(".partial"),
        "{command} {file}"
    );
    assert_eq!(object["form"], form, "{command} {file}");
    object
}

/// Checks that a fault is told with where it begins, and without `--json` with the file's name too.
fn assert_names_fault(command: &str, odd: &Odd, folder: &Path, object: &Map<String, Value>) {
    let file = &odd.file;
    let error = object["error"]
        .as_str()
        .unwrap_or_else(|| panic!("{file}: no error text"));
    let faults = object
        .get("faults")
        .map(Value::to_string)
        .unwrap_or_default();
    let ran = run(pcapzst().arg(command).arg(folder.join(file)));
    let plain = format!("{}{}", ran.text(), ran.stderr);
    assert!(
        plain.contains(file),
        "{command} {file} does not name the file: {plain}"
    );
    if let Some(at) = odd.fault_at {
        let place = format!("physical offset {at}:");
        for told in [format!("{error}{faults}"), plain] {
            assert!(
                told.contains(&place),
                "{command} {file} does not say \"{place}\": {told}"
            );
        }
    }
}

#[test]
fn inspect_gives_each_odd_input_its_state_and_exit_code() {
    let table = odd::table();
    let folder = on_disk(&table);
    for odd in &table {
        let object = report("inspect", odd, folder.path(), odd.inspect);
        assert_eq!(object["state"], odd.state, "{}", odd.file);
        if let Some(frames) = odd.frames {
            assert_eq!(object["frames"], frames, "{}", odd.file);
        }
        if let Some(torn) = odd.torn {
            assert_eq!(object["torn_bytes"], torn, "{}", odd.file);
        }
        let size = object["source_size"].as_u64().unwrap();
        match &odd.served {
            // Whether the report counts the unmapped bytes, as the mount does, is its own choice.
            Served::Prefix { good, .. } => {
                assert!(
                    size == good.len() as u64 || size == odd.size(),
                    "{}: {size}",
                    odd.file
                );
            }
            _ => assert_eq!(size, odd.size(), "{}", odd.file),
        }
        match odd.inspect {
            0 => assert_eq!(object["error"], Value::Null, "{}", odd.file),
            3 | 4 => assert_names_fault("inspect", odd, folder.path(), &object),
            _ => {}
        }
    }
}

#[test]
fn verify_gives_each_odd_input_its_exit_code_and_names_the_fault() {
    let table = odd::table();
    let folder = on_disk(&table);
    for odd in &table {
        let object = report("verify", odd, folder.path(), odd.verify);
        let faults = object["faults"].as_array().unwrap().len();
        match odd.verify {
            0 => assert_eq!(
                (faults, &object["error"]),
                (0, &Value::Null),
                "{}",
                odd.file
            ),
            3 => assert_names_fault("verify", odd, folder.path(), &object),
            4 => {
                assert!(faults > 0, "{}: no faults listed", odd.file);
                assert_names_fault("verify", odd, folder.path(), &object);
            }
            _ => assert_eq!(object["state"], odd.state, "{}", odd.file),
        }
    }
}

#[test]
fn the_worst_of_several_files_is_the_exit_code() {
    let table = odd::table();
    let folder = on_disk(&table);
    let code = |command: &str, files: &[&str], wanted: i32| {
        let paths = files.iter().map(|name| folder.path().join(name));
        run(pcapzst().args([command, "--json"]).args(paths)).exits(wanted)
    };
    let (good, torn, foreign) = ("raw.pcap", "zstd-prefix-3.pcap.zst", "unmarked.pcap.zst");
    let damaged = "reserved-bit.pcap.zst";
    for command in ["inspect", "verify"] {
        code(command, &[good, "marker-twice.pcap.zst"], 0);
        code(command, &[torn, good], 5);
        code(command, &[torn, foreign, good], 3);
        code(command, &[foreign, damaged, torn, good], 4);
        let all = code(command, &[foreign, "absent.pcap", damaged, torn, good], 1);
        assert!(
            all.stderr.contains("absent.pcap") || all.text().contains("absent.pcap"),
            "{all:?}"
        );
        let told: Vec<_> = all
            .json()
            .iter()
            .map(|object| object["path"].to_string())
            .collect();
        for name in [foreign, damaged, torn, good] {
            assert_eq!(
                told.iter().filter(|path| path.contains(name)).count(),
                1,
                "{name}: {told:?}"
            );
        }
    }
    let tree = run(pcapzst().args(["verify", "--json"]).arg(folder.path())).exits(4);
    assert_eq!(
        tree.json().len(),
        table.len(),
        "verify of a folder reports each capture in it"
    );
}

#[test]
fn zstd_itself_agrees_on_what_is_sound_and_what_does_not_decode() {
    let table = odd::table();
    let folder = on_disk(&table);
    let (mut sound, mut broken) = (0, 0);
    for odd in table
        .iter()
        .filter(|odd| odd.file.ends_with(".pcap.zst") && odd.inspect == 0)
    {
        let ran = run(tool("zstd")
            .args(["-dc", "--long=31"])
            .arg(folder.path().join(&odd.file)));
        match &odd.served {
            Served::Whole(bytes) => {
                assert_same(&ran.ok().stdout, bytes, &odd.file);
                sound += 1;
            }
            Served::Hole { .. } => {
                ran.fails();
                broken += 1;
            }
            Served::Refused(_) | Served::Prefix { .. } => panic!("{} has inspect 0", odd.file),
        }
    }
    assert!(sound > 20 && broken > 4, "{sound} {broken}");
}
