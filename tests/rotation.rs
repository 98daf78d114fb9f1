//! tcpdump that rotates its files and packs each one it has finished: the last one stays as it is.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "a failed step of a test is a panic"
)]

mod common;
#[path = "followers/mod.rs"]
#[expect(
    dead_code,
    reason = "only programs are run here, nothing is fed to pack"
)]
mod running;

use std::fs;
use std::io::Read;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use common::day::Day;
use common::sys::{attribute, changes_in};
use common::{names, run, tool};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use running::Running;

/// Whoever is waited for longer than this hangs.
const PATIENCE: Duration = Duration::from_secs(30);

/// Numbers of the packets in a capture, as tcpdump reads it.
fn packets(path: &Path) -> Vec<usize> {
    let ran = run(tool("tcpdump").args(["-A", "-nr"]).arg(path)).ok();
    let text = ran.text();
    let numbers = text.split("packet <").skip(1);
    numbers
        .map(|text| text.split_once('>').unwrap().0.parse().unwrap())
        .collect()
}

fn count(folder: &Path, ending: &[u8]) -> usize {
    let found = names(folder);
    found.iter().filter(|name| name.ends_with(ending)).count()
}

#[test]
fn the_last_file_of_a_rotation_is_shown_as_it_is_and_the_packed_ones_beside_it() {
    let day = Day::new();
    let source = day.source();
    let hook = day.out().join("pack-and-remove");
    let program = env!("CARGO_BIN_EXE_pcapzst");
    fs::write(
        &hook,
        format!("#!/bin/sh\n{program} pack \"$1\" && rm \"$1\"\n"),
    )
    .unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    let target = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = target.local_addr().unwrap();
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut tcpdump = tool("tcpdump");
    // A new file a second: no shorter time can be asked for.
    tcpdump
        .args(["-i", "lo", "-Z", "root", "-n", "-U", "-G", "1", "-z"])
        .arg(&hook)
        .arg("-w")
        .arg(source.join("cap-%s.pcap"))
        .arg(format!("udp dst port {}", address.port()));
    let mut tcpdump = Running::start(&mut tcpdump, Stdio::null());
    let said = tcpdump.errors();
    while !said.next_line().contains("listening on") {}
    let mounted = day.mount();
    let changes = changes_in(&source).unwrap();
    let started = Instant::now();
    let mut sent = 0;
    let mut emit = || {
        let text = format!("packet <{sent}>");
        sender.send_to(text.as_bytes(), address).unwrap();
        target.recv(&mut [0; 100]).unwrap();
        sent += 1;
    };
    // Until the source tells of a change, or for a moment: the time between two packets.
    let await_change = |millis: u16| {
        assert!(started.elapsed() < PATIENCE, "{:?}", names(&source));
        let mut wanted = [PollFd::new(changes.as_fd(), PollFlags::POLLIN)];
        if poll(&mut wanted, PollTimeout::from(millis)).unwrap() > 0 {
            let _events = (&changes).read(&mut [0; 4096]).unwrap();
        }
    };
    while count(&source, b".pcap.zst") < 2 {
        emit();
        await_change(20);
        // Each capture is there once, whatever stage its packing is in.
        let shown = names(mounted.path());
        assert!(
            shown.iter().all(|name| name.ends_with(b".pcap")),
            "{shown:?}"
        );
    }
    kill(tcpdump.pid(), Signal::SIGTERM).unwrap();
    let (code, _, _) = tcpdump.end();
    assert_eq!(code, Some(0));
    // What hooks are still at work on: all but one file gets packed.
    while count(&source, b".pcap") > 1 || count(&source, b".partial") > 0 {
        await_change(100);
    }
    let shown = names(mounted.path());
    assert_eq!(
        shown.len(),
        count(&source, b""),
        "one entry each: {shown:?}"
    );
    let mut seen = Vec::new();
    for (number, name) in shown.iter().enumerate() {
        let path = mounted.join(std::str::from_utf8(name).unwrap());
        let format = attribute(&path, "user.pcapzst.format").unwrap();
        let is_last = number + 1 == shown.len();
        assert_eq!(format, if is_last { "raw" } else { "zst" });
        assert_eq!(attribute(&path, "user.pcapzst.state").unwrap(), "complete");
        seen.extend(packets(&path));
    }
    // What the signal left in the kernel, tcpdump has not captured.
    let said = said.rest();
    let (before, _) = said.split_once(" packets captured").unwrap();
    let captured = before
        .rsplit(|it: char| !it.is_ascii_digit())
        .next()
        .unwrap();
    let wanted: Vec<_> = (0..captured.parse().unwrap()).collect();
    assert_eq!(seen, wanted, "every packet once");
    mounted.unmount();
}
