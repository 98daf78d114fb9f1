//! Real tools on a mounted capture say what they say on the raw file.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "a failed step of a test is a panic"
)]

mod common;

use std::fs;

use common::day::Day;
use common::frames::Marked;
use common::mounted::Mounted;
use common::pcap::{Magic, Pcap};
use common::{assert_same, run, tool};

/// One capture of each magic, one of words, and two in the old versions with swapped lengths.
fn captures() -> Day {
    let day = Day::new();
    for magic in Magic::ALL {
        day.add(magic.name(), &Pcap::random(magic, 30, 400));
    }
    day.add("text", &Pcap::text(31, 500));
    for minor in [2, 3] {
        let mut old = Pcap::with(Magic::BeUs, minor, 65_535, 1);
        old.extend_random(&mut common::Rng::new(32), 100);
        day.add(&format!("old-{minor}"), &old);
    }
    day
}

const NAMES: [&str; 7] = [
    "le-us.pcap",
    "be-us.pcap",
    "le-ns.pcap",
    "be-ns.pcap",
    "text.pcap",
    "old-2.pcap",
    "old-3.pcap",
];

/// Runs a tool in the folder of raw files and in the mount: exit code and output must be the same.
fn assert_alike(day: &Day, mounted: &Mounted, name: &str, args: &[&str]) {
    let raw = run(tool(name).args(args).current_dir(day.raw()));
    let seen = run(tool(name).args(args).current_dir(mounted.path()));
    assert_eq!(
        raw.code,
        Some(0),
        "{name} {args:?} on the raw file: {}",
        raw.stderr
    );
    assert!(!raw.stdout.is_empty(), "{name} {args:?} says nothing");
    assert_eq!(seen.code, raw.code, "{name} {args:?}: {}", seen.stderr);
    assert_eq!(seen.stderr, raw.stderr, "{name} {args:?}");
    assert_same(&seen.stdout, &raw.stdout, &format!("{name} {args:?}"));
}

#[test]
fn tcpdump_prints_the_same_packets() {
    let day = captures();
    let mounted = day.mount();
    for name in NAMES {
        assert_alike(
            &day,
            &mounted,
            "tcpdump",
            &["-nn", "-e", "-tttt", "-r", name],
        );
        assert_alike(
            &day,
            &mounted,
            "tcpdump",
            &["-nn", "-X", "-c", "20", "-r", name],
        );
    }
}

#[test]
fn tcpdump_reads_a_capture_from_its_standard_input() {
    let day = captures();
    let mounted = day.mount();
    let read = |folder: &std::path::Path| {
        let file = fs::File::open(folder.join("le-us.pcap")).unwrap();
        common::run_with_input(tool("tcpdump").args(["-nn", "-r", "-"]), file.into()).ok()
    };
    let (raw, seen) = (read(&day.raw()), read(mounted.path()));
    assert!(raw.stdout.len() > 1000);
    assert_same(&seen.stdout, &raw.stdout, "tcpdump -r -");
}

#[test]
fn tshark_dissects_the_same_packets() {
    let day = captures();
    let mounted = day.mount();
    for name in ["le-us.pcap", "be-ns.pcap", "old-2.pcap"] {
        assert_alike(&day, &mounted, "tshark", &["-n", "-r", name]);
    }
    assert_alike(
        &day,
        &mounted,
        "tshark",
        &[
            "-n",
            "-r",
            "text.pcap",
            "-T",
            "fields",
            "-e",
            "frame.time_epoch",
            "-e",
            "frame.len",
        ],
    );
}

#[test]
fn capinfos_counts_the_same() {
    let day = captures();
    let mounted = day.mount();
    for name in NAMES {
        assert_alike(&day, &mounted, "capinfos", &["-A", "-M", name]);
    }
}

#[test]
fn editcap_writes_the_same_file() {
    let day = captures();
    let mounted = day.mount();
    for name in NAMES {
        let edited = |folder: &std::path::Path, out: &str| {
            let out = day.out().join(out);
            let mut editcap = tool("editcap");
            run(editcap
                .args(["-F", "nsecpcap", "-r"])
                .arg(folder.join(name))
                .arg(&out)
                .arg("3-200"))
            .ok();
            fs::read(out).unwrap()
        };
        let (raw, seen) = (edited(&day.raw(), "raw"), edited(mounted.path(), "seen"));
        assert!(raw.len() > 1000, "{name}");
        assert_same(&seen, &raw, name);
    }
}

