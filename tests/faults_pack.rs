//! `pack` killed at any moment: no final name with a part of a capture, what is left is valid, and gone on with it becomes
//! the file that an undisturbed writer makes.
//!
//! Where a kill falls is decided by what the writer has written, or taken in, never by a clock. `PCAPZST_KILLS=2000` kills
//! more often, `PCAPZST_SEED=7` at other places.
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

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Stdio;

use common::live::Live;
use common::sys::{await_change, changes_in, pidfd};
use common::{Rng, assert_same, number, pcapzst, run, tool};
use left::{Out, Scene, check_incomplete, flushing, pack};

const SIZE: usize = 1_000_000;
/// A writer that is faster than its kill is tried again so often.
const MORE_TRIES: usize = 5;

/// Kills of each kind; four kinds.
fn kills() -> usize {
    number("PCAPZST_KILLS", 240_usize).div_ceil(4)
}

fn rng(seed: usize) -> Rng {
    Rng::new((number("PCAPZST_SEED", 1) * 100 + seed) as u64)
}

/// Looks at what each writer has left, then has it gone on with by `resume`. More than half were killed before their end.
fn check_all(scene: &Scene, outs: &[Out], resume: impl Fn(&Out), is_exact: bool) {
    let caught = check_each(scene, outs, resume, is_exact);
    let all = outs.len();
    assert!(caught * 2 > all, "{caught} of {all} fell within");
}

/// The same; how many were killed before their end.
fn check_each(scene: &Scene, outs: &[Out], resume: impl Fn(&Out), is_exact: bool) -> usize {
    let mut partials: Vec<PathBuf> = Vec::new();
    for (number, out) in outs.iter().enumerate() {
        let what = format!("kill {number}");
        if out.last.exists() {
            // It was faster than the kill.
            scene.check_done(out, &what);
            continue;
        }
        if out.partial.exists() {
            scene.check_left(&out.partial, &what);
            partials.push(out.partial.clone());
            let left = fs::read(&out.partial).unwrap();
            assert!(!is_exact || scene.whole.starts_with(&left), "{what}");
        }
    }
    let folder = outs[0].folder.parent().unwrap();
    for out in outs.iter().filter(|out| out.last.exists()) {
        fs::rename(&out.last, folder.with_extension("done")).unwrap();
    }
    assert!(!partials.is_empty(), "no kill fell within");
    let caught = check_incomplete(folder, &partials);
    for (number, out) in outs.iter().enumerate() {
        resume(out);
        if is_exact {
            scene.check_done(out, &format!("gone on with after kill {number}"));
        }
    }
    caught
}

/// Starts a writer of the capture's file, and kills it once it has written more than `kill_at` bytes.
fn kill_behind(scene: &Scene, out: &Out, kill_at: u64) {
    let changes = changes_in(&out.folder).unwrap();
    let mut command = pack();
    command.arg(scene.input()).arg("-o").arg(&out.last);
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    let running = pidfd(child.id().try_into().unwrap()).unwrap();
    // Each write of the writer's wakes this up; once it is done, its final name does.
    let is_before =
        || !out.last.exists() && out.partial.metadata().map_or(0, |file| file.len()) <= kill_at;
    while is_before() && await_change(&changes, &running) {}
    child.kill().unwrap();
    let ended = child.wait().unwrap();
    assert!(
        ended.success() || ended.signal() == Some(libc::SIGKILL),
        "{ended}"
    );
}

#[test]
fn a_writer_of_a_file_killed_at_any_length_leaves_frames_that_become_the_same_file() {
    let scene = Scene::new(941, SIZE);
    let mut rng = rng(1);
    let folder = scene.folder.path().join("killed");
    let outs: Vec<_> = (0..kills())
        .map(|number| {
            let out = Out::in_folder(&folder.join(number.to_string()));
            let kill_at = rng.below(scene.whole.len()) as u64;
            kill_behind(&scene, &out, kill_at);
            for _ in 0..MORE_TRIES {
                if !out.last.exists() {
                    break;
                }
                scene.check_done(&out, "before the kill");
                fs::remove_file(&out.last).unwrap();
                kill_behind(&scene, &out, kill_at);
            }
            out
        })
        .collect();
    // How many are caught is for the machine to say: the writer does not wait for whom it wakes.
    check_each(&scene, &outs, |out| resume_file(&scene, out), true);
}

