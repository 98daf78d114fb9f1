//! `cat --follow` on real files: which bytes come when, and what ends it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "a failed step of a test is a panic"
)]

mod common;
#[path = "cat_follow/ends.rs"]
mod ends;
#[path = "cat_follow/faults.rs"]
mod faults;
#[path = "cat_follow/following.rs"]
mod following;
#[path = "followers/mod.rs"]
#[allow(dead_code, reason = "the followers of a mount use all of it")]
mod running;

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use common::day::{Day, scratch};
use common::frames::Marked;
use common::growth::{Form, Growth};
use common::pcap::{Magic, Pcap};
use common::{assert_same, run, tool};
use following::{Following, append, cat_follow};
use running::{Pack, Running};

/// The steps of a capture, each on disk before the next; output must come with whole frames and not before.
fn feed(cat: &mut Following, path: &Path, growth: &Growth) {
    let mut seen = 0;
    for step in &growth.steps {
        let reads = cat.reads();
        append(path, &step.bytes);
        if step.visible == seen {
            cat.has_looked_since(reads);
        } else {
            cat.takes(&growth.truth[seen..step.visible]);
            seen = step.visible;
        }
        cat.is_silent();
    }
}

#[test]
fn each_whole_frame_comes_once_it_is_on_disk_and_nothing_of_a_torn_one() {
    let growth = Growth::new(Form::Zst, 801, 30, 20..5000);
    let folder = scratch();
    let [partial, complete] =
        ["x.pcap.zst.partial", "x.pcap.zst"].map(|name| folder.path().join(name));
    fs::write(&partial, b"").unwrap();
    let mut cat = Following::start(&partial);
    feed(&mut cat, &partial, &growth);
    fs::rename(&partial, &complete).unwrap();
    cat.end().completes(b"");
}

#[test]
fn a_raw_capture_comes_record_by_record_and_whole_once_it_is_renamed() {
    let growth = Growth::new(Form::Raw, 802, 30, 20..5000);
    let folder = scratch();
    let [partial, complete] = ["x.pcap.partial", "x.pcap"].map(|name| folder.path().join(name));
    for cut in [0, 7, 40] {
        fs::write(&partial, b"").unwrap();
        let mut cat = Following::start(&partial);
        feed(&mut cat, &partial, &growth);
        let half = &growth.truth[24..][..cut];
        append(&partial, half);
        fs::rename(&partial, &complete).unwrap();
        cat.end().completes(half);
    }
}

#[test]
fn frames_come_by_change_notice_and_not_by_the_look_a_second() {
    let growth = Growth::new(Form::Zst, 803, 40, 20..2000);
    let folder = scratch();
    let partial = folder.path().join("x.pcap.zst.partial");
    fs::write(&partial, &growth.steps[0].bytes).unwrap();
    let mut cat = Following::start(&partial);
    cat.takes(&growth.truth[..24]);
    let start = Instant::now();
    for step in growth.ends.windows(2) {
        let record = &growth.truth[step[0]..step[1]];
        append(&partial, &common::frames::zstd_frame(record));
        cat.takes(record);
    }
    let elapsed = start.elapsed();
    assert!(elapsed < Duration::from_secs(15), "{elapsed:?}");
}

#[test]
fn each_name_of_a_capture_finds_it_while_it_is_partial() {
    for (form, given) in [
        (Form::Zst, "x.pcap.zst.partial"),
        (Form::Zst, "x.pcap.zst"),
        (Form::Zst, "x.pcap"),
        (Form::Raw, "x.pcap.partial"),
        (Form::Raw, "x.pcap"),
    ] {
        let growth = Growth::new(form, 804, 12, 20..5000);
        let folder = scratch();
        let complete = folder.path().join(format!("x{}", form.ending()));
        let partial = folder.path().join(format!("x{}.partial", form.ending()));
        fs::write(&partial, b"").unwrap();
        let mut cat = Following::start(&folder.path().join(given));
        feed(&mut cat, &partial, &growth);
        fs::rename(&partial, &complete).unwrap();
        cat.end().completes(b"");
    }
}

#[test]
fn a_complete_capture_is_written_at_once_by_each_of_its_names() {
    let pcap = Pcap::of_size(Magic::BeNs, 805, 3 << 20);
    for (name, bytes) in [
        ("x.pcap.zst", &Marked::pack(&pcap, 50_000).physical),
        ("x.pcap", &pcap.bytes),
    ] {
        let folder = scratch();
        fs::write(folder.path().join(name), bytes).unwrap();
        for given in [name, &format!("{name}.partial"), "x.pcap"] {
            let ran = run(&mut cat_follow::<&str>(&folder.path().join(given), &[])).ok();
            assert_same(&ran.stdout, &pcap.bytes, given);
            assert_eq!(ran.stderr, "", "{given}");
        }
    }
}

