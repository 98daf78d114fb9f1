//! A disk whose reads fail now and then.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};

use crate::Scene;
use crate::common::pcap::{Magic, Pcap};
use crate::common::sys::{Map, Sharing, attribute, splice};
use crate::common::{assert_same, names, pcapzst, run};
use crate::gate::Rule;

const FORMS: [(&str, &str); 4] = [
    ("final.pcap.zst", "complete"),
    ("grows.pcap.zst.partial", "growing"),
    ("raw.pcap", "complete"),
    ("follows.pcap.partial", "growing"),
];
const ALWAYS: u32 = u32::MAX;

fn scene() -> Scene {
    Scene::new(&FORMS.map(|(name, _)| name), "")
}

#[track_caller]
fn errno<T: std::fmt::Debug>(outcome: io::Result<T>) -> i32 {
    outcome.unwrap_err().raw_os_error().unwrap()
}

/// Nothing is held against a capture.
#[track_caller]
fn check_sound(scene: &Scene, name: &str, state: &str) {
    let path = scene.path(name);
    assert_eq!(attribute(&path, "user.pcapzst.state").unwrap(), state);
    let told = attribute(&path, "user.pcapzst.error");
    assert_eq!(errno(told), libc::ENODATA, "{name}");
    assert_eq!((scene.counter("damaged"), scene.counter("refused")), (0, 0));
}

#[test]
fn a_read_that_fails_once_is_told_or_made_again_and_the_next_one_is_right() {
    for (name, state) in FORMS {
        let scene = scene();
        let file = File::open(scene.path(name)).unwrap();
        scene.gate.set(name, 100_000, Rule::Fail(libc::EIO, 1));
        let mut got = vec![0; 50_000];
        let at = 200_000;
        let wanted = &scene.marked(name).source[at..at + got.len()];
        // The kernel makes the read of a page again by itself.
        match file.read_exact_at(&mut got, at as u64) {
            Ok(()) => assert_same(&got, wanted, name),
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::EIO), "{name}"),
        }
        assert_eq!(scene.mend(name), 1, "{name}: no read failed");
        file.read_exact_at(&mut got, at as u64).unwrap();
        assert_same(&got, wanted, name);
        scene.check_all(name);
        check_sound(&scene, name, state);
    }
}

#[test]
fn while_the_disk_fails_its_errno_comes_through_and_then_all_is_as_before() {
    for (name, state) in FORMS {
        for wanted in [libc::EIO, libc::ETIMEDOUT, libc::ENOMEM] {
            let scene = scene();
            let file = File::open(scene.path(name)).unwrap();
            let before = file.metadata().unwrap();
            scene.gate.set(name, 100_000, Rule::Fail(wanted, ALWAYS));
            let at = 400_000;
            let mut got = [0; 5000];
            for _ in 0..3 {
                let told = errno(file.read_at(&mut got, at as u64));
                // The page cache has one errno for all.
                let is_told = told == wanted || name == FORMS[0].0 && told == libc::EIO;
                assert!(is_told, "{name}: {told}, wanted {wanted}");
            }
            assert_eq!(names(scene.mounted.path()).len(), FORMS.len());
            assert!(scene.mend(name) >= 3);
            assert_eq!(file.read_at(&mut got, at as u64).unwrap(), got.len());
            assert_same(&got, &scene.marked(name).source[at..at + 5000], name);
            scene.check_all(name);
            check_sound(&scene, name, state);
            let after = fs::metadata(scene.path(name)).unwrap();
            assert_eq!(
                (before.len(), before.ino()),
                (after.len(), after.ino()),
                "{name}"
            );
        }
    }
}

