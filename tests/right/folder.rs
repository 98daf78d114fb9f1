//! Folders that are put in the place of others: what the rights of one open is not shown of the other.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
use pcapzst::capture::Engine;
use pcapzst::tree::errno::Failure;
use pcapzst::tree::{Links, Options, ROOT, Tree};
use tempfile::TempDir;

use super::{cat, give, open_to_all, put};
use crate::common::mounted::Mounted;
use crate::common::user::{DAEMON, as_user, set_mode};
use crate::common::{Ran, run, tool};

/// A folder `team`, with `open` for all and `closed` for its owner alone in it. Each holds a capture `x`, and a folder `sub`
/// for all; `closed` holds a capture `secret` beside.
fn team() -> (TempDir, PathBuf) {
    let (folder, source, _) = open_to_all();
    for (name, seed) in [("open", 90), ("closed", 91)] {
        let within = source.join("team").join(name);
        fs::create_dir_all(within.join("sub")).unwrap();
        for folder in ["", "sub"] {
            put(&within.join(folder).join("x.pcap.zst"), seed, 0o644);
        }
    }
    let closed = source.join("team/closed");
    put(&closed.join("secret.pcap.zst"), 92, 0o644);
    set_mode(&closed, 0o700);
    (folder, source)
}

fn tree(source: &Path, links: Links) -> Tree {
    let options = Options {
        links,
        ..Options::default()
    };
    Tree::open(source, Arc::new(Engine::default()), options).unwrap()
}

/// The number of the inode at `path`.
#[track_caller]
fn look(tree: &Tree, path: &str) -> u64 {
    path.split('/').fold(ROOT, |folder, name| {
        tree.lookup(folder, OsStr::new(name)).unwrap().id
    })
}

fn exchange(source: &Path, one: &str, other: &str) {
    let (one, other) = (source.join(one), source.join(other));
    let flags = RenameFlags::RENAME_EXCHANGE;
    renameat2(AT_FDCWD, &one, AT_FDCWD, &other, flags).unwrap();
}

fn listed(tree: &Tree, folder: u64) -> Result<Vec<String>, Failure> {
    let entries = tree.list(folder, true)?;
    let names = entries.iter().map(|entry| entry.name.to_str().unwrap());
    Ok(names.map(str::to_owned).collect())
}

#[test]
fn a_folder_in_the_place_of_another_is_not_opened_by_that_ones_rights() {
    let (_folder, source) = team();
    let tree = tree(&source, Links::Trusted);
    let name = OsStr::new;
    let [open, sub, x] = ["", "/sub", "/x.pcap"].map(|end| look(&tree, &format!("team/open{end}")));
    let [held, held_sub] = [open, sub].map(|id| tree.open_folder(id).unwrap());
    let (file, _) = tree.open_file(x).unwrap();
    let in_open = ["sub", "x.pcap"];
    assert_eq!(listed(&tree, held).unwrap(), in_open);

    exchange(&source, "team/open", "team/closed");
    // What the kernel knows as `open` has the rights of the folder that was there.
    assert_eq!(listed(&tree, held), Err(Failure::Stale));
    assert_eq!(listed(&tree, held_sub), Err(Failure::Stale));
    assert_eq!(tree.getattr(open, None), Err(Failure::Stale));
    assert_eq!(tree.getattr(sub, None), Err(Failure::Stale));
    for asked in ["secret.pcap", "x.pcap", "sub", "absent"] {
        let outcome = tree.lookup(open, name(asked));
        assert_eq!(outcome.unwrap_err(), Failure::Stale, "{asked}");
        let outcome = tree.lookup(sub, name(asked));
        assert_eq!(outcome.unwrap_err(), Failure::Stale, "sub/{asked}");
    }
    // A path is walked anew, and meets the rights of what is there now.
    let now = tree.lookup(look(&tree, "team"), name("open")).unwrap();
    assert_eq!(now.mode, 0o500);
    assert_ne!(now.id, open);
    let other = tree.open_folder(now.id).unwrap();
    let in_closed = ["secret.pcap", "sub", "x.pcap"];
    assert_eq!(listed(&tree, other).unwrap(), in_closed);
    assert_ne!(look(&tree, "team/open/x.pcap"), x);
    // Who had a file open goes on with it.
    assert!(!tree.read(file, 0, 24).unwrap().is_empty());

    exchange(&source, "team/open", "team/closed");
    assert_eq!(listed(&tree, other), Err(Failure::Stale));
    assert_eq!(listed(&tree, held).unwrap(), in_open);
    assert_eq!(look(&tree, "team/open"), open);
    assert_eq!(look(&tree, "team/open/x.pcap"), x);
}

