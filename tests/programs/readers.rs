//! Analysers of captures say of a mounted one, in whatever form it is stored, what they say of the raw file.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{assert_same, run, tool};
use crate::{forms, traffic};

/// What a program made of a capture.
struct Said {
    text: Vec<u8>,
    files: BTreeMap<String, Vec<u8>>,
}

impl Said {
    /// How often its text holds these words.
    fn count(&self, words: &str) -> usize {
        let text = String::from_utf8_lossy(&self.text);
        text.matches(words).count()
    }
}

/// Lets `look` read each form of the capture, in the folder of raw files and in the mount, from the folder it is given
/// and by the path it is given; all that it says and leaves in its folder must be the same. `check` is asked whether it
/// says anything of the complete capture at all.
fn assert_alike(look: impl Fn(&Path, &str) -> Vec<u8>, check: impl Fn(&Said)) {
    let day = forms::day(&traffic::capture());
    let mounted = day.mount();
    // The same path both times, since many programs print it.
    let say = |folder: &Path, name: &str| {
        let here = tempfile::tempdir().unwrap();
        symlink(folder, here.path().join("in")).unwrap();
        let text = look(here.path(), &format!("in/{name}"));
        fs::remove_file(here.path().join("in")).unwrap();
        let files = files(here.path(), Path::new(""));
        Said { text, files }
    };
    for name in forms::NAMES {
        let raw = say(&day.raw(), name);
        let seen = say(mounted.path(), name);
        assert_same(&seen.text, &raw.text, name);
        let names = |said: &Said| said.files.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&seen), names(&raw), "{name}");
        for (file, bytes) in &seen.files {
            assert_same(bytes, &raw.files[file], &format!("{name}: {file}"));
        }
        if name == "compressed.pcap" {
            check(&seen);
        }
    }
}

/// Every file below a folder, by its path.
fn files(root: &Path, folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(root.join(folder)).unwrap() {
        let entry = entry.unwrap();
        let path: PathBuf = folder.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            found.append(&mut files(root, &path));
        } else {
            let bytes = fs::read(entry.path()).unwrap();
            found.insert(path.to_str().unwrap().to_owned(), bytes);
        }
    }
    found
}

/// What a tool says on both its outputs, run well in this folder.
fn said(here: &Path, name: &str, args: &[&str]) -> Vec<u8> {
    said_by(tool(name).args(args).current_dir(here))
}

fn said_by(command: &mut Command) -> Vec<u8> {
    let ran = run(command).ok();
    [&ran.stdout, ran.stderr.as_bytes()].concat()
}

#[test]
fn tcpflow_takes_the_same_streams_out() {
    let look = |here: &Path, file: &str| {
        // Its report tells the time of the run.
        said(here, "tcpflow", &["-a", "-X", "/dev/null", "-r", file])
    };
    assert_alike(look, |said| {
        // Both directions, and the page without its head.
        assert_eq!(said.files.len(), 3 * usize::from(traffic::FLOWS));
        let pages = said.files.values().filter(|bytes| {
            let text = String::from_utf8_lossy(bytes);
            text.starts_with("page ") && text.contains(traffic::WORD) && text.len() >= 3000
        });
        assert_eq!(pages.count(), usize::from(traffic::FLOWS));
    });
}

#[test]
fn ngrep_finds_the_same_packets() {
    let look = |here: &Path, file: &str| {
        let found = said(
            here,
            "ngrep",
            &["-t", "-x", "-q", "-I", file, traffic::WORD],
        );
        let kept = &["-q", "-I", file, "-O", "kept.pcap", "host-[0-9]*5"];
        [found, said(here, "ngrep", kept)].concat()
    };
    assert_alike(look, |said| {
        // One segment in each page holds the word.
        let seen = said.count(&format!("match (JIT): {}", traffic::WORD));
        assert_eq!(seen, 1);
        assert!(said.count("[AP] #") >= usize::from(traffic::FLOWS));
        assert!(said.files["kept.pcap"].len() > 1000);
    });
}

