//! Captures in raw form: a final one passes through, a partial one ends at its last whole record.

use super::{Odd, Sample, Served, foreign};

fn last(name: &str, bytes: Vec<u8>, inspect: i32, verify: i32) -> Odd {
    Odd {
        file: format!("{name}.pcap"),
        state: "complete",
        inspect,
        verify,
        served: Served::Whole(bytes.clone()),
        ..foreign(name, bytes)
    }
}

fn partial(name: &str, bytes: Vec<u8>, seen: &[u8]) -> Odd {
    Odd {
        file: format!("{name}.pcap.partial"),
        state: "growing",
        served: Served::Whole(seen.to_vec()),
        ..last(name, bytes, 5, 5)
    }
}

pub fn inputs(sample: &Sample) -> Vec<Odd> {
    let whole = &sample.pcap.bytes;
    let cut = whole[..whole.len() - 1].to_vec();
    let pcapng = [&0x0A0D_0D0A_u32.to_le_bytes()[..], &[0; 60]].concat();
    let good = &whole[..sample.pcap.ends[30]];
    let then = |tail: &[u8]| [good, tail].concat();
    let next = &whole[good.len()..];
    vec![
        last("raw", whole.clone(), 0, 0),
        last("raw-cut-record", cut, 0, 5),
        last("raw-pcapng", pcapng, 3, 3),
        last(
            "raw-text",
            b"these are words, not packets\n".repeat(40),
            3,
            3,
        ),
        partial("raw-partial", good.to_vec(), good),
        partial("raw-partial-header-only", sample.head.clone(), &sample.head),
        partial("raw-partial-half-record", then(&next[..23]), good),
        partial("raw-partial-half-header", then(&next[..9]), good),
        partial("raw-partial-zeros-64k", then(&[0; 65_536]), good),
        partial("raw-partial-zeros-7", then(&[0; 7]), good),
    ]
}
