//! Names that come and go in the kernel (53), and what is printed of them.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use nix::mount::{MsFlags, mount};

use crate::common::day::{Day, scratch};
use crate::common::frames::Marked;
use crate::common::mounted::Mounted;
use crate::common::pcap::{Magic, Pcap};
use crate::common::{number, pcapzst, run, tool};

/// So many names, or `PCAPZST_NAMES`.
const NAMES: usize = 6_000;
const IN_A_FOLDER: usize = 1_000;

/// Has the kernel forget the mount's names and inodes that nobody uses, and no other mount's, until so few are left: it
/// tells them to the daemon in its own time.
fn forget(mounted: &Mounted, most: u64) {
    let begun = Instant::now();
    let none = None::<&str>;
    let as_it_is =
        MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY | MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    mount(none, mounted.path(), none, as_it_is, none).unwrap();
    while mounted.counter("inodes") > most {
        let patience = Duration::from_mins(1 + most / 10_000);
        assert!(
            begun.elapsed() < patience,
            "{} are left",
            mounted.counter("inodes")
        );
        thread::yield_now();
    }
}

#[test]
fn memory_levels_off_however_often_all_names_are_found_and_forgotten() {
    let number = number("PCAPZST_NAMES", NAMES);
    let source = scratch();
    let pcap = Pcap::random(Magic::LeUs, 1, 3);
    let physical = Marked::pack(&pcap, 500).physical;
    // Two names of one file are two captures here; and a folder's worth of files is quick to link.
    for folder in 0..number.div_ceil(IN_A_FOLDER) {
        let folder = source.path().join(format!("{folder:04}"));
        fs::create_dir(&folder).unwrap();
        let first = folder.join("0.pcap.zst");
        fs::write(&first, &physical).unwrap();
        for name in 1..IN_A_FOLDER {
            fs::hard_link(&first, folder.join(format!("{name}.pcap.zst"))).unwrap();
        }
    }
    let lifetime = Duration::from_hours(1);
    let mounted = Mounted::launch_for(lifetime, pcapzst(), source.path(), "");
    let size = format!("{}c", pcap.bytes.len());
    let mut resident = Vec::new();
    for round in 1..=5 {
        // One search for each folder: a long one in the long run would be taken for one that hangs.
        let mut found = 0;
        for folder in fs::read_dir(mounted.path()).unwrap() {
            let mut find = tool("find");
            find.arg(folder.unwrap().path());
            find.args(["-type", "f", "-size", &size, "-printf", "x"]);
            found += run(&mut find).ok().text().len();
        }
        assert_eq!(found, number);
        let lookups = mounted.counter("lookups");
        assert!(
            lookups >= round * number as u64,
            "{lookups} in round {round}"
        );
        forget(&mounted, number as u64 / 10);
        resident.push(mounted.resident_kib());
    }
    // Kept, each name would be half a kilobyte, three times over. The heap takes some rounds to find its size.
    let most = resident[1] + 3_000 + number as u64 / 50;
    assert!(resident[4] <= most, "{resident:?} KiB");
}

/// Control characters in names: a line of its own in a log, colours, and the end of a line as old terminals have it.
const NAMES_OF_A_JOKER: [&str; 3] = [
    "a\npcapzst: all is well",
    "b\u{1b}[31mred\u{1b}]0;title\u{7}",
    "c\r\u{9b}2J\u{202e}d",
];

#[track_caller]
fn is_plain(text: &str, what: &str) {
    let is_control = |letter: char| letter.is_control() && letter != '\n' || letter == '\u{202e}';
    assert!(!text.contains(is_control), "{what}: {text:?}");
    for line in text.lines() {
        assert!(
            !line.starts_with("pcapzst: all is well"),
            "{what}: {text:?}"
        );
    }
}

#[test]
fn control_characters_of_a_name_are_printed_as_escapes_and_stay_on_their_line() {
    let day = Day::new();
    let pcap = Pcap::random(Magic::LeUs, 2, 40);
    let good = Marked::pack(&pcap, 500).physical;
    for name in NAMES_OF_A_JOKER {
        day.add_as(name, ".pcap.zst", &good, &pcap.bytes);
        day.add_as(&format!("bad {name}"), ".pcap.zst", b"no frame at all", b"");
        day.add_as(&format!("twice {name}"), ".pcap.zst", &good, &pcap.bytes);
        day.add_as(
            &format!("twice {name}"),
            ".pcap.zst.partial",
            &good,
            &pcap.bytes,
        );
    }
    let mounted = day.mount();
    for name in fs::read_dir(mounted.path()).unwrap() {
        // The bad ones are logged when they are looked up, and those of two forms.
        assert!(fs::metadata(name.unwrap().path()).unwrap().is_file());
    }
    let log = mounted.unmount().log;
    assert_eq!(
        log.lines().filter(|line| line.contains("refused")).count(),
        3,
        "{log}"
    );
    assert_eq!(
        log.lines().filter(|line| line.contains("2 forms")).count(),
        3,
        "{log}"
    );
    is_plain(&log, "log");
    assert!(log.contains("a\\npcapzst: all is well.pcap"), "{log}");

    let all: Vec<_> = fs::read_dir(day.source())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    let absent = day.source().join("no\nsuch\u{1b}[1m.pcap.zst");
    for command in ["inspect", "verify", "cat", "pack", "umount", "status"] {
        for path in all.iter().chain([&absent]) {
            let out = scratch();
            let mut asked = pcapzst();
            asked.arg(command).arg(path);
            if command == "pack" {
                asked.arg("-o").arg(out.path());
            }
            let ran = run(&mut asked);
            is_plain(&ran.stderr, command);
            if command != "cat" {
                is_plain(&ran.text(), command);
            }
            let is_told = ran.stderr.contains('\\') || ran.text().contains('\\');
            assert!(is_told || command == "cat" && ran.is_ok(), "{command}");
        }
    }
    let mut mount = pcapzst();
    mount.args(["mount", "-o", "no_index"]).arg(day.source());
    let told = run(mount.arg(day.path().join("no\nsuch point")))
        .exits(1)
        .stderr;
    is_plain(&told, "mount");
    assert_eq!(told.lines().count(), 1, "{told:?}");
}
