//! Which names the mount shows, for which physical files.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "a failed step of a test is a panic"
)]

mod common;

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;

use common::day::scratch;
use common::frames::Marked;
use common::mounted::Mounted;
use common::pcap::{Magic, Pcap};
use common::{assert_same, names, run, tool};
use nix::sys::stat::Mode;

fn capture(seed: u64) -> Pcap {
    Pcap::random(Magic::LeUs, seed, 5)
}

/// Writes a capture in the form its name asks for.
fn put(folder: &Path, name: impl AsRef<OsStr>, pcap: &Pcap) {
    let is_zst = name
        .as_ref()
        .as_bytes()
        .windows(9)
        .any(|part| part == b".pcap.zst");
    let bytes = if is_zst {
        Marked::pack(pcap, 2000).physical
    } else {
        pcap.bytes.clone()
    };
    fs::write(folder.join(name.as_ref()), bytes).unwrap();
}

#[test]
fn names_are_bytes_and_go_round_unchanged() {
    let source = scratch();
    let long = "n".repeat(255 - ".pcap.zst".len());
    let stems: [&[u8]; 12] = [
        b"\xff\xfe",
        b"line\nbreak",
        b"colon:colon",
        b"back\\slash",
        b"-leading",
        b"trailing ",
        b" leading space",
        b"*?[x]",
        b"tab\tquote\"'",
        b"\xc3\xa9t\xc3\xa9",
        b"..two.dots",
        long.as_bytes(),
    ];
    for (seed, stem) in (100..).zip(stems) {
        put(
            source.path(),
            OsString::from_vec([stem, b".pcap.zst"].concat()),
            &capture(seed),
        );
    }
    let mounted = Mounted::new(source.path(), "");
    let mut wanted: Vec<_> = stems
        .iter()
        .map(|stem| [stem, &b".pcap"[..]].concat())
        .collect();
    wanted.sort();
    assert_eq!(names(mounted.path()), wanted);
    for (seed, stem) in (100..).zip(stems) {
        let path = mounted.join(OsString::from_vec([stem, b".pcap"].concat()));
        assert_same(
            &fs::read(&path).unwrap(),
            &capture(seed).bytes,
            &path.display().to_string(),
        );
        assert!(
            fs::metadata(path.with_extension("pcap.zst")).is_err(),
            "the physical name is not shown"
        );
    }
    let counted = run(tool("find")
        .arg(mounted.path())
        .args(["-type", "f", "-printf", "x"]))
    .ok();
    assert_eq!(counted.text().len(), stems.len());
}

#[test]
fn only_the_four_endings_make_a_capture() {
    let source = scratch();
    let shown = [
        (".pcap", ".pcap"),
        ("a.pcap", "a.pcap"),
        ("b.pcap.zst", "b.pcap"),
        ("c.pcap.partial", "c.pcap"),
        ("d.pcap.zst.partial", "d.pcap"),
        ("e.pcap.pcap", "e.pcap.pcap"),
        ("f.zst.pcap", "f.zst.pcap"),
        ("g.partial.pcap.zst", "g.partial.pcap"),
    ];
    let hidden = [
        "h.pcap.zst.zst",
        "i.PCAP",
        "j.pcap.ZST",
        "k.pcap.partial.zst",
        "l.pcap.partial.partial",
        "m.pcap.zst.partial.partial",
        "n.pcapng",
        "o.pcap.gz",
        "p.zst",
        "q.partial",
        "pcap",
        "r.txt",
        "s.pcap.zst.partial~",
    ];
    for (physical, _) in shown {
        put(source.path(), physical, &capture(120));
    }
    for physical in hidden {
        put(source.path(), physical, &capture(121));
    }
    let mounted = Mounted::new(source.path(), "");
    let wanted: Vec<_> = shown
        .iter()
        .map(|(_, logical)| logical.as_bytes().to_vec())
        .collect();
    assert_eq!(names(mounted.path()), wanted);
    for (_, logical) in shown {
        assert_same(
            &fs::read(mounted.join(logical)).unwrap(),
            &capture(120).bytes,
            logical,
        );
    }
    for name in hidden {
        let error = fs::metadata(mounted.join(name)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound, "{name}");
    }
}

