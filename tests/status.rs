//! What a mount tells of itself: counters, states, and what is wrong with captures.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "a failed step of a test is a panic"
)]

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use common::day::Day;
use common::frames::{Marked, with_bad_checksum};
use common::mounted::Mounted;
use common::pcap::{Magic, Pcap};
use common::{Ran, pcapzst, run, sys, tool};
use serde_json::{Map, Value, json};

/// The documented keys of `status --json`, in the documented order. They do not change: docs/SEMANTICS.md.
const KEYS: [&str; 25] = [
    "version",
    "uptime_secs",
    "open_files",
    "inodes",
    "lookups",
    "opens",
    "passthrough_opens",
    "reads",
    "read_bytes",
    "decodes",
    "ahead_decodes",
    "ahead_used",
    "ahead_wasted",
    "cache_hits",
    "cache_joins",
    "cache_bytes",
    "cache_budget_bytes",
    "index_hits",
    "index_misses",
    "index_drops",
    "refused",
    "damaged",
    "states",
    "faults",
    "faults_left_out",
];

fn status(mounted: &Mounted, options: &[&str]) -> Ran {
    run(pcapzst().arg("status").args(options).arg(mounted.path())).ok()
}

fn counters(mounted: &Mounted) -> Map<String, Value> {
    let mut objects = status(mounted, &["--json"]).json();
    assert_eq!(objects.len(), 1);
    objects.pop().unwrap()
}

/// A day with a capture in each state, one of them in a folder that is root's alone.
fn every_state() -> (Day, Pcap) {
    let pcap = Pcap::random(Magic::LeUs, 400, 2000);
    let marked = Marked::pack(&pcap, 65_536);
    let day = Day::new();
    day.add("complete", &pcap);
    fs::write(day.source().join("raw.pcap"), &pcap.bytes).unwrap();
    fs::write(
        day.source().join("growing.pcap.zst.partial"),
        &marked.physical,
    )
    .unwrap();
    let torn = &marked.physical[..marked.physical.len() - 1];
    fs::write(day.source().join("draining.pcap.zst"), torn).unwrap();
    let closed = day.source().join("closed");
    fs::create_dir(&closed).unwrap();
    fs::write(closed.join("secret\n.pcap.zst"), b"no capture at all").unwrap();
    // The end of the file is the end of its last frame.
    let bad = with_bad_checksum(&marked.physical);
    fs::write(day.source().join("damaged.pcap.zst"), bad).unwrap();
    (day, pcap)
}

#[test]
fn the_keys_are_the_documented_ones_and_the_attribute_holds_the_same() {
    let (day, _) = every_state();
    let mounted = day.mount();
    let keys: Vec<_> = counters(&mounted).into_iter().map(|(key, _)| key).collect();
    assert_eq!(keys, KEYS);
    let stats = sys::attribute(mounted.path(), "user.pcapzst.stats").unwrap();
    let stats: Map<String, Value> = serde_json::from_str(&stats).unwrap();
    assert!(stats.keys().eq(keys.iter()));
    let semantics = include_str!("../docs/SEMANTICS.md");
    for key in &keys {
        assert!(
            semantics.contains(&format!("`{key}`")),
            "{key} is not documented"
        );
    }
}

#[test]
fn each_state_is_counted_and_each_fault_is_named_with_its_reason() {
    let (day, pcap) = every_state();
    let mounted = day.mount();
    let states = |counted: [u64; 5]| {
        let names = ["growing", "draining", "complete", "refused", "damaged"];
        let counts = names
            .iter()
            .zip(counted)
            .map(|(name, count)| ((*name).to_owned(), json!(count)));
        Value::Object(counts.collect())
    };
    assert_eq!(counters(&mounted)["states"], states([0; 5]));
    run(tool("ls").arg("-lR").arg(mounted.path())).ok();
    let counted = counters(&mounted);
    assert_eq!(counted["states"], states([1, 1, 3, 1, 0]));
    assert_eq!(counted["faults"].as_array().unwrap().len(), 1);
    assert_eq!(counted["faults"][0]["name"], "closed/secret\n.pcap");
    assert_eq!(counted["faults"][0]["state"], "refused");
    let refusal = counted["faults"][0]["error"].as_str().unwrap().to_owned();
    assert!(!refusal.is_empty());

    // Damage in a frame is found by who reads it.
    fs::read(mounted.join("damaged.pcap")).unwrap_err();
    let counted = counters(&mounted);
    assert_eq!(counted["states"], states([1, 1, 2, 1, 1]));
    let faults = counted["faults"].as_array().unwrap();
    let damage = faults
        .iter()
        .find(|fault| fault["state"] == "damaged")
        .unwrap();
    assert_eq!(damage["name"], "damaged.pcap");
    let error = damage["error"].as_str().unwrap();
    assert!(
        error.contains("frame") && error.contains("physical offset"),
        "{error}"
    );
    assert_eq!(counted["faults_left_out"], 0);

    let text = status(&mounted, &[]).text();
    assert!(
        text.contains("growing 1, draining 1, complete 2, refused 1, damaged 1\n"),
        "{text}"
    );
    let line = format!("refused \"closed/secret\\n.pcap\": {refusal}");
    assert!(text.lines().any(|found| found == line), "{text}");
    assert!(
        text.lines()
            .any(|found| found == format!("damaged \"damaged.pcap\": {error}")),
        "{text}"
    );
    assert_eq!(text.lines().count(), KEYS.len() - 1 + 2, "{text}");

    // A capture that is mended is no fault any more.
    let mended = Marked::pack(&pcap, 65_536).physical;
    for name in ["closed/secret\n", "damaged"] {
        fs::write(day.source().join(format!("{name}.pcap.zst")), &mended).unwrap();
        fs::read(mounted.join(format!("{name}.pcap"))).unwrap();
    }
    let counted = counters(&mounted);
    assert_eq!(counted["faults"], json!([]));
    assert_eq!(
        (&counted["refused"], &counted["damaged"]),
        (&json!(1), &json!(1))
    );
}

