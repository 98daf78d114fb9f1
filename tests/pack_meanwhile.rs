//! `pack` of a file that somebody changes, and over links that somebody has laid.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "a failed step of a test is a panic"
)]

mod common;

use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;
use std::process::Stdio;
use std::time::UNIX_EPOCH;

use common::day::scratch;
use common::live::{Live, decoded};
use common::pcap::{Magic, Pcap};
use common::sys::{await_change, changes_in, pidfd};
use common::{Ran, assert_same, names, pcapzst, run};
use nix::sys::signal::{Signal, kill};

/// Packs `pcap`, which `change` meets once the partial file is there: it is refused, and only the input is left.
#[track_caller]
fn refused_when(pcap: &Pcap, change: impl FnOnce(&File)) {
    let (source, folder) = (scratch(), scratch());
    let input = source.path().join("x.pcap");
    fs::write(&input, &pcap.bytes).unwrap();
    let file = OpenOptions::new().write(true).open(&input).unwrap();
    // Any write from now on has another time, however coarse the clock.
    file.set_modified(UNIX_EPOCH).unwrap();
    let changes = changes_in(folder.path()).unwrap();
    let mut command = pcapzst();
    // At this level it goes on for a second and more.
    command.args(["pack", "--level", "19"]).arg(&input);
    command.arg("-o").arg(folder.path());
    let mut packing = Live::spawn(command.stderr(Stdio::piped()));
    let running = pidfd(packing.pid().as_raw()).unwrap();
    assert!(await_change(&changes, &running), "it has ended");
    kill(packing.pid(), Signal::SIGSTOP).unwrap();
    assert_eq!(names(folder.path()), [b"x.pcap.zst.partial"], "too late");
    change(&file);
    kill(packing.pid(), Signal::SIGCONT).unwrap();
    let code = packing.end();
    let mut said = String::new();
    let mut stderr = packing.child.stderr.take().unwrap();
    stderr.read_to_string(&mut said).unwrap();
    let told = format!(
        "pcapzst: {}: the file was written to while it was packed\n",
        input.display()
    );
    assert_eq!((code, said), (Some(1), told));
    assert_eq!(names(folder.path()), Vec::<Vec<u8>>::new());
    assert_eq!(names(source.path()), [b"x.pcap"]);
}

#[test]
fn a_file_that_grows_is_written_over_or_cut_while_it_is_packed_is_refused() {
    let pcap = Pcap::of_size(Magic::LeUs, 740, 2 << 20);
    let first = pcap.bytes[24..pcap.ends[1]].to_vec();
    refused_when(&pcap, |file| {
        file.write_all_at(&first, pcap.bytes.len() as u64).unwrap();
    });
    // The same length, and sound records that hold something else.
    let mut other = pcap.bytes.clone();
    pcap.ends[1..].iter().for_each(|end| other[end - 1] ^= 0xFF);
    refused_when(&pcap, |file| file.write_all_at(&other, 0).unwrap());
    refused_when(&pcap, |file| {
        file.set_len(pcap.ends[pcap.records() / 2] as u64).unwrap();
    });
}

/// A capture to pack, and a file of somebody's that a link may lead to.
struct Scene {
    folder: tempfile::TempDir,
    pcap: Pcap,
}

const PRECIOUS: &[u8] = b"somebody's";
const TARGETS: [&str; 2] = ["precious", "nowhere"];

impl Scene {
    /// With `link` leading to `target`.
    fn new(link: &str, target: &str) -> Self {
        let folder = scratch();
        let pcap = Pcap::random(Magic::LeUs, 741, 100);
        fs::write(folder.path().join("in.pcap"), &pcap.bytes).unwrap();
        fs::write(folder.path().join("precious"), PRECIOUS).unwrap();
        symlink(target, folder.path().join(link)).unwrap();
        Self { folder, pcap }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    fn pack(&self, option: &[&str]) -> Ran {
        let mut command = pcapzst();
        command.arg("pack").args(option).arg(self.path("in.pcap"));
        run(command.arg("-o").arg(self.path("x.pcap.zst")))
    }

    /// What the link may lead to is as it was, and `link` still leads to `target`, where there is one.
    #[track_caller]
    fn check(&self, link: Option<(&str, &str)>) {
        assert_eq!(fs::read(self.path("precious")).unwrap(), PRECIOUS);
        assert!(!self.path("nowhere").exists());
        let name = link.map_or("x.pcap.zst", |(name, _)| name);
        let wanted = [&b"in.pcap"[..], b"precious", name.as_bytes()];
        assert_eq!(names(self.folder.path()), wanted);
        let found = fs::read_link(self.path(name)).ok();
        assert_eq!(
            found.as_deref(),
            link.map(|(_, target)| Path::new(target)),
            "{name}"
        );
    }
}

#[test]
fn a_link_under_the_outputs_name_is_kept_or_replaced_and_never_followed() {
    for target in TARGETS {
        let scene = Scene::new("x.pcap.zst", target);
        for option in [&[][..], &["--resume"]] {
            let said = scene.pack(option).exits(1).stderr;
            assert!(said.contains("the output exists already"), "{said}");
            scene.check(Some(("x.pcap.zst", target)));
        }
        scene.pack(&["--force"]).ok();
        scene.check(None);
        assert_same(
            &decoded(&scene.path("x.pcap.zst")),
            &scene.pcap.bytes,
            target,
        );
    }
}

#[test]
fn a_link_under_the_partial_name_is_refused_whatever_is_asked_for() {
    for target in TARGETS {
        let scene = Scene::new("x.pcap.zst.partial", target);
        for option in [&[][..], &["--resume"], &["--force"]] {
            let said = scene.pack(option).exits(1).stderr;
            let why = "creating the partial file: Too many levels of symbolic links";
            assert!(said.contains(why), "{said}");
            scene.check(Some(("x.pcap.zst.partial", target)));
        }
    }
}
