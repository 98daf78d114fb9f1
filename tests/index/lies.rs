//! Entries that were changed, cut or made to lie: dropped or walked past, and the bytes are right.

use std::fs::{self, File};

use crate::bench::{Bench, stats};
use crate::entry::Entry;

/// What is done to an entry before it is given a right checksum again.
type Lie = Box<dyn Fn(&mut Entry)>;
type SimpleLie = fn(&mut Entry);

#[test]
fn an_entry_with_any_byte_changed_or_cut_anywhere_gives_the_right_bytes() {
    let bench = Bench::new(4, 250);
    bench.check("first");
    let entry = bench.entry();
    let good = fs::read(&entry).unwrap();
    assert!(good.len() < 1000, "{}", good.len());
    let try_with = |bytes: &[u8], what: &str| {
        fs::write(&entry, bytes).unwrap();
        assert_eq!(bench.check(what).1, stats(0, 1, 1), "{what}");
        assert_eq!(fs::read(&entry).unwrap(), good, "{what}: not written anew");
    };
    for at in 0..good.len() {
        let mut bytes = good.clone();
        bytes[at] ^= 1 << (at % 8);
        try_with(&bytes, &format!("byte {at}"));
    }
    for len in 0..good.len() {
        try_with(&good[..len], &format!("cut at {len}"));
    }
    try_with(&[&good[..], &[0]].concat(), "one byte more");
    try_with(&vec![0x55; 9 << 20], "a long one");
    let file = File::create(&entry).unwrap();
    file.set_len(1 << 40).unwrap();
    drop(file);
    assert_eq!(bench.check("a terabyte").1, stats(0, 1, 1));
}

#[test]
fn an_entry_of_another_version_or_file_is_dropped_and_written_anew() {
    let bench = Bench::new(5, 300);
    bench.check("first");
    let path = bench.entry();
    let good = fs::read(&path).unwrap();
    let lies: [(&str, SimpleLie); 8] = [
        ("version", |entry| entry.version = 2),
        ("version", |entry| entry.version = 0),
        ("device", |entry| entry.device += 1),
        ("inode", |entry| entry.inode += 1),
        ("mtime", |entry| entry.mtime.1 ^= 1),
        ("ctime", |entry| entry.ctime.0 += 1),
        ("header", |entry| entry.header[20] ^= 1),
        ("head", |entry| entry.head.1 ^= 1),
    ];
    for (what, lie) in lies {
        let mut entry = Entry::parse(&good);
        lie(&mut entry);
        fs::write(&path, entry.build()).unwrap();
        assert_eq!(bench.check(what).1, stats(0, 1, 1), "{what}");
        assert_eq!(bench.check(what).1, stats(1, 0, 0), "{what}");
    }
}

#[test]
fn a_table_that_lies_under_a_right_checksum_is_walked_past_and_the_bytes_are_right() {
    let bench = Bench::new(6, 300);
    bench.check("first");
    let path = bench.entry();
    let good = fs::read(&path).unwrap();
    let last = Entry::parse(&good).frames.len() - 1;
    let mut lies: Vec<(String, Lie)> = Vec::new();
    for at in [0, 1, last / 2, last - 1] {
        let mut add = |what: &str, lie: Lie| lies.push((format!("{what} {at}"), lie));
        add(
            "source lengths",
            Box::new(move |entry| {
                entry.frames[at].0 += 1;
                entry.frames[at + 1].0 -= 1;
            }),
        );
        add(
            "physical lengths",
            Box::new(move |entry| {
                entry.frames[at].1 -= 1;
                entry.frames[at + 1].1 += 1;
            }),
        );
        add(
            "one of two",
            Box::new(move |entry| {
                let (source, physical) = entry.frames.remove(at + 1);
                entry.frames[at].0 += source;
                entry.frames[at].1 += physical;
            }),
        );
        add(
            "one left out of the source",
            Box::new(move |entry| {
                let (_, physical) = entry.frames.remove(at + 1);
                entry.frames[at].1 += physical;
            }),
        );
        add("longer", Box::new(move |entry| entry.frames[at].0 += 1000));
        add("shorter", Box::new(move |entry| entry.frames[at].0 /= 2));
        add(
            "swapped",
            Box::new(move |entry| entry.frames.swap(at, at + 1)),
        );
        add("huge", Box::new(move |entry| entry.frames[at].0 = 1 << 40));
    }
    lies.push((
        "the last longer".to_owned(),
        Box::new(move |entry| entry.frames[last].0 += 1000),
    ));
    for (what, lie) in lies {
        let mut entry = Entry::parse(&good);
        lie(&mut entry);
        if entry.build() == good {
            continue;
        }
        fs::write(&path, entry.build()).unwrap();
        assert_eq!(bench.check(&what).1, stats(1, 0, 1), "{what}");
        assert_eq!(fs::read(&path).unwrap(), good, "{what}: not written anew");
        assert_eq!(bench.check(&what).1, stats(1, 0, 0), "{what}");
    }
}