#[test]
fn a_walk_that_meets_a_bad_disk_is_told_and_the_next_one_finds_all() {
    for (name, state) in FORMS {
        // From the first byte on, and behind the header frame: only compressed ones are walked there.
        for from in [0, 5000] {
            let scene = scene();
            scene.gate.set(name, from, Rule::Fail(libc::EIO, ALWAYS));
            let outcome = fs::metadata(scene.path(name));
            if name == "raw.pcap" && from > 0 {
                outcome.unwrap();
            } else {
                assert_eq!(errno(outcome), libc::EIO, "{name} from {from}");
                assert_eq!(errno(File::open(scene.path(name))), libc::EIO);
                assert_eq!(errno(fs::metadata(scene.path(name))), libc::EIO);
            }
            assert_eq!(names(scene.mounted.path()).len(), FORMS.len());
            for (other, _) in FORMS.iter().filter(|(other, _)| *other != name) {
                scene.check_all(other);
            }
            scene.mend(name);
            scene.check_all(name);
            check_sound(&scene, name, state);
        }
    }
}

#[test]
fn growth_that_cannot_be_read_yet_is_seen_once_it_can() {
    for (name, _) in [FORMS[1], FORMS[3]] {
        let scene = scene();
        let marked = scene.marked(name).clone();
        let is_zst = name.contains(".zst");
        let bytes = if is_zst {
            &marked.physical
        } else {
            &marked.source
        };
        let early = if is_zst {
            marked.frames[3].1.end
        } else {
            200_024
        };
        // As it was some time ago: nobody has looked yet.
        fs::write(scene.below(name), &bytes[..early]).unwrap();
        let before = fs::metadata(scene.path(name)).unwrap();
        let file = File::open(scene.path(name)).unwrap();
        scene.gate.set(name, early, Rule::Fail(libc::EIO, ALWAYS));
        let mut below = File::options()
            .append(true)
            .open(scene.below(name))
            .unwrap();
        below.write_all(&bytes[early..]).unwrap();
        assert_eq!(errno(fs::metadata(scene.path(name))), libc::EIO, "{name}");
        assert_eq!(errno(file.metadata()), libc::EIO, "{name}");
        // What was there before still is.
        let mut got = vec![0; 100_000];
        file.read_exact_at(&mut got, 0).unwrap();
        assert_same(&got, &marked.source[..100_000], name);
        let behind = file.read_at(&mut got, before.len());
        assert_eq!(errno(behind), libc::EIO, "no end of the file: {name}");
        scene.mend(name);
        let after = fs::metadata(scene.path(name)).unwrap();
        assert_eq!(after.len(), marked.source.len() as u64);
        assert_eq!(after.ino(), before.ino());
        scene.check_all(name);
    }
}

#[test]
fn commands_tell_a_bad_disk_from_a_bad_file() {
    let scene = scene();
    for (name, _) in FORMS {
        let path = scene.gate.path().join(name);
        let is_whole = !name.ends_with(".partial");
        for fault in [Rule::Fail(libc::EIO, ALWAYS), Rule::Nothing(ALWAYS)] {
            scene.gate.set(name, 100_000, fault);
            run(pcapzst().arg("verify").arg(&path)).exits(1);
            let cat = run(pcapzst().arg("cat").arg(&path)).exits(1);
            assert!(scene.marked(name).source.starts_with(&cat.stdout), "{name}");
            let follow = run(pcapzst().args(["cat", "--follow"]).arg(&path)).exits(1);
            assert!(scene.marked(name).source.starts_with(&follow.stdout));
        }
        // Once, and not for long: no fault of the file's.
        for fault in [Rule::Nothing(1), Rule::Nothing(3)] {
            scene.gate.set(name, 100_000, fault);
            let code = if is_whole { 0 } else { 5 };
            run(pcapzst().arg("verify").arg(&path)).exits(code);
            scene.gate.set(name, 100_000, fault);
            let cat = run(pcapzst().arg("cat").arg(&path)).exits(code);
            assert_same(&cat.stdout, &scene.marked(name).source, name);
        }
        scene.gate.open();
    }
}

