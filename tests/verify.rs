//! `verify` of a folder looks at all it can, and names what it cannot.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "a failed step of a test is a panic"
)]

mod common;

use std::fs;

use common::day::scratch;
use common::frames::{Marked, with_bad_checksum};
use common::pcap::{Magic, Pcap};
use common::run;
use common::user::{NOBODY, as_user, program_in, set_mode};

#[test]
fn a_folder_that_cannot_be_read_is_named_and_all_else_is_checked() {
    let programs = scratch();
    set_mode(programs.path(), 0o755);
    let program = program_in(programs.path());
    let day = scratch();
    set_mode(day.path(), 0o755);
    let good = Marked::pack(&Pcap::random(Magic::LeUs, 720, 100), 3000).physical;
    let bad = with_bad_checksum(&good);
    for (folder, bytes) in [("a", &good), ("b", &good), ("c", &bad), ("c/deep", &good)] {
        let folder = day.path().join(folder);
        fs::create_dir(&folder).unwrap();
        set_mode(&folder, 0o755);
        fs::write(folder.join("x.pcap.zst"), bytes).unwrap();
        set_mode(&folder.join("x.pcap.zst"), 0o644);
    }
    set_mode(&day.path().join("b"), 0o700);
    // As lost+found: one below another, which is read.
    set_mode(&day.path().join("c/deep"), 0o700);
    let mut command = as_user(NOBODY, &[]);
    command.current_dir(day.path()).arg(program);
    let ran = run(command.args(["verify", "--json", "."])).exits(1);
    let told = "reading the folder: Permission denied (os error 13)";
    let lines = format!("pcapzst: ./b: {told}\npcapzst: ./c/deep: {told}\n");
    assert_eq!(ran.stderr, lines);
    let checked = ran.json();
    let checked: Vec<_> = checked
        .iter()
        .map(|object| (&object["path"], object["error"].is_null()))
        .collect();
    let [a, c] = ["./a/x.pcap.zst", "./c/x.pcap.zst"].map(Into::into);
    assert_eq!(checked, [(&a, true), (&c, false)]);
}
