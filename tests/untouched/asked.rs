//! What a daemon, the commands and the C library ask of SOURCE.

use std::ffi::CString;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;
use std::ptr;

use pcapzst::capi::pcapzst_status::PCAPZST_OK;
use pcapzst::capi::*;

use super::trace::Trace;
use super::{day, use_all};
use crate::common::day::{Day, scratch};
use crate::common::frames::Marked;
use crate::common::mounted::Mounted;
use crate::common::pcap::{Magic, Pcap};
use crate::common::{assert_same, names, run, tool};

/// All that is in a folder, with what changes when somebody writes: names, modes, owners, times, links, and a sum.
fn fingerprint(folder: &Path) -> String {
    let listed = run(tool("find")
        .arg(folder)
        .args(["-printf", "%p %y %i %s %m %U %G %T@ %C@ %l\\n"]))
    .ok();
    let sums = run(tool("find")
        .arg(folder)
        .args(["-type", "f", "-exec", "sha256sum", "{}", "+"]))
    .ok();
    let mut lines: Vec<_> = [listed.text(), sums.text()]
        .iter()
        .flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    lines.sort();
    lines.join("\n")
}

/// A mount under strace in which a capture grows and is renamed besides all else; what was asked of SOURCE.
fn traced_mount(options: &str) {
    let day = day();
    let cache = scratch();
    let trace = Trace::new(&day.out());
    let mut command = trace.of(env!("CARGO_BIN_EXE_pcapzst"));
    command.env("XDG_CACHE_HOME", cache.path());
    let pcap = Pcap::random(Magic::LeUs, 9, 40);
    let marked = Marked::pack(&pcap, 2000);
    let (torn, rest) = marked.physical.split_at(marked.physical.len() - 9);
    let partial = day.source().join("live.pcap.zst.partial");
    fs::write(&partial, torn).unwrap();
    // The name has "index" in it, so that `Mounted` leaves the default index folder in use.
    let options = format!("fsname=default-index{options}");
    let mounted = Mounted::launch(command, &day.source(), &options);
    let live = mounted.join("live.pcap");
    let begun = fs::read(&live).unwrap();
    let before = fingerprint(&day.source());
    use_all(&day, mounted.path());
    assert_eq!(fingerprint(&day.source()), before, "the source changed");
    OpenOptions::new()
        .append(true)
        .open(&partial)
        .unwrap()
        .write_all(rest)
        .unwrap();
    assert!(fs::read(&live).unwrap().len() > begun.len());
    fs::rename(&partial, day.source().join("live.pcap.zst")).unwrap();
    assert_same(&fs::read(&live).unwrap(), &pcap.bytes, "renamed");
    let before = fingerprint(&day.source());
    mounted.unmount();
    assert_eq!(fingerprint(&day.source()), before, "the source changed");
    let asked = trace.only_reads(&day.source());
    assert!(asked.opens > 100, "{} opens", asked.opens);
    assert!(asked.calls > 2 * asked.opens, "{} calls", asked.calls);
    assert_eq!(
        asked.by_path, 0,
        "all but SOURCE itself is opened beneath it"
    );
    let kept = cache.path().join("pcapzst");
    assert!(!names(&kept).is_empty(), "the index was in use");
}

#[test]
fn a_daemon_only_reads_its_source_whatever_is_asked_of_it() {
    for options in ["", ",allow_other,all"] {
        traced_mount(options);
    }
}

/// Runs a command on what is in the day's source, and checks what it asked of it.
fn traced_command(day: &Day, arguments: &[&str]) {
    let trace = Trace::new(&day.out());
    let mut command = trace.of(env!("CARGO_BIN_EXE_pcapzst"));
    command.args(arguments).current_dir(day.out());
    let before = fingerprint(&day.source());
    run(&mut command);
    assert_eq!(
        fingerprint(&day.source()),
        before,
        "{arguments:?}: the source changed"
    );
    let asked = trace.only_reads(&day.source());
    assert!(asked.opens > 0, "{arguments:?}");
}

