//! Programs that copy what has changed since the last time find that nothing has, also after another mount; and what has
//! grown is all that they take.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::SystemTime;

use nix::errno::Errno;

use crate::common::day::Day;
use crate::common::frames::{Marked, skippable};
use crate::common::mounted::Mounted;
use crate::common::{Ran, assert_same, run, tool};
use crate::{forms, traffic};

/// The day, its captures in two folders.
fn day() -> Day {
    let pcap = traffic::capture();
    let day = forms::day(&pcap);
    for folder in [day.source(), day.raw()] {
        fs::create_dir(folder.join("2026-07-14")).unwrap();
    }
    let packed = Marked::pack(&pcap, 9000).physical;
    day.add_as("2026-07-14/deep", ".pcap.zst", &packed, &pcap.bytes);
    day
}

const CAPTURES: u64 = 5;

/// The capture that grows: it gets its last frames and its final name.
fn finish(day: &Day) {
    let pcap = traffic::capture();
    let packed = Marked::pack(&pcap, 3000).physical;
    fs::write(day.raw().join("growing.pcap"), pcap.bytes).unwrap();
    fs::write(day.source().join("growing.pcap.zst.partial"), packed).unwrap();
    rename(day, "growing.pcap.zst");
}

/// Gives a capture its final name; nothing else of it changes.
fn rename(day: &Day, name: &str) {
    let name = day.source().join(name);
    let partial = format!("{}.partial", name.display());
    fs::rename(partial, name).unwrap();
}

fn assert_equals_raw(day: &Day, copy: &Path) {
    for name in forms::NAMES.iter().chain(&["2026-07-14/deep.pcap"]) {
        let copied = fs::read(copy.join(name)).unwrap();
        assert_same(&copied, &forms::wanted(day, name), name);
    }
}

/// Files that are new, changed and unmodified.
type Counts = [u64; 3];

struct Restic<'a> {
    day: &'a Day,
}

impl Restic<'_> {
    fn command(&self) -> Command {
        let mut restic = tool("restic");
        restic
            .env("RESTIC_PASSWORD", "not secret")
            .args(["--no-cache", "--repo"])
            .arg(self.day.out().join("restic"));
        restic
    }

    fn back_up(&self, folder: &Path) -> Ran {
        run(self.command().args(["backup", "--json"]).arg(folder))
    }

    #[track_caller]
    fn counts(ran: &Ran) -> Counts {
        let lines = ran.json();
        let summary = lines
            .iter()
            .find(|line| line["message_type"] == "summary")
            .unwrap();
        ["files_new", "files_changed", "files_unmodified"].map(|key| summary[key].as_u64().unwrap())
    }
}

#[test]
fn restic_finds_nothing_changed_by_another_mount() {
    let day = day();
    let restic = Restic { day: &day };
    run(restic.command().arg("init")).ok();
    let mounted = day.mount();
    let counts = |mounted: &Mounted| Restic::counts(&restic.back_up(mounted.path()).ok());
    assert_eq!(counts(&mounted), [CAPTURES, 0, 0]);
    assert_eq!(counts(&mounted), [0, 0, CAPTURES]);
    let mounted = mounted.again(&day.source(), "");
    assert_eq!(counts(&mounted), [0, 0, CAPTURES], "after another mount");

    // A rename moves the ctime on disk, so the capture is read once more; nothing of it is stored again.
    let names =
        ["growing.pcap.zst.partial", "growing.pcap.zst"].map(|name| day.source().join(name));
    fs::rename(&names[0], &names[1]).unwrap();
    let ran = restic.back_up(mounted.path()).ok();
    assert_eq!(Restic::counts(&ran), [0, 1, CAPTURES - 1], "the ctime");
    assert!(ran.text().contains("\"data_blobs\":0,"), "{}", ran.text());
    fs::rename(&names[1], &names[0]).unwrap();
    let mut careless = restic.command();
    careless
        .args(["backup", "--json", "--ignore-ctime"])
        .arg(mounted.path());
    assert_eq!(Restic::counts(&run(&mut careless).ok()), [0, 0, CAPTURES]);

    finish(&day);
    assert_eq!(counts(&mounted), [0, 1, CAPTURES - 1], "one has grown");
    assert_eq!(counts(&mounted), [0, 0, CAPTURES]);
    let mounted = mounted.again(&day.source(), "");
    assert_eq!(counts(&mounted), [0, 0, CAPTURES], "after another mount");

    let target = day.out().join("restored");
    run(restic.command().args(["check", "--read-data"])).ok();
    let mut restore = restic.command();
    restore.args(["restore", "latest", "--target"]).arg(&target);
    run(&mut restore).ok();
    let below = mounted.path().strip_prefix("/").unwrap();
    assert_equals_raw(&day, &target.join(below));
}

/// The day, and beside its captures one that cannot be opened.
fn day_with_a_refused_one() -> Day {
    let day = day();
    let foreign = skippable(0, b"not of this format");
    fs::write(day.source().join("foreign.pcap.zst"), foreign).unwrap();
    day
}

#[test]
fn restic_names_a_refused_capture_and_saves_the_others() {
    let day = day_with_a_refused_one();
    let restic = Restic { day: &day };
    run(restic.command().arg("init")).ok();
    let mounted = day.mount();
    // 3: at least one file could not be read, the snapshot is there all the same.
    let ran = restic.back_up(mounted.path()).exits(3);
    assert_eq!(Restic::counts(&ran), [CAPTURES, 0, 0]);
    let path = mounted.join("foreign.pcap");
    let said = format!(
        "\"Path\":\"{}\",\"Err\":{}",
        path.display(),
        Errno::EOPNOTSUPP as i32
    );
    assert!(ran.stderr.contains(&said), "{}", ran.stderr);
}

