//! What is passed, what is not, and that both read the same.

use std::fs::{self, File, FileTimes, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::time::SystemTime;

use super::shown::{LONG_AGO, Shown};
use crate::common::frames::Marked;
use crate::common::pcap::{Magic, Pcap};
use crate::common::sys::{self, Sharing, read_by_map};
use crate::common::{assert_same, pcapzst, run};

#[test]
fn a_final_raw_file_is_passed_whatever_it_holds() {
    let shown = Shown::new();
    let pcap = Pcap::of_size(Magic::LeUs, 1, 300_000);
    let mut long = pcap.bytes.clone();
    // A record that libpcap would not read.
    long[pcap.ends[3] + 8..pcap.ends[3] + 12].copy_from_slice(&[0xFF; 4]);
    let swapped = Pcap::random(Magic::BeNs, 2, 20);
    for (what, bytes) in [
        ("whole", &pcap.bytes[..]),
        ("torn", &pcap.bytes[..pcap.bytes.len() - 5]),
        ("a broken record", &long),
        ("another byte order", &swapped.bytes),
        ("a cut header", &pcap.bytes[..11]),
        ("text", b"no capture at all, and longer than a header"),
        ("empty", b""),
    ] {
        let _ = fs::remove_file(shown.at(""));
        shown.put("", bytes);
        let file = shown.open_passed();
        shown.assert_passed(&file, bytes, what);
        assert_eq!(file.metadata().unwrap().len(), bytes.len() as u64);
        drop(file);
        shown.await_closed();
    }
}

#[test]
fn every_way_to_read_a_passed_file_gives_its_bytes() {
    let shown = Shown::new();
    let pcap = Pcap::of_size(Magic::LeUs, 3, 300_000);
    shown.put("", &pcap.bytes);
    let mut file = shown.open_passed();
    shown.assert_passed(&file, &pcap.bytes, "pread");
    for sharing in [Sharing::Private, Sharing::Shared] {
        let map = read_by_map(&file, sharing).unwrap();
        assert_same(&map, &pcap.bytes, &format!("{sharing:?}"));
    }
    for is_splice in [false, true] {
        let (mut reader, writer) = std::io::pipe().unwrap();
        file.seek(SeekFrom::Start(250_000)).unwrap();
        let moved = if is_splice {
            sys::splice(&file, writer.as_raw_fd(), 20_000)
        } else {
            sys::sendfile(&file, writer.as_raw_fd(), 20_000)
        };
        let mut bytes = vec![0; moved.unwrap()];
        assert!(!bytes.is_empty());
        reader.read_exact(&mut bytes).unwrap();
        assert_same(&bytes, &pcap.bytes[250_000..][..bytes.len()], "moved");
    }
    let size = pcap.bytes.len() as u64;
    assert_eq!(file.seek(SeekFrom::End(0)).unwrap(), size);
    assert_eq!(file.read(&mut [0; 10]).unwrap(), 0, "the end");
    let cat = run(crate::common::tool("cat").arg(shown.path())).ok();
    assert_same(&cat.stdout, &pcap.bytes, "cat");
    assert_eq!(shown.mounted.counter("reads"), 0);
    assert_eq!(shown.mounted.counter("passthrough_opens"), 2);
}

#[test]
fn what_a_writer_may_be_at_is_not_passed() {
    let shown = Shown::new();
    let pcap = Pcap::of_size(Magic::LeUs, 4, 100_000);
    let packed = Marked::pack(&pcap, 20_000).physical;
    let half = pcap.ends[pcap.ends.len() / 2];
    let torn = &pcap.bytes[..half + 9];
    for (ending, bytes, wanted) in [
        (".partial", torn, &pcap.bytes[..half]),
        (".zst.partial", &packed, &pcap.bytes),
        (".zst", &packed, &pcap.bytes),
    ] {
        shown.put(ending, bytes);
        let file = shown.open_unpassed();
        shown.assert_asked(&file, wanted, ending);
        drop(file);
        fs::remove_file(shown.at(ending)).unwrap();
    }
    shown.put("", &pcap.bytes);
    let now = SystemTime::now();
    for written in [now, now + LONG_AGO] {
        let times = FileTimes::new().set_modified(written);
        let file = OpenOptions::new().write(true).open(shown.at("")).unwrap();
        file.set_times(times).unwrap();
        let file = shown.open_unpassed();
        shown.assert_asked(&file, &pcap.bytes, "just written");
        drop(file);
        shown.await_closed();
    }
}

#[test]
fn other_files_are_passed_too_where_they_are_shown() {
    let shown = Shown::with("all");
    let notes = shown.at("").with_file_name("notes.txt");
    fs::write(&notes, "words").unwrap();
    super::shown::rest(&notes);
    assert_eq!(fs::read(shown.mounted.join("notes.txt")).unwrap(), b"words");
    assert_eq!(shown.mounted.counter("passthrough_opens"), 1);
    assert_eq!(shown.mounted.counter("reads"), 0);
}

#[test]
fn two_names_of_one_file_are_passed_each_for_itself() {
    let shown = Shown::new();
    let pcap = Pcap::of_size(Magic::LeUs, 5, 50_000);
    shown.put("", &pcap.bytes);
    let twin = shown.at("").with_file_name("y.pcap");
    fs::hard_link(shown.at(""), &twin).unwrap();
    let first = shown.open_passed();
    let second = File::open(shown.mounted.join("y.pcap")).unwrap();
    assert_eq!(shown.mounted.counter("passthrough_opens"), 2);
    drop(first);
    shown.assert_passed(&second, &pcap.bytes, "the other name");
    shown.assert_passed(&shown.open_passed(), &pcap.bytes, "once more");
}

#[test]
fn a_direct_handle_reads_from_any_offset() {
    let shown = Shown::new();
    let pcap = Pcap::of_size(Magic::LeUs, 6, 50_000);
    shown.put("", &pcap.bytes);
    let direct = || {
        let mut options = OpenOptions::new();
        let options = options.read(true).custom_flags(libc::O_DIRECT);
        options.open(shown.path()).unwrap()
    };
    let alone = direct();
    shown.assert_asked(&alone, &pcap.bytes, "alone");
    drop(alone);
    shown.await_closed();
    let passed = shown.open_passed();
    shown.assert_asked(&direct(), &pcap.bytes, "beside a passed one");
    shown.assert_passed(&passed, &pcap.bytes, "the passed one");
}

#[test]
fn with_no_passthrough_nothing_is_passed() {
    let shown = Shown::with("no_passthrough");
    let pcap = Pcap::of_size(Magic::LeUs, 7, 50_000);
    shown.put("", &pcap.bytes);
    let file = shown.open_unpassed();
    shown.assert_asked(&file, &pcap.bytes, "direct");
}

#[test]
fn without_the_right_reads_are_answered_as_ever() {
    let day = crate::common::day::Day::new();
    let pcap = Pcap::of_size(Magic::LeUs, 8, 50_000);
    day.add_as("x", ".pcap", &pcap.bytes, &pcap.bytes);
    super::shown::rest(&day.source().join("x.pcap"));
    let program = pcapzst();
    // Root of a user namespace may mount, and may not have the kernel read a file in its place.
    let script = r#"
        "$1" mount -o no_index "$2" "$3" && cat "$3/x.pcap" > "$4" && cat "$3/x.pcap" >> "$4" &&
        "$1" status --json "$3"; "$1" umount "$3""#;
    let out = day.out().join("seen");
    let ran = run(crate::common::tool("unshare")
        .args([
            "--user",
            "--map-root-user",
            "--mount",
            "sh",
            "-c",
            script,
            "sh",
        ])
        .arg(program.get_program())
        .args([day.source(), day.raw(), out.clone()]))
    .ok();
    let twice = [&pcap.bytes[..], &pcap.bytes].concat();
    assert_same(&fs::read(out).unwrap(), &twice, "read twice");
    let stats = &ran.json()[0];
    assert_eq!(stats["passthrough_opens"], 0);
    assert_eq!(stats["opens"], 2);
}
