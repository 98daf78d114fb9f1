//! Mounts by an ordinary user, through fusermount3.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::{cat, give, open_to_all, put};
use crate::common::mounted::{free, is_mounted, mount_entry};
use crate::common::user::{
    DAEMON, NOBODY, as_user, in_own_namespace, let_users_mount, program_in, set_mode,
};
use crate::common::{assert_same, run, tool};

struct Setup {
    folder: TempDir,
    program: PathBuf,
    source: PathBuf,
    mnt: PathBuf,
}

/// In a mount table of our own: a source with a capture for all and one for root, and a mount point of `nobody`'s.
fn setup(fuse_conf: &str) -> Setup {
    let (folder, source, mnt) = open_to_all();
    let_users_mount(folder.path(), fuse_conf);
    put(&source.join("all.pcap.zst"), 80, 0o644);
    put(&source.join("own.pcap.zst"), 81, 0o600);
    put(&source.join("raw.pcap"), 82, 0o644);
    give(&mnt, NOBODY);
    let program = program_in(folder.path());
    Setup {
        folder,
        program,
        source,
        mnt,
    }
}

impl Setup {
    /// `nobody` runs the program with these arguments.
    fn by_nobody(&self, arguments: &[&str]) -> Command {
        let mut command = as_user(NOBODY, &[]);
        command.arg(&self.program).args(arguments);
        command
    }

    /// `nobody` mounts in the background.
    fn mount(&self, options: &str, point: &Path) -> Command {
        let mut command = self.by_nobody(&["mount", "-o", options]);
        command.arg(&self.source).arg(point);
        command
    }

    /// `nobody` ends the mount.
    fn unmount(&self) {
        run(self.by_nobody(&["umount"]).arg(&self.mnt)).ok();
        assert!(!is_mounted(&self.mnt));
    }
}

impl Drop for Setup {
    fn drop(&mut self) {
        // A daemon that is left would keep the mount table, and all in it.
        free(&self.mnt);
    }
}

fn can_enter(user: u32, mnt: &Path) -> bool {
    let ran = run(as_user(user, &[]).arg("ls").arg(mnt));
    assert!(ran.is_ok() || ran.stderr.contains("Permission denied"));
    ran.is_ok()
}

#[test]
fn a_users_mount_is_for_that_user_and_read_with_that_users_rights() {
    in_own_namespace(
        "right::user_mount::a_users_mount_is_for_that_user_and_read_with_that_users_rights",
        || {
            let setup = setup("");
            run(&mut setup.mount("no_index", &setup.mnt)).ok();
            let entry = mount_entry(&setup.mnt).unwrap();
            assert_eq!(entry.kind, "fuse.pcapzst");
            for option in [
                "ro",
                "nosuid",
                "nodev",
                "user_id=65534",
                "default_permissions",
            ] {
                assert!(entry.options.iter().any(|word| word == option), "{option}");
            }
            for (name, seed) in [("all", 80), ("raw", 82)] {
                let seen = setup.mnt.join(format!("{name}.pcap"));
                let read = run(&mut cat(as_user(NOBODY, &[]), &seen)).ok();
                assert_same(&read.stdout, &super::capture(seed).bytes, name);
            }
            // The daemon is no more than its user: it cannot even measure what is root's.
            let own = run(&mut cat(as_user(NOBODY, &[]), &setup.mnt.join("own.pcap"))).fails();
            assert!(own.stderr.contains("Permission denied"), "{}", own.stderr);
            let listed = run(as_user(NOBODY, &[]).arg("ls").arg(&setup.mnt)).ok();
            assert_eq!(listed.text(), "all.pcap\nown.pcap\nraw.pcap\n");
            assert!(!can_enter(0, &setup.mnt), "root is another user");
            assert!(!can_enter(DAEMON, &setup.mnt));
            setup.unmount();
        },
    );
}

#[test]
fn a_user_who_may_not_is_told_why() {
    in_own_namespace("right::user_mount::a_user_who_may_not_is_told_why", || {
        let setup = setup("");
        let theirs = setup.folder.path().join("theirs");
        fs::create_dir(&theirs).unwrap();
        for (options, point, reason) in [
            ("no_index", &theirs, "no write access to mountpoint"),
            ("no_index,allow_other", &setup.mnt, "user_allow_other"),
            ("no_index,allow_root", &setup.mnt, "user_allow_other"),
        ] {
            let ran = run(&mut setup.mount(options, point)).exits(1);
            assert!(ran.stderr.contains(reason), "{options}: {}", ran.stderr);
            let place = point.to_str().unwrap();
            assert!(ran.stderr.contains(place), "{options}: {}", ran.stderr);
            assert!(!is_mounted(point));
        }
    });
}

