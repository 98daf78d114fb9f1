//! S12 to S17.

use std::fs::{self, File};

use super::{append, capture, number, read_on, state};
use crate::common::day::scratch;
use crate::common::frames::Marked;
use crate::common::mounted::Mounted;
use crate::common::pcap::{Magic, Pcap};
use crate::common::sys::attribute;
use crate::common::{assert_same, names};

const CAPTURES: u64 = 1 << 62;
const FOLDERS: u64 = 1 << 61;

#[test]
fn a_number_stays_through_the_rename() {
    let source = scratch();
    let at = |name: &str| source.path().join(name);
    let (pcap, marked) = capture(11);
    let half = marked.frames[0].1.end;
    fs::write(at("zst.pcap.zst.partial"), &marked.physical[..half]).unwrap();
    fs::write(at("raw.pcap.partial"), &pcap.bytes[..pcap.ends[9]]).unwrap();
    let mounted = Mounted::new(source.path(), "");
    let numbers = ["zst.pcap", "raw.pcap"].map(|name| number(&mounted.join(name)));
    append(&at("zst.pcap.zst.partial"), &marked.physical[half..]);
    append(&at("raw.pcap.partial"), &pcap.bytes[pcap.ends[9]..]);
    fs::rename(at("zst.pcap.zst.partial"), at("zst.pcap.zst")).unwrap();
    fs::rename(at("raw.pcap.partial"), at("raw.pcap")).unwrap();
    for (name, before) in ["zst.pcap", "raw.pcap"].into_iter().zip(numbers) {
        assert_eq!(number(&mounted.join(name)), before, "{name}");
        assert_eq!(state(&mounted.join(name)), "complete", "{name}");
        let seen = fs::read(mounted.join(name)).unwrap();
        assert_same(&seen, &pcap.bytes, name);
    }
}

#[test]
fn a_number_stays_when_the_form_changes() {
    let source = scratch();
    let (raw, zst) = (
        source.path().join("x.pcap"),
        source.path().join("x.pcap.zst"),
    );
    let (pcap, marked) = capture(12);
    fs::write(&raw, &pcap.bytes).unwrap();
    let mounted = Mounted::new(source.path(), "");
    let path = mounted.join("x.pcap");
    let before = number(&path);
    let form = || attribute(&path, "user.pcapzst.format").unwrap();
    assert_eq!(form(), "raw");
    fs::write(&zst, &marked.physical).unwrap();
    fs::remove_file(&raw).unwrap();
    assert_eq!((number(&path), form().as_str()), (before, "zst"));
    assert_same(&fs::read(&path).unwrap(), &pcap.bytes, "compressed");
    fs::write(&raw, &pcap.bytes).unwrap();
    fs::remove_file(&zst).unwrap();
    assert_eq!((number(&path), form().as_str()), (before, "raw"));
    assert_same(&fs::read(&path).unwrap(), &pcap.bytes, "raw again");
}

#[test]
fn a_number_is_the_same_in_the_next_mount() {
    let source = scratch();
    let (pcap, marked) = capture(13);
    let forms = [
        "a.pcap",
        "b.pcap.zst",
        "c.pcap.partial",
        "d.pcap.zst.partial",
    ];
    for name in forms {
        let bytes = if name.contains("zst") {
            &marked.physical
        } else {
            &pcap.bytes
        };
        fs::write(source.path().join(name), bytes).unwrap();
    }
    let of = |mounted: &Mounted, stems: [&str; 4]| {
        stems.map(|stem| {
            (
                stem.to_owned(),
                number(&mounted.join(format!("{stem}.pcap"))),
            )
        })
    };
    let mounted = Mounted::new(source.path(), "");
    let mut before = of(&mounted, ["a", "b", "c", "d"]);
    mounted.unmount();
    let mounted = Mounted::new(source.path(), "");
    let mut after = of(&mounted, ["d", "b", "c", "a"]);
    before.sort();
    after.sort();
    assert_eq!(before, after);
}

