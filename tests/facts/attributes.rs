//! S18 to S23, and S41 for folders.

use std::fs::{self, File, FileTimes, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::time::{Duration, SystemTime};

use nix::errno::Errno;

use super::{capture, errno, size};
use crate::common::day::scratch;
use crate::common::mounted::Mounted;
use crate::common::sys::attribute;

#[test]
fn the_size_is_what_is_whole_on_disk() {
    let source = scratch();
    let (pcap, marked) = capture(21);
    let (source_end, physical_end) = (marked.frames[1].0.end, marked.frames[1].1.end);
    let torn = &marked.physical[..physical_end + 5];
    let (ten, half) = (pcap.ends[10], &pcap.bytes[..pcap.ends[10] + 17]);
    let held: [(&str, &str, &[u8], usize); 7] = [
        ("whole-zst", ".pcap.zst", &marked.physical, pcap.bytes.len()),
        ("whole-raw", ".pcap", &pcap.bytes, pcap.bytes.len()),
        ("draining", ".pcap.zst", torn, source_end),
        ("growing", ".pcap.zst.partial", torn, source_end),
        ("growing-raw", ".pcap.partial", half, ten),
        ("header", ".pcap.zst.partial", &marked.physical[..14], 0),
        ("passed-through", ".pcap", half, half.len()),
    ];
    for (stem, ending, bytes, _) in held {
        fs::write(source.path().join(format!("{stem}{ending}")), bytes).unwrap();
    }
    let mounted = Mounted::new(source.path(), "");
    for (stem, _, _, wanted) in held {
        let path = mounted.join(format!("{stem}.pcap"));
        assert_eq!(size(&path), wanted, "{stem}");
        assert_eq!(fs::read(&path).unwrap().len(), wanted, "{stem}");
    }
}

#[test]
fn the_rest_is_the_physical_files_without_write_bits() {
    let source = scratch();
    let (pcap, marked) = capture(22);
    let held = [
        ("a.pcap.zst", &marked.physical, 0o666),
        ("b.pcap", &pcap.bytes, 0o3776),
        ("c.pcap.zst.partial", &marked.physical, 0o600),
        ("d.pcap.partial", &pcap.bytes, 0o222),
    ];
    let accessed = SystemTime::UNIX_EPOCH + Duration::new(1_500_000_001, 987_654_321);
    let modified = SystemTime::UNIX_EPOCH + Duration::new(1_400_000_001, 123_456_789);
    for (name, bytes, mode) in held {
        let path = source.path().join(name);
        fs::write(&path, bytes).unwrap();
        chown(&path, Some(3210), Some(4321)).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        let times = FileTimes::new()
            .set_accessed(accessed)
            .set_modified(modified);
        File::open(&path).unwrap().set_times(times).unwrap();
    }
    let mounted = Mounted::new(source.path(), "");
    for (name, _, mode) in held {
        let shown = format!("{}.pcap", &name[..1]);
        let seen = fs::metadata(mounted.join(shown)).unwrap();
        let real = fs::metadata(source.path().join(name)).unwrap();
        assert_eq!(seen.mode() & 0o7777, mode & !0o222, "{name}");
        assert_eq!((seen.uid(), seen.gid()), (3210, 4321), "{name}");
        assert_eq!(seen.accessed().unwrap(), real.accessed().unwrap(), "{name}");
        assert_eq!(seen.modified().unwrap(), modified, "{name}");
        let changed = |of: &fs::Metadata| (of.ctime(), of.ctime_nsec());
        assert_eq!(changed(&seen), changed(&real), "{name}");
        assert_eq!(seen.blocks(), real.blocks(), "{name}");
        assert_eq!(seen.blksize(), 262_144, "{name}");
    }
}

#[test]
fn a_file_of_holes_has_a_block() {
    let source = scratch();
    let holes = File::create(source.path().join("holes.pcap")).unwrap();
    holes.set_len(100_000).unwrap();
    fs::write(source.path().join("empty.pcap"), "").unwrap();
    let mounted = Mounted::new(source.path(), "");
    let seen = fs::metadata(mounted.join("holes.pcap")).unwrap();
    assert_eq!(
        (seen.len(), holes.metadata().unwrap().blocks()),
        (100_000, 0)
    );
    assert!(seen.blocks() > 0);
    let empty = fs::metadata(mounted.join("empty.pcap")).unwrap();
    assert_eq!((empty.len(), empty.blocks()), (0, 0));
}

#[test]
fn the_options_for_rights_replace_them() {
    let source = scratch();
    let (pcap, marked) = capture(23);
    fs::create_dir(source.path().join("sub")).unwrap();
    fs::write(source.path().join("a.pcap.zst"), &marked.physical).unwrap();
    fs::write(source.path().join("sub/b.pcap"), &pcap.bytes).unwrap();
    let mode = |mounted: &Mounted, name: &str| {
        let seen = fs::metadata(mounted.join(name)).unwrap();
        (seen.mode() & 0o7777, seen.uid(), seen.gid())
    };
    let mounted = Mounted::new(source.path(), "umask=027,uid=1234,gid=2345");
    for (name, wanted) in [
        ("", 0o550),
        ("sub", 0o550),
        ("a.pcap", 0o440),
        ("sub/b.pcap", 0o440),
    ] {
        assert_eq!(mode(&mounted, name), (wanted, 1234, 2345), "{name:?}");
    }
}

#[test]
fn a_folder_has_size_0_and_the_source_folders_times() {
    let source = scratch();
    let folder = source.path().join("sub");
    fs::create_dir(&folder).unwrap();
    fs::create_dir(folder.join("deeper")).unwrap();
    let mounted = Mounted::new(source.path(), "");
    for step in 0..3 {
        fs::write(folder.join(format!("{step}.pcap")), "words").unwrap();
        for name in ["", "sub", "sub/deeper"] {
            let seen = fs::metadata(mounted.join(name)).unwrap();
            let real = fs::metadata(source.path().join(name)).unwrap();
            assert_eq!((seen.nlink(), seen.len()), (1, 0), "{name:?}");
            let times =
                |of: &fs::Metadata| [(of.mtime(), of.mtime_nsec()), (of.ctime(), of.ctime_nsec())];
            assert_eq!(times(&seen), times(&real), "{name:?} after {step}");
        }
    }
}

#[test]
fn a_folder_has_no_attribute_by_name() {
    let source = scratch();
    fs::create_dir(source.path().join("sub")).unwrap();
    let mounted = Mounted::new(source.path(), "");
    for name in ["state", "stats", "nonsense"] {
        let asked = attribute(&mounted.join("sub"), &format!("user.pcapzst.{name}"));
        assert_eq!(errno(asked), Errno::ENODATA, "{name}");
    }
}
