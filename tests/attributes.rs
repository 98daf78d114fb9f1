//! Inode numbers, times, owners, modes, blocks and the numbers of the file system.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "a failed step of a test is a panic"
)]

mod common;

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File, FileTimes, Metadata, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use common::day::{Day, scratch};
use common::frames::Marked;
use common::mounted::Mounted;
use common::pcap::{Magic, Pcap};
use common::{run, tool};
use nix::sys::statvfs::statvfs;
use tempfile::TempDir;

/// Captures in all forms, twins under other names and in other folders included.
fn captures() -> TempDir {
    let source = scratch();
    fs::create_dir_all(source.path().join("day/night")).unwrap();
    let pcap = Pcap::random(Magic::LeNs, 200, 400);
    let marked = Marked::pack(&pcap, 20_000).physical;
    let names = [
        "a.pcap",
        "b.pcap.zst",
        "c.pcap.partial",
        "d.pcap.zst.partial",
        "twin.pcap.zst",
        "twin-raw.pcap",
    ];
    for folder in ["", "day", "day/night"] {
        for name in names {
            let bytes = if name.contains(".zst") {
                &marked
            } else {
                &pcap.bytes
            };
            let path = source.path().join(folder).join(name);
            fs::write(&path, bytes).unwrap();
            let file = File::open(&path).unwrap();
            file.sync_all().unwrap();
            let modified = SystemTime::UNIX_EPOCH + Duration::new(1_600_000_000, 123_456_789);
            file.set_times(FileTimes::new().set_modified(modified))
                .unwrap();
        }
    }
    source
}

/// Everything below a folder, by path relative to it, the folder itself included.
fn tree(root: &Path) -> BTreeMap<PathBuf, Metadata> {
    let mut found = BTreeMap::from([(PathBuf::new(), fs::metadata(root).unwrap())]);
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root.join(&folder)).unwrap() {
            let path = folder.join(entry.unwrap().file_name());
            let metadata = fs::symlink_metadata(root.join(&path)).unwrap();
            if metadata.is_dir() {
                folders.push(path.clone());
            }
            found.insert(path, metadata);
        }
    }
    found
}

/// The physical file behind a path of the mount.
fn physical(source: &Path, path: &Path) -> Metadata {
    let file = source.join(path);
    let with = |ending: &str| {
        let mut name = file.clone().into_os_string();
        name.push(ending);
        fs::metadata(name)
    };
    let forms = ["", ".zst", ".partial", ".zst.partial"];
    forms.iter().find_map(|ending| with(ending).ok()).unwrap()
}

#[test]
fn inode_numbers_are_unique_and_stay_through_a_remount() {
    let source = captures();
    let mounted = Mounted::new(source.path(), "");
    let numbers = |mounted: &Mounted| -> BTreeMap<PathBuf, u64> {
        tree(mounted.path())
            .into_iter()
            .map(|(path, metadata)| (path, metadata.ino()))
            .collect()
    };
    let first = numbers(&mounted);
    assert_eq!(first.len(), 3 + 18);
    let distinct: HashSet<_> = first.values().collect();
    assert_eq!(distinct.len(), first.len(), "{first:?}");
    assert_eq!(numbers(&mounted), first, "the same mount, looked at again");
    mounted.unmount();
    let mounted = Mounted::new(source.path(), "");
    // Asked in another order: the number must not come from a counter.
    assert_eq!(
        fs::metadata(mounted.join("day/night/twin.pcap"))
            .unwrap()
            .ino(),
        first[Path::new("day/night/twin.pcap")]
    );
    let kept = numbers(&mounted);
    for (path, number) in first.iter().filter(|(path, _)| path.extension().is_some()) {
        assert_eq!(kept[path], *number, "{} in another mount", path.display());
    }
}

#[test]
fn times_owner_blocks_and_mode_are_the_physical_files() {
    let source = captures();
    fs::set_permissions(source.path().join("a.pcap"), Permissions::from_mode(0o640)).unwrap();
    fs::set_permissions(
        source.path().join("b.pcap.zst"),
        Permissions::from_mode(0o777),
    )
    .unwrap();
    chown(source.path().join("b.pcap.zst"), Some(1234), Some(2345)).unwrap();
    let mounted = Mounted::new(source.path(), "");
    for (path, seen) in tree(mounted.path()) {
        let what = path.display();
        if seen.is_dir() {
            assert_eq!(seen.nlink(), 1, "{what}");
            let real = fs::metadata(source.path().join(&path)).unwrap();
            assert_eq!(
                (seen.mtime(), seen.mtime_nsec()),
                (real.mtime(), real.mtime_nsec()),
                "{what}"
            );
            continue;
        }
        let real = physical(source.path(), &path);
        assert_eq!(
            (seen.mtime(), seen.mtime_nsec()),
            (real.mtime(), real.mtime_nsec()),
            "{what}"
        );
        assert_eq!(
            (seen.ctime(), seen.ctime_nsec()),
            (real.ctime(), real.ctime_nsec()),
            "{what}"
        );
        assert_eq!((seen.uid(), seen.gid()), (real.uid(), real.gid()), "{what}");
        assert_eq!(seen.mode(), real.mode() & !0o222, "{what}");
        assert_eq!(seen.nlink(), 1, "{what}");
        assert_eq!(seen.blocks(), real.blocks(), "{what}");
        assert!(seen.blocks() > 0 && seen.len() > 0, "{what}");
        assert!(
            seen.blksize() >= 131_072,
            "{what}: st_blksize {}",
            seen.blksize()
        );
    }
    let used = run(tool("du").args(["-s", "-k"]).arg(mounted.path())).ok();
    let kib: u64 = used
        .text()
        .split_whitespace()
        .next()
        .unwrap()
        .parse()
        .unwrap();
    assert!(kib > 0, "{}", used.text());
}

