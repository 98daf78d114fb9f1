//! What passed handles hold, and what is left when they are gone.

use std::fs::{self, File};
use std::path::Path;

use nix::mount::{MsFlags, mount};
use nix::sys::signal::Signal;
use nix::sys::statvfs::statvfs;

use super::shown::{Shown, Source, all_of, rest};
use crate::common::day::scratch;
use crate::common::mounted::{is_mounted, wait_until_unmounted};
use crate::common::pcap::{Magic, Pcap};
use crate::common::{assert_same, pcapzst, run};

#[test]
fn many_handles_of_one_capture_take_one_descriptor() {
    let shown = Shown::new();
    let pcap = Pcap::of_size(Magic::LeUs, 31, 20_000);
    shown.put("", &pcap.bytes);
    let first = shown.open_passed();
    let before = shown.descriptors();
    let files: Vec<File> = (0..100).map(|_| shown.open()).collect();
    assert_eq!(shown.mounted.counter("passthrough_opens"), 101);
    assert_eq!(shown.descriptors(), before);
    for file in files.iter().chain([&first]) {
        assert_same(&all_of(file), &pcap.bytes, "one of many");
    }
}

#[test]
fn a_removed_files_space_is_free_once_its_last_handle_is_closed() {
    let shown = Shown::of(Source::tmpfs(), "");
    let free = || {
        let fs = statvfs(shown.at("").parent().unwrap()).unwrap();
        fs.blocks_free()
    };
    let pcap = Pcap::of_size(Magic::LeUs, 32, 1 << 20);
    let twin = shown.at("").with_file_name("y.pcap");
    fs::write(&twin, &pcap.bytes[..5000]).unwrap();
    rest(&twin);
    let before = free();
    shown.put("", &pcap.bytes);
    let files = [shown.open_passed(), shown.open_passed()];
    fs::remove_file(shown.at("")).unwrap();
    shown.assert_passed(&files[1], &pcap.bytes, "removed");
    assert!(free() < before);
    drop(files);
    // The program looks at one of the captures it keeps open with each open; the mount's lifetime is the limit.
    while free() < before {
        fs::read(shown.mounted.join("y.pcap")).unwrap();
    }
}

#[test]
fn captures_on_an_overlay_are_passed_and_an_overlay_is_laid_over_the_others() {
    let layers = Source::tmpfs();
    let pcap = Pcap::of_size(Magic::LeUs, 34, 20_000);
    let folder = |name: &str| {
        let path = layers.path().join(name);
        fs::create_dir(&path).unwrap();
        path
    };
    let [lower, upper, work] = ["lower", "upper", "work"].map(folder);
    fs::write(lower.join("x.pcap"), &pcap.bytes).unwrap();
    rest(&lower.join("x.pcap"));
    let overlay = |on: &Path, options: String| {
        let name = Some("overlay");
        mount(name, on, name, MsFlags::empty(), Some(options.as_str())).unwrap();
    };
    let source = Source(scratch());
    let layout = |lower: &Path| {
        let [lower, upper, work] = [lower, &upper, &work].map(Path::display);
        format!("lowerdir={lower},upperdir={upper},workdir={work}")
    };
    overlay(source.path(), layout(&lower));
    {
        let shown = Shown::of(source, "");
        shown.assert_passed(&shown.open_passed(), &pcap.bytes, "on an overlay");
    }
    let shown = Shown::new();
    shown.put("", &pcap.bytes);
    let above = Source(scratch());
    let lowers = [shown.mounted.path(), &lower].map(Path::display);
    overlay(
        above.path(),
        format!("lowerdir={}:{}", lowers[0], lowers[1]),
    );
    let bytes = fs::read(above.path().join("x.pcap")).unwrap();
    assert_same(&bytes, &pcap.bytes, "under an overlay");
    assert_eq!(shown.mounted.counter("passthrough_opens"), 1);
    drop(above);
}

#[test]
fn an_unmount_with_passed_handles_lets_them_be_read_and_leaves_nothing() {
    for is_signal in [true, false] {
        let shown = Shown::new();
        let pcap = Pcap::of_size(Magic::LeUs, 33, 200_000);
        shown.put("", &pcap.bytes);
        let files = [shown.open_passed(), shown.open_passed()];
        let path = shown.mounted.path().to_path_buf();
        if is_signal {
            shown.mounted.signal(Signal::SIGTERM);
            wait_until_unmounted(&path);
        } else {
            run(pcapzst().arg("umount").arg(&path)).ok();
        }
        for file in &files {
            assert_same(&all_of(file), &pcap.bytes, "after the unmount");
        }
        drop(files);
        let Shown { mounted, .. } = shown;
        mounted.wait();
        assert!(!is_mounted(&path));
    }
}
