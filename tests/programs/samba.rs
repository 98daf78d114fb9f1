//! An SMB client gets of a mount, through Samba, what programs get here. The section of smb.conf is the one that
//! docs/SHARING.md shows. Needs root: smbd becomes the user it serves.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::common::day::scratch;
use crate::common::frames::Marked;
use crate::common::mounted::Mounted;
use crate::common::{Ran, run_with_input, tool, watch};
use crate::shares::{all_sizes, assert_fetched, day, growth, sizes};
use crate::{forms, traffic};

/// The section that docs/SHARING.md shows, for this mount.
fn section(mounted: &Mounted) -> String {
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/SHARING.md")).unwrap();
    let (_, rest) = page.split_once("```ini\n").unwrap();
    let (section, _) = rest.split_once("```").unwrap();
    let path = format!("path = {}\n", mounted.path().display());
    assert!(section.contains("path = /mnt/captures\n"));
    section.replace("path = /mnt/captures\n", &path)
}

/// smbd on the loopback interface, with all it keeps in a folder of its own.
struct Samba {
    smbd: Child,
    port: String,
    folder: TempDir,
}

impl Samba {
    fn serve(section: &str) -> Self {
        let folder = scratch();
        let here = folder.path().display();
        // Free a moment ago; who takes it before smbd does makes the test fail, not lie.
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let config = format!(
            "[global]\nserver role = standalone server\ninterfaces = 127.0.0.1\nbind interfaces only = yes\n\
             smb ports = {port}\nsmb2 leases = no\nmap to guest = Bad User\nguest account = nobody\n\
             load printers = no\ndisable spoolss = yes\nlog file = {here}/log\nncalrpc dir = {here}/ncalrpc\n\
             private dir = {here}\nstate directory = {here}\ncache directory = {here}\n\
             lock directory = {here}\npid directory = {here}\n"
        );
        fs::write(folder.path().join("smb.conf"), config + section).unwrap();
        // It ends with the test, however that ends.
        let mut smbd = tool("setpriv");
        smbd.args(["--pdeathsig", "TERM"])
            .arg(tool("smbd").get_program())
            .args(["--foreground", "--debug-stdout", "-s"])
            .arg(folder.path().join("smb.conf"))
            .stdin(Stdio::null())
            .stdout(fs::File::create(folder.path().join("said")).unwrap())
            .stderr(Stdio::null());
        let mut samba = Self {
            smbd: smbd.spawn().unwrap(),
            port: port.to_string(),
            folder,
        };
        samba.await_port(port);
        samba
    }

    /// Waits until smbd takes connections; it gives no other sign.
    fn await_port(&mut self, port: u16) {
        let late = Instant::now() + Duration::from_secs(30);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let ended = self.smbd.try_wait().unwrap();
            let said = fs::read_to_string(self.folder.path().join("said")).unwrap();
            assert!(ended.is_none() && Instant::now() < late, "no smbd: {said}");
            thread::yield_now();
        }
    }

    /// One session of a guest, with these commands, one a line; one that begins with `!` is the shell's.
    fn session(&self, here: &Path, commands: &str) -> Ran {
        fs::write(here.join("commands"), commands).unwrap();
        let commands = fs::File::open(here.join("commands")).unwrap();
        let mut client = tool("smbclient");
        client
            .args(["//127.0.0.1/captures", "--no-pass", "-p", &self.port, "-s"])
            .arg(self.folder.path().join("smb.conf"))
            .current_dir(here);
        run_with_input(&mut client, commands.into())
    }
}

impl Drop for Samba {
    fn drop(&mut self) {
        let pid = Pid::from_raw(self.smbd.id().try_into().unwrap());
        // An error means that it has ended already.
        let _ = kill(pid, Signal::SIGTERM);
        watch(pid, Duration::from_secs(20), || ());
        let _ = self.smbd.wait();
    }
}

