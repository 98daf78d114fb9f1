//! `pack` on a pipe that somebody still writes to: locks, signals and what is left.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "a failed step of a test is a panic"
)]

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use common::day::scratch;
use common::live::{Live, decoded};
use common::pcap::{Magic, Pcap};
use common::user::{as_user, program_in, set_mode};
use common::{assert_same, names, pcapzst, run, run_with_input, tool};
use nix::sys::signal::{Signal, kill};

/// A pipe holds this much (pipe(7)); what is written beyond it has been taken out by the reader, who may hold as much
/// again that it has not looked at yet.
const PIPE: usize = 65_536;

fn out_in(folder: &Path) -> PathBuf {
    folder.join("live.pcap.zst")
}

#[test]
fn a_second_writer_is_told_that_the_file_is_busy() {
    let folder = scratch();
    let out = out_in(folder.path());
    let pcap = Pcap::of_size(Magic::LeUs, 700, 4 << 20);
    let mut live = Live::start(&out);
    live.feed(&pcap.bytes[..2 << 20]);
    assert_eq!(names(folder.path()), [b"live.pcap.zst.partial"]);

    let other = folder.path().join("other.pcap");
    fs::write(&other, &pcap.bytes).unwrap();
    let busy = run(pcapzst().arg("pack").arg(&other).arg("-o").arg(&out)).exits(6);
    assert!(busy.stderr.contains("live.pcap.zst"), "{}", busy.stderr);
    run(pcapzst()
        .args(["pack", "--force"])
        .arg(&other)
        .arg("-o")
        .arg(&out))
    .exits(6);

    live.feed(&pcap.bytes[2 << 20..]);
    drop(live.stdin.take());
    assert_eq!(live.end(), Some(0));
    assert_same(&decoded(&out), &pcap.bytes, "the first writer's capture");
    assert_eq!(names(folder.path()), [&b"live.pcap.zst"[..], b"other.pcap"]);
}

#[test]
fn a_partial_file_that_was_replaced_is_not_renamed() {
    let folder = scratch();
    let out = out_in(folder.path());
    let partial = folder.path().join("live.pcap.zst.partial");
    let pcap = Pcap::of_size(Magic::LeUs, 706, 2 << 20);
    let mut live = Live::start(&out);
    live.feed(&pcap.bytes);
    fs::rename(&partial, folder.path().join("aside")).unwrap();
    fs::write(&partial, b"another's").unwrap();
    drop(live.stdin.take());
    assert_eq!(live.end(), Some(1));
    assert_eq!(fs::read(&partial).unwrap(), b"another's");
    assert_eq!(
        names(folder.path()),
        [&b"aside"[..], b"live.pcap.zst.partial"]
    );
    let aside = decoded(&folder.path().join("aside"));
    assert_same(&aside, &pcap.bytes, "what was written is all there");
}

#[test]
fn a_signal_finishes_the_file_with_whole_records() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let folder = scratch();
        let out = out_in(folder.path());
        let pcap = Pcap::of_size(Magic::BeUs, 701, 3 << 20);
        let mut live = Live::start(&out);
        live.feed(&pcap.bytes[..pcap.bytes.len() - 5]);
        kill(live.pid(), signal).unwrap();
        assert_eq!(live.end(), Some(0), "{signal} falls within a record");
        assert_eq!(names(folder.path()), [b"live.pcap.zst"], "{signal}");
        let got = decoded(&out);
        assert!(
            pcap.ends.binary_search(&got.len()).is_ok(),
            "{signal}: half a record"
        );
        assert!(
            got.len() >= pcap.bytes.len() - 3 * PIPE,
            "{signal}: only {} bytes",
            got.len()
        );
        assert_same(
            &got,
            &pcap.bytes[..got.len()],
            "what was read before the signal",
        );
    }
}

#[test]
fn a_slow_writer_loses_nothing_of_a_stream_that_ends_after_the_signal() {
    const FRAME: usize = 2 << 20;
    let folder = scratch();
    let out = out_in(folder.path());
    let pcap = Pcap::of_size(Magic::LeUs, 708, 4 * FRAME);
    let mut command = pcapzst();
    // Each frame takes more than the half second for which a silent stream is waited for.
    command.args(["pack", "--level", "22", "--flush-ms", "3600000"]);
    command.args(["--frame-target", &FRAME.to_string(), "-", "-o"]);
    let mut live = Live::spawn(command.arg(&out).stderr(Stdio::piped()));
    live.feed(&pcap.bytes[..FRAME]);
    kill(live.pid(), Signal::SIGTERM).unwrap();
    live.feed(&pcap.bytes[FRAME..]);
    drop(live.stdin.take());
    let code = live.end();
    let mut said = String::new();
    let mut stderr = live.child.stderr.take().unwrap();
    stderr.read_to_string(&mut said).unwrap();
    assert_eq!((code, said.lines().count()), (Some(0), 1), "{said}");
    assert_same(&decoded(&out), &pcap.bytes, "all that was written");
}

