//! Tables that one mount leaves to the next, or shares with another.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use crate::bench::Bench;
use crate::common::day::scratch;
use crate::common::frames::Marked;
use crate::common::mounted::Mounted;
use crate::common::pcap::{Magic, Pcap};
use crate::common::sys::attribute;
use crate::common::{self, assert_same, pcapzst, run};
use crate::entry::{self, Entry, settle};

/// The counters of a mount.
fn counters(mounted: &Mounted) -> (u64, u64, u64) {
    (
        mounted.counter("index_hits"),
        mounted.counter("index_misses"),
        mounted.counter("index_drops"),
    )
}

#[test]
fn a_remount_shows_the_same_sizes_inodes_and_bytes() {
    let source = scratch();
    let index = scratch();
    let captures: Vec<_> = (0..6)
        .map(|number| Pcap::random(Magic::LeUs, 20 + number, 400))
        .collect();
    for (number, pcap) in captures.iter().enumerate() {
        let path = source.path().join(format!("{number}.pcap.zst"));
        fs::write(&path, Marked::pack(pcap, 2000).physical).unwrap();
        settle(&path);
    }
    let options = format!("index_dir={}", index.path().display());
    let look = |hits, misses| {
        let mounted = Mounted::new(source.path(), &options);
        let seen: Vec<_> = (0..captures.len())
            .map(|number| {
                let path = mounted.join(format!("{number}.pcap"));
                let metadata = fs::metadata(&path).unwrap();
                let frames = attribute(&path, "user.pcapzst.frames").unwrap();
                (metadata.ino(), metadata.len(), metadata.blocks(), frames)
            })
            .collect();
        assert_eq!(counters(&mounted), (hits, misses, 0));
        for (number, pcap) in captures.iter().enumerate() {
            let path = mounted.join(format!("{number}.pcap"));
            assert_same(&fs::read(path).unwrap(), &pcap.bytes, "bytes");
        }
        mounted.unmount();
        seen
    };
    let first = look(0, 6);
    assert_eq!(look(6, 0), first);
    assert_eq!(look(6, 0), first);
}

#[test]
fn a_lying_size_is_put_right_for_who_reads_through_the_mount() {
    let bench = Bench::new(30, 3000);
    let options = format!("index_dir={}", bench.index().display());
    let size = bench.marked.source.len() as u64;
    let mounted = Mounted::new(&bench.source(), &options);
    let path = mounted.join("a.pcap");
    let inode = fs::metadata(&path).unwrap().ino();
    assert_eq!(counters(&mounted), (0, 1, 0));
    mounted.unmount();
    let good = fs::read(bench.entry()).unwrap();
    for by in [-100_000, 100_000, 1_000_000] {
        let mut entry = Entry::parse(&good);
        let mut left: i64 = by;
        for frame in entry.frames.iter_mut().skip(700) {
            let source = i64::try_from(frame.0).unwrap();
            let change = left.clamp(1 - source, 1_000_000);
            frame.0 = u64::try_from(source + change).unwrap();
            left -= change;
        }
        assert_eq!(left, 0);
        fs::write(bench.entry(), entry.build()).unwrap();
        let mounted = Mounted::new(&bench.source(), &options);
        let path = mounted.join("a.pcap");
        let lie = fs::metadata(&path).unwrap();
        assert_eq!(lie.len(), size.checked_add_signed(by).unwrap());
        assert_eq!(lie.ino(), inode);
        assert_same(&fs::read(&path).unwrap(), &bench.marked.source, "read");
        assert_eq!(fs::metadata(&path).unwrap().len(), size);
        assert_same(&fs::read(&path).unwrap(), &bench.marked.source, "again");
        assert_eq!(counters(&mounted), (1, 0, 1));
        mounted.unmount();
        assert_eq!(fs::read(bench.entry()).unwrap(), good);
    }
}