#[test]
fn inspect_verify_cat_and_a_pack_to_elsewhere_only_read() {
    let day = day();
    let source = day.source();
    let at = |name: &str| source.join(name).to_str().unwrap().to_owned();
    let odd_ones: Vec<String> = names(&source.join("odd"))
        .into_iter()
        .map(|name| at(&format!("odd/{}", String::from_utf8(name).unwrap())))
        .collect();
    let mut inspect = vec!["inspect", "--frames"];
    inspect.extend(odd_ones.iter().map(String::as_str));
    traced_command(&day, &inspect);
    traced_command(&day, &["verify", source.to_str().unwrap()]);
    for name in [
        "final.pcap.zst",
        "final.pcap",
        "raw.pcap",
        "growing.pcap",
        "link.pcap.zst",
    ] {
        traced_command(&day, &["cat", &at(name)]);
    }
    traced_command(&day, &["cat", "-f", &at("final.pcap.zst")]);
    let out = day.out().join("packed.pcap.zst");
    traced_command(
        &day,
        &["pack", &at("raw.pcap"), "-o", out.to_str().unwrap()],
    );
}

/// Set in the process that is looked at.
const INSIDE: &str = "PCAPZST_TRACED";

#[test]
fn the_c_librarys_readers_only_read() {
    if let Some(file) = std::env::var_os(INSIDE) {
        return read_with_the_c_library(Path::new(&file));
    }
    let day = day();
    let trace = Trace::new(&day.out());
    for name in ["final.pcap.zst", "growing.pcap.zst.partial"] {
        let mut command = trace.of(std::env::current_exe().unwrap());
        command.args([
            "--exact",
            "untouched::asked::the_c_librarys_readers_only_read",
        ]);
        let before = fingerprint(&day.source());
        let ran = run(command.env(INSIDE, day.source().join(name))).ok();
        assert!(ran.text().contains("1 passed"), "{}", ran.text());
        assert_eq!(fingerprint(&day.source()), before, "the source changed");
        let asked = trace.only_reads(&day.source());
        assert!(asked.opens > 0 && asked.calls > 10, "{name}");
    }
}

fn read_with_the_c_library(file: &Path) {
    let path = CString::new(file.as_os_str().as_bytes()).unwrap();
    let mut reader = ptr::null_mut();
    let mut buffer = vec![0_u8; 1 << 20];
    let mut got = 0;
    // SAFETY: the pointers are to what the functions ask for, and the reader is closed once.
    unsafe {
        let opened = pcapzst_open(path.as_ptr(), ptr::null(), &raw mut reader, ptr::null_mut());
        assert_eq!(opened, PCAPZST_OK);
        let len = buffer.len() as u64;
        let read = pcapzst_read(reader, 0, buffer.as_mut_ptr().cast(), len, &raw mut got);
        assert_eq!(read, PCAPZST_OK);
        pcapzst_close(reader);
    }
    assert!(got > 100_000);
}

#[test]
fn the_check_sees_a_program_that_writes() {
    let day = Day::with("a", &Pcap::random(Magic::LeUs, 1, 5));
    let file = day.source().join("a.pcap.zst");
    let path = file.to_str().unwrap().to_owned();
    for writing in [
        format!("echo >> {path}"),
        format!("touch {path}"),
        format!("chmod 600 {path}"),
        format!("mv {path} {path}.x; mv {path}.x {path}"),
        format!("setfattr -n user.x -v y {path}"),
        format!("cp {path} {path}.new"),
    ] {
        let trace = Trace::new(&day.out());
        let mut command: Command = trace.of("sh");
        run(command.args(["-c", &writing])).ok();
        let outcome = std::panic::catch_unwind(|| trace.only_reads(&day.source()).calls);
        assert!(outcome.is_err(), "{writing} passes for reading");
    }
}