#[test]
fn uid_gid_and_umask_options_override_the_physical_files() {
    let source = captures();
    fs::set_permissions(source.path().join("a.pcap"), Permissions::from_mode(0o644)).unwrap();
    let mounted = Mounted::new(source.path(), "uid=1234,gid=2345,umask=077");
    let all = tree(mounted.path());
    assert_eq!(all.len(), 3 + 18);
    for (path, seen) in all {
        let what = path.display();
        assert_eq!((seen.uid(), seen.gid()), (1234, 2345), "{what}");
        assert_eq!(seen.mode() & 0o277, 0, "{what}: {:o}", seen.mode());
        assert_eq!(seen.mode() & 0o400, 0o400, "{what}: {:o}", seen.mode());
    }
}

#[test]
fn the_file_systems_numbers_are_the_sources() {
    let source = captures();
    let mounted = Mounted::new(source.path(), "");
    let (seen, real) = (
        statvfs(mounted.path()).unwrap(),
        statvfs(source.path()).unwrap(),
    );
    assert_eq!(
        (seen.blocks(), seen.fragment_size()),
        (real.blocks(), real.fragment_size())
    );
    assert_eq!(seen.files(), real.files());
    assert!(seen.blocks() > 0 && seen.blocks_free() > 0 && seen.blocks_available() > 0);
    assert_eq!(seen.name_max(), 255);
    let getconf = run(tool("getconf").arg("NAME_MAX").arg(mounted.path())).ok();
    assert_eq!(getconf.text().trim(), "255");
    let df = run(tool("df")
        .args(["--output=size,avail,pcent"])
        .arg(mounted.path()))
    .ok();
    let line = df.text().lines().nth(1).unwrap().to_owned();
    assert!(
        line.split_whitespace()
            .all(|field| field != "0" && field != "-"),
        "{line}"
    );
}

#[test]
fn a_folders_time_follows_the_source() {
    let source = captures();
    let mounted = Mounted::new(source.path(), "");
    fs::write(
        source.path().join("day/new.pcap"),
        Pcap::random(Magic::LeUs, 1, 3).bytes,
    )
    .unwrap();
    let real = fs::metadata(source.path().join("day")).unwrap();
    let seen = fs::metadata(mounted.join("day")).unwrap();
    assert_eq!(
        (seen.mtime(), seen.mtime_nsec()),
        (real.mtime(), real.mtime_nsec())
    );
    assert!(fs::metadata(mounted.join("day/new.pcap")).unwrap().len() > 24);
}

#[test]
fn a_growing_captures_time_moves_with_each_visible_growth() {
    let day = Day::new();
    let pcap = Pcap::random(Magic::LeUs, 2, 200);
    let marked = Marked::pack(&pcap, 4000);
    let physical = day.source().join("x.pcap.zst.partial");
    let first = marked.frames[0].1.start;
    fs::write(&physical, &marked.physical[..first]).unwrap();
    let mounted = day.mount();
    let mut file = OpenOptions::new().append(true).open(&physical).unwrap();
    let handle = File::open(mounted.join("x.pcap")).unwrap();
    let time = |metadata: &Metadata| (metadata.mtime(), metadata.mtime_nsec());
    let mut before = fs::metadata(mounted.join("x.pcap")).unwrap();
    for (source, physical_range) in &marked.frames {
        file.write_all(&marked.physical[physical_range.clone()])
            .unwrap();
        let now = fs::metadata(mounted.join("x.pcap")).unwrap();
        assert_eq!(now.len(), source.end as u64);
        assert_eq!(time(&now), time(&fs::metadata(&physical).unwrap()));
        assert_eq!(time(&now), time(&handle.metadata().unwrap()));
        assert!(time(&now) >= time(&before), "time goes back");
        before = now;
    }
}
