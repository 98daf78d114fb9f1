//! S49.

use std::fs;
use std::io::Write;
use std::process::{Child, Stdio};

use super::capture;
use crate::common::day::scratch;
use crate::common::pcap::{Magic, Pcap};
use crate::common::{pcapzst, run};

/// A writer that waits for more; killed in the end.
struct Writing(Child);

impl Drop for Writing {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn of_several_files_the_worst_exit_code_wins() {
    let folder = scratch();
    let out = folder.path().join("out");
    fs::create_dir(&out).unwrap();
    let (pcap, _) = capture(61);
    let mut too_long = Pcap::with(Magic::LeUs, 4, 1600, 1);
    too_long.push(1, 1, 1700, &[1; 1700]);
    let inputs: [(&str, &[u8], i32); 6] = [
        ("exists.pcap", &pcap.bytes, 1),
        ("busy.pcap", &pcap.bytes, 6),
        ("bad.pcap", &too_long.bytes, 4),
        ("text.pcap", b"these are words, and no packets", 3),
        ("cut.pcap", &pcap.bytes[..pcap.bytes.len() - 1], 5),
        ("good.pcap", &pcap.bytes, 0),
    ];
    for (name, bytes, _) in inputs {
        fs::write(folder.path().join(name), bytes).unwrap();
    }
    fs::write(out.join("exists.pcap.zst"), "kept").unwrap();
    let mut live = pcapzst();
    live.args(["pack", "-", "-o"])
        .arg(out.join("busy.pcap.zst"));
    live.stdin(Stdio::piped()).stderr(Stdio::null());
    let mut live = Writing(live.spawn().unwrap());
    // More than a pipe holds: once it is written, the writer has begun.
    let mut stdin = live.0.stdin.take().unwrap();
    stdin.write_all(&pcap.bytes).unwrap();
    let more = Pcap::of_size(Magic::LeUs, 61, 300_000).bytes;
    stdin.write_all(&more[pcap.bytes.len()..]).unwrap();

    let pack = |names: &[&str], code: i32| {
        let paths = names.iter().map(|name| folder.path().join(name));
        run(pcapzst().arg("pack").args(paths).arg("-o").arg(&out)).exits(code);
        let made = out.join("good.pcap.zst");
        if made.exists() {
            fs::remove_file(made).unwrap();
        }
    };
    for (number, (worse, _, code)) in inputs.iter().enumerate() {
        for (other, _, _) in &inputs[number + 1..] {
            pack(&[worse, other], *code);
            pack(&[other, worse], *code);
        }
    }
    let all = inputs.map(|(name, _, _)| name);
    pack(&all, 1);
    pack(&all[1..], 6);
    // A usage error that shows only at an input: standard input has no name to go to a folder under.
    for other in &all[..5] {
        let paths = [folder.path().join(other), "-".into()];
        run(pcapzst().arg("pack").args(paths).arg("-o").arg(&out)).exits(2);
    }
    assert_eq!(fs::read(out.join("exists.pcap.zst")).unwrap(), b"kept");
}
