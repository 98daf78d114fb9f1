//! What is served from a mount to other machines: what all the clients look at, sftp, sshfs, and handles as NFS has them.
//! docs/SHARING.md says what holds.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;

use nix::errno::Errno;
use tempfile::TempDir;

use crate::common::day::{Day, scratch};
use crate::common::frames::{Marked, skippable, with_bad_checksum, zstd_frame};
use crate::common::mounted::{Mounted, free};
use crate::common::sys::Handle;
use crate::common::{Ran, assert_same, run, run_with_input, tool};
use crate::{forms, traffic};

/// A foreign file and one with a broken header frame beside the captures.
pub fn day() -> Day {
    let day = forms::day(&traffic::capture());
    let foreign = skippable(0, b"not of this format");
    fs::write(day.source().join("foreign.pcap.zst"), foreign).unwrap();
    let mut broken = Marked::new(&[]);
    broken.physical.truncate(14);
    broken.append(&with_bad_checksum(&zstd_frame(&[0; 24])));
    fs::write(day.source().join("broken.pcap.zst"), broken.physical).unwrap();
    day
}

/// Names and sizes in what a client printed of a folder. smbclient puts the size two words behind the name, sftp's
/// `ls -l` four words before it.
pub fn sizes(text: &str, size_from_name: isize) -> Vec<(String, u64)> {
    let size = |line: &str| {
        let words: Vec<_> = line.split_whitespace().collect();
        let name = words.iter().position(|word| word.contains(".pcap"))?;
        let size = words.get(name.checked_add_signed(size_from_name)?)?;
        Some((words[name].to_owned(), size.parse().ok()?))
    };
    text.lines().filter_map(size).collect()
}

/// What a listing must show of the whole day.
pub fn all_sizes(day: &Day) -> Vec<(String, u64)> {
    let size = |name: &str| (name.to_owned(), forms::wanted(day, name).len() as u64);
    let mut all: Vec<_> = forms::NAMES.map(size).into();
    all.extend([
        ("broken.pcap".to_owned(), 0),
        ("foreign.pcap".to_owned(), 0),
    ]);
    all.sort();
    all
}

/// The growing capture at its next step: the shell command that takes it there, and what is to be seen then.
pub fn growth(day: &Day) -> (String, Vec<u8>) {
    let pcap = traffic::capture();
    let (seen, physical) = forms::torn(&pcap, 5 * pcap.bytes.len() / 6);
    let partial = day.source().join("growing.pcap.zst.partial");
    let had = fs::metadata(&partial).unwrap().len();
    let next = day.path().join("next");
    fs::write(&next, physical).unwrap();
    // What is there already ends in half a frame, which goes on.
    let step = format!(
        "tail -c +{} {} >> {}",
        had + 1,
        next.display(),
        partial.display()
    );
    (step, seen)
}

pub fn assert_fetched(here: &Path, name: &str, wanted: &[u8]) {
    assert_same(&fs::read(here.join(name)).unwrap(), wanted, name);
}

/// Commands for sftp, which stops at the first that fails unless it begins with a dash.
fn sftp(here: &Path, mounted: &Mounted, commands: &str) -> Ran {
    let batch = here.join("batch");
    fs::write(
        &batch,
        format!("cd {}\n{commands}", mounted.path().display()),
    )
    .unwrap();
    let mut client = tool("sftp");
    client.arg("-D").arg(tool("sftp-server").get_program());
    run_with_input(
        client.args(["-b", "batch"]).current_dir(here),
        Stdio::null(),
    )
}