#[test]
fn an_input_that_ends_before_its_end_is_not_packed_as_if_it_were_all() {
    let scene = Scene::new(&["raw.pcap"], "");
    let out = scene.below("out.pcap.zst");
    let input = scene.gate.path().join("raw.pcap");
    // A record ends where a piece of the input does, so that nothing shows in what came.
    let end = 262_144;
    let mut pcap = Pcap::new(Magic::LeUs);
    for len in [end / 2, end - 24 - 16 - end / 2 - 16, 1000] {
        let data = vec![7; len];
        pcap.push(1, 0, u32::try_from(len).unwrap(), &data);
    }
    assert_eq!(pcap.ends[2], end);
    fs::write(scene.below("raw.pcap"), &pcap.bytes).unwrap();
    for (fault, word) in [
        (Rule::Nothing(1), "shorter"),
        (Rule::Fail(libc::EIO, 1), "Input/output error"),
    ] {
        scene.gate.set("raw.pcap", end, fault);
        let ran = run(pcapzst().arg("pack").arg(&input).arg("-o").arg(&out)).exits(1);
        assert!(ran.stderr.contains(word), "{}", ran.stderr);
        assert_eq!(names(scene.below("").as_path()), [b"raw.pcap"]);
    }
    scene.gate.open();
    run(pcapzst().arg("pack").arg(&input).arg("-o").arg(&out)).ok();
}

#[test]
fn a_map_and_a_splice_of_a_page_that_cannot_be_read_whole_show_no_byte_that_is_not_there() {
    for (name, _) in FORMS {
        let scene = scene();
        let marked = scene.marked(name);
        // A frame ends within a page, and the next one cannot be read.
        let (source, physical) = marked.frames[4].clone();
        let page = source.start / 4096 * 4096;
        assert_ne!(page, source.start);
        let is_zst = name.contains(".zst");
        let from = if is_zst { physical.start } else { source.start };
        let file = File::open(scene.path(name)).unwrap();
        let size = file.metadata().unwrap().len();
        scene.gate.set(name, from, Rule::Fail(libc::EIO, ALWAYS));
        check_pages(&file, &marked.source, page, name);
        assert_eq!(file.metadata().unwrap().len(), size, "{name}");
        scene.mend(name);
        scene.check_all(name);
        let map = Map::new(&file, 0, marked.source.len(), Sharing::Shared).unwrap();
        let mut got = vec![0; marked.source.len()];
        map.copy(0, &mut got).unwrap();
        assert_same(&got, &marked.source, name);
    }
}

/// What maps and splices give of the page at `page`, in which a readable part ends, is right or an error, and no end.
#[track_caller]
fn check_pages(file: &File, truth: &[u8], page: usize, what: &str) {
    for sharing in [Sharing::Private, Sharing::Shared] {
        let map = Map::new(file, 0, truth.len(), sharing).unwrap();
        let told = map.copy(page, &mut [0; 4096]);
        assert_eq!(errno(told), libc::EFAULT, "{what}: {sharing:?}");
    }
    let (mut from_pipe, to_pipe) = io::pipe().unwrap();
    let mut at = file;
    at.seek(SeekFrom::Start(page as u64)).unwrap();
    let told = splice(file, to_pipe.as_raw_fd(), 4096);
    if let Ok(len) = told {
        let mut got = vec![0; len];
        from_pipe.read_exact(&mut got).unwrap();
        assert_same(&got, &truth[page..page + len], what);
        assert!(len > 0, "{what}: an end that is none");
    } else {
        assert_eq!(errno(told), libc::EIO, "{what}");
    }
}

#[test]
fn a_map_and_a_splice_of_a_damaged_capture_show_no_zero_in_place_of_a_bad_frame() {
    for name in ["final.pcap.zst", "grows.pcap.zst.partial"] {
        let scene = Scene::new(&[name], "");
        let marked = scene.marked(name);
        let (source, physical) = marked.frames[4].clone();
        let mut bytes = marked.physical.clone();
        bytes[physical.end - 1] ^= 0xFF;
        fs::write(scene.below(name), bytes).unwrap();
        // Known to be damaged, so that the handle is direct.
        errno(fs::read(scene.path(name)));
        let state = attribute(&scene.path(name), "user.pcapzst.state").unwrap();
        assert_eq!(state, "damaged");
        let file = File::open(scene.path(name)).unwrap();
        let page = source.start / 4096 * 4096;
        check_pages(&file, &marked.source, page, name);
        let mut got = vec![0; 8192];
        let len = file.read_at(&mut got, page as u64).unwrap();
        assert_eq!(len, source.start - page, "{name}: exact to the byte");
    }
}
