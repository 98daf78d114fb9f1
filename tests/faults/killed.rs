//! Readers that are killed, in the middle of reads or while one waits for the disk.

use std::fs;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::unistd::Pid;

use crate::Scene;
use crate::common::{Rng, tool, watch};
use crate::gate::Rule;

/// Where a single read is made: in the second frame, where nothing is read ahead yet.
const AT: usize = 81_920;

const FORMS: [&str; 4] = [
    "final.pcap.zst",
    "grows.pcap.zst.partial",
    "raw.pcap",
    "follows.pcap.partial",
];

/// A program that reads one block of a capture through the mount.
fn reader(scene: &Scene, name: &str) -> Command {
    reader_at(scene, name, AT)
}

fn reader_at(scene: &Scene, name: &str, at: usize) -> Command {
    let mut command = tool("dd");
    command.arg(format!("if={}", scene.path(name).display()));
    command.args(["bs=4096", "count=1", &format!("skip={}", at / 4096)]);
    command.args(["of=/dev/null", "status=none"]);
    command
}

/// Waits until every capture is closed; the daemon's descriptors then.
fn at_rest(scene: &Scene) -> usize {
    scene.wait_until("all are closed", |scene| scene.counter("open_files") == 0);
    scene.descriptors()
}

/// Waits until every capture is closed and the daemon has as many descriptors as it had at rest.
fn wait_for_rest(scene: &Scene, descriptors: usize) {
    scene.wait_until("nothing is left open", |scene| {
        scene.counter("open_files") == 0 && scene.descriptors() == descriptors
    });
}

/// Whether a killed child is gone within this time.
fn is_gone(child: &Child, patience: Duration) -> bool {
    let pid = Pid::from_raw(child.id().try_into().unwrap());
    watch(pid, patience, || ())
}

#[test]
fn readers_killed_in_the_middle_of_a_file_leave_no_handle_and_no_descriptor() {
    let scene = Scene::new(&FORMS, "");
    for name in FORMS {
        scene.check_all(name);
    }
    let descriptors = at_rest(&scene);
    let mut rng = Rng::new(1);
    for round in 0..60 {
        let name = FORMS[round % FORMS.len()];
        let mut cat = tool("cat");
        let cat = cat.arg(scene.path(name)).stdout(Stdio::piped());
        let mut child = cat.spawn().unwrap();
        let mut taken = vec![0; 1 + rng.below(500_000)];
        child
            .stdout
            .as_mut()
            .unwrap()
            .read_exact(&mut taken)
            .unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }
    wait_for_rest(&scene, descriptors);
    for name in FORMS {
        scene.check_all(name);
    }
}

#[test]
fn readers_killed_while_one_waits_for_a_page_die_at_once_and_leave_nothing() {
    let name = FORMS[0];
    let scene = Scene::new(&[name], "");
    // An open before the first read of its pages would drop those that are on their way, and wait for them in the kernel.
    scene.read(name, 0, 100).unwrap();
    let descriptors = at_rest(&scene);

    scene.gate.set(name, 4096, Rule::Hold);
    let mut children: Vec<_> = (0..20)
        .map(|_| reader(&scene, name).spawn().unwrap())
        .collect();
    scene.gate.wait_for(1);
    for child in &mut children {
        child.kill().unwrap();
        assert!(is_gone(child, Duration::from_secs(20)), "it hangs");
        child.wait().unwrap();
    }
    // The disk has not answered yet: whose read it was, the kernel keeps his handle till then.
    scene.wait_until("the others are closed", |scene| {
        scene.counter("open_files") <= 1
    });
    scene.gate.open();
    wait_for_rest(&scene, descriptors);
    scene.check_all(name);
}

#[test]
fn a_reader_killed_while_a_direct_read_waits_dies_with_the_disks_answer_and_leaves_nothing() {
    let names: Vec<_> = FORMS[1..].to_vec();
    let scene = Scene::new(&names, "");
    for name in &names {
        scene.read(name, 0, 100).unwrap();
    }
    let descriptors = at_rest(&scene);
    for name in &names {
        scene.gate.set(name, 4096, Rule::Hold);
    }
    // The kernel has such a read waited out (fs/fuse/dev.c, request_wait_answer), and the library that takes its requests
    // does not tell that it was interrupted.
    let mut children: Vec<_> = (0..30)
        .map(|number| reader(&scene, names[number % 3]).spawn().unwrap())
        .collect();
    // Of ten that want one frame nine wait for the tenth, each in a thread that reads: of those there are sixteen.
    scene.gate.wait_for(7);
    for child in &mut children {
        child.kill().unwrap();
    }
    scene.gate.open();
    for child in &mut children {
        assert!(is_gone(child, Duration::from_secs(30)), "it hangs");
        child.wait().unwrap();
    }
    wait_for_rest(&scene, descriptors);
    for name in &names {
        scene.check_all(name);
    }
}

#[test]
fn readers_who_were_killed_hold_no_thread_and_no_memory() {
    let names: Vec<_> = (0..32)
        .map(|number| format!("{number:02}.pcap.zst"))
        .collect();
    let all: Vec<_> = names.iter().map(String::as_str).collect();
    // Room for some thirty frames and what they take on disk.
    let scene = Scene::new(&all, "cache_size=4M");
    for name in &names {
        fs::metadata(scene.path(name)).unwrap();
    }
    // Each time every thread that reads is waited for: sixteen reads at once reach the disk, or this does not go on. And
    // a hundred frames are being decoded for readers who are gone: more than there is room for.
    for round in 0..4 {
        for name in &names {
            scene.gate.set(name, 4096, Rule::Hold);
        }
        let at = 65_536 * (1 + round);
        let mut children: Vec<_> = names
            .iter()
            .map(|name| reader_at(&scene, name, at).spawn().unwrap())
            .collect();
        scene.gate.wait_for(16);
        for child in &mut children {
            child.kill().unwrap();
        }
        scene.gate.open();
        for child in &mut children {
            assert!(is_gone(child, Duration::from_secs(30)), "it hangs");
            child.wait().unwrap();
        }
        scene.wait_until("all are closed", |scene| scene.counter("open_files") == 0);
    }
    for name in &names {
        scene.check_all(name);
    }
    let most = scene.counter("cache_budget_bytes");
    assert!(scene.counter("cache_bytes") <= most);
}