fn resume_file(scene: &Scene, out: &Out) {
    let mut command = pack();
    command.arg("--resume").arg(scene.input());
    run(command.arg("-o").arg(&out.last)).ok();
}

#[test]
fn a_writer_killed_within_a_frame_leaves_the_frames_before_it_that_become_the_same_file() {
    let scene = Scene::new(944, SIZE);
    let mut rng = rng(4);
    let folder = scene.folder.path().join("killed");
    let outs: Vec<_> = (0..kills())
        .map(|number| {
            let out = Out::in_folder(&folder.join(number.to_string()));
            // The kernel writes up to this byte, and kills who goes on (setrlimit(2), RLIMIT_FSIZE): a kill from outside
            // hardly ever falls within a write.
            let kill_at = 1 + rng.below(scene.whole.len() - 1);
            let mut limited = tool("prlimit");
            limited.args([&format!("--fsize={kill_at}"), "--core=0", "--"]);
            limited.arg(env!("CARGO_BIN_EXE_pcapzst"));
            let mut command = flushing(limited, "3600000");
            let ran = run(command.arg(scene.input()).arg("-o").arg(&out.last));
            assert_eq!(ran.code, None, "no signal: {}", ran.stderr);
            let left = fs::read(&out.partial).unwrap();
            assert_same(&left, &scene.whole[..kill_at], "up to that byte");
            out
        })
        .collect();
    check_all(&scene, &outs, |out| resume_file(&scene, out), true);
}

#[test]
fn a_writer_of_a_stream_killed_at_any_byte_leaves_frames_that_become_the_same_file() {
    let scene = Scene::new(942, SIZE);
    let mut rng = rng(2);
    let folder = scene.folder.path().join("killed");
    let outs: Vec<_> = (0..kills())
        .map(|number| {
            let out = Out::in_folder(&folder.join(number.to_string()));
            let mut live = Live::spawn(
                pack()
                    .args(["-", "-o"])
                    .arg(&out.last)
                    .stderr(Stdio::null()),
            );
            live.feed(&scene.pcap.bytes[..rng.below(SIZE)]);
            live.child.kill().unwrap();
            live.child.wait().unwrap();
            out
        })
        .collect();
    let resume = |out: &Out| {
        scene.pack_stream(pack().arg("--resume"), &out.last).ok();
    };
    check_all(&scene, &outs, resume, true);
}

#[test]
fn a_live_writer_that_flushes_often_and_is_killed_loses_only_what_it_had_not_written() {
    let scene = Scene::new(943, SIZE);
    let mut rng = rng(3);
    let folder = scene.folder.path().join("killed");
    // The flush timer cuts frames where it likes; so it is not the same file, but the same capture.
    let flushing = || flushing(pcapzst(), "1");
    let outs: Vec<_> = (0..kills())
        .map(|number| {
            let out = Out::in_folder(&folder.join(number.to_string()));
            let mut command = flushing();
            command.args(["-", "-o"]).arg(&out.last);
            let mut live = Live::spawn(command.stderr(Stdio::null()));
            let mut fed = 0;
            let last = rng.below(SIZE);
            while fed < last {
                let more = (1 + rng.below(60_000)).min(last - fed);
                live.feed(&scene.pcap.bytes[fed..fed + more]);
                fed += more;
            }
            live.child.kill().unwrap();
            live.child.wait().unwrap();
            out
        })
        .collect();
    let resume = |out: &Out| {
        scene
            .pack_stream(flushing().arg("--resume"), &out.last)
            .ok();
        let size = scene.check_left(&out.last, "gone on with");
        assert_eq!(size, scene.pcap.bytes.len());
        run(pcapzst().arg("verify").arg(&out.last)).ok();
    };
    check_all(&scene, &outs, resume, false);
}