#[test]
fn two_mounts_may_share_one_folder_at_once() {
    let bench = Bench::new(31, 400);
    let options = format!("index_dir={}", bench.index().display());
    let mounts = [(); 2].map(|()| Mounted::new(&bench.source(), &options));
    let paths: Vec<_> = (0..20)
        .map(|number| {
            let path = bench.source().join(format!("{number}.pcap.zst"));
            fs::copy(bench.capture(), &path).unwrap();
            settle(&path);
            path
        })
        .collect();
    for round in 0..3 {
        std::thread::scope(|scope| {
            for mounted in &mounts {
                scope.spawn(|| {
                    for number in 0..paths.len() {
                        let path = mounted.join(format!("{number}.pcap"));
                        let got = fs::read(path).unwrap();
                        assert_same(&got, &bench.marked.source, "shared");
                    }
                });
            }
        });
        for path in paths.iter().step_by(round + 1) {
            fs::set_permissions(path, PermissionsExt::from_mode(0o640)).unwrap();
            settle(path);
        }
    }
    for mounted in mounts {
        mounted.unmount();
    }
    let entries = fs::read_dir(bench.index()).unwrap();
    for entry in entries {
        let path = entry.unwrap().path();
        assert!(path.to_str().unwrap().ends_with(".pszindex"), "{path:?}");
        Entry::parse(&fs::read(path).unwrap());
    }
}

#[test]
fn a_folder_within_the_source_is_refused_and_not_made() {
    let bench = Bench::new(32, 100);
    let inner = bench.source().join("day");
    fs::create_dir(&inner).unwrap();
    let link = bench.folder.path().join("link");
    symlink(&inner, &link).unwrap();
    let mnt = bench.folder.path().join("mnt");
    fs::create_dir(&mnt).unwrap();
    for folder in [
        bench.source(),
        bench.source().join("index"),
        inner.join("deep/index"),
        link.join("index"),
        bench.folder.path().join("none/../source/index"),
        mnt.join("index"),
    ] {
        let ran = run(pcapzst()
            .args(["mount", "-o", &format!("index_dir={}", folder.display())])
            .arg(bench.source())
            .arg(&mnt))
        .exits(1);
        assert!(ran.stderr.contains("index folder"), "{}", ran.stderr);
        assert!(ran.stderr.contains(folder.to_str().unwrap()));
    }
    let names = common::names(&bench.source());
    assert_eq!(names, [b"a.pcap.zst".to_vec(), b"day".to_vec()]);
    assert!(common::names(&inner).is_empty());
    assert!(common::names(&mnt).is_empty());
}

#[test]
fn a_folder_that_cannot_be_used_ends_the_mount_only_if_it_was_named() {
    let bench = Bench::new(33, 300);
    let file = bench.folder.path().join("file");
    fs::write(&file, "").unwrap();
    // "index" in the options keeps the mount from being told "no_index".
    let named = format!("index_dir={}", file.join("index").display());
    let mnt = bench.folder.path().join("mnt");
    fs::create_dir(&mnt).unwrap();
    let mount = |options: &str| {
        run(pcapzst()
            .args(["mount", "-o", options])
            .arg(bench.source())
            .arg(&mnt))
    };
    let ran = mount(&named).exits(1);
    assert!(ran.stderr.contains("the index folder"), "{}", ran.stderr);
    mount("index_dir=").exits(2);

    // The user's own: a file stands in its place, or it lies in the source.
    for cache_home in [&file, &bench.source()] {
        let mut command = pcapzst();
        command.env("XDG_CACHE_HOME", cache_home);
        let mounted = Mounted::launch(command, &bench.source(), "x-index=default");
        let got = fs::read(mounted.join("a.pcap")).unwrap();
        assert_same(&got, &bench.marked.source, "without an index");
        assert_eq!(counters(&mounted), (0, 0, 0));
        let ended = mounted.unmount();
        let told = "frame tables are not kept between mounts";
        assert!(ended.log.contains(told), "{}", ended.log);
    }
    assert_eq!(common::names(&bench.source()), [b"a.pcap.zst".to_vec()]);

    let cache_home = bench.folder.path().join("home/cache");
    for hits in 0..2 {
        let mut command = pcapzst();
        command.env("XDG_CACHE_HOME", &cache_home);
        let mounted = Mounted::launch(command, &bench.source(), "x-index=default");
        fs::metadata(mounted.join("a.pcap")).unwrap();
        assert_eq!(counters(&mounted), (hits, 1 - hits, 0));
        mounted.unmount();
    }
    let entry = cache_home
        .join("pcapzst")
        .join(entry::name(&bench.capture()));
    assert!(entry.is_file());
    let mounted = Mounted::new(&bench.source(), "no_index");
    fs::metadata(mounted.join("a.pcap")).unwrap();
    assert_eq!(counters(&mounted), (0, 0, 0));
}
