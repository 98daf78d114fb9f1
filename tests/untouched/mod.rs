//! What the tests share: a day of all kinds of captures, and what they may ask of it.

mod asked;
mod read_only;
mod trace;

use std::fs::{self, File, FileTimes};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::common::day::Day;
use crate::common::frames::Marked;
use crate::common::pcap::{Magic, Pcap};
use crate::common::{assert_same, run, tool};
use crate::odd;

/// The captures that are sound and complete, or end at a whole frame.
const SOUND: [&str; 4] = ["final", "raw", "growing", "raw-growing"];

/// All forms, a capture with frames enough to be kept in the index, a folder, a link, and every odd input.
fn day() -> Day {
    let day = Day::new();
    let forms = [".pcap.zst", ".pcap", ".pcap.zst.partial", ".pcap.partial"];
    for ((seed, name), ending) in (1..).zip(SOUND).zip(forms) {
        let pcap = Pcap::random(Magic::LeUs, seed, 900);
        let physical = if ending.contains("zst") {
            let marked = Marked::pack(&pcap, 2000);
            assert!(marked.frames.len() >= 64, "enough for the index");
            marked.physical
        } else {
            pcap.bytes.clone()
        };
        day.add_as(name, ending, &physical, &pcap.bytes);
    }
    let odd_ones = day.source().join("odd");
    fs::create_dir(&odd_ones).unwrap();
    for odd in odd::table() {
        fs::write(odd_ones.join(&odd.file), &odd.bytes).unwrap();
    }
    symlink("final.pcap.zst", day.source().join("link.pcap.zst")).unwrap();
    for name in ["final.pcap.zst", "raw.pcap"] {
        let then = SystemTime::now() - Duration::from_hours(1);
        let file = File::options()
            .write(true)
            .open(day.source().join(name))
            .unwrap();
        file.set_times(FileTimes::new().set_modified(then)).unwrap();
    }
    day
}

/// Reads all that there is in a mount: listings, sizes, attributes by name, bytes by every way; and tries to write.
fn use_all(day: &Day, mnt: &Path) {
    for name in SOUND {
        let seen = fs::read(mnt.join(format!("{name}.pcap"))).unwrap();
        let raw = fs::read(day.raw().join(format!("{name}.pcap"))).unwrap();
        assert_same(&seen, &raw, name);
    }
    run(tool("find").arg(mnt).args(["-printf", "%p %s %i\\n"])).ok();
    // Damaged and refused ones fail; which does not matter here.
    run(tool("find")
        .arg(mnt)
        .args(["-type", "f", "-exec", "sha256sum", "{}", "+"]));
    run(tool("getfattr").args(["-R", "-d", "-m", "-"]).arg(mnt)).ok();
    for name in ["state", "file_id", "error", "frames"] {
        let name = format!("user.pcapzst.{name}");
        run(tool("getfattr").args(["-R", "-n", &name]).arg(mnt));
    }
    for writing in ["touch", "truncate -s 0", "rm -f", "chmod 777", "chown 1"] {
        let mut words = writing.split(' ');
        let mut command = tool(words.next().unwrap());
        run(command.args(words).arg(mnt.join("final.pcap"))).fails();
    }
    run(tool("mkdir").arg(mnt.join("new"))).fails();
    run(tool("cp")
        .arg(mnt.join("raw.pcap"))
        .arg(mnt.join("new.pcap")))
    .fails();
}