#[test]
fn a_compressed_capture_named_only_by_its_endings_is_shown() {
    let source = scratch();
    put(source.path(), ".pcap.zst", &capture(122));
    let mounted = Mounted::new(source.path(), "");
    assert_eq!(names(mounted.path()), [b".pcap"]);
    assert_same(
        &fs::read(mounted.join(".pcap")).unwrap(),
        &capture(122).bytes,
        ".pcap",
    );
}

#[test]
fn the_partial_suffix_is_the_users_choice() {
    let source = scratch();
    put(source.path(), "a.pcap.zst.tmp", &capture(123));
    put(source.path(), "b.pcap.zst.partial", &capture(124));
    let mounted = Mounted::new(source.path(), "partial_suffix=.tmp");
    assert_eq!(names(mounted.path()), [b"a.pcap"]);
    let state = common::sys::attribute(&mounted.join("a.pcap"), "user.pcapzst.state").unwrap();
    assert_eq!(state, "growing");
}

#[test]
fn all_shows_other_regular_files_byte_for_byte() {
    let source = scratch();
    put(source.path(), "a.pcap.zst", &capture(125));
    fs::write(source.path().join("notes.txt"), "words").unwrap();
    nix::unistd::mkfifo(&source.path().join("pipe"), Mode::from_bits_truncate(0o644)).unwrap();
    let mounted = Mounted::new(source.path(), "all");
    assert_eq!(names(mounted.path()), [&b"a.pcap"[..], b"notes.txt"]);
    assert_eq!(fs::read(mounted.join("notes.txt")).unwrap(), b"words");
    assert_same(
        &fs::read(mounted.join("a.pcap")).unwrap(),
        &capture(125).bytes,
        "a.pcap",
    );
}

#[test]
fn of_several_forms_final_goes_before_partial_and_raw_before_compressed() {
    const FORMS: [&str; 4] = [
        "x.pcap",
        "x.pcap.zst",
        "x.pcap.partial",
        "x.pcap.zst.partial",
    ];
    let source = scratch();
    // One folder for each set of forms, named by its bits; each form holds another capture.
    let holds = |set: usize, form: usize| set & (1 << form) != 0;
    for set in 1..16 {
        let folder = source.path().join(format!("{set:04b}"));
        fs::create_dir(&folder).unwrap();
        for (form, name) in FORMS
            .iter()
            .enumerate()
            .filter(|(form, _)| holds(set, *form))
        {
            put(
                &folder,
                name,
                &Pcap::random(Magic::LeUs, 130 + form as u64, 10 + form),
            );
        }
    }
    let mounted = Mounted::new(source.path(), "");
    for set in 1..16 {
        let folder = mounted.join(format!("{set:04b}"));
        assert_eq!(names(&folder), [b"x.pcap"], "set {set:04b}");
        let form = (0..4).find(|form| holds(set, *form)).unwrap();
        let wanted = Pcap::random(Magic::LeUs, 130 + form as u64, 10 + form).bytes;
        let path = folder.join("x.pcap");
        assert_eq!(
            fs::metadata(&path).unwrap().len(),
            wanted.len() as u64,
            "set {set:04b}"
        );
        assert_same(
            &fs::read(&path).unwrap(),
            &wanted,
            &format!("set {set:04b}"),
        );
        let physical = common::sys::attribute(&path, "user.pcapzst.physical_name").unwrap();
        assert_eq!(physical, FORMS[form], "set {set:04b}");
    }
}