#[test]
fn nfpcapd_makes_the_same_flows() {
    let look = |here: &Path, file: &str| {
        fs::create_dir(here.join("flows")).unwrap();
        said(here, "nfpcapd", &["-r", file, "-w", "flows"]);
        let line = "fmt:%ts %te %pr %sap %dap %flg %pkt %byt";
        let flows = said(here, "nfdump", &["-q", "-R", "flows", "-o", line]);
        // In them stands when they were made.
        fs::remove_dir_all(here.join("flows")).unwrap();
        flows
    };
    assert_alike(look, |said| {
        let questions = said.count(":53 ");
        assert_eq!(questions, 2 * usize::from(traffic::QUESTIONS));
        assert_eq!(said.count(":80 "), 2 * usize::from(traffic::FLOWS));
    });
}

#[test]
fn tcpreplays_tools_read_the_same() {
    let look = |here: &Path, file: &str| {
        let from = format!("--pcap={file}");
        let mut text = said(
            here,
            "tcpprep",
            &["--auto=client", &from, "--cachefile=cache"],
        );
        text.extend(said(here, "tcpprep", &["--print-info=cache"]));
        text.extend(said(here, "tcpcapinfo", &[file]));
        let from = format!("--infile={file}");
        let rewrite = &[&from, "--outfile=other.pcap", "--portmap=80:8080"];
        text.extend(said(here, "tcprewrite", rewrite));
        text
    };
    assert_alike(look, |said| {
        let packets = traffic::capture().records();
        assert_eq!(
            said.count("-> Primary") + said.count("-> Secondary"),
            packets
        );
        assert!(said.count("-> Secondary") > 100);
        assert!(said.files["other.pcap"].len() > 200_000);
    });
}

#[test]
fn p0f_tells_the_same_of_the_hosts() {
    let look = |here: &Path, file: &str| said(here, "p0f", &["-r", file, "-o", "log"]);
    assert_alike(look, |said| {
        assert_eq!(said.count("(syn) ]-"), usize::from(traffic::FLOWS));
        assert!(!said.files["log"].is_empty());
    });
}

/// Reads with scapy, packet by packet and whole.
const SCAPY: &str = "
import sys
from scapy.layers.inet import IP, TCP, UDP, defragment
from scapy.layers.dns import DNS
from scapy.utils import RawPcapReader, rdpcap

for file in sys.argv[1:]:
    print(file)
    for data, meta in RawPcapReader(file):
        print(meta.sec, meta.usec, meta.wirelen, meta.caplen, data.hex())
    packets = rdpcap(file)
    for packet in packets:
        print(packet.time, packet.summary())
    print(len(packets), 'packets', sorted(packets.sessions()))
    for whole in defragment(packets)[UDP]:
        print('datagram', whole[UDP].len, bytes(whole[UDP].payload).hex())
";

#[test]
fn scapy_dissects_the_same() {
    let day = forms::day(&traffic::capture());
    let mounted = day.mount();
    // One run for all of them: it takes its time to start.
    let look = |folder: &Path| {
        // Debian's Python: another one that comes first in PATH does not have Debian's scapy.
        let mut scapy = Command::new("/usr/bin/python3");
        scapy.args(["-c", SCAPY]).args(forms::NAMES);
        said_by(scapy.current_dir(folder))
    };
    let (raw, seen) = (look(&day.raw()), look(mounted.path()));
    assert_same(&seen, &raw, "scapy");
    let text = String::from_utf8(seen).unwrap();
    let count = |words: &str| text.matches(words).count();
    // Two captures are complete, and two hold two thirds.
    let (answers, datagrams) = (traffic::QUESTIONS, traffic::FRAGMENTED);
    assert!(count("DNS Ans") > 3 * usize::from(answers));
    assert!(count("datagram 4008") > 3 * usize::from(datagrams));
}

