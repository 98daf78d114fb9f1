//! Where a mount's log goes, and that nothing in it can be forged or fill the disk.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "a failed step of a test is a panic"
)]

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use common::apart::{LAY_DEV, Syslog, apart};
use common::day::{Day, scratch};
use common::mounted::{Mounted, guard, is_mounted};
use common::pcap::{Magic, Pcap};
use common::point::{Point, has_ended};
use common::{names, pcapzst, run, tool};
use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A day with a good capture, and one of another format, of which the log tells.
fn day() -> Day {
    let day = Day::with("a", &Pcap::random(Magic::LeUs, 600, 20));
    fs::write(day.source().join("bad.pcap.zst"), "words").unwrap();
    day
}

/// Mounts in the background with this log file; the mount's end is up to the caller.
fn mount_with(log: &Path, day: &Day) -> Point {
    let point = Point::new();
    let mut command = pcapzst();
    command.args(["mount", "-o", "no_index", "--log-file"]);
    let ran = run(command.arg(log).arg(day.source()).arg(point.path())).ok();
    assert_eq!((ran.text().as_str(), ran.stderr.as_str()), ("", ""));
    point
}

/// Looks at everything, unmounts, and waits for the program's end.
fn end(point: &Point) {
    let daemon = point.daemon();
    look_at_all(point.path());
    run(pcapzst().arg("umount").arg(point.path())).ok();
    assert!(has_ended(&daemon, 20_000), "the program still runs");
}

fn look_at_all(mnt: &Path) {
    for name in fs::read_dir(mnt).unwrap() {
        name.unwrap().metadata().unwrap();
    }
}

/// The lines of a log file without their times, which are checked.
fn lines(log: &Path) -> Vec<String> {
    let text = fs::read_to_string(log).unwrap();
    assert!(text.is_empty() || text.ends_with('\n'), "{text}");
    let without_time = |line: &str| {
        let (time, rest) = line.split_once(' ').unwrap();
        let form: String = time
            .chars()
            .map(|c| if c.is_ascii_digit() { '0' } else { c })
            .collect();
        assert_eq!(form, "0000-00-00T00:00:00.000Z", "{line}");
        assert!(time > "2020", "{line}");
        rest.to_owned()
    };
    text.lines().map(without_time).collect()
}

/// What a mount of `day()` on this point logs when everything is looked at.
fn story(day: &Day, point: &Path, end: &str) -> [String; 3] {
    [
        format!(
            "INFO serving {} at {} (pcapzst {})",
            day.source().display(),
            point.display(),
            env!("CARGO_PKG_VERSION")
        ),
        "WARN bad.pcap: refused: ".to_owned(),
        format!("INFO {} is unmounted: {end}", point.display()),
    ]
}

#[track_caller]
fn assert_tells(lines: &[String], story: &[String]) {
    assert_eq!(lines.len(), story.len(), "{lines:#?}");
    for (line, start) in lines.iter().zip(story) {
        assert!(line.starts_with(start), "{line}, wanted: {start}");
    }
}

#[test]
fn a_background_mount_logs_to_syslog() {
    let (day, point, syslog) = (day(), Point::new(), Syslog::new());
    let script = format!(
        r#"{LAY_DEV}
        trap 'umount -l "$3" || :' EXIT
        "$1" mount -o no_index "$2" "$3"
        ls -l "$3" >/dev/null
        ls -l "$3" >/dev/null"#
    );
    let mut command = apart(&script);
    command
        .env("DEV", syslog.path())
        .arg(env!("CARGO_BIN_EXE_pcapzst"))
        .args([day.source().as_path(), point.path()]);
    run(&mut command).ok();
    let lines = syslog.lines_to("is unmounted");
    let (start, _) = lines[0].split_once(": ").unwrap();
    let pid = start.strip_prefix("<30>pcapzst[").unwrap();
    let pid: u32 = pid.strip_suffix(']').unwrap().parse().unwrap();
    // Facility daemon, with the severity of an information or a warning.
    let story = story(&day, point.path(), "from outside").map(|line| {
        let (level, words) = line.split_once(' ').unwrap();
        let priority = if level == "WARN" { 28 } else { 30 };
        format!("<{priority}>pcapzst[{pid}]: {words}")
    });
    assert_tells(&lines, &story);
}

