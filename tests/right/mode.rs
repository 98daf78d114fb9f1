//! Captures and folders that others may not read, in a mount that they may enter.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, chown};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;
use pcapzst::capture::Engine;
use pcapzst::tree::attr::Lifetime;
use pcapzst::tree::{Options, ROOT, Tree};

use super::{cat, open_to_all, put};
use crate::common::mounted::Mounted;
use crate::common::sys::{Sharing, read_by_map};
use crate::common::user::{DAEMON, NOBODY, as_user, set_mode};
use crate::common::{assert_same, run};

/// One capture in each form.
const FORMS: [&str; 4] = [".pcap.zst", ".pcap", ".pcap.zst.partial", ".pcap.partial"];
/// All attributes by name that a capture has.
const ATTRIBUTES: [&str; 7] = [
    "state",
    "format",
    "file_id",
    "frames",
    "physical_name",
    "physical_size",
    "torn_bytes",
];

/// A group of some users.
const CAPTURERS: u32 = 4_711;

#[track_caller]
fn is_denied(command: &mut std::process::Command) {
    let ran = run(command).fails();
    let reason = &ran.stderr;
    assert!(
        reason.contains("Permission denied"),
        "{command:?}: {reason}"
    );
    assert!(ran.stdout.is_empty(), "{command:?}");
}

#[test]
fn a_capture_of_roots_own_is_read_by_nobody_else_before_or_after_root_read_it() {
    let (_folder, source, _) = open_to_all();
    for (seed, form) in (1..).zip(FORMS) {
        put(&source.join(format!("own-{seed}{form}")), seed, 0o600);
    }
    let mounted = Mounted::new(&source, "allow_other");
    let mut held = Vec::new();
    for is_read_by_root in [false, true] {
        for seed in 1..=FORMS.len() {
            let path = mounted.join(format!("own-{seed}.pcap"));
            is_denied(&mut cat(as_user(DAEMON, &[]), &path));
            is_denied(as_user(DAEMON, &[]).arg("cp").arg(&path).arg("/dev/null"));
            for name in ATTRIBUTES {
                let mut ask = as_user(DAEMON, &[]);
                ask.args(["getfattr", "-n", &format!("user.pcapzst.{name}")]);
                is_denied(ask.arg(&path));
            }
            // As in SOURCE: the folder may be searched, so the size may be known.
            let size = run(as_user(DAEMON, &[])
                .args(["stat", "-c", "%s %a"])
                .arg(&path))
            .ok();
            let len = fs::metadata(&path).unwrap().len();
            assert_eq!(size.text().trim(), format!("{len} 400"));
            if !is_read_by_root {
                // Page-cached, passed to the kernel, or direct; open and mapped while others try.
                let file = File::open(&path).unwrap();
                let mut bytes = vec![0; usize::try_from(len).unwrap()];
                file.read_exact_at(&mut bytes, 0).unwrap();
                let map = read_by_map(&file, Sharing::Shared).unwrap();
                assert_same(&map, &bytes, "map");
                held.push(file);
            }
        }
    }
}

#[test]
fn a_groups_capture_is_read_by_its_group_and_by_no_other() {
    let (_folder, source, _) = open_to_all();
    let path = source.join("group.pcap.zst");
    let pcap = put(&path, 9, 0o640);
    chown(&path, Some(0), Some(CAPTURERS)).unwrap();
    let mounted = Mounted::new(&source, "allow_other");
    let seen = mounted.join("group.pcap");
    is_denied(&mut cat(as_user(DAEMON, &[]), &seen));
    is_denied(&mut cat(as_user(DAEMON, &[NOBODY]), &seen));
    let read = run(&mut cat(as_user(DAEMON, &[NOBODY, CAPTURERS]), &seen)).ok();
    assert_same(&read.stdout, &pcap.bytes, "as one of the group");
}

#[test]
fn what_is_in_a_closed_folder_is_not_found_by_name() {
    let (_folder, source, _) = open_to_all();
    let closed = source.join("closed");
    fs::create_dir(&closed).unwrap();
    put(&closed.join("in.pcap.zst"), 10, 0o644);
    put(&closed.join("raw.pcap"), 11, 0o644);
    set_mode(&closed, 0o700);
    // May be listed, not searched; and the other way round.
    let (listed, searched) = (source.join("listed"), source.join("searched"));
    for (folder, mode) in [(&listed, 0o744), (&searched, 0o711)] {
        fs::create_dir(folder).unwrap();
        put(&folder.join("in.pcap.zst"), 12, 0o644);
        set_mode(folder, mode);
    }
    let mounted = Mounted::new(&source, "allow_other");
    let at = |path: &str| mounted.join(path);
    assert_eq!(fs::read_dir(at("closed")).unwrap().count(), 2);
    for name in ["closed/in.pcap", "closed/raw.pcap", "closed/absent.pcap"] {
        is_denied(&mut cat(as_user(DAEMON, &[]), &at(name)));
        is_denied(
            as_user(DAEMON, &[])
                .args(["stat", "-c", "%s"])
                .arg(at(name)),
        );
    }
    is_denied(as_user(DAEMON, &[]).arg("ls").arg(at("closed")));
    is_denied(&mut cat(as_user(DAEMON, &[]), &at("listed/in.pcap")));
    let names = run(as_user(DAEMON, &[]).args(["ls", "-f"]).arg(at("listed")));
    assert!(names.text().contains("in.pcap"), "{}", names.text());
    is_denied(as_user(DAEMON, &[]).arg("ls").arg(at("searched")));
    run(&mut cat(as_user(DAEMON, &[]), &at("searched/in.pcap"))).ok();
    // Closed while somebody is in it: that lasts two ticks of the kernel, by the clock of what it keeps.
    set_mode(&searched, 0o700);
    let begun = Instant::now();
    let is_found = || {
        let mut command = cat(as_user(DAEMON, &[]), Path::new("in.pcap"));
        run(command.current_dir(at("searched"))).is_ok()
    };
    while is_found() {
        assert!(begun.elapsed() < Duration::from_secs(5), "still open");
    }
    is_denied(cat(as_user(DAEMON, &[]), Path::new("in.pcap")).current_dir(at("searched")));
}

