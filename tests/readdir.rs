//! A listing gives each capture once, also while others come and go.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "a failed step of a test is a panic"
)]

mod common;

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use common::day::scratch;
use common::frames::Marked;
use common::mounted::Mounted;
use common::pcap::{Magic, Pcap};
use common::sys::Listing;
use common::{names, run, tool};

/// A small capture, the same for all: these tests look at names only.
fn capture() -> Vec<u8> {
    Marked::pack(&Pcap::random(Magic::LeUs, 60, 2), 4000).physical
}

fn fill(folder: &Path, count: usize) -> Vec<Vec<u8>> {
    let bytes = capture();
    let mut logical = Vec::new();
    for number in 0..count {
        fs::write(folder.join(format!("steady-{number:05}.pcap.zst")), &bytes).unwrap();
        logical.push(format!("steady-{number:05}.pcap").into_bytes());
    }
    logical
}

#[test]
fn a_folder_of_5000_is_listed_whole() {
    let source = scratch();
    let wanted = fill(source.path(), 5000);
    let mounted = Mounted::new(source.path(), "");
    assert_eq!(names(mounted.path()), wanted);
}

#[test]
fn what_stays_is_listed_exactly_once_while_others_come_and_go() {
    const STEADY: usize = 2000;
    const LISTINGS: usize = 50;
    let source = scratch();
    let steady: HashSet<_> = fill(source.path(), STEADY).into_iter().collect();
    let mounted = Mounted::new(source.path(), "");
    let (is_over, changes) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            let bytes = capture();
            let mut number = 0;
            while !is_over.load(Ordering::Relaxed) {
                let at = |number: usize, ending: &str| {
                    source.path().join(format!("passing-{number}{ending}"))
                };
                fs::write(at(number, ".pcap.zst.partial"), &bytes).unwrap();
                if number >= 20 {
                    fs::rename(
                        at(number - 20, ".pcap.zst.partial"),
                        at(number - 20, ".pcap.zst"),
                    )
                    .unwrap();
                }
                if number >= 300 {
                    fs::remove_file(at(number - 300, ".pcap.zst")).unwrap();
                }
                number += 1;
                changes.store(number, Ordering::Relaxed);
            }
        });
        let over = Over(&is_over);
        for round in 0..LISTINGS {
            let mut listing = Listing::open(mounted.path()).unwrap();
            let mut times = HashMap::new();
            for name in listing.rest() {
                *times.entry(name).or_insert(0) += 1;
            }
            let missing = steady
                .iter()
                .filter(|name| !times.contains_key(*name))
                .count();
            let repeated: Vec<_> = times.iter().filter(|(_, times)| **times > 1).collect();
            assert_eq!(
                (missing, repeated.len()),
                (0, 0),
                "listing {round}: {repeated:?}"
            );
        }
        drop(over);
    });
    let changes = changes.load(Ordering::Relaxed);
    assert!(
        changes > LISTINGS,
        "only {changes} changes in {LISTINGS} listings"
    );
}

/// Tells the other thread to stop, also when this one panics.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_listing_goes_on_from_any_position_it_gave() {
    let source = scratch();
    let mut wanted = fill(source.path(), 700);
    let mounted = Mounted::new(source.path(), "");
    let mut listing = Listing::open(mounted.path()).unwrap();
    let mut first = Vec::new();
    let mut positions = vec![listing.position()];
    while let Some((name, _)) = listing.entry() {
        first.push(name);
        positions.push(listing.position());
    }
    let distinct: HashSet<_> = positions.iter().collect();
    assert_eq!(distinct.len(), positions.len(), "each position is its own");
    for at in [0, 1, 350, 699, 700, 17] {
        listing.seek(positions[at]);
        assert_eq!(listing.rest(), first[at..], "from position {at}");
    }
    first.sort();
    wanted.sort();
    assert_eq!(first, wanted);
}

#[test]
fn a_position_stays_right_when_earlier_names_go() {
    let source = scratch();
    fill(source.path(), 600);
    let mounted = Mounted::new(source.path(), "");
    let mut listing = Listing::open(mounted.path()).unwrap();
    let mut seen: Vec<_> = (0..300).map(|_| listing.entry().unwrap().0).collect();
    let position = listing.position();
    for name in &seen[..100] {
        let name = String::from_utf8(name.clone()).unwrap();
        fs::remove_file(source.path().join(format!("{name}.zst"))).unwrap();
    }
    listing.seek(position);
    seen.extend(listing.rest());
    let distinct: HashSet<_> = seen.iter().collect();
    assert_eq!((seen.len(), distinct.len()), (600, 600));
}

#[test]
fn a_rewound_listing_shows_what_came_meanwhile() {
    let source = scratch();
    fill(source.path(), 50);
    let mounted = Mounted::new(source.path(), "");
    let mut listing = Listing::open(mounted.path()).unwrap();
    assert_eq!(listing.rest().len(), 50);
    fs::write(source.path().join("new.pcap.zst.partial"), capture()).unwrap();
    fs::remove_file(source.path().join("steady-00007.pcap.zst")).unwrap();
    listing.rewind();
    let again = listing.rest();
    assert_eq!(again.len(), 50);
    assert!(again.contains(&b"new.pcap".to_vec()));
    assert!(!again.contains(&b"steady-00007.pcap".to_vec()));
    assert_eq!(names(mounted.path()).len(), 50);
}

#[test]
fn a_link_to_a_folder_above_is_neither_listed_nor_found() {
    let source = scratch();
    for folder in ["a/b", "other"] {
        fs::create_dir_all(source.path().join(folder)).unwrap();
        fs::write(source.path().join(folder).join("x.pcap.zst"), capture()).unwrap();
    }
    let circles = [
        (".", "here"),
        ("../..", "a/b/root"),
        ("..", "a/b/parent"),
        (".", "a/b/self"),
        ("../../a/b", "a/b/by-a-detour"),
        ("../a/b/..", "a/above"),
    ];
    for (target, name) in circles {
        symlink(target, source.path().join(name)).unwrap();
    }
    // Each is fine by itself, and together they are a circle.
    symlink("../other", source.path().join("a/side")).unwrap();
    symlink("../a", source.path().join("other/back")).unwrap();
    let mounted = Mounted::new(source.path(), "");
    for (folder, wanted) in [
        ("", &["a", "other"][..]),
        ("a", &["b", "side"]),
        ("a/b", &["x.pcap"]),
        ("a/side", &["x.pcap"]),
        ("other", &["back", "x.pcap"]),
        ("other/back", &["b"]),
    ] {
        let wanted: Vec<_> = wanted.iter().map(|name| name.as_bytes().to_vec()).collect();
        assert_eq!(names(&mounted.join(folder)), wanted, "{folder:?}");
    }
    let hidden = circles.map(|(_, name)| name);
    for name in hidden.into_iter().chain(["a/side/back", "other/back/side"]) {
        let error = fs::symlink_metadata(mounted.join(name)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{name}");
    }
    let walked = run(tool("ls").arg("-lR").arg(mounted.path())).ok();
    assert_eq!(walked.stderr, "");
    assert_eq!(walked.text().matches("x.pcap").count(), 4);
}