#[test]
fn another_capture_gets_another_number_and_old_handles_keep_theirs() {
    let source = scratch();
    let old = Pcap::of_size(Magic::LeUs, 14, 1 << 20);
    let new = Pcap::of_size(Magic::LeUs, 15, 1 << 20);
    let file = source.path().join("x.pcap.zst");
    let packed = |pcap| Marked::pack(pcap, 50_000).physical;
    fs::write(&file, packed(&old)).unwrap();
    let mounted = Mounted::new(source.path(), "");
    let path = mounted.join("x.pcap");
    let before = number(&path);
    let handle = File::open(&path).unwrap();
    let incoming = source.path().join("incoming");
    fs::write(&incoming, packed(&new)).unwrap();
    fs::rename(&incoming, &file).unwrap();
    assert_ne!(number(&path), before);
    assert_same(&fs::read(&path).unwrap(), &new.bytes, "the new capture");
    let (kept, error) = read_on(&handle, 0);
    assert_eq!(error, None);
    assert_same(&kept, &old.bytes, "the old handle");

    // Removed, and written anew under the same name.
    fs::remove_file(&file).unwrap();
    fs::write(&file, packed(&old)).unwrap();
    assert_same(&fs::read(&path).unwrap(), &old.bytes, "the old one again");
    assert_same(&read_on(&handle, 0).0, &old.bytes, "the old handle");
}

#[test]
fn a_number_stays_when_the_first_record_arrives() {
    let source = scratch();
    let (pcap, marked) = capture(16);
    let header_end = marked.frames[0].1.start;
    let forms = [
        ("zst.pcap", ".zst.partial", &marked.physical, header_end),
        ("raw.pcap", ".partial", &pcap.bytes, 24),
    ];
    for (name, suffix, bytes, end) in forms {
        let file = source.path().join(format!("{name}{suffix}"));
        fs::write(file, &bytes[..end]).unwrap();
    }
    let mounted = Mounted::new(source.path(), "");
    for (name, suffix, bytes, end) in forms {
        let path = mounted.join(name);
        let id = || attribute(&path, "user.pcapzst.file_id").unwrap();
        // Open, so that the kernel goes on knowing the inode.
        let handle = File::open(&path).unwrap();
        let before = number(&path);
        assert_eq!(id(), "0-00000000", "{name}");
        append(
            &source.path().join(format!("{name}{suffix}")),
            &bytes[end..],
        );
        assert_eq!(number(&path), before, "{name}");
        assert_ne!(id(), "0-00000000", "{name}");
        assert_same(&read_on(&handle, 0).0, &pcap.bytes, name);
    }
}

#[test]
fn numbers_lie_in_the_range_of_their_kind() {
    let source = scratch();
    let (pcap, marked) = capture(17);
    fs::create_dir_all(source.path().join("sub/deep.pcap")).unwrap();
    let held: [(&str, &[u8]); 5] = [
        ("a.pcap", &pcap.bytes),
        ("b.pcap.zst", &marked.physical),
        ("sub/provisional.pcap.zst.partial", &marked.physical[..14]),
        ("sub/refused.pcap.zst", b"no frame"),
        ("sub/deep.pcap/text.pcap", b"words"),
    ];
    for (name, bytes) in held {
        fs::write(source.path().join(name), bytes).unwrap();
    }
    let mounted = Mounted::new(source.path(), "");
    assert_eq!(number(mounted.path()), 1);
    for folder in ["sub", "sub/deep.pcap"] {
        let number = number(&mounted.join(folder));
        assert!((FOLDERS..CAPTURES).contains(&number), "{folder}: {number}");
    }
    let mut captures = 0;
    for folder in ["", "sub", "sub/deep.pcap"] {
        for name in names(&mounted.join(folder)) {
            let path = mounted.join(folder).join(String::from_utf8(name).unwrap());
            if path.is_file() {
                assert!(number(&path) >= CAPTURES, "{}", path.display());
                captures += 1;
            }
        }
    }
    assert_eq!(captures, held.len());
}