#[test]
fn an_sftp_client_gets_every_byte_and_goes_on_with_what_has_grown() {
    let day = day();
    let mounted = day.mount();
    let here = scratch();
    let listed = sftp(here.path(), &mounted, "ls -l\n").ok();
    assert_eq!(sizes(&listed.text(), -4), all_sizes(&day));
    sftp(here.path(), &mounted, "get *w*.pcap\nget compressed.pcap\n").ok();
    for name in forms::NAMES {
        assert_fetched(here.path(), name, &forms::wanted(&day, name));
    }
    let (step, seen) = growth(&day);
    let commands =
        format!("ls -l growing.pcap\n!{step}\nget growing.pcap new\nget -a growing.pcap\n");
    let ran = sftp(here.path(), &mounted, &commands).ok();
    assert_eq!(sizes(&ran.text(), -4).len(), 1);
    assert_fetched(here.path(), "new", &seen);
    assert_fetched(here.path(), "growing.pcap", &seen);
    for name in ["foreign.pcap", "broken.pcap"] {
        let ran = sftp(here.path(), &mounted, &format!("get {name}\n")).fails();
        assert!(ran.stderr.contains("Failure"), "{}", ran.stderr);
    }
}

/// A mount by sshfs over sftp, without ssh between the two.
struct Sshfs(TempDir);

impl Sshfs {
    fn mount(mounted: &Mounted, options: &str) -> Self {
        let server = scratch();
        let command = server.path().join("server");
        let program = tool("sftp-server").get_program().to_owned();
        fs::write(&command, format!("#!/bin/sh\nexec {}\n", program.display())).unwrap();
        fs::set_permissions(&command, PermissionsExt::from_mode(0o755)).unwrap();
        let sshfs = Self(scratch());
        let mut client = tool("sshfs");
        client
            .args([
                "-o",
                &format!("ro,{options},ssh_command={}", command.display()),
            ])
            .arg(format!("here:{}", mounted.path().display()))
            .arg(sshfs.0.path());
        run(&mut client).ok();
        sshfs
    }
}

impl Drop for Sshfs {
    fn drop(&mut self) {
        free(self.0.path());
    }
}

#[test]
fn sshfs_shows_what_has_grown_to_old_and_new_handles_when_told_to_keep_nothing() {
    let day = day();
    let mounted = day.mount();
    let sshfs = Sshfs::mount(&mounted, "dir_cache=no,attr_timeout=0,direct_io");
    let there = sshfs.0.path();
    for name in forms::NAMES {
        assert_fetched(there, name, &forms::wanted(&day, name));
    }
    let mut held = fs::File::open(there.join("growing.pcap")).unwrap();
    let mut bytes = Vec::new();
    held.read_to_end(&mut bytes).unwrap();
    assert_same(&bytes, &forms::wanted(&day, "growing.pcap"), "before");
    let (step, seen) = growth(&day);
    run(tool("sh").args(["-c", &step])).ok();
    let size = fs::metadata(there.join("growing.pcap")).unwrap().len();
    assert_eq!(size, seen.len() as u64);
    held.read_to_end(&mut bytes).unwrap();
    assert_same(&bytes, &seen, "the handle that was open");
    assert_fetched(there, "growing.pcap", &seen);
    // What sftp calls "Failure".
    let refused = fs::read(there.join("foreign.pcap")).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(Errno::EPERM as i32));
}

/// The system calls are those that the kernel's NFS server works by.
#[test]
fn a_handle_as_nfs_clients_have_it_is_stale_once_the_kernel_has_forgotten_the_file() {
    let day = day();
    let mounted = day.mount();
    let mut handle = Handle::of(&mounted.join("compressed.pcap")).unwrap();
    let mut read = |mounted: &Mounted| {
        let root = fs::File::open(mounted.path()).unwrap();
        let mut bytes = Vec::new();
        let mut file = handle
            .open(&root)
            .map_err(|error| error.raw_os_error().unwrap())?;
        file.read_to_end(&mut bytes).unwrap();
        Ok(bytes)
    };
    let wanted = forms::wanted(&day, "compressed.pcap");
    assert_same(&read(&mounted).unwrap(), &wanted, "known to the kernel");
    let mounted = mounted.again(&day.source(), "");
    assert_eq!(read(&mounted), Err(Errno::ESTALE as i32), "a new mount");
    // The number is the same, so it is good again as soon as somebody has looked the name up.
    fs::metadata(mounted.join("compressed.pcap")).unwrap();
    assert_same(&read(&mounted).unwrap(), &wanted, "looked up");
}
