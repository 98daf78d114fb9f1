//! Numbers and windows that ask for too much (30, 32), under a limit of 1 GiB of address space.

use std::fs;

use crate::common::day::Day;
use crate::common::frames::Marked;
use crate::common::mounted::Mounted;
use crate::common::pcap::{Magic, Pcap};
use crate::common::{assert_same, frugal_pcapzst, run, tool};
use crate::odd;

const GIB: u64 = 1 << 30;

/// What `zstd --long=31` makes of 3 GiB of zeros (RFC 8878, section 3.1.1): a window of 2 GiB, the size in eight bytes, a
/// checksum (which nobody comes to), and RLE blocks.
fn long_frame() -> Vec<u8> {
    const BLOCK: u64 = 128 << 10;
    let mut frame = vec![0x28, 0xB5, 0x2F, 0xFD, 0b1100_0100, (31 - 10) << 3];
    frame.extend((3 * GIB).to_le_bytes());
    let blocks = 3 * GIB / BLOCK;
    for number in 1..=blocks {
        let header = u32::try_from(BLOCK).unwrap() << 3 | 1 << 1 | u32::from(number == blocks);
        frame.extend_from_slice(&header.to_le_bytes()[..3]);
        frame.push(0);
    }
    frame.extend([1, 2, 3, 4]);
    frame
}

#[test]
fn zstds_own_frames_of_the_highest_level_and_the_longest_window_are_read_or_refused_by_their_size()
{
    let day = Day::new();
    let pcap = Pcap::of_size(Magic::LeUs, 1, 3 << 20);
    let body = day.out().join("body");
    fs::write(&body, &pcap.bytes[24..]).unwrap();
    for (name, level) in [
        ("ultra", &["--ultra", "-22"][..]),
        ("long", &["--long=31", "-3"]),
    ] {
        let frame = run(tool("zstd").args(level).args(["-qc", "--check"]).arg(&body)).ok();
        let mut marked = Marked::new(pcap.header());
        marked.frame(&frame.stdout, &pcap.bytes[24..]);
        day.add_as(name, ".pcap.zst", &marked.physical, &pcap.bytes);
        let file = day.source().join(format!("{name}.pcap.zst"));
        run(frugal_pcapzst().arg("verify").arg(&file)).ok();
        let cat = run(frugal_pcapzst().arg("cat").arg(&file)).ok();
        assert_same(&cat.stdout, &pcap.bytes, name);
    }
    let mut marked = Marked::new(pcap.header());
    marked.append(&long_frame());
    let file = day.source().join("3g.pcap.zst");
    fs::write(&file, &marked.physical).unwrap();
    for command in ["inspect", "verify"] {
        let ran = run(frugal_pcapzst().arg(command).arg(&file)).exits(4);
        let told = format!("{}{}", ran.text(), ran.stderr);
        assert!(
            told.contains("67108864") && told.contains("3221225472"),
            "{command}: {told}"
        );
        assert!(
            told.contains("max_frame_size") && !told.contains("orrupt"),
            "{command}: {told}"
        );
    }
    let cat = run(frugal_pcapzst().arg("cat").arg(&file)).exits(4);
    assert_same(&cat.stdout, pcap.header(), "what is good of it");
}

#[test]
fn a_mount_with_1_gib_of_address_space_serves_the_good_part_of_every_odd_input() {
    let day = Day::new();
    let table = odd::table();
    for odd in &table {
        fs::write(day.source().join(&odd.file), &odd.bytes).unwrap();
    }
    let good = Pcap::of_size(Magic::BeNs, 2, 2 << 20);
    day.add("good", &good);
    let mut command = tool("prlimit");
    command.args(["--as=1073741824", "--", env!("CARGO_BIN_EXE_pcapzst")]);
    let mounted = Mounted::launch(command, &day.source(), "");
    for odd in &table {
        let path = mounted.join(odd.logical());
        assert_eq!(
            fs::metadata(&path).unwrap().len(),
            odd.size(),
            "{}",
            odd.file
        );
        // To its end or its fault: bad_mount.rs looks at the bytes.
        run(tool("cat").arg(&path));
    }
    let read = fs::read(mounted.join("good.pcap")).unwrap();
    assert_same(&read, &good.bytes, "its neighbour");
    let peak = mounted.peak_kib();
    assert!(peak < 200 << 10, "{peak} KiB resident");
}
