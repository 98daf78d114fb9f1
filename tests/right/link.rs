//! Links, and folders that are swapped for links while somebody looks.

use std::fs;
use std::io;
use std::os::unix::fs::{lchown, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};

use super::{capture, cat, give, open_to_all, put};
use crate::common::mounted::Mounted;
use crate::common::user::{DAEMON, NOBODY, as_user, set_mode};
use crate::common::{assert_same, names, run};

#[test]
fn anothers_link_shows_no_one_what_a_closed_folder_holds() {
    let (_folder, source, _) = open_to_all();
    let (closed, theirs) = (source.join("closed"), source.join("theirs"));
    for folder in [&closed, &theirs] {
        fs::create_dir(folder).unwrap();
    }
    let secret = put(&closed.join("secret.pcap.zst"), 40, 0o644);
    set_mode(&closed, 0o700);
    let own = put(&theirs.join("own.pcap.zst"), 41, 0o644);
    fs::create_dir(theirs.join("sub")).unwrap();
    let leads = [
        ("file.pcap.zst", "../closed/secret.pcap.zst"),
        ("folder", "../closed"),
        ("twice.pcap.zst", "file.pcap.zst"),
        ("through.pcap.zst", "folder/secret.pcap.zst"),
        ("roots.pcap.zst", "../byroot.pcap.zst"),
        ("latest.pcap.zst", "own.pcap.zst"),
        ("up.pcap.zst", "sub/../own.pcap.zst"),
        ("here", "sub"),
    ];
    for (name, target) in leads {
        symlink(target, theirs.join(name)).unwrap();
    }
    for entry in fs::read_dir(&theirs).unwrap() {
        lchown(entry.unwrap().path(), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    give(&theirs, NOBODY);
    // Root's own link may show it: that is for root to say.
    symlink("closed/secret.pcap.zst", source.join("byroot.pcap.zst")).unwrap();

    // A mount for one user follows them all: he goes where he could go in SOURCE.
    let mounted = Mounted::new(&source, "");
    for name in ["file", "folder/secret", "twice", "through", "latest", "up"] {
        fs::read(mounted.join(format!("theirs/{name}.pcap"))).unwrap();
    }
    mounted.unmount();

    for option in ["allow_other", "allow_other,all"] {
        let mounted = Mounted::new(&source, option);
        let at = |name: &str| mounted.join(format!("theirs/{name}"));
        for name in [
            "file.pcap",
            "folder",
            "twice.pcap",
            "through.pcap",
            "roots.pcap",
        ] {
            let error = fs::symlink_metadata(at(name)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::NotFound, "{name}");
        }
        let listed = [
            &b"here"[..],
            b"latest.pcap",
            b"own.pcap",
            b"sub",
            b"up.pcap",
        ];
        assert_eq!(names(&mounted.join("theirs")), listed);
        for name in ["latest.pcap", "up.pcap", "own.pcap"] {
            let read = run(&mut cat(as_user(DAEMON, &[]), &at(name))).ok();
            assert_same(&read.stdout, &own.bytes, name);
        }
        let read = run(&mut cat(as_user(DAEMON, &[]), &mounted.join("byroot.pcap"))).ok();
        assert_same(&read.stdout, &secret.bytes, "by root's link");
    }
}

#[test]
fn anothers_link_to_a_folder_shows_what_in_it_is_that_users_and_neither_finds_nor_lists_the_rest() {
    let (_folder, source, _) = open_to_all();
    let theirs = source.join("theirs");
    for folder in ["", "own", "roots"] {
        fs::create_dir(theirs.join(folder)).unwrap();
    }
    let own = put(&theirs.join("own.pcap.zst"), 42, 0o644);
    put(&theirs.join("roots.pcap.zst"), 43, 0o644);
    // Its final name is root's, and hides the other: the one that a look-up would take, it has to leave.
    put(&theirs.join("two.pcap.zst"), 44, 0o644);
    put(&theirs.join("two.pcap.zst.partial"), 45, 0o644);
    put(&theirs.join("own/deep.pcap.zst"), 46, 0o644);
    put(&theirs.join("roots/deep.pcap.zst"), 47, 0o644);
    let link = source.join("link");
    symlink("theirs", &link).unwrap();
    lchown(&link, Some(NOBODY), Some(NOBODY)).unwrap();
    for name in ["", "own", "own.pcap.zst", "two.pcap.zst.partial"] {
        give(&theirs.join(name), NOBODY);
    }
    for (option, is_all) in [
        ("", true),
        ("allow_other", false),
        ("allow_other,all", false),
    ] {
        let mounted = Mounted::new(&source, option);
        let listed = names(&mounted.join("link"));
        let all = [
            &b"own"[..],
            b"own.pcap",
            b"roots",
            b"roots.pcap",
            b"two.pcap",
        ];
        if is_all {
            assert_eq!(listed, all);
            continue;
        }
        assert_eq!(listed, [&b"own"[..], b"own.pcap", b"two.pcap"], "{option}");
        assert_eq!(names(&mounted.join("link/own")), Vec::<Vec<u8>>::new());
        for name in ["roots", "roots.pcap", "roots/deep.pcap", "own/deep.pcap"] {
            let error = fs::symlink_metadata(mounted.join(format!("link/{name}"))).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::NotFound, "{option} {name}");
        }
        for (name, bytes) in [("own", &own.bytes), ("two", &capture(45).bytes)] {
            let path = mounted.join(format!("link/{name}.pcap"));
            let read = run(&mut cat(as_user(DAEMON, &[]), &path)).ok();
            assert_same(&read.stdout, bytes, name);
        }
        // The way past the link shows all.
        assert_eq!(names(&mounted.join("theirs")), all);
        let read = run(&mut cat(
            as_user(DAEMON, &[]),
            &mounted.join("theirs/two.pcap"),
        ))
        .ok();
        assert_same(&read.stdout, &capture(44).bytes, "two");
    }
}

#[test]
fn a_path_with_many_links_ends_where_the_kernel_would_end_it() {
    let (_folder, source, _) = open_to_all();
    let pcap = put(&source.join("0.pcap.zst"), 50, 0o644);
    for number in 1..=50 {
        let target = format!("{}.pcap.zst", number - 1);
        symlink(target, source.join(format!("{number}.pcap.zst"))).unwrap();
    }
    symlink("b.pcap.zst", source.join("a.pcap.zst")).unwrap();
    symlink("a.pcap.zst", source.join("b.pcap.zst")).unwrap();
    symlink("./././0.pcap.zst", source.join("dots.pcap.zst")).unwrap();
    symlink("/0.pcap.zst", source.join("absolute.pcap.zst")).unwrap();
    symlink("../source/0.pcap.zst", source.join("out-and-in.pcap.zst")).unwrap();
    symlink("/proc/self/cwd", source.join("magic")).unwrap();
    symlink("/proc/self/root/etc", source.join("magic-root")).unwrap();
    for option in ["", "allow_other"] {
        let mounted = Mounted::new(&source, option);
        let read = |name: &str| fs::read(mounted.join(name));
        for name in ["1.pcap", "40.pcap", "dots.pcap"] {
            assert_same(&read(name).unwrap(), &pcap.bytes, name);
        }
        for name in [
            "41.pcap",
            "a.pcap",
            "absolute.pcap",
            "out-and-in.pcap",
            "magic",
            "magic-root/passwd",
        ] {
            let error = read(name).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::NotFound, "{option} {name}");
        }
    }
}

