//! Real followers of a capture that `pack` is still writing: every packet once, and never half a packet.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "a failed step of a test is a panic"
)]

mod common;
#[path = "followers/mod.rs"]
mod running;

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::net::UdpSocket;
use std::process::Stdio;
use std::thread;

use common::day::Day;
use common::pcap::{Magic, Pcap};
use common::{assert_same, run, tool};
use running::{Pack, Running};

/// Packets of a followed capture.
const PACKETS: usize = 300;

/// A capture of numbered packets of many lengths.
fn capture(seed: u64) -> Pcap {
    Pcap::random(Magic::LeUs, seed, PACKETS)
}

/// What `tcpdump -nr` prints of the whole capture.
fn printed(pcap: &Pcap) -> String {
    let day = Day::new();
    let file = day.out().join("whole.pcap");
    std::fs::write(&file, &pcap.bytes).unwrap();
    let ran = run(tool("tcpdump").args(["-tttt", "-nr"]).arg(&file)).ok();
    assert_eq!(ran.text().lines().count(), pcap.records());
    ran.text()
}

/// Starts `pack`, `tail` with these arguments on the growing file, and tcpdump behind it; feeds a record at a time, and
/// compares what tcpdump prints.
fn assert_tail_follows(seed: u64, args: &[&str]) {
    let pcap = capture(seed);
    let wanted = printed(&pcap);
    let day = Day::new();
    let mut pack = Pack::start(&day.source().join("x.pcap.zst"));
    pack.feed(pcap.header());
    pack.await_file();
    let mounted = day.mount();
    let mut tail = tool("tail");
    tail.args(["-c", "+1", "-s", "0.1"])
        .args(args)
        .arg(mounted.join("x.pcap"));
    let mut tail = Running::start(&mut tail, Stdio::null());
    let mut tcpdump = tool("tcpdump");
    tcpdump.args(["-l", "-tttt", "-nr", "-"]);
    let mut tcpdump = Running::start(&mut tcpdump, tail.stdout().into());
    let lines = tcpdump.lines();

    let mut got = String::new();
    let mut printed = 0;
    for (number, pair) in pcap.ends.windows(2).enumerate() {
        pack.feed(&pcap.bytes[pair[0]..pair[1]]);
        // Now and then the follower is let to catch up: what has been fed must come, though the file goes on growing.
        if (number + 1).is_multiple_of(20) {
            while printed <= number {
                got += &lines.next_line();
                printed += 1;
            }
        }
    }
    pack.finish();
    while printed < pcap.records() {
        got += &lines.next_line();
        printed += 1;
    }
    let state = common::sys::attribute(&mounted.join("x.pcap"), "user.pcapzst.state").unwrap();
    assert_eq!(state, "complete");
    let said = tail.stop();
    assert_eq!(said, "", "tail {args:?}: it saw another file");
    let (code, rest, said) = tcpdump.end();
    assert_eq!(code, Some(0), "tcpdump behind tail {args:?}: {said}");
    assert_eq!(rest, "", "packets that were never sent");
    assert!(!said.contains("truncated"), "{said}");
    assert_same(got.as_bytes(), wanted.as_bytes(), "what tcpdump printed");
    mounted.unmount();
}

#[test]
fn tail_by_handle_hands_every_packet_to_tcpdump_once() {
    assert_tail_follows(41, &["-f"]);
}

#[test]
fn tail_by_name_hands_every_packet_to_tcpdump_once() {
    assert_tail_follows(42, &["-F"]);
}

#[test]
fn tail_without_inotify_hands_every_packet_to_tcpdump_once() {
    assert_tail_follows(43, &["-f", "---disable-inotify"]);
}

#[test]
fn tail_of_a_raw_capture_hands_every_packet_to_tcpdump_once() {
    const TAILS: [&[&str]; 3] = [&["-f"], &["-F"], &["-f", "---disable-inotify"]];
    let pcap = Pcap::random(Magic::BeUs, 47, 120);
    let wanted = printed(&pcap);
    let day = Day::new();
    let partial = day.source().join("x.pcap.partial");
    fs::write(&partial, pcap.header()).unwrap();
    let mounted = day.mount();
    let mut running = Vec::new();
    for args in TAILS {
        let mut tail = tool("tail");
        tail.args(["-c", "+1", "-s", "0.1"]).args(args);
        let mut tail = Running::start(tail.arg(mounted.join("x.pcap")), Stdio::null());
        let mut tcpdump = tool("tcpdump");
        tcpdump.args(["-l", "-tttt", "-nr", "-"]);
        let mut tcpdump = Running::start(&mut tcpdump, tail.stdout().into());
        let lines = tcpdump.lines();
        running.push((tail, tcpdump, lines, String::new()));
    }
    let mut writer = OpenOptions::new().append(true).open(&partial).unwrap();
    for (number, pair) in pcap.ends.windows(2).enumerate() {
        // A writer's buffer ends anywhere: half of the record comes by itself.
        let (first, second) = pcap.bytes[pair[0]..pair[1]].split_at((pair[1] - pair[0]) / 2);
        writer.write_all(first).unwrap();
        writer.write_all(second).unwrap();
        if number == 100 {
            fs::rename(&partial, day.source().join("x.pcap")).unwrap();
        }
        if (number + 1).is_multiple_of(30) {
            for (_, _, lines, got) in &mut running {
                while got.lines().count() <= number {
                    *got += &lines.next_line();
                }
            }
        }
    }
    for ((tail, tcpdump, _, got), args) in running.into_iter().zip(TAILS) {
        assert_eq!(tail.stop(), "", "tail {args:?}");
        let (code, rest, said) = tcpdump.end();
        assert_eq!((code, &*rest), (Some(0), ""), "{said}");
        assert!(!said.contains("truncated"), "{said}");
        assert_same(got.as_bytes(), wanted.as_bytes(), "what tcpdump printed");
    }
    mounted.unmount();
}

