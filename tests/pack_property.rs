//! Whatever capture is packed at whatever frame size, any range read back is the input's.
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
use common::pcap::{Magic, Pcap};
use common::{Rng, pcapzst, run};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// Each case runs eight programs.
const CASES: u32 = 24;

#[derive(Debug, Clone)]
struct Case {
    magic: usize,
    minor: u16,
    seed: u64,
    /// Captured bytes of each record.
    lengths: Vec<usize>,
    frame_target: usize,
    /// Offset and length, in thousandths of the size.
    ranges: Vec<(u64, u64)>,
}

fn case() -> impl Strategy<Value = Case> {
    let length = prop_oneof![
        Just(0_usize),
        1..100_usize,
        1..2000_usize,
        100_000..262_144_usize
    ];
    let target = prop_oneof![1..200_usize, 1000..20_000_usize, 100_000..1_000_000_usize];
    let ranges = vec((0..1100_u64, 0..1100_u64), 4);
    (
        0..4_usize,
        2..5_u16,
        any::<u64>(),
        vec(length, 0..60),
        target,
        ranges,
    )
        .prop_map(|(magic, minor, seed, lengths, frame_target, ranges)| Case {
            magic,
            minor,
            seed,
            lengths,
            frame_target,
            ranges,
        })
}

impl Case {
    fn capture(&self) -> Pcap {
        let mut rng = Rng::new(self.seed);
        let mut pcap = Pcap::with(Magic::ALL[self.magic], self.minor, 262_144, 1);
        for &length in &self.lengths {
            let seconds = u32::try_from(rng.below(1 << 31)).unwrap();
            let data = rng.bytes(length);
            let on_the_wire = u32::try_from(length + rng.below(3) * 100).unwrap();
            pcap.push(seconds, 999_999, on_the_wire, &data);
        }
        pcap
    }
}

#[test]
fn any_range_of_any_packed_capture_is_the_inputs() {
    let config = Config {
        cases: CASES,
        failure_persistence: None,
        ..Config::default()
    };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let folder = scratch();
    let (input, out) = (
        folder.path().join("x.pcap"),
        folder.path().join("x.pcap.zst"),
    );
    let result = TestRunner::new_with_rng(config, rng).run(&case(), |case| {
        let pcap = case.capture();
        fs::write(&input, &pcap.bytes).unwrap();
        let target = case.frame_target.to_string();
        run(pcapzst()
            .args(["pack", "--force", "--frame-target", &target])
            .arg(&input))
        .ok();
        run(pcapzst().arg("verify").arg(&out)).ok();
        let whole = run(pcapzst().arg("cat").arg(&out)).ok().stdout;
        prop_assert!(whole == pcap.bytes, "the whole file differs");
        let report = run(pcapzst().args(["inspect", "--json"]).arg(&out))
            .ok()
            .json()
            .remove(0);
        prop_assert_eq!(&report["magic"], pcap.magic.name());
        prop_assert_eq!(&report["source_size"], pcap.bytes.len());
        let size = pcap.bytes.len() as u64;
        for (offset, length) in &case.ranges {
            let (offset, length) = (size * offset / 1000, size * length / 1000);
            let (from, to) = (offset.to_string(), length.to_string());
            let got = run(pcapzst()
                .args(["cat", "--offset", &from, "--length", &to])
                .arg(&out))
            .ok();
            let end = usize::try_from((offset + length).min(size)).unwrap();
            let start = usize::try_from(offset).unwrap().min(end);
            prop_assert!(
                got.stdout == pcap.bytes[start..end],
                "{}+{} differs",
                offset,
                length
            );
        }
        Ok(())
    });
    result.unwrap_or_else(|failure| panic!("{failure}"));
}