/// Stops the readers, also when a check fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Puts `link`, which leads to the folder `other`, in the place of `folder` and back, while readers look for the capture in
/// it: they get `inside`'s bytes or an error. It goes on until both have come often.
fn swap(mounted: &Mounted, folder: &Path, link: &Path, inside: &[u8]) {
    const SWAPS: usize = 3_000;
    const OFTEN: usize = 50;
    const PATIENCE: Duration = Duration::from_secs(30);
    let (found, missed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let is_done = AtomicBool::new(false);
    let seen = mounted.join(folder.file_name().unwrap()).join("x.pcap");
    thread::scope(|scope| {
        let _stop = Stop(&is_done);
        for _ in 0..3 {
            scope.spawn(|| {
                while !is_done.load(Ordering::Relaxed) {
                    let count = match fs::read(&seen) {
                        Ok(bytes) => {
                            assert_same(&bytes, inside, "through a swapped folder");
                            &found
                        }
                        Err(_) => &missed,
                    };
                    count.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let are_often = || {
            [&found, &missed]
                .iter()
                .all(|count| count.load(Ordering::Relaxed) > OFTEN)
        };
        let (begun, mut swaps) = (Instant::now(), 0);
        while (swaps < SWAPS || !are_often()) && begun.elapsed() < PATIENCE {
            let exchange = RenameFlags::RENAME_EXCHANGE;
            renameat2(AT_FDCWD, folder, AT_FDCWD, link, exchange).unwrap();
            thread::yield_now();
            swaps += 1;
        }
    });
    let (found, missed) = (found.into_inner(), missed.into_inner());
    assert!(found > 0 && missed > 0, "{found} found, {missed} missed");
}

#[test]
fn a_folder_that_is_swapped_for_a_link_out_of_the_source_leads_nowhere() {
    for option in ["", "allow_other"] {
        let (folder, source, _) = open_to_all();
        let outside = folder.path().join("outside");
        let inside = source.join("day");
        fs::create_dir(&outside).unwrap();
        fs::create_dir(&inside).unwrap();
        put(&outside.join("x.pcap.zst"), 60, 0o644);
        put(&inside.join("x.pcap.zst"), 61, 0o644);
        let link = source.join("link");
        symlink("../outside", &link).unwrap();
        let mounted = Mounted::new(&source, option);
        swap(&mounted, &inside, &link, &capture(61).bytes);
    }
}

#[test]
fn a_folder_that_another_swaps_for_a_link_to_a_closed_one_shows_nothing_of_it() {
    let (_folder, source, _) = open_to_all();
    let (closed, theirs) = (source.join("closed"), source.join("theirs"));
    for (folder, seed) in [(&closed, 62), (&theirs, 63)] {
        fs::create_dir(folder).unwrap();
        put(&folder.join("x.pcap.zst"), seed, 0o644);
    }
    set_mode(&closed, 0o700);
    let link = source.join("link");
    symlink("closed", &link).unwrap();
    lchown(&link, Some(NOBODY), Some(NOBODY)).unwrap();
    let mounted = Mounted::new(&source, "allow_other");
    swap(&mounted, &theirs, &link, &capture(63).bytes);
}