#[test]
fn a_users_mount_for_all_shows_no_more_than_that_user_may_read() {
    in_own_namespace(
        "right::user_mount::a_users_mount_for_all_shows_no_more_than_that_user_may_read",
        || {
            let setup = setup("user_allow_other\n");
            run(&mut setup.mount("no_index,allow_other", &setup.mnt)).ok();
            // Readable for the daemon's user alone.
            let nobodys = setup.source.join("nobodys.pcap.zst");
            put(&nobodys, 83, 0o400);
            give(&nobodys, NOBODY);
            let seen = |name: &str| setup.mnt.join(format!("{name}.pcap"));
            for user in [NOBODY, DAEMON, 0] {
                let read = run(&mut cat(as_user(user, &[]), &seen("all"))).ok();
                assert_same(&read.stdout, &super::capture(80).bytes, "all");
                run(&mut cat(as_user(user, &[]), &seen("own"))).fails();
                let read = run(&mut cat(as_user(user, &[]), &seen("nobodys")));
                assert_eq!(read.is_ok(), user != DAEMON, "{user}: {}", read.stderr);
            }
            // Another user cannot end it.
            let mut end = as_user(DAEMON, &[]);
            run(end.arg(&setup.program).arg("umount").arg(&setup.mnt)).exits(1);
            assert!(is_mounted(&setup.mnt));
            setup.unmount();
        },
    );
}

#[test]
fn a_link_to_where_the_mounting_user_may_not_go_is_listed_and_looking_at_it_is_denied() {
    in_own_namespace(
        "right::user_mount::a_link_to_where_the_mounting_user_may_not_go_is_listed_and_looking_at_it_is_denied",
        || {
            let setup = setup("");
            let closed = setup.source.join("closed");
            fs::create_dir_all(closed.join("sub")).unwrap();
            put(&closed.join("in.pcap.zst"), 84, 0o644);
            set_mode(&closed, 0o700);
            for (name, target) in [
                ("latest.pcap.zst", "closed/in.pcap.zst"),
                ("folder", "closed/sub"),
                ("nowhere.pcap.zst", "absent.pcap.zst"),
            ] {
                symlink(target, setup.source.join(name)).unwrap();
            }
            run(&mut setup.mount("no_index", &setup.mnt)).ok();
            let listed = run(as_user(NOBODY, &[]).arg("ls").arg(&setup.mnt)).ok();
            let shown = "all.pcap\nclosed\nfolder\nlatest.pcap\nown.pcap\nraw.pcap\n";
            assert_eq!(listed.text(), shown);
            for name in ["latest.pcap", "folder"] {
                let mut look = as_user(NOBODY, &[]);
                let looked = run(look.arg("stat").arg(setup.mnt.join(name))).fails();
                let reason = &looked.stderr;
                assert!(reason.contains("Permission denied"), "{reason}");
            }
            setup.unmount();
        },
    );
}

#[test]
fn allow_root_lets_root_in_and_nobody_else() {
    in_own_namespace(
        "right::user_mount::allow_root_lets_root_in_and_nobody_else",
        || {
            let setup = setup("user_allow_other\n");
            for options in ["no_index,allow_root", "no_index,allow_root,auto_unmount"] {
                run(&mut setup.mount(options, &setup.mnt)).ok();
                assert!(can_enter(NOBODY, &setup.mnt));
                assert!(can_enter(0, &setup.mnt));
                assert!(!can_enter(DAEMON, &setup.mnt));
                let denied = run(&mut cat(as_user(DAEMON, &[]), &setup.mnt.join("all.pcap")));
                assert!(!denied.is_ok());
                setup.unmount();
            }
            tool("fusermount3");
        },
    );
}

#[test]
fn a_user_with_the_right_to_mount_needs_no_helper_and_one_who_gains_no_rights_has_none() {
    in_own_namespace(
        "right::user_mount::a_user_with_the_right_to_mount_needs_no_helper_and_one_who_gains_no_rights_has_none",
        || {
            let setup = setup("");
            let mount = |rights: &[&str]| {
                let mut command = tool("setpriv");
                command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
                command.arg("--no-new-privs").args(rights).arg("--");
                command
                    .arg(&setup.program)
                    .args(["mount", "-o", "no_index"]);
                run(command.arg(&setup.source).arg(&setup.mnt))
            };
            let refused = mount(&[]).exits(1);
            let reason = "fusermount3: mount failed: Operation not permitted";
            assert!(refused.stderr.contains(reason), "{}", refused.stderr);
            mount(&["--inh-caps=+sys_admin", "--ambient-caps=+sys_admin"]).ok();
            let read = run(&mut cat(as_user(NOBODY, &[]), &setup.mnt.join("all.pcap"))).ok();
            assert_same(&read.stdout, &super::capture(80).bytes, "all");
            run(&mut cat(as_user(NOBODY, &[]), &setup.mnt.join("own.pcap"))).fails();
            // Without that right the mount is root's to end.
            run(crate::common::pcapzst().arg("umount").arg(&setup.mnt)).ok();
        },
    );
}