#[test]
fn a_logger_that_does_not_read_holds_up_nobody() {
    const CAPTURES: usize = 990;
    let (day, point, syslog) = (Day::new(), Point::new(), Syslog::new());
    for number in 0..CAPTURES {
        fs::write(day.source().join(format!("{number}.pcap.zst")), "words").unwrap();
    }
    let script = format!(
        r#"{LAY_DEV}
        trap 'umount -l "$3" || :' EXIT
        "$1" mount -o no_index "$2" "$3"
        ls -l "$3" | wc -l
        "$1" status "$3" | sed -n 's/^refused  *\([0-9]*\)$/\1/p'"#
    );
    let mut command = apart(&script);
    command
        .env("DEV", syslog.path())
        .arg(env!("CARGO_BIN_EXE_pcapzst"))
        .args([day.source().as_path(), point.path()]);
    let wanted = format!("{}\n{CAPTURES}\n", CAPTURES + 1);
    assert_eq!(run(&mut command).ok().text(), wanted);
    let came = syslog.lines_so_far();
    assert!(
        (2..CAPTURES).contains(&came),
        "{came} lines: the logger was never full"
    );
}

#[test]
fn a_log_file_holds_a_mounts_life_in_the_background() {
    let (day, folder) = (day(), scratch());
    let log = folder.path().join("log");
    let point = mount_with(&log, &day);
    end(&point);
    assert_tells(&lines(&log), &story(&day, point.path(), "from outside"));
    let mode = fs::metadata(&log).unwrap().permissions().mode();
    assert_eq!(mode & !0o640 & 0o777, 0, "{mode:o}");
}

#[test]
fn a_log_file_is_appended_to_and_may_be_cut() {
    let (day, folder) = (day(), scratch());
    let log = folder.path().join("log");
    fs::write(&log, "2026-01-01T00:00:00.000Z INFO older\n").unwrap();
    let point = mount_with(&log, &day);
    assert_eq!(lines(&log)[0], "INFO older");
    // As logrotate's copytruncate does.
    fs::write(&log, "").unwrap();
    end(&point);
    assert_tells(
        &lines(&log),
        &story(&day, point.path(), "from outside")[1..],
    );
}

#[test]
fn a_relative_log_file_is_where_the_command_was_given() {
    let (day, folder, point) = (day(), scratch(), Point::new());
    let mut command = pcapzst();
    command
        .current_dir(folder.path())
        .args(["mount", "-o", "log_file=log,no_index"])
        .arg(day.source())
        .arg(point.path());
    run(&mut command).ok();
    let daemon = point.daemons()[0];
    look_at_all(point.path());
    let process = point.daemon();
    kill(Pid::from_raw(daemon), Signal::SIGINT).unwrap();
    assert!(has_ended(&process, 20_000), "the program still runs");
    let log = folder.path().join("log");
    assert_tells(&lines(&log), &story(&day, point.path(), "SIGINT"));
}

#[test]
fn in_the_foreground_the_log_is_on_stderr_or_in_the_file() {
    let (day, folder) = (day(), scratch());
    let mounted = day.mount();
    let point = mounted.path().to_path_buf();
    look_at_all(&point);
    mounted.signal(Signal::SIGTERM);
    let said = mounted.wait().log;
    let serving = format!(
        "pcapzst: serving {} at {}",
        day.source().display(),
        point.display()
    );
    let said: Vec<_> = said.lines().map(str::to_owned).collect();
    let ended = format!("pcapzst: {} is unmounted: SIGTERM", point.display());
    assert_tells(
        &said,
        &[
            serving.clone(),
            "pcapzst: bad.pcap: refused: ".to_owned(),
            ended,
        ],
    );

    let log = folder.path().join("log");
    let mounted = Mounted::new(&day.source(), &format!("log_file={}", log.display()));
    let point = mounted.path().to_path_buf();
    look_at_all(&point);
    let said = mounted.unmount().log;
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.starts_with("pcapzst: serving "), "{said}");
    assert_tells(&lines(&log), &story(&day, &point, "from outside"));
}