/// Reads with dnsjit: the module is the argument behind the file.
const DNSJIT: &str = r#"
require("dnsjit.core.objects")
local input = require("dnsjit.input." .. arg[3]).new()
local opened = arg[3] == "pcap" and input:open_offline(arg[2]) or input:open(arg[2])
if opened ~= 0 then os.exit(1) end
local layer = require("dnsjit.filter.layer").new()
local dns = require("dnsjit.core.object.dns").new()
layer:producer(input)
local produce, context = layer:produce()
while true do
    local object = produce(context)
    if object == nil then break end
    local payload = object:cast()
    print(object:type(), tonumber(payload.len))
    local port = object.obj_prev and object.obj_prev:cast()
    if object:type() == "payload" and port:type() == "udp" and (port.sport == 53 or port.dport == 53) then
        dns.obj_prev = object
        dns:print()
    end
end
"#;

/// By libpcap, by fread, and through a memory map.
#[test]
fn dnsjit_reads_the_same_in_all_its_ways() {
    let look = |here: &Path, file: &str| {
        fs::write(here.join("read.lua"), DNSJIT).unwrap();
        ["pcap", "fpcap", "mmpcap"]
            .iter()
            .flat_map(|module| said(here, "dnsjit", &["read.lua", file, module]))
            .collect()
    };
    assert_alike(look, |said| {
        let answers = said.count("ancount:\t1");
        assert_eq!(answers, 3 * usize::from(traffic::QUESTIONS));
    });
}

#[test]
fn tshark_follows_the_same_streams_and_puts_together_the_same_datagrams() {
    let look = |here: &Path, file: &str| {
        let shown = "http or dns or ip.reassembled.length";
        let any_order = "tcp.reassemble_out_of_order:TRUE";
        let mut tshark = tool("tshark");
        tshark.args(["-2", "-n", "-V", "-o", any_order, "-Y", shown, "-r", file]);
        tshark.args(["-z", "follow,tcp,ascii,7", "-z", "conv,tcp", "-z", "io,phs"]);
        tshark.args(["--export-objects", "http,pages"]);
        run(tshark.current_dir(here)).ok().stdout
    };
    assert_alike(look, |said| {
        assert_eq!(said.files.len(), usize::from(traffic::FLOWS));
        assert!(said.files["pages/page-7.txt"].starts_with(b"page 7 with a needle"));
        assert!(said.count("[Reassembled IPv4 length: 4008]") >= usize::from(traffic::FRAGMENTED));
    });
}

#[test]
fn wiresharks_small_tools_write_the_same_files() {
    let look = |here: &Path, file: &str| {
        let mut text = said(
            here,
            "editcap",
            &["-F", "pcap", "-c", "100", file, "part.pcap"],
        );
        text.extend(said(
            here,
            "editcap",
            &["-F", "pcap", "-d", file, "once.pcap"],
        ));
        let twice = &["-F", "pcap", "-a", "-w", "twice.pcap", file, file];
        text.extend(said(here, "mergecap", twice));
        text.extend(said(here, "reordercap", &["-n", file, "ordered.pcapng"]));
        text.extend(said(here, "capinfos", &["-A", "-M", file]));
        text.extend(said(here, "captype", &[file]));
        text
    };
    assert_alike(look, |said| {
        // 588 packets in parts of 100, and the three others.
        assert_eq!(said.files.len(), 6 + 3);
        assert_eq!(said.count("in/compressed.pcap: pcap\n"), 1);
        assert!(said.files["twice.pcap"].len() > 500_000);
    });
}

#[test]
fn tcpdump_filters_the_same_packets_into_the_same_files() {
    let look = |here: &Path, file: &str| {
        let mut text = said(
            here,
            "tcpdump",
            &["-nn", "-vv", "-e", "-XX", "-tttt", "-r", file],
        );
        for (number, filter) in ["tcp port 80", "udp port 53", "ip[6:2] & 0x3fff != 0"]
            .iter()
            .enumerate()
        {
            let kept = format!("{number}.pcap");
            // -Z: as another user it could not write here.
            let args = &["-Z", "root", "-r", file, "-w", &kept, filter];
            text.extend(said(here, "tcpdump", args));
        }
        text
    };
    assert_alike(look, |said| {
        assert_eq!(said.count("A? host-"), 2 * usize::from(traffic::QUESTIONS));
        assert_eq!(said.files.len(), 3);
        assert!(said.files.values().all(|bytes| bytes.len() > 5000));
    });
}