#[test]
fn a_stream_that_goes_on_after_the_signal_is_left_and_that_is_said() {
    let folder = scratch();
    let out = out_in(folder.path());
    let pcap = Pcap::of_size(Magic::LeUs, 709, 1 << 20);
    let mut command = pcapzst();
    command.args(["pack", "-", "-o"]).arg(&out);
    let mut live = Live::spawn(command.stderr(Stdio::piped()));
    live.feed(&pcap.bytes);
    kill(live.pid(), Signal::SIGINT).unwrap();
    // It ends only by the pipe that nobody reads any more.
    let mut stdin = live.stdin.take().unwrap();
    while stdin.write_all(&pcap.bytes[24..]).is_ok() {}
    assert_eq!(live.end(), Some(0));
    let mut said = String::new();
    let mut stderr = live.child.stderr.take().unwrap();
    stderr.read_to_string(&mut said).unwrap();
    assert!(said.contains("-: went on after the signal; "), "{said}");
    let got = decoded(&out);
    assert!(got.len() > 16 << 20, "only {} bytes", got.len());
    let (first, behind) = got.split_at(pcap.bytes.len());
    assert_same(first, &pcap.bytes, "before the signal");
    for again in behind.chunks(pcap.bytes.len() - 24) {
        assert_same(again, &pcap.bytes[24..][..again.len()], "and behind it");
    }
}

#[test]
fn a_killed_writer_leaves_whole_frames_under_the_partial_name() {
    let folder = scratch();
    let out = out_in(folder.path());
    let pcap = Pcap::of_size(Magic::LeUs, 702, 3 << 20);
    let mut live = Live::start(&out);
    live.feed(&pcap.bytes);
    live.child.kill().unwrap();
    live.end();
    assert_eq!(names(folder.path()), [b"live.pcap.zst.partial"]);
    let partial = folder.path().join("live.pcap.zst.partial");
    let report = run(pcapzst().args(["inspect", "--json"]).arg(&partial))
        .exits(5)
        .json()
        .remove(0);
    let size = usize::try_from(report["source_size"].as_u64().unwrap()).unwrap();
    assert!(size > 1 << 20, "only {size} bytes are on disk");
    let length = size.to_string();
    let got = run(pcapzst().args(["cat", "--length", &length]).arg(&partial));
    assert_same(&got.stdout, &pcap.bytes[..size], "the whole frames");

    // The dead writer's lock is gone with it.
    let other = folder.path().join("other.pcap");
    fs::write(&other, &pcap.bytes).unwrap();
    run(pcapzst()
        .args(["pack", "--force"])
        .arg(&other)
        .arg("-o")
        .arg(&out))
    .ok();
    assert_same(&decoded(&out), &pcap.bytes, "packed again");
}

#[test]
fn standard_input_that_cannot_be_read_is_named_and_nothing_is_left() {
    let folder = scratch();
    let out = out_in(folder.path());
    let mut command = pcapzst();
    command.args(["pack", "-", "-o"]).arg(&out);
    let unreadable = std::fs::File::open(folder.path()).unwrap();
    let ran = run_with_input(&mut command, unreadable.into()).exits(1);
    assert_eq!(
        ran.stderr,
        "pcapzst: -: reading: Is a directory (os error 21)\n"
    );
    assert_eq!(names(folder.path()), Vec::<Vec<u8>>::new());
}

#[test]
fn an_empty_pipe_leaves_no_final_name() {
    let folder = scratch();
    let out = out_in(folder.path());
    let mut live = Live::start(&out);
    drop(live.stdin.take());
    let code = live.end();
    assert!(code.is_some_and(|code| code != 0), "{code:?}");
    assert!(!out.exists());
}

#[test]
fn a_stream_without_a_header_leaves_nothing_in_the_way_of_the_next_run() {
    let pcap = Pcap::random(Magic::LeUs, 703, 100);
    for len in [0, 10] {
        let folder = scratch();
        let out = out_in(folder.path());
        let mut live = Live::start(&out);
        live.feed(&pcap.bytes[..len]);
        drop(live.stdin.take());
        assert_eq!(live.end(), Some(3), "{len} bytes");
        assert_eq!(names(folder.path()), Vec::<Vec<u8>>::new(), "{len} bytes");

        let mut live = Live::start(&out);
        live.feed(&pcap.bytes);
        drop(live.stdin.take());
        assert_eq!(live.end(), Some(0), "after {len} bytes");
        assert_same(&decoded(&out), &pcap.bytes, "the next run");
    }
}

