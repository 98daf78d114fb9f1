//! `pack` on a disk that is full, and with a system call that fails, or before which it is killed: each of those that end a
//! file.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "a failed step of a test is a panic"
)]

mod common;
#[path = "faults/left.rs"]
mod left;
#[path = "faults/tmpfs.rs"]
mod tmpfs;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use common::{Ran, Rng, assert_same, names, run, run_with_input, tool};
use left::{Out, Scene, check_incomplete, flushing, pack};
use tmpfs::Tmpfs;

const SIZE: usize = 400_000;
const FULL: &str = "No space left on device";

/// Sizes of a disk in KiB, from nothing to all but a page of what is needed.
fn sizes(scene: &Scene, seed: u64) -> Vec<usize> {
    let needed = scene.whole.len() / 1024;
    let mut rng = Rng::new(seed);
    let mut sizes: Vec<_> = (0..36).map(|_| 4 + rng.below(needed - 8)).collect();
    sizes.extend([4, 8, needed - 4]);
    sizes
}

#[test]
fn a_file_that_the_disk_has_no_room_for_leaves_nothing_behind() {
    let scene = Scene::new(951, SIZE);
    for kib in sizes(&scene, 1) {
        let disk = Tmpfs::new(kib);
        let out = Out::in_folder(disk.path());
        let ran = run(pack().arg(scene.input()).arg("-o").arg(&out.last)).exits(1);
        assert!(ran.stderr.contains(FULL), "{kib} KiB: {}", ran.stderr);
        assert!(names(disk.path()).is_empty(), "{kib} KiB");
    }
}

#[test]
fn nothing_is_left_on_a_disk_without_a_single_free_page() {
    let scene = Scene::new(952, 100_000);
    let disk = Tmpfs::new(64);
    disk.fill();
    let out = Out::in_folder(disk.path());
    run(pack().arg(scene.input()).arg("-o").arg(&out.last)).exits(1);
    assert_eq!(names(disk.path()), [b"filler"]);
    scene.pack_stream(&mut pack(), &out.last).exits(1);
    assert_eq!(names(disk.path()), [b"filler"]);
}

#[test]
fn what_was_written_before_the_disk_was_full_is_gone_on_with() {
    let scene = Scene::new(953, SIZE);
    let mut kept = 0;
    for (number, kib) in sizes(&scene, 2).into_iter().enumerate() {
        let what = format!("{kib} KiB");
        let disk = Tmpfs::new(kib);
        let out = Out::in_folder(disk.path());
        let mut first = pack();
        // A file is gone on with where that was asked for; a stream always leaves what it wrote.
        let is_stream = number % 2 == 0;
        let ran = if is_stream {
            scene.pack_stream(&mut first, &out.last)
        } else {
            first.arg("--resume").arg(scene.input());
            run(first.arg("-o").arg(&out.last))
        };
        let ran = ran.exits(1);
        assert!(ran.stderr.contains(FULL), "{what}: {}", ran.stderr);
        assert!(!out.last.exists(), "{what}");
        if out.partial.exists() {
            let left = fs::read(&out.partial).unwrap();
            assert!(scene.whole.starts_with(&left), "{what}");
            scene.check_left(&out.partial, &what);
            check_incomplete(disk.path(), std::slice::from_ref(&out.partial));
            kept += 1;
        }
        disk.resize(4096);
        let mut again = pack();
        again.arg("--resume");
        if is_stream {
            scene.pack_stream(&mut again, &out.last).ok();
        } else {
            run(again.arg(scene.input()).arg("-o").arg(&out.last)).ok();
        }
        scene.check_done(&out, &what);
    }
    assert!(kept > 30, "{kept} were kept");
}

#[test]
fn a_file_that_was_to_be_replaced_stays_when_the_disk_is_full() {
    let scene = Scene::new(954, SIZE);
    let disk = Tmpfs::new(scene.whole.len() / 1024 / 2);
    let out = Out::in_folder(disk.path());
    fs::write(&out.last, b"the one before").unwrap();
    let mut command = pack();
    command.arg("--force").arg(scene.input());
    run(command.arg("-o").arg(&out.last)).exits(1);
    assert_eq!(fs::read(&out.last).unwrap(), b"the one before");
    assert_eq!(names(disk.path()), [b"out.pcap.zst"]);
}

#[test]
fn a_partial_file_that_was_to_be_replaced_and_cannot_be_emptied_stays_as_it_was() {
    let scene = Scene::new(958, SIZE);
    let left = &scene.whole[..scene.whole.len() / 2];
    for is_stream in [false, true] {
        let out = Out::in_folder(&scene.folder.path().join(format!("{is_stream}")));
        fs::write(&out.partial, left).unwrap();
        let mut command = disturbed(("ftruncate", 1), "error=EIO");
        command.arg("--force");
        let ran = pack_by(&scene, command, &out.last, is_stream).exits(1);
        assert!(ran.stderr.contains("Input/output error"), "{}", ran.stderr);
        assert!(fs::read(&out.partial).unwrap() == left, "{is_stream}");
        assert_eq!(names(&out.folder), [b"out.pcap.zst.partial"]);
    }
}

/// The system calls by which a file is made and ended, with the number of the first one behind its first frames.
const STEPS: [(&str, usize); 7] = [
    ("write", 1),
    ("write", 2),
    ("write", 9),
    ("fsync", 1),
    ("renameat2", 1),
    ("fsync", 2),
    ("exit_group", 1),
];

