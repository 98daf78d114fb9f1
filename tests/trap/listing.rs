//! What `ls -l` of a folder costs (51).

use std::fs::{self, File, FileTimes};
use std::time::{Duration, SystemTime};

use crate::common::day::Day;
use crate::common::frames::{Handmade, Marked};
use crate::common::mounted::Mounted;
use crate::common::pcap::{Magic, Pcap};
use crate::common::{number, run, tool};

#[test]
fn a_second_listing_walks_nothing_and_a_changed_file_alone_is_walked_again() {
    let files = number("PCAPZST_LISTED_FILES", 300);
    let frames = number("PCAPZST_LISTED_FRAMES", 400);
    let mut pcap = Pcap::new(Magic::LeUs);
    let mut marked = Marked::new(pcap.header());
    for number in 0..frames {
        let start = pcap.bytes.len();
        pcap.push(u32::try_from(number).unwrap(), 0, 9, b"a payload");
        marked.frame(
            &Handmade::raw(&pcap.bytes[start..]).build(),
            &pcap.bytes[start..],
        );
    }
    let day = Day::new();
    for number in 0..files {
        fs::write(
            day.source().join(format!("{number:04}.pcap.zst")),
            &marked.physical,
        )
        .unwrap();
    }
    let mounted = day.mount();
    // Bytes that the daemon read meanwhile, requests included.
    let list = |mounted: &Mounted| {
        let before = mounted.reads().0;
        let listed = run(tool("ls").arg("-l").arg(mounted.path())).ok().text();
        let size = pcap.bytes.len().to_string();
        assert_eq!(
            listed.lines().filter(|line| line.contains(&size)).count(),
            files
        );
        mounted.reads().0 - before
    };
    let (first, second) = (list(&mounted), list(&mounted));
    let headers = (files * frames * 18) as u64;
    assert!(
        first > headers,
        "{first} bytes read for {headers} of headers"
    );
    assert!(second < first / 20, "{first}, then {second} bytes read");
    let path = day.source().join("0150.pcap.zst");
    let later = FileTimes::new().set_modified(SystemTime::now() + Duration::from_secs(5));
    File::options()
        .write(true)
        .open(path)
        .unwrap()
        .set_times(later)
        .unwrap();
    let third = list(&mounted);
    let of_one = first / files as u64;
    assert!(
        third > second + of_one / 2,
        "{third}: the changed file was not looked at"
    );
    assert!(
        third < second + 3 * of_one,
        "{second}, then {third} bytes read"
    );
    // 16 bytes a frame, and no more than the cache's room: that much is kept of them.
    let tables = (files * frames * 16).min(256 << 20) as u64;
    let peak = mounted.peak_kib();
    assert!(peak < (tables >> 10) + (64 << 10), "{peak} KiB resident");
}
