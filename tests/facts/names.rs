//! S6, S7, S8, S10, S11 and S45.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::net::UnixListener;

use nix::sys::stat::{Mode, SFlag, makedev, mknod};
use nix::unistd::mkfifo;

use super::capture;
use crate::common::day::scratch;
use crate::common::mounted::Mounted;
use crate::common::sys::Listing;
use crate::common::{assert_same, names, pcapzst, run};

#[test]
fn with_all_a_physical_name_is_not_found() {
    let source = scratch();
    let (_, marked) = capture(1);
    let physical = [
        "a.pcap.zst",
        "b.pcap.zst.partial",
        "c.pcap.partial",
        "notes.txt",
    ];
    for name in physical {
        fs::write(source.path().join(name), &marked.physical).unwrap();
    }
    let mounted = Mounted::new(source.path(), "all");
    let shown = [&b"a.pcap"[..], b"b.pcap", b"c.pcap", b"notes.txt"];
    assert_eq!(names(mounted.path()), shown);
    for name in &physical[..3] {
        let error = fs::metadata(mounted.join(name)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{name}");
    }
    let notes = fs::read(mounted.join("notes.txt")).unwrap();
    assert_same(&notes, &marked.physical, "notes.txt");
}

#[test]
fn another_partial_suffix_takes_the_place_of_the_usual_one() {
    let source = scratch();
    let (pcap, marked) = capture(2);
    fs::write(source.path().join("a.pcap.zst.tmp"), &marked.physical).unwrap();
    fs::write(source.path().join("b.pcap.partial"), &pcap.bytes).unwrap();
    let mounted = Mounted::new(source.path(), "partial_suffix=.tmp");
    assert_eq!(names(mounted.path()), [b"a.pcap"]);
    assert_eq!(super::state(&mounted.join("a.pcap")), "growing");
    for name in ["b.pcap", "b.pcap.partial"] {
        let error = fs::metadata(mounted.join(name)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{name}");
    }
}

#[test]
fn a_fifo_socket_or_device_is_not_shown() {
    let source = scratch();
    let at = |name: &str| source.path().join(name);
    let mode = Mode::from_bits_truncate(0o666);
    mkfifo(&at("fifo.pcap"), mode).unwrap();
    let _socket = UnixListener::bind(at("socket.pcap.zst")).unwrap();
    // /dev/zero by another name: a reader of it would never come to an end.
    mknod(&at("device.pcap"), SFlag::S_IFCHR, mode, makedev(1, 5)).unwrap();
    for options in ["", "all"] {
        let mounted = Mounted::new(source.path(), options);
        assert_eq!(names(mounted.path()), Vec::<Vec<u8>>::new());
        for name in ["fifo.pcap", "socket.pcap", "device.pcap"] {
            let error = fs::metadata(mounted.join(name)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotFound, "stat {name}");
            let error = File::open(mounted.join(name)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotFound, "open {name}");
        }
    }
}

#[test]
fn a_capture_hides_a_folder_of_its_logical_name() {
    let source = scratch();
    let (pcap, marked) = capture(3);
    for name in ["x.pcap", "y.pcap"] {
        let folder = source.path().join(name);
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("inner.pcap.zst"), &marked.physical).unwrap();
    }
    fs::write(source.path().join("y.pcap.zst"), &marked.physical).unwrap();
    let mounted = Mounted::new(source.path(), "");
    assert_eq!(names(mounted.path()), [b"x.pcap", b"y.pcap"]);
    let inner = fs::read(mounted.join("x.pcap/inner.pcap")).unwrap();
    assert_same(&inner, &pcap.bytes, "x.pcap/inner.pcap");
    let capture = fs::read(mounted.join("y.pcap")).unwrap();
    assert_same(&capture, &pcap.bytes, "y.pcap");
    let error = fs::metadata(mounted.join("y.pcap/inner.pcap")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotADirectory);
}

#[test]
fn a_mount_point_on_the_source_is_refused_and_called_so() {
    let outer = scratch();
    let source = outer.path().join("source");
    let inside = source.join("inside");
    fs::create_dir_all(&inside).unwrap();
    for (point, word) in [
        (source.as_path(), "is the source folder itself"),
        (&inside, "lies inside the source folder"),
        (outer.path(), "lies above the source folder"),
    ] {
        let mount = run(pcapzst().arg("mount").arg(&source).arg(point)).exits(1);
        assert!(mount.stderr.contains(word), "{word}: {}", mount.stderr);
    }
}

#[test]
fn a_listing_is_fixed_until_it_is_rewound() {
    const FILES: usize = 700;
    let source = scratch();
    let (_, marked) = capture(4);
    for number in 0..FILES {
        let name = format!("{number:03}.pcap.zst");
        fs::write(source.path().join(name), &marked.physical[..14]).unwrap();
    }
    let mounted = Mounted::new(source.path(), "");
    let mut listing = Listing::open(mounted.path()).unwrap();
    let mut listed: Vec<_> = (0..10).map(|_| listing.entry().unwrap().0).collect();
    let position = listing.position();
    fs::write(source.path().join("new.pcap"), "").unwrap();
    let is_unread = |name: &String| !listed.contains(&name.clone().into_bytes());
    let removed = (0..FILES)
        .map(|number| format!("{number:03}.pcap"))
        .find(is_unread)
        .unwrap();
    fs::remove_file(source.path().join(format!("{removed}.zst"))).unwrap();
    listing.seek(position);
    listed.extend(listing.rest());
    assert_eq!(listed.len(), FILES);
    assert!(listed.contains(&removed.clone().into_bytes()));
    assert!(!listed.contains(&b"new.pcap".to_vec()));

    listing.rewind();
    let anew = listing.rest();
    assert!(!anew.contains(&removed.into_bytes()));
    assert!(anew.contains(&b"new.pcap".to_vec()));
    // The end of the listing before is still a place in this one.
    assert_eq!(anew.len(), FILES);
}