#[test]
fn borg_and_rsync_name_a_refused_capture_and_save_the_others() {
    let day = day_with_a_refused_one();
    let mounted = day.mount();
    let borg = Borg { day: &day };
    borg.run(Path::new("/"), &["init", "-e", "none"]).ok();
    // 1: a warning.
    let ran = borg
        .run(mounted.path(), &["create", "--list", "::a", "."])
        .exits(1);
    let listed = |mark: &str| {
        let lines = ran.stderr.lines();
        lines.filter(|line| line.starts_with(mark)).count() as u64
    };
    assert_eq!(listed("A "), CAPTURES, "{}", ran.stderr);
    assert_eq!(listed("E foreign.pcap"), 1, "{}", ran.stderr);

    let from = format!("{}/", mounted.path().display());
    let to = day.out().join("copy");
    // 23: partial transfer due to error.
    let ran = run(tool("rsync").args(["-a", &from]).arg(&to)).exits(23);
    let said = "foreign.pcap\": Operation not supported (95)";
    assert!(ran.stderr.contains(said), "{}", ran.stderr);
    assert_equals_raw(&day, &to);
}

struct Borg<'a> {
    day: &'a Day,
}

impl Borg<'_> {
    fn run(&self, here: &Path, args: &[&str]) -> Ran {
        let mut borg = tool("borg");
        let out = self.day.out();
        borg.env("BORG_BASE_DIR", &out)
            .env("BORG_REPO", out.join("borg"))
            .env("BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK", "yes")
            .env("BORG_RELOCATED_REPO_ACCESS_IS_OK", "yes");
        run(borg.args(args).current_dir(here))
    }

    /// The names below the mount that are new or modified for borg. It always reads the file that changed last again
    /// (its manual, "I am seeing 'A' status for an unchanged file"), so one beside the mount is that.
    fn changed(&self, archive: &str, mounted: &Mounted) -> Vec<String> {
        let newest = self.day.out().join("newest");
        let written = || fs::metadata(&newest).unwrap().modified().unwrap();
        // The clock of a file system goes in steps.
        let before = SystemTime::now();
        fs::write(&newest, archive).unwrap();
        while written() <= before {
            fs::write(&newest, archive).unwrap();
        }
        let (archive, newest) = (format!("::{archive}"), newest.to_str().unwrap().to_owned());
        let from = mounted.path().to_str().unwrap();
        let args = ["create", "--list", "--filter=AMCE", &archive, from, &newest];
        let ran = self.run(mounted.path(), &args).ok();
        let lines = ran.stderr.lines().filter(|line| !line.ends_with("/newest"));
        let names = lines.map(|line| line.rsplit('/').next().unwrap().to_owned());
        names.collect()
    }
}

#[test]
fn borg_finds_nothing_changed_by_another_mount() {
    let day = day();
    let borg = Borg { day: &day };
    borg.run(Path::new("/"), &["init", "-e", "none"]).ok();
    let mounted = day.mount();
    assert_eq!(borg.changed("a", &mounted).len() as u64, CAPTURES);
    let mounted = mounted.again(&day.source(), "");
    assert_eq!(borg.changed("b", &mounted), [""; 0]);
    finish(&day);
    assert_eq!(borg.changed("c", &mounted), ["growing.pcap"]);

    let target = day.out().join("restored");
    fs::create_dir(&target).unwrap();
    borg.run(&target, &["extract", "::c"]).ok();
    let below = mounted.path().strip_prefix("/").unwrap();
    assert_equals_raw(&day, &target.join(below));
}

/// `rsync -a` into a folder; the names below the mount that it sent.
fn sent(mounted: &Mounted, day: &Day, options: &str) -> Vec<String> {
    let from = format!("{}/", mounted.path().display());
    let to = day.out().join("copy");
    let ran = run(tool("rsync").args([options, &from]).arg(to)).ok();
    let text = ran.text();
    // A line is what differs, a space and the name; that of a folder is no copy.
    let lines = text.lines().filter(|line| !line.ends_with('/'));
    let names = lines.map(|line| line.split_once(' ').unwrap().1.to_owned());
    names.collect()
}

#[test]
fn rsync_sends_what_has_grown_and_nothing_for_another_mount_or_a_rename() {
    let day = day();
    fs::create_dir(day.out().join("copy")).unwrap();
    let mounted = day.mount();
    assert_eq!(sent(&mounted, &day, "-ai").len() as u64, CAPTURES);
    assert_eq!(sent(&mounted, &day, "-ai"), [""; 0]);
    let mounted = mounted.again(&day.source(), "");
    assert_eq!(sent(&mounted, &day, "-ai"), [""; 0], "another mount");

    finish(&day);
    assert_eq!(sent(&mounted, &day, "-ai"), ["growing.pcap"]);
    assert_equals_raw(&day, &day.out().join("copy"));
    let mounted = mounted.again(&day.source(), "");
    assert_eq!(sent(&mounted, &day, "-ai"), [""; 0], "another mount");
    assert_eq!(sent(&mounted, &day, "-aci"), [""; 0], "by checksum");

    // Behind the last record of this one lies half of the next, which a final raw file would show; so it is cut off.
    let name = day.source().join("raw-growing.pcap.partial");
    let file = fs::File::options().write(true).open(name).unwrap();
    let written = file.metadata().unwrap().modified().unwrap();
    let whole = forms::wanted(&day, "raw-growing.pcap").len() as u64;
    file.set_len(whole).unwrap();
    file.set_modified(written).unwrap();
    rename(&day, "raw-growing.pcap");
    assert_eq!(sent(&mounted, &day, "-ai"), [""; 0], "the rename");
    let mounted = mounted.again(&day.source(), "");
    assert_eq!(sent(&mounted, &day, "-ai"), [""; 0], "another mount");
}