#[test]
fn what_is_no_regular_file_never_blocks_and_is_no_capture() {
    let source = scratch();
    let at = |name: &str| source.path().join(name);
    for name in [
        "fifo.pcap",
        "fifo-zst.pcap.zst",
        "fifo-partial.pcap.zst.partial",
        "both.pcap",
    ] {
        nix::unistd::mkfifo(&at(name), Mode::from_bits_truncate(0o644)).unwrap();
    }
    let _socket = UnixListener::bind(at("socket.pcap.zst")).unwrap();
    symlink("absent.pcap", at("dangling.pcap")).unwrap();
    symlink("fifo.pcap", at("link-to-fifo.pcap")).unwrap();
    symlink("/dev/zero", at("device.pcap")).unwrap();
    fs::create_dir(at("folder.pcap")).unwrap();
    put(&at("folder.pcap"), "inner.pcap.zst", &capture(140));
    fs::create_dir(at("folder.pcap.zst")).unwrap();
    put(source.path(), "both.pcap.zst", &capture(141));
    let mounted = Mounted::new(source.path(), "");

    assert_same(
        &fs::read(mounted.join("both.pcap")).unwrap(),
        &capture(141).bytes,
        "both",
    );
    let inner = mounted.join("folder.pcap/inner.pcap");
    assert_same(&fs::read(inner).unwrap(), &capture(140).bytes, "inner");
    let hidden = [
        "fifo",
        "fifo-zst",
        "fifo-partial",
        "socket",
        "dangling",
        "link-to-fifo",
        "device",
    ];
    let listed = names(mounted.path());
    for name in hidden.map(|stem| format!("{stem}.pcap")) {
        assert!(
            !listed.contains(&name.clone().into_bytes()),
            "{name} is listed"
        );
        let error = File::open(mounted.join(&name)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound, "{name}");
    }
    assert_eq!(
        listed,
        [&b"both.pcap"[..], b"folder.pcap", b"folder.pcap.zst"]
    );
    let walked = run(tool("grep").args(["-r", "-c", "words"]).arg(mounted.path()));
    assert_eq!(walked.code, Some(1), "{}", walked.stderr);
}

#[test]
fn links_are_followed_inside_the_source_and_nowhere_else() {
    let outer = scratch();
    let source = outer.path().join("source");
    fs::create_dir_all(source.join("sub/deep")).unwrap();
    fs::create_dir(outer.path().join("outside")).unwrap();
    put(&source, "real.pcap.zst", &capture(150));
    put(&source.join("sub/deep"), "deep.pcap", &capture(151));
    put(&outer.path().join("outside"), "y.pcap.zst", &capture(152));
    let link = |to: &str, name: &str| symlink(to, source.join(name)).unwrap();
    link("real.pcap.zst", "inside.pcap.zst");
    link("sub/deep/deep.pcap", "inside-deep.pcap");
    link("../real.pcap.zst", "sub/upwards.pcap.zst");
    link("sub/deep", "folder-link");
    link("../outside/y.pcap.zst", "out.pcap.zst");
    link("../outside", "out-folder");
    link("sub/../../outside/y.pcap.zst", "out-by-a-detour.pcap.zst");
    let absolute = outer.path().join("outside/y.pcap.zst");
    link(absolute.to_str().unwrap(), "out-absolute.pcap.zst");
    link("/proc/self/exe", "magic.pcap");
    link("loop-b.pcap", "loop-a.pcap");
    link("loop-a.pcap", "loop-b.pcap");
    link("nothing.pcap", "dangling.pcap");

    let mounted = Mounted::new(&source, "");
    let wanted = [
        "folder-link",
        "inside-deep.pcap",
        "inside.pcap",
        "real.pcap",
        "sub",
    ];
    assert_eq!(
        names(mounted.path()),
        wanted.map(|name| name.as_bytes().to_vec())
    );
    for name in ["inside.pcap", "real.pcap", "sub/upwards.pcap"] {
        assert_same(
            &fs::read(mounted.join(name)).unwrap(),
            &capture(150).bytes,
            name,
        );
        assert!(
            fs::symlink_metadata(mounted.join(name)).unwrap().is_file(),
            "{name}"
        );
    }
    for name in [
        "inside-deep.pcap",
        "folder-link/deep.pcap",
        "sub/deep/deep.pcap",
    ] {
        assert_same(
            &fs::read(mounted.join(name)).unwrap(),
            &capture(151).bytes,
            name,
        );
    }
    let hidden = [
        "out.pcap",
        "out-folder",
        "out-folder/y.pcap",
        "out-by-a-detour.pcap",
        "out-absolute.pcap",
        "magic.pcap",
        "loop-a.pcap",
        "loop-b.pcap",
        "dangling.pcap",
    ];
    for name in hidden {
        let error = fs::symlink_metadata(mounted.join(name)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound, "{name}");
    }
}