/// Runs a tool again and again while the capture grows, and once when it is finished. `count` gives the packets that the
/// tool saw.
fn assert_never_cut_short(seed: u64, name: &str, args: &[&str], count: fn(&str) -> usize) {
    const LOOKS: usize = 8;
    let pcap = Pcap::random(Magic::LeNs, seed, 4000);
    let day = Day::new();
    let mut pack = Pack::start(&day.source().join("x.pcap.zst"));
    pack.feed(&pcap.bytes[..pcap.ends[1]]);
    pack.await_file();
    let mounted = day.mount();
    let look = || {
        let ran = run(tool(name).args(args).arg(mounted.join("x.pcap"))).ok();
        let said = ran.stderr.to_lowercase();
        assert!(!said.contains("cut short"), "{name}: {said}");
        assert!(!said.contains("truncated"), "{name}: {said}");
        count(&ran.text())
    };
    // All but the last within a record: its first half waits in the writer.
    let step = pcap.records() / LOOKS;
    let within = pcap.ends.windows(2).skip(step).step_by(step);
    let mut cuts: Vec<_> = within.map(|pair| pair[0].midpoint(pair[1])).collect();
    cuts.push(pcap.bytes.len());
    let mut fed = pcap.ends[1];
    let mut most = look();
    for cut in cuts {
        let now = thread::scope(|threads| {
            let looking = threads.spawn(look);
            pcap.bytes[fed..cut]
                .chunks(500)
                .for_each(|part| pack.feed(part));
            looking.join().unwrap()
        });
        assert!(now >= most, "{name}: {now} packets after {most}");
        let before = std::mem::replace(&mut most, now);
        fed = cut;
        // What was fed gets to the disk, and from then on every look sees it.
        while most == before {
            let size = pack.physical_size();
            most = look();
            if most == before {
                pack.await_more_than(size);
            }
        }
        assert!(most > before, "{name}: {most} packets after {before}");
    }
    pack.finish();
    assert_eq!(look(), pcap.records(), "{name}: all packets");
    mounted.unmount();
}

#[test]
fn tshark_never_sees_half_a_packet_while_pack_writes() {
    assert_never_cut_short(
        44,
        "tshark",
        &["-n", "-T", "fields", "-e", "frame.number", "-r"],
        |text| text.lines().count(),
    );
}

#[test]
fn capinfos_never_sees_half_a_packet_while_pack_writes() {
    assert_never_cut_short(45, "capinfos", &["-c", "-M", "-T", "-r"], |text| {
        let count = text.trim().rsplit('\t').next().unwrap();
        count.parse().unwrap_or_else(|_| panic!("capinfos: {text}"))
    });
}

#[test]
fn tcpdump_never_sees_half_a_packet_while_pack_writes() {
    assert_never_cut_short(46, "tcpdump", &["-tttt", "-nr"], |text| {
        text.lines().count()
    });
}

#[test]
fn a_live_capture_of_the_loopback_interface_arrives_whole() {
    const SENT: usize = 400;
    let day = Day::new();
    let target = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = target.local_addr().unwrap();
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut tcpdump = tool("tcpdump");
    let filter = format!("udp dst port {}", address.port());
    // It ends by itself after the last packet: a signal would leave behind what it has not fetched yet. -Z: a capture as
    // root goes on as root, whatever the distribution's default.
    let last = SENT.to_string();
    tcpdump
        .args(["-i", "lo", "-Z", "root", "-n", "-U", "-c", &last, "-w", "-"])
        .arg(&filter);
    let mut tcpdump = Running::start(&mut tcpdump, Stdio::null());
    let pack = Pack::start_on(&day.source().join("live.pcap.zst"), tcpdump.stdout().into());
    let said = tcpdump.errors();
    // It says so once its socket is open.
    while !said.next_line().contains("listening on") {}
    pack.await_file();
    let mounted = day.mount();
    let path = mounted.join("live.pcap");
    let count = || {
        let ran = run(tool("tcpdump").args(["-A", "-nr"]).arg(&path)).ok();
        assert!(!ran.stderr.contains("truncated"), "{}", ran.stderr);
        let numbers: Vec<usize> = ran
            .text()
            .split("packet <")
            .skip(1)
            .map(|text| text.split_once('>').unwrap().0.parse().unwrap())
            .collect();
        assert!(
            numbers.iter().enumerate().all(|(at, number)| at == *number),
            "{numbers:?}"
        );
        numbers.len()
    };
    for number in 0..SENT {
        let text = format!("packet <{number}>{}", ".".repeat(number * 3));
        sender.send_to(text.as_bytes(), address).unwrap();
        // The kernel keeps what tcpdump has not fetched yet, but not without end: each packet is taken in.
        let mut taken = [0; 2048];
        target.recv(&mut taken).unwrap();
        if number.is_multiple_of(20) {
            count();
        }
    }
    let (code, _, _) = tcpdump.end();
    assert_eq!(code, Some(0));
    let rest: String = said.rest();
    assert!(rest.contains("\n0 packets dropped by kernel"), "{rest}");
    pack.finish();
    assert_eq!(count(), SENT);
    mounted.unmount();
}
