//! Standard output that cannot be written, of every command that prints.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "a failed step of a test is a panic"
)]

mod common;

use std::fs::{self, File};
use std::io;
use std::process::Stdio;

use common::day::Day;
use common::pcap::{Magic, Pcap};
use common::pcapzst;

/// Runs every command that prints with this as its output: what it was, its exit code, and what it said.
fn all_into(stdout: impl Fn() -> Stdio) -> Vec<(String, Option<i32>, String)> {
    let day = Day::with("a", &Pcap::random(Magic::LeUs, 710, 100));
    fs::write(day.source().join("raw.pcap"), b"").unwrap();
    let mounted = day.mount();
    let mountpoint = mounted.path().to_str().unwrap();
    let source = day.source();
    let [a, raw] = ["a.pcap.zst", "raw.pcap"].map(|name| source.join(name));
    let [a, raw] = [&a, &raw].map(|path| path.to_str().unwrap());
    let lines = [
        vec!["inspect", a, raw],
        vec!["inspect", "--json", a],
        vec!["verify", a, raw],
        vec!["verify", "--json", a],
        vec!["cat", a],
        vec!["status", mountpoint],
        vec!["status", "--json", mountpoint],
        vec!["completions", "bash"],
        vec!["--help"],
        vec!["--version"],
        vec!["pack", "--help"],
    ];
    let run = |line: Vec<&str>| {
        let mut command = pcapzst();
        command.args(&line).env("LC_ALL", "C").stdin(Stdio::null());
        let ran = command.stdout(stdout()).output().unwrap();
        let said = String::from_utf8(ran.stderr).unwrap();
        (line.join(" "), ran.status.code(), said)
    };
    lines.into_iter().map(run).collect()
}

#[test]
fn a_full_disk_is_told_by_every_command_that_prints() {
    let full = || File::options().write(true).open("/dev/full").unwrap();
    for (line, code, said) in all_into(|| full().into()) {
        assert_eq!(code, Some(1), "{line}: {said}");
        let words = "writing to standard output: No space left on device";
        assert!(said.contains(words), "{line}: {said}");
    }
}

#[test]
fn a_reader_that_has_closed_the_pipe_is_no_error_to_any_command() {
    let closed = || {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        Stdio::from(writer)
    };
    for (line, code, said) in all_into(closed) {
        assert_eq!((code, said.as_str()), (Some(0), ""), "{line}");
    }
}