/// The ways in which another user tries to get at what a capture holds, and whether each of them is let.
///
/// `held` is a descriptor that needs no right to read, and is opened again: no look-up comes with that.
fn tries(path: &Path, held: &OwnedFd) -> [bool; 5] {
    let again = format!("/proc/self/fd/{}", held.as_raw_fd());
    let name = path.file_name().unwrap();
    let asked = ["getfattr", "-n", "user.pcapzst.file_id"];
    [
        (&asked[..], again.as_ref()),
        (&["cat"], again.as_ref()),
        (&["cat"], name),
        (&["cat"], path.as_os_str()),
        (&asked, path.as_os_str()),
    ]
    .map(|(command, what)| {
        let mut command = {
            let mut user = as_user(DAEMON, &[]);
            user.args(command).arg(what);
            user
        };
        let ran = run(command.current_dir(path.parent().unwrap()));
        let is_denied = ran.stderr.contains("Permission denied");
        assert!(ran.is_ok() != is_denied, "{command:?}: {}", ran.stderr);
        ran.is_ok()
    })
}

#[test]
fn a_capture_that_becomes_private_is_opened_by_nobody_else_from_then_on() {
    for (seed, form) in (20..).zip(FORMS) {
        let (_folder, source, _) = open_to_all();
        let path = source.join(format!("x{form}"));
        put(&path, seed, 0o644);
        let mounted = Mounted::new(&source, "allow_other");
        let seen = mounted.join("x.pcap");
        // Inherited by what is run, hence without O_CLOEXEC.
        let held = open(&seen, OFlag::O_PATH, Mode::empty()).unwrap();
        for _ in 0..2 {
            assert_eq!(tries(&seen, &held), [true; 5], "{form}");
            set_mode(&path, 0o600);
            assert_eq!(tries(&seen, &held), [false; 5], "{form}, root's now");
            chown(&path, Some(DAEMON), None).unwrap();
            assert_eq!(tries(&seen, &held), [true; 5], "{form}, that user's");
            chown(&path, Some(0), None).unwrap();
            assert_eq!(tries(&seen, &held), [false; 5], "{form}, root's again");
            set_mode(&path, 0o644);
        }
    }
}

#[test]
fn what_a_handle_tells_of_a_file_that_its_name_no_longer_leads_to_is_not_relied_on() {
    let (_folder, source, _) = open_to_all();
    put(&source.join("x.pcap.zst"), 30, 0o644);
    let engine = Arc::new(Engine::default());
    let tree = Tree::open(&source, engine, Options::default()).unwrap();
    let look = || tree.lookup(ROOT, OsStr::new("x.pcap")).unwrap();
    let id = look().id;
    let (handle, _) = tree.open_file(id).unwrap();
    let own = tree.getattr(id, Some(handle)).unwrap();
    assert_eq!(own.lifetime, Lifetime::Settled);
    // The same capture in another file, of which others may read nothing.
    put(&source.join("new.zst"), 30, 0o600);
    fs::rename(source.join("new.zst"), source.join("x.pcap.zst")).unwrap();
    let now = look();
    assert_eq!((now.id, now.mode), (id, 0o400));
    assert_eq!(now.lifetime, Lifetime::Settled);
    let own = tree.getattr(id, Some(handle)).unwrap();
    assert_eq!((own.mode, own.lifetime), (0o444, Lifetime::Live));
    tree.open_file(id).unwrap();
}

#[test]
fn options_for_rights_open_up_what_they_say_and_a_change_in_the_source_does_not_matter_then() {
    let (_folder, source, _) = open_to_all();
    let path = source.join("x.pcap.zst");
    let pcap = put(&path, 30, 0o600);
    let mounted = Mounted::new(&source, "allow_other,umask=027,gid=4711");
    let seen = mounted.join("x.pcap");
    is_denied(&mut cat(as_user(DAEMON, &[]), &seen));
    let read = run(&mut cat(as_user(DAEMON, &[4_711]), &seen)).ok();
    assert_same(&read.stdout, &pcap.bytes, "by gid= and umask=");
    set_mode(&path, 0o000);
    run(&mut cat(as_user(DAEMON, &[4_711]), &seen)).ok();
}