#[test]
fn a_folder_that_is_made_anew_is_found_and_what_was_known_of_the_old_one_is_gone() {
    let (_folder, source) = team();
    let again = || {
        fs::remove_dir_all(source.join("team/open")).unwrap();
        fs::create_dir(source.join("team/open")).unwrap();
        put(&source.join("team/open/new.pcap.zst"), 93, 0o644);
    };
    let tree = tree(&source, Links::Trusted);
    let old = look(&tree, "team/open");
    let held = tree.open_folder(old).unwrap();
    for _ in 0..20 {
        // Some file systems give the new one the inode number of the old.
        again();
        assert_eq!(listed(&tree, held), Err(Failure::Stale));
        let new = look(&tree, "team/open");
        assert_ne!(new, old);
        let held = tree.open_folder(new).unwrap();
        assert_eq!(listed(&tree, held).unwrap(), ["new.pcap"]);
        look(&tree, "team/open/new.pcap");
        tree.forget(new, u64::MAX);
    }
}

#[test]
fn in_a_mount_for_one_user_a_folder_is_what_its_path_leads_to() {
    let (_folder, source) = team();
    let tree = tree(&source, Links::Everybodys);
    let open = look(&tree, "team/open");
    let held = tree.open_folder(open).unwrap();
    exchange(&source, "team/open", "team/closed");
    assert_eq!(
        listed(&tree, held).unwrap(),
        ["secret.pcap", "sub", "x.pcap"]
    );
    assert_eq!(tree.getattr(open, None).unwrap().mode, 0o500);
    assert_eq!(look(&tree, "team/open"), open);
    tree.lookup(open, OsStr::new("secret.pcap")).unwrap();
}

/// The team's folder, mounted for everybody; another user may rename what is in it, and `open` is his.
fn others_team() -> (TempDir, PathBuf, Mounted) {
    let (folder, source) = team();
    give(&source.join("team/open"), DAEMON);
    set_mode(&source.join("team"), 0o777);
    let mounted = Mounted::new(&source, "allow_other");
    (folder, source, mounted)
}

/// Runs a script of Perl's as that user; it is given the team's folder in the mount, and in SOURCE.
#[track_caller]
fn as_other(script: &str, mounted: &Mounted, source: &Path) -> Ran {
    let mut command = as_user(DAEMON, &[]);
    command.arg(tool("perl").get_program()).args(["-e", script]);
    run(command.arg(mounted.join("team")).arg(source.join("team"))).ok()
}

#[test]
fn who_puts_a_closed_folder_in_the_place_of_an_open_one_learns_no_name_in_it() {
    let (_folder, source, mounted) = others_team();
    // All of it as the other user: the folder is opened while it may be, and read when another is there.
    let script = r#"
        my ($mnt, $source) = @ARGV;
        opendir(my $held, "$mnt/open") or die "open: $!";
        rename("$source/open", "$source/aside") or die "aside: $!";
        rename("$source/closed", "$source/open") or die "in its place: $!";
        print "$_\n" for readdir $held;
    "#;
    let ran = as_other(script, &mounted, &source);
    assert_eq!(ran.text(), "", "{}", ran.stderr);
    // By its path it is closed, and to its owner it is open; the other one is where it was put.
    let seen = mounted.join("team/open/secret.pcap");
    let denied = run(&mut cat(as_user(DAEMON, &[]), &seen)).fails();
    let reason = &denied.stderr;
    assert!(reason.contains("Permission denied"), "{reason}");
    fs::read(&seen).unwrap();
    let moved = mounted.join("team/aside/x.pcap");
    run(&mut cat(as_user(DAEMON, &[]), &moved)).ok();
}

#[test]
fn who_swaps_an_open_folder_and_a_closed_one_all_the_time_reads_nothing_in_the_closed_one() {
    let (_folder, source, mounted) = others_team();
    // The one process swaps until it is killed; the other one tries, and tells how often it came to either capture.
    let script = r#"
        my ($mnt, $source) = @ARGV;
        my @steps = (["open", "aside"], ["closed", "open"], ["open", "closed"], ["aside", "open"]);
        my $swaps = fork() // die "fork: $!";
        if ($swaps == 0) {
            while (getppid() != 1) {
                rename("$source/$_->[0]", "$source/$_->[1]") or die "$_->[0]: $!" for @steps;
            }
            exit;
        }
        my %count = (secret => 0, x => 0, missed => 0);
        for my $try (1 .. 40_000) {
            my $name = $try % 2 ? "secret" : "x";
            open(my $file, "<", "$mnt/open/$name.pcap") ? $count{$name}++ : $count{missed}++;
            last if $try >= 10_000 && $count{x} > 50 && $count{missed} > 50;
        }
        kill("KILL", $swaps);
        waitpid($swaps, 0);
        print "secret $count{secret}\n";
        die "x $count{x}, missed $count{missed}" unless $count{x} && $count{missed};
    "#;
    let ran = as_other(script, &mounted, &source);
    assert_eq!(ran.text(), "secret 0\n", "{}", ran.stderr);
}