#[test]
fn control_characters_of_a_name_reach_no_terminal() {
    // Of C0 and C1, DEL, Unicode's ends of a line, what turns the direction of the text; and what is none of them.
    let name = "\u{1b}[2J\u{7f}\u{9b}31m\u{85}\u{2028}\u{2029}\u{202e}\u{2066}\r\té \u{65e5}";
    let day = Day::new();
    let file = day.source().join(format!("{name}.pcap.zst"));
    fs::write(file, b"no capture at all").unwrap();
    let mounted = day.mount();
    run(tool("ls").arg("-l").arg(mounted.path())).ok();
    assert_eq!(
        counters(&mounted)["faults"][0]["name"],
        format!("{name}.pcap")
    );
    let text = status(&mounted, &[]).text();
    let control = text.chars().find(|letter| {
        let is_other = matches!(letter, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        *letter != '\n' && (letter.is_control() || is_other)
    });
    assert_eq!(control, None, "{text:?}");
    assert_eq!(text.lines().count(), KEYS.len() - 1 + 1, "{text:?}");
    let told = r#"refused "\u001b[2J\u{7f}\u{9b}31m\u{85}\u{2028}\u{2029}\u{202e}\u{2066}\r\té 日.pcap": "#;
    assert!(text.contains(told), "{text:?}");
}

#[test]
fn another_user_is_told_counters_and_no_names() {
    let (day, _) = every_state();
    let closed = day.source().join("closed");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
    let mounted = Mounted::new(&day.source(), "allow_other");
    run(tool("ls").arg("-lR").arg(mounted.path())).ok();
    assert_eq!(counters(&mounted)["faults"].as_array().unwrap().len(), 1);
    let mut others = Command::new("getfattr");
    others
        .args(["--only-values", "-n", "user.pcapzst.stats"])
        .arg(mounted.path());
    // Nobody's numbers, in every Debian.
    others.uid(65534).gid(65534);
    let ran = run(&mut others).ok();
    let counted: Map<String, Value> = serde_json::from_str(&ran.text()).unwrap();
    assert_eq!(counted["states"]["refused"], 1);
    assert_eq!(counted["faults"], json!([]));
    assert!(!ran.text().contains("secret"), "{}", ran.text());
}

#[test]
fn more_faults_than_an_attribute_holds_are_counted() {
    let day = Day::new();
    let long = "x".repeat(240);
    for number in 0..400 {
        fs::write(
            day.source().join(format!("{number:03}{long}.pcap.zst")),
            b"no capture",
        )
        .unwrap();
    }
    let mounted = day.mount();
    run(tool("ls").arg("-l").arg(mounted.path())).ok();
    let counted = counters(&mounted);
    let told = counted["faults"].as_array().unwrap().len() as u64;
    let left_out = counted["faults_left_out"].as_u64().unwrap();
    assert!(
        told > 50 && left_out > 50,
        "{told} told, {left_out} left out"
    );
    assert_eq!(told + left_out, 400);
    assert_eq!(counted["states"]["refused"], 400);
}

#[test]
fn frames_read_ahead_are_used_wasted_or_still_there() {
    let pcap = Pcap::random(Magic::LeUs, 61, 20_000);
    let day = Day::with("a", &pcap);
    let mounted = Mounted::new(&day.source(), "cache_size=4M");
    fs::read(mounted.join("a.pcap")).unwrap();
    let counted = counters(&mounted);
    let count = |key: &str| counted[key].as_u64().unwrap();
    assert!(count("ahead_used") > 0, "{counted:?}");
    assert!(
        count("ahead_used") + count("ahead_wasted") <= count("ahead_decodes"),
        "{counted:?}"
    );
}