#[test]
fn a_log_file_that_cannot_be_ends_the_mount_and_nothing_is_made() {
    let (day, folder, point) = (day(), scratch(), Point::new());
    let (source, mnt) = (day.source(), point.path().to_path_buf());
    let within = |name: &str| folder.path().join(name);
    symlink(source.join("log"), within("dangling")).unwrap();
    symlink(source.join("bad.pcap.zst"), within("link")).unwrap();
    // As somebody plants it in a folder of everybody's, with a file of the mounting user's behind it.
    fs::write(within("victim"), "words").unwrap();
    symlink(within("victim"), within("planted")).unwrap();
    symlink(&source, within("source")).unwrap();
    nix::unistd::mkfifo(&within("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    for (log, about) in [
        (source.join("log"), "lies in the source folder"),
        (within("source").join("log"), "lies in the source folder"),
        (within("link"), "symbolic links"),
        (within("planted"), "symbolic links"),
        (mnt.join("log"), "lies in the mount point"),
        (mnt.join("deep/log"), "No such file"),
        (within("dangling"), "symbolic links"),
        (within("none/log"), "No such file"),
        (within("none/../log"), "No such file"),
        (folder.path().to_path_buf(), "Is a directory"),
        (within("fifo"), "No such device"),
    ] {
        for start in [&["mount"][..], &["mount", "-f"]] {
            let mut command = pcapzst();
            command
                .args(start)
                .arg("--log-file")
                .arg(&log)
                .args([&source, &mnt]);
            let ran = run(&mut command).exits(1);
            let name = log.to_str().unwrap();
            assert!(
                ran.stderr.contains(name) && ran.stderr.contains(about),
                "{}",
                ran.stderr
            );
            assert!(!is_mounted(&mnt));
        }
    }
    assert_eq!(names(&source), [&b"a.pcap.zst"[..], b"bad.pcap.zst"]);
    assert_eq!(names(&mnt), Vec::<Vec<u8>>::new());
    assert_eq!(fs::read(source.join("bad.pcap.zst")).unwrap(), b"words");
    assert_eq!(fs::read(within("victim")).unwrap(), b"words");
    assert!(!within("log").exists());
}

#[test]
fn stderr_that_nobody_reads_holds_up_nobody() {
    const CAPTURES: usize = 200;
    let (day, point) = (Day::new(), Point::new());
    for number in 0..CAPTURES {
        fs::write(day.source().join(format!("{number}.pcap.zst")), "words").unwrap();
    }
    let mut command = pcapzst();
    command.args(["mount", "-f", "-o", "no_index"]);
    command.arg(day.source()).arg(point.path());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let pid = Pid::from_raw(child.id().try_into().unwrap());
    let _guard = guard(pid, point.path(), Duration::from_secs(30));
    let mut stderr = BufReader::with_capacity(1, child.stderr.take().unwrap());
    let mut told = String::new();
    stderr.read_line(&mut told).unwrap();
    assert!(told.starts_with("pcapzst: serving "), "{told}");
    // The least that a pipe can hold.
    fcntl(stderr.get_ref(), FcntlArg::F_SETPIPE_SZ(4096)).unwrap();
    run(tool("ls").arg("-l").arg(point.path())).ok();
    let status = run(pcapzst().args(["status", "--json"]).arg(point.path())).ok();
    assert_eq!(status.json()[0]["refused"], CAPTURES);
    let daemon = point.daemon();
    kill(pid, Signal::SIGTERM).unwrap();
    assert!(has_ended(&daemon, 20_000), "it waits for the reader");
    assert_eq!(child.wait().unwrap().code(), Some(0));
    stderr.read_to_string(&mut told).unwrap();
    let came = told.lines().count();
    assert!(
        (2..CAPTURES).contains(&came),
        "{came} lines: the pipe was never full"
    );
}

#[test]
fn a_captures_name_forges_no_line() {
    let (day, folder) = (Day::new(), scratch());
    let name = "a\n2026-01-01T00:00:00.000Z INFO forged\x1b[2J.pcap.zst";
    fs::write(day.source().join(name), "words").unwrap();
    let log = folder.path().join("log");
    let point = mount_with(&log, &day);
    end(&point);
    let found = lines(&log);
    assert_eq!(found.len(), 3, "{found:#?}");
    let shown = r"WARN a\n2026-01-01T00:00:00.000Z INFO forged\u{1b}[2J.pcap: refused: ";
    assert!(found[1].starts_with(shown), "{}", found[1]);
}

#[test]
fn thousands_of_bad_captures_do_not_fill_the_disk() {
    const CAPTURES: usize = 1300;
    let (day, folder) = (Day::new(), scratch());
    for number in 0..CAPTURES {
        fs::write(day.source().join(format!("{number}.pcap.zst")), "words").unwrap();
    }
    let log = folder.path().join("log");
    let point = mount_with(&log, &day);
    end(&point);
    let found = lines(&log);
    let faults = found
        .iter()
        .filter(|line| line.contains(": refused: "))
        .count();
    // A thousand at once, and one in ten seconds after that.
    assert!((1000..1020).contains(&faults), "{faults}");
    assert!(
        found
            .last()
            .unwrap()
            .ends_with(" is unmounted: from outside")
    );
}