#[test]
fn a_final_capture_with_a_torn_end_is_waited_for() {
    let pcap = Pcap::of_size(Magic::LeUs, 806, 60_000);
    let marked = Marked::pack(&pcap, 9000);
    let (source, physical) = marked.frames.last().unwrap().clone();
    let folder = scratch();
    let path = folder.path().join("x.pcap.zst");
    let torn = physical.end - 5;
    fs::write(&path, &marked.physical[..torn]).unwrap();
    let mut cat = Following::start(&path);
    cat.takes(&pcap.bytes[..source.start]);
    let said = cat.says();
    let wanted = format!("{} torn bytes", torn - physical.start);
    assert!(said.contains(&wanted) && said.contains("waiting"), "{said}");
    cat.is_silent();
    append(&path, &marked.physical[torn..]);
    cat.end().completes(&pcap.bytes[source]);
}

#[test]
fn an_offset_and_a_length_cut_out_of_what_comes() {
    let pcap = Pcap::of_size(Magic::LeUs, 807, 60_000);
    let marked = Marked::pack(&pcap, 9000);
    let folder = scratch();
    let [partial, complete] =
        ["x.pcap.zst.partial", "x.pcap.zst"].map(|name| folder.path().join(name));
    // Behind the present end, within a frame; from within the header on; a length that reaches past the present end.
    let there = marked.frames[2].0.end;
    let behind = marked.frames[4].0.start + 1234;
    for (offset, length) in [
        (behind, None),
        (10, None),
        (there - 777, Some(9999)),
        (behind, Some(1)),
        (pcap.bytes.len() + 1, None),
    ] {
        fs::write(&partial, &marked.physical[..marked.frames[2].1.end]).unwrap();
        let mut options = vec!["--offset".to_owned(), offset.to_string()];
        options.extend(length.map(|length| format!("--length={length}")));
        let options: Vec<_> = options.iter().map(String::as_str).collect();
        let mut cat = Following::start_with(&partial, &options);
        let wanted = &pcap.bytes[offset.min(pcap.bytes.len())..];
        let now = there.saturating_sub(offset);
        cat.takes(&wanted[..now]);
        append(&partial, &marked.physical[marked.frames[2].1.end..]);
        if let Some(length) = length {
            // While it still is partial.
            cat.end().completes(&wanted[now..length]);
        } else {
            fs::rename(&partial, &complete).unwrap();
            cat.end().completes(&wanted[now..]);
        }
    }
}

#[test]
fn tcpdump_behind_it_prints_every_packet_of_a_live_pack_once() {
    let pcap = Pcap::random(Magic::LeUs, 808, 300);
    let day = Day::new();
    let whole = day.out().join("whole.pcap");
    fs::write(&whole, &pcap.bytes).unwrap();
    let wanted = run(tool("tcpdump").args(["-tttt", "-nr"]).arg(&whole)).ok();
    assert_eq!(wanted.text().lines().count(), pcap.records());

    let mut pack = Pack::start(&day.source().join("x.pcap.zst"));
    pack.feed(pcap.header());
    pack.await_file();
    let mut cat = cat_follow::<&str>(&day.source().join("x.pcap"), &[]);
    let mut cat = Running::start(&mut cat, Stdio::null());
    let mut tcpdump = tool("tcpdump");
    tcpdump.args(["-l", "-tttt", "-nr", "-"]);
    let mut tcpdump = Running::start(&mut tcpdump, cat.stdout().into());
    let lines = tcpdump.lines();
    let mut got = String::new();
    for (number, pair) in pcap.ends.windows(2).enumerate() {
        pack.feed(&pcap.bytes[pair[0]..pair[1]]);
        if (number + 1).is_multiple_of(50) {
            while got.lines().count() <= number {
                got += &lines.next_line();
            }
        }
    }
    pack.finish();
    let (code, _, said) = cat.end();
    assert_eq!((code, said.as_str()), (Some(0), ""));
    got += &lines.rest();
    assert_eq!(got, wanted.text());
    let (code, _, said) = tcpdump.end();
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn a_capture_in_a_mount_is_refused() {
    let pcap = Pcap::of_size(Magic::LeUs, 809, 30_000);
    let marked = Marked::pack(&pcap, 9000);
    let day = Day::new();
    day.add_as("x", ".pcap.zst.partial", &marked.physical, &pcap.bytes);
    let mounted = day.mount();
    for name in ["x.pcap", "x.pcap.zst", "x.pcap.zst.partial"] {
        let ran = run(&mut cat_follow::<&str>(&mounted.join(name), &[])).exits(2);
        assert!(ran.stderr.contains("in a mount"), "{name}: {}", ran.stderr);
        assert!(ran.stdout.is_empty(), "{name}");
    }
    mounted.unmount();
}