/// Packs these files into a folder and sends a signal once so many of them are done: the exit code, and all it said.
fn stopped_after(done: usize, signal: Signal, inputs: &[PathBuf], out: &Path) -> (i32, String) {
    let mut command = pcapzst();
    command.args(["pack", "--level", "19"]).args(inputs);
    command.arg("-o").arg(out).stderr(Stdio::piped());
    let mut live = Live::spawn(&mut command);
    let mut stderr = BufReader::new(live.child.stderr.take().unwrap());
    let mut said = String::new();
    for _ in 0..done {
        assert_ne!(stderr.read_line(&mut said).unwrap(), 0, "{said}");
    }
    kill(live.pid(), signal).unwrap();
    let code = live.end().unwrap();
    stderr.read_to_string(&mut said).unwrap();
    (code, said)
}

#[test]
fn a_signal_gives_up_a_file_and_begins_no_further_one() {
    let small = Pcap::of_size(Magic::LeUs, 704, 1 << 20);
    // At this level it takes many seconds.
    let large = [small.header(), &small.bytes[24..].repeat(24)].concat();
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let folder = scratch();
        let out = folder.path().join("out");
        fs::create_dir(&out).unwrap();
        let inputs = ["a.pcap", "b.pcap", "c.pcap"].map(|name| folder.path().join(name));
        fs::write(&inputs[0], &small.bytes[..small.ends[9]]).unwrap();
        fs::write(&inputs[1], &large).unwrap();
        fs::write(&inputs[2], &small.bytes).unwrap();
        let (code, said) = stopped_after(1, signal, &inputs, &out);
        assert_eq!(code, 1, "{said}");
        assert!(
            said.contains("b.pcap") && !said.contains("c.pcap"),
            "{said}"
        );
        assert_eq!(names(&out), [b"a.pcap.zst"], "{signal}");
    }
}

#[test]
fn a_signal_between_small_files_ends_the_command_too() {
    const FILES: usize = 400;
    let folder = scratch();
    let pcap = Pcap::random(Magic::LeUs, 705, 4);
    let inputs: Vec<_> = (0..FILES)
        .map(|number| folder.path().join(format!("{number:03}.pcap")))
        .collect();
    for input in &inputs {
        fs::write(input, &pcap.bytes).unwrap();
    }
    for done in [1, 2, 5, 13] {
        let out = folder.path().join(format!("out-{done}"));
        fs::create_dir(&out).unwrap();
        let (code, said) = stopped_after(done, Signal::SIGTERM, &inputs, &out);
        assert_eq!(code, 1, "{said}");
        let made = names(&out);
        assert!((done..FILES).contains(&made.len()), "{} made", made.len());
        assert!(made.iter().all(|name| name.ends_with(b".pcap.zst")));
        let stops = said.lines().filter(|line| line.contains("signal")).count();
        assert_eq!((stops, said.lines().count()), (1, made.len() + 1), "{said}");
    }
}

#[test]
fn where_no_thread_can_be_had_that_is_said_and_nothing_is_left() {
    // Nobody's number, so that only what is started here counts.
    let user = 1_000_000 + std::process::id();
    let pcap = Pcap::random(Magic::LeUs, 707, 100);
    let programs = scratch();
    set_mode(programs.path(), 0o755);
    let program = program_in(programs.path());
    let folder = scratch();
    set_mode(folder.path(), 0o777);
    let input = folder.path().join("a.pcap");
    fs::write(&input, &pcap.bytes).unwrap();
    set_mode(&input, 0o644);
    let limit = tool("prlimit").get_program().to_owned();
    // The program itself, who waits for signals, who reads.
    for (threads, code) in [(1, 1), (2, 1), (3, 0)] {
        for input in [Path::new("-"), &input] {
            let mut command = as_user(user, &[]);
            command
                .arg(&limit)
                .arg(format!("--nproc={threads}"))
                .arg("--");
            command.arg(&program).arg("pack").arg(input).arg("-o");
            command.arg(out_in(folder.path()));
            let stdin = fs::File::open(folder.path().join("a.pcap")).unwrap();
            let ran = run_with_input(&mut command, stdin.into()).exits(code);
            let is_told = ran.stderr.contains("starting a thread: Resource temp");
            assert_eq!(is_told, code == 1, "{}", ran.stderr);
            if code == 0 {
                assert_same(&decoded(&out_in(folder.path())), &pcap.bytes, "packed");
                fs::remove_file(out_in(folder.path())).unwrap();
            }
            assert_eq!(names(folder.path()), [b"a.pcap"], "{threads} threads");
        }
    }
}