/// `pack`, with something done to its system call of this name and number.
fn disturbed(step: (&str, usize), how: &str) -> Command {
    let (name, number) = step;
    let mut strace = tool("strace");
    strace.args(["-f", "-qqq", "-o", "/dev/null"]);
    strace.arg(format!("--trace={name}"));
    strace.arg(format!("--inject={name}:{how}:when={number}"));
    strace.arg("--").arg(env!("CARGO_BIN_EXE_pcapzst"));
    flushing(strace, "3600000")
}

/// Packs the capture with `command`, as a stream or as a file.
fn pack_by(scene: &Scene, mut command: Command, out: &Path, is_stream: bool) -> Ran {
    if is_stream {
        let stdin = Stdio::from(fs::File::open(scene.input()).unwrap());
        return run_with_input(command.arg("-").arg("-o").arg(out), stdin);
    }
    run(command.arg(scene.input()).arg("-o").arg(out))
}

#[test]
fn killed_before_any_step_of_the_end_there_is_the_whole_file_or_none() {
    let scene = Scene::new(955, SIZE);
    for (number, step) in STEPS.into_iter().enumerate() {
        for is_stream in [false, true] {
            let what = format!("killed before {step:?}, stream: {is_stream}");
            let folder = scene.folder.path().join(format!("{number}-{is_stream}"));
            let out = Out::in_folder(&folder);
            let ran = pack_by(
                &scene,
                disturbed(step, "signal=SIGKILL"),
                &out.last,
                is_stream,
            );
            assert_eq!(ran.code, None, "{what}: it went on: {}", ran.stderr);
            let is_renamed = step == ("fsync", 2) || step.0 == "exit_group";
            assert_eq!(out.last.exists(), is_renamed, "{what}");
            if !is_renamed {
                let left = fs::read(&out.partial).unwrap();
                assert!(scene.whole.starts_with(&left), "{what}");
                check_incomplete(&folder, std::slice::from_ref(&out.partial));
                let mut again = pack();
                again.arg("--resume");
                pack_by(&scene, again, &out.last, is_stream).ok();
            }
            scene.check_done(&out, &what);
        }
    }
}

#[test]
fn a_step_of_the_end_that_fails_is_told_and_no_part_gets_the_final_name() {
    let scene = Scene::new(956, SIZE);
    for (number, step) in STEPS[..6].iter().copied().enumerate() {
        for (is_stream, errno) in [(false, "ENOSPC"), (true, "EIO")] {
            let what = format!("{errno} from {step:?}");
            let folder = scene.folder.path().join(format!("{number}-{is_stream}"));
            let out = Out::in_folder(&folder);
            let how = format!("error={errno}");
            let ran = pack_by(&scene, disturbed(step, &how), &out.last, is_stream).exits(1);
            assert!(!ran.stderr.is_empty(), "{what}");
            // About the file that could not be written, not about what it was to be made of.
            let output = format!("pcapzst: {}", out.last.display());
            assert!(ran.stderr.starts_with(&output), "{what}: {}", ran.stderr);
            if step == ("fsync", 2) {
                // The folder: the file itself is whole, and on disk.
                scene.check_done(&out, &what);
                continue;
            }
            assert!(!out.last.exists(), "{what}");
            // The first two write marker and header frame: before them there is nothing that anybody could read.
            let has_header = step.0 != "write" || step.1 > 2;
            let is_kept = is_stream && has_header;
            assert_eq!(out.partial.exists(), is_kept, "{what}");
            if is_kept {
                let left = fs::read(&out.partial).unwrap();
                // A frame is written once its error has passed, and all that was taken behind it: the last of that in a frame
                // which an undisturbed writer would have filled first.
                let is_written_again = step.0 == "write";
                let size = scene.check_left(&out.partial, &what);
                assert!(
                    is_written_again && size > 8 * 20_000 || scene.whole.starts_with(&left),
                    "{what}"
                );
                let mut again = pack();
                again.arg("--resume");
                pack_by(&scene, again, &out.last, is_stream).ok();
                if is_written_again {
                    let source = zstd::decode_all(fs::File::open(&out.last).unwrap()).unwrap();
                    assert_same(&source, &scene.pcap.bytes, &what);
                } else {
                    scene.check_done(&out, &what);
                }
            }
        }
    }
}

#[test]
fn an_input_that_cannot_be_read_is_told_and_leaves_what_a_stream_has_given() {
    let scene = Scene::new(957, SIZE);
    for is_stream in [false, true] {
        let folder = scene.folder.path().join(format!("{is_stream}"));
        let out = Out::in_folder(&folder);
        // The second piece of the input.
        let mut strace = tool("strace");
        strace.args(["-f", "-qqq", "-o", "/dev/null", "-P"]);
        strace.arg(scene.input());
        strace.args(["--inject=read:error=EIO:when=2", "--"]);
        strace.arg(env!("CARGO_BIN_EXE_pcapzst"));
        let command = flushing(strace, "3600000");
        let ran = pack_by(&scene, command, &out.last, is_stream).exits(1);
        let input = scene.input();
        let read = if is_stream { Path::new("-") } else { &input };
        let told = format!("pcapzst: {}: reading: Input/output error", read.display());
        assert!(ran.stderr.contains(&told), "{}", ran.stderr);
        assert!(!out.last.exists());
        assert_eq!(out.partial.exists(), is_stream);
        if is_stream {
            let size = scene.check_left(&out.partial, "what was given");
            assert!(size > 200_000, "{size}");
        }
    }
}