#[test]
fn mergecap_writes_the_same_file() {
    let day = captures();
    let mounted = day.mount();
    let merged = |folder: &std::path::Path, out: &str| {
        let out = day.out().join(out);
        let inputs = ["le-us.pcap", "be-ns.pcap", "text.pcap"].map(|name| folder.join(name));
        run(tool("mergecap")
            .args(["-F", "nsecpcap", "-w"])
            .arg(&out)
            .args(inputs))
        .ok();
        fs::read(out).unwrap()
    };
    let (raw, seen) = (merged(&day.raw(), "raw"), merged(mounted.path(), "seen"));
    assert!(raw.len() > 100_000);
    assert_same(&seen, &raw, "mergecap");
}

#[test]
fn grep_counts_the_same_lines() {
    let day = captures();
    let mounted = day.mount();
    assert_alike(&day, &mounted, "grep", &["-c", "needle", "text.pcap"]);
    assert_alike(&day, &mounted, "grep", &["-a", "-c", "needle", "text.pcap"]);
    assert_alike(
        &day,
        &mounted,
        "grep",
        &["-a", "-b", "-o", "needle [0-9]*", "text.pcap"],
    );
    let counted = run(tool("grep")
        .args(["-a", "-c", "needle"])
        .arg(mounted.join("text.pcap")))
    .ok();
    assert_eq!(counted.text().trim(), "167");
    assert_alike(
        &day,
        &mounted,
        "grep",
        &["-c", "-r", "--include=text.pcap", "straw", "text.pcap"],
    );
}

#[test]
fn cmp_and_checksums_agree() {
    let day = captures();
    let mounted = day.mount();
    for name in NAMES {
        run(tool("cmp")
            .arg(day.raw().join(name))
            .arg(mounted.join(name)))
        .ok();
    }
    let mut names = vec!["--"];
    names.extend(NAMES);
    assert_alike(&day, &mounted, "sha256sum", &names);
    assert_alike(&day, &mounted, "wc", &names);
}

#[test]
fn dd_reads_every_block_size() {
    let day = captures();
    let small = Pcap::random(Magic::LeUs, 33, 20);
    day.add("small", &small);
    let mounted = day.mount();
    let dd = |name: &str, args: &[&str]| {
        let input = format!("if={}", mounted.join(name).display());
        run(tool("dd").arg(input).arg("status=none").args(args))
            .ok()
            .stdout
    };
    assert_same(&dd("small.pcap", &["bs=1"]), &small.bytes, "bs=1");
    assert_same(
        &dd("small.pcap", &["bs=1", "iflag=direct"]),
        &small.bytes,
        "bs=1 iflag=direct",
    );
    for name in NAMES {
        let raw = fs::read(day.raw().join(name)).unwrap();
        for args in [
            &["bs=4k"][..],
            &["bs=1M"],
            &["bs=777"],
            &["bs=4k", "iflag=direct"],
            &["bs=1M", "iflag=direct"],
        ] {
            assert_same(&dd(name, args), &raw, &format!("dd {args:?} {name}"));
        }
        let part = dd(name, &["bs=1000", "skip=17", "count=9"]);
        assert_same(&part, &raw[17_000..26_000], "dd skip=17");
    }
}

#[test]
fn direct_reads_give_the_tail_in_all_four_forms() {
    let day = Day::new();
    let pcap = Pcap::random(Magic::LeUs, 34, 300);
    assert!(!pcap.bytes.len().is_multiple_of(512));
    let marked = Marked::pack(&pcap, 40_000).physical;
    day.add_as("zst", ".pcap.zst", &marked, &pcap.bytes);
    day.add_as("zst-partial", ".pcap.zst.partial", &marked, &pcap.bytes);
    day.add_as("raw", ".pcap", &pcap.bytes, &pcap.bytes);
    day.add_as("raw-partial", ".pcap.partial", &pcap.bytes, &pcap.bytes);
    let mounted = day.mount();
    for name in ["zst", "zst-partial", "raw", "raw-partial"] {
        for block in ["bs=4k", "bs=64k", "bs=1M"] {
            let input = format!("if={}", mounted.join(format!("{name}.pcap")).display());
            let mut dd = tool("dd");
            let ran = run(dd.args([&input, block, "iflag=direct", "status=none"])).ok();
            assert_same(&ran.stdout, &pcap.bytes, &format!("{name} {block}"));
        }
    }
}
