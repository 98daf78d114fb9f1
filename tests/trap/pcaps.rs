//! Snapshot lengths and link types that other readers fell over (38, 39), and two captures in one file (36).

use std::fs;

use crate::common::day::Day;
use crate::common::pcap::{Magic, Pcap};
use crate::common::{assert_same, frugal_pcapzst, run};

const ETHERNET: u32 = 1;
const DBUS: u32 = 231;

/// Name, the capture, and what `pack` says of it: nothing, or the word that it names the fault with.
fn captures() -> Vec<(&'static str, Pcap, Option<&'static str>)> {
    let with = |snaplen: u32, link_type: u32, len: usize| {
        let mut pcap = Pcap::with(Magic::LeUs, 4, snaplen, link_type);
        pcap.push(1, 2, 60, &[7; 60]);
        pcap.push(3, 4, u32::try_from(len).unwrap(), &vec![8; len]);
        pcap.push(5, 6, 60, &[9; 60]);
        pcap
    };
    // A length in a record header, and nothing like it behind.
    let claims = |incl: u32| {
        let mut pcap = with(65_535, ETHERNET, 60);
        let at = pcap.ends[1] + 8;
        pcap.bytes[at..at + 4].copy_from_slice(&incl.to_le_bytes());
        pcap
    };
    // The second header is no record (36).
    let mut two = Pcap::random(Magic::LeUs, 36, 20);
    let second = two.bytes.clone();
    two.bytes.extend(second);
    vec![
        ("cat-two", two, Some("1700000000")),
        ("snap0", with(0, ETHERNET, 60), None),
        ("snap-ffffffff", with(u32::MAX, ETHERNET, 60), None),
        ("snap0-262144", with(0, ETHERNET, 262_144), None),
        ("snap40-incl60", with(40, ETHERNET, 60), Some("60")),
        ("dbus-300000", with(0, DBUS, 300_000), Some("300000")),
        ("eth-300000", with(0, ETHERNET, 300_000), Some("300000")),
        ("incl-7fffffff", claims(0x7FFF_FFFF), Some("2147483647")),
        ("incl-ffffffff", claims(u32::MAX), Some("4294967295")),
    ]
}

#[test]
fn odd_snapshot_lengths_are_packed_as_they_are_or_refused_by_name_and_shown_raw_in_any_case() {
    let day = Day::new();
    let captures = captures();
    for (name, pcap, _) in &captures {
        day.add_as(name, ".pcap", &pcap.bytes, &pcap.bytes);
    }
    for (name, pcap, refusal) in &captures {
        let input = day.source().join(format!("{name}.pcap"));
        let out = day.source().join(format!("packed-{name}.pcap.zst"));
        let ran = run(frugal_pcapzst().arg("pack").arg(&input).arg("-o").arg(&out));
        if let Some(word) = refusal {
            let told = ran.exits(4).stderr;
            assert!(
                told.contains(word) && told.contains("record"),
                "{name}: {told}"
            );
            assert!(!out.exists());
        } else {
            ran.ok();
            run(frugal_pcapzst().arg("verify").arg(&out)).ok();
        }
        assert_same(&fs::read(&input).unwrap(), &pcap.bytes, "the input");
    }
    let mounted = day.mount();
    for (name, pcap, refusal) in &captures {
        let seen = fs::read(mounted.join(format!("{name}.pcap"))).unwrap();
        assert_same(&seen, &pcap.bytes, name);
        if refusal.is_none() {
            let seen = fs::read(mounted.join(format!("packed-{name}.pcap"))).unwrap();
            assert_same(&seen, &pcap.bytes, name);
        }
    }
}

#[test]
fn the_link_type_is_the_low_half_of_its_field_and_the_rest_is_kept() {
    // FCS of four bytes (pcap-savefile(5)), and NetBSD's class.
    for network in [0x4400_0001_u32, 0x1400_0001, 0x0224_0001, 1] {
        let day = Day::new();
        let mut pcap = Pcap::with(Magic::BeNs, 4, 65_535, network);
        pcap.push(1, 2, 60, &[7; 60]);
        let input = day.source().join("x.pcap");
        fs::write(&input, &pcap.bytes).unwrap();
        run(frugal_pcapzst().arg("pack").arg(&input)).ok();
        for name in ["x.pcap", "x.pcap.zst"] {
            let mut command = frugal_pcapzst();
            let ran = run(command
                .args(["inspect", "--json"])
                .arg(day.source().join(name)))
            .ok();
            let report = &ran.json()[0];
            assert_eq!(report["link_type"], 1, "{network:#x} {name}");
            assert_eq!(report["link_type_raw"], network, "{network:#x} {name}");
        }
        let seen = fs::read(day.mount().join("x.pcap")).unwrap();
        assert_same(&seen, &pcap.bytes, "all 32 bits");
    }
}
