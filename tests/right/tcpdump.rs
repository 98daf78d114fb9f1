//! tcpdump as root, which becomes the user `tcpdump` once its first file is open.

use std::fs;

use super::{open_to_all, put};
use crate::common::mounted::Mounted;
use crate::common::{Ran, run, tool};

/// `tcpdump` as root: what it prints for one capture, or for a list of two, with these options.
fn dump(mounted: &Mounted, how: &[&str]) -> Ran {
    let mut command = tool("tcpdump");
    command.args(["-n", "-q"]).args(how);
    run(command.current_dir(mounted.path()))
}

#[test]
fn roots_tcpdump_reads_a_second_file_with_its_user_name_kept_or_in_a_mount_for_all() {
    let (folder, source, _) = open_to_all();
    let packets: usize = [("a.pcap.zst", 70), ("b.pcap.zst", 71)]
        .map(|(name, seed)| put(&source.join(name), seed, 0o644).records())
        .iter()
        .sum();
    let list = folder.path().join("list");
    fs::write(&list, "a.pcap\nb.pcap\n").unwrap();
    let list = list.to_str().unwrap();
    let lines = |ran: &Ran| ran.text().lines().count();

    // For root alone: the first file is open before root is given up, the second is not.
    let mounted = Mounted::new(&source, "");
    let one = dump(&mounted, &["-r", "a.pcap"]).ok();
    assert_eq!(lines(&one), packets / 2);
    let two = dump(&mounted, &["-V", list]).fails();
    assert!(two.stderr.contains("Permission denied"), "{}", two.stderr);
    assert!(two.stderr.contains("b.pcap"), "{}", two.stderr);
    assert_eq!(lines(&two), packets / 2);
    let kept = dump(&mounted, &["-Z", "root", "-V", list]).ok();
    assert_eq!(lines(&kept), packets);
    mounted.unmount();

    // For all: the user `tcpdump` may read what everybody may.
    let mounted = Mounted::new(&source, "allow_other");
    assert_eq!(lines(&dump(&mounted, &["-V", list]).ok()), packets);
    mounted.unmount();

    // And nothing else, which only root's name helps against.
    put(&source.join("b.pcap.zst"), 71, 0o600);
    let mounted = Mounted::new(&source, "allow_other");
    let two = dump(&mounted, &["-V", list]).fails();
    assert!(two.stderr.contains("Permission denied"), "{}", two.stderr);
    let kept = dump(&mounted, &["-Z", "root", "-V", list]).ok();
    assert_eq!(lines(&kept), packets);
}
