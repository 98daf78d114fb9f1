//! What programs ask again and again (24).

use std::fs;

use crate::common::day::Day;
use crate::common::mounted::Mounted;
use crate::common::pcap::{Magic, Pcap};
use crate::common::{names, pcapzst, run, tool};

const FILES: usize = 60;
/// A folder's own questions, and those after which a program knows that there are none.
const A_FEW: usize = 6;

/// How often files are opened, and how often attributes by name are asked for, by what `use_all` does.
fn requests(day: &Day, use_all: impl FnOnce(&Mounted)) -> (usize, usize) {
    // fuser tells each request at this level.
    let mut command = pcapzst();
    command.env("RUST_LOG", "fuser=debug");
    let mounted = Mounted::launch(command, &day.source(), "");
    use_all(&mounted);
    let log = mounted.unmount().log;
    let count = |word: &str| log.lines().filter(|line| line.contains(word)).count();
    (count(" OPEN "), count(" GETXATTR "))
}

#[test]
fn reading_and_listing_ask_for_no_attribute_of_each_file_and_a_copy_for_one() {
    let day = Day::new();
    for number in 0..FILES {
        day.add(&format!("{number:03}"), &Pcap::random(Magic::LeUs, 1, 2));
    }
    let (opens, asked) = requests(&day, |mounted| {
        for name in names(mounted.path()) {
            for _ in 0..5 {
                let path = mounted.join(String::from_utf8(name.clone()).unwrap());
                assert!(fs::read(path).unwrap().len() > 24);
            }
        }
    });
    assert_eq!((opens, asked), (5 * FILES, 0));

    let (_, asked) = requests(&day, |mounted| {
        run(tool("ls").arg("-lZ").arg(mounted.path())).ok();
        run(tool("rsync")
            .arg("-aX")
            .arg(mounted.path())
            .arg(day.out().join("rsync")))
        .ok();
    });
    assert!(asked <= A_FEW, "{asked} questions by ls and rsync");

    // It wants each file's access list.
    let copy = day.out().join("copy");
    let (opens, asked) = requests(&day, |mounted| {
        run(tool("cp").arg("-a").arg(mounted.path()).arg(&copy)).ok();
    });
    assert_eq!((names(&copy).len(), opens), (FILES, FILES));
    assert!(asked <= FILES + A_FEW, "{asked} questions by cp -a");
}