#[test]
fn an_smb_client_lists_true_sizes_and_gets_every_byte() {
    let day = day();
    fs::create_dir(day.source().join("2026-07-14")).unwrap();
    fs::create_dir(day.raw().join("2026-07-14")).unwrap();
    let pcap = traffic::capture();
    let packed = Marked::pack(&pcap, 9000).physical;
    day.add_as("2026-07-14/deep", ".pcap.zst", &packed, &pcap.bytes);
    let mounted = Mounted::new(&day.source(), "allow_other");
    let samba = Samba::serve(&section(&mounted));
    let here = scratch();
    let listed = samba.session(here.path(), "ls").ok();
    assert_eq!(sizes(&listed.text(), 2), all_sizes(&day));
    let fetch = "recurse ON\nprompt OFF\nmget 2026-07-14 raw*.pcap gr*.pcap\nget COMPRESSED.PCAP\n";
    samba.session(here.path(), fetch).ok();
    for name in [
        "growing.pcap",
        "raw-growing.pcap",
        "raw.pcap",
        "2026-07-14/deep.pcap",
    ] {
        assert_fetched(here.path(), name, &forms::wanted(&day, name));
    }
    assert_fetched(here.path(), "COMPRESSED.PCAP", &pcap.bytes);
    drop(samba);
    // Neither smbd refuses now nor the permissions: the mount does.
    let open = section(&mounted).replace("read only = yes", "read only = no");
    let samba = Samba::serve(&(open + "    force user = root\n"));
    fs::write(here.path().join("new"), b"x").unwrap();
    for write in [
        "put new new.pcap",
        "del raw.pcap",
        "rename raw.pcap r.pcap",
        "mkdir new",
    ] {
        let ran = samba.session(here.path(), write);
        let text = ran.text() + &ran.stderr;
        assert!(
            text.contains("NT_STATUS_MEDIA_WRITE_PROTECTED"),
            "{write}: {text}"
        );
    }
    assert_eq!(fs::read_dir(day.source()).unwrap().count(), 7);
}

#[test]
fn an_smb_client_gets_a_capture_as_far_as_it_has_grown_since_the_listing() {
    let day = day();
    let mounted = Mounted::new(&day.source(), "allow_other");
    let samba = Samba::serve(&section(&mounted));
    let here = scratch();
    let (step, seen) = growth(&day);
    let source = day.source();
    let rename = format!(
        "mv {0}/growing.pcap.zst.partial {0}/growing.pcap.zst",
        source.display()
    );
    let ls = "ls growing.pcap";
    let session =
        format!("{ls}\n!{step}\nget growing.pcap 1\n{ls}\n!{rename}\nget growing.pcap 2\n{ls}\n");
    let ran = samba.session(here.path(), &session).ok();
    let before = forms::wanted(&day, "growing.pcap").len();
    let listed = sizes(&ran.text(), 2).into_iter().map(|(_, size)| size);
    let sizes = [before, seen.len(), seen.len()].map(|size| size as u64);
    assert!(sizes[0] < sizes[1]);
    assert_eq!(listed.collect::<Vec<_>>(), sizes);
    assert_fetched(here.path(), "1", &seen);
    assert_fetched(here.path(), "2", &seen);
}

#[test]
fn an_smb_client_is_told_that_a_refused_capture_cannot_be_opened() {
    let day = day();
    let mounted = Mounted::new(&day.source(), "allow_other");
    let samba = Samba::serve(&section(&mounted));
    let here = scratch();
    for (name, status) in [
        ("foreign.pcap", "NT_STATUS_NOT_SUPPORTED"),
        ("broken.pcap", "NT_STATUS_IO_DEVICE_ERROR"),
    ] {
        let ran = samba.session(here.path(), &format!("get {name}"));
        let text = ran.text() + &ran.stderr;
        assert!(text.contains(status), "{name}: {text}");
        assert!(!here.path().join(name).exists(), "{name}");
    }
    samba.session(here.path(), "get raw.pcap").ok();
}

#[test]
fn smb_without_allow_other_is_for_the_user_who_mounted() {
    let day = day();
    let mounted = Mounted::new(&day.source(), "");
    let here = scratch();
    let samba = Samba::serve(&section(&mounted));
    let refused = samba.session(here.path(), "ls");
    let text = refused.text() + &refused.stderr;
    assert!(text.contains("NT_STATUS_ACCESS_DENIED"), "{text}");
    assert_eq!(sizes(&text, 2), []);
    drop(samba);
    let samba = Samba::serve(&(section(&mounted) + "    force user = root\n"));
    let listed = samba.session(here.path(), "ls").ok();
    assert_eq!(sizes(&listed.text(), 2), all_sizes(&day));
}
