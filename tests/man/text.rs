//! What the manual pages say beyond the definition of the command line. What stands in backticks is shown bold.

use pcapzst::sink::FILTER;

/// The day of the last change to these pages.
pub const DATE: &str = "2026-11-30";
/// What the head of each page calls the manual.
pub const MANUAL: &str = "Packet captures";

/// The prose of one page.
pub struct Prose {
    /// The command's name.
    pub command: &'static str,
    /// Paragraphs that follow the first line of DESCRIPTION.
    pub more: &'static [&'static str],
    /// Whether the files that every mount uses are listed.
    pub is_about_mounts: bool,
    /// Further files.
    pub files: &'static [(&'static str, &'static str)],
    /// What an example does, and its lines.
    pub examples: &'static [(&'static str, &'static [&'static str])],
    /// Other pages.
    pub see: &'static [&'static str],
}

/// Files of every mount.
pub const COMMON_FILES: [(&str, &str); 4] = [
    ("/dev/fuse", "the kernel's end of every mount"),
    (
        "/etc/fuse.conf",
        "`user_allow_other` in it lets users other than root mount with `allow_other` or `allow_root`",
    ),
    (
        "/sbin/mount.pcapzst, /sbin/mount.fuse.pcapzst",
        "links to this program, under which `mount`(8) finds it for the types pcapzst and fuse.pcapzst",
    ),
    (
        "$XDG_CACHE_HOME/pcapzst, $HOME/.cache/pcapzst, /var/cache/pcapzst",
        "frame tables kept between mounts: the first of these whose variable is set; the last one for root without a home",
    ),
];

/// Variables that every mount looks at.
pub fn environment() -> [(&'static str, String); 2] {
    [
        (
            "RUST_LOG",
            format!(
                "what is logged: \"{FILTER}\" by default; \"pcapzst=debug\" for more of this program"
            ),
        ),
        (
            "XDG_CACHE_HOME, HOME",
            "where frame tables are kept, see FILES; `index_dir=` goes before them".to_owned(),
        ),
    ]
}

/// One page a command, the program's own first.
pub const PAGES: [Prose; 9] = [
    Prose {
        command: "pcapzst",
        more: &[
            "A folder of captures may hold raw files (.pcap) and compressed ones (.pcap.zst: marked zstd frames that end where \
             records end), finished or still being written (with .partial behind the name). `pcapzst mount` shows each one as \
             an ordinary, read-only .pcap file of its uncompressed size; the other commands work on the physical files and \
             need no mount.",
            "A frame is decoded when somebody reads it, and checked before a byte of it is given out. What cannot be given \
             exactly is an I/O error, never other bytes. A half-written end is waited for, and is no error.",
            "Data goes to standard output, talk to standard error. With `--json` every line is one object, whose keys do not \
             change. Of several files the worst exit code counts, in the order 2, 1, 6, 4, 3, 5, 0.",
        ],
        is_about_mounts: true,
        files: &[],
        examples: &[
            (
                "Show the captures in a folder, look at one, and end the mount:",
                &[
                    "pcapzst mount /captures /mnt/captures",
                    "tcpdump -n -r /mnt/captures/2026-07-14/cap-1415.pcap",
                    "pcapzst umount /mnt/captures",
                ],
            ),
            (
                "Write a live capture in the format:",
                &["tcpdump -i eth0 -U -w - | pcapzst pack - -o /captures/2026-07-14/live.pcap.zst"],
            ),
        ],
        see: &[
            "pcapzst-mount(1)",
            "pcapzst-umount(1)",
            "pcapzst-status(1)",
            "pcapzst-inspect(1)",
            "pcapzst-verify(1)",
            "pcapzst-pack(1)",
            "pcapzst-cat(1)",
            "pcapzst-completions(1)",
            "mount.pcapzst(8)",
            "tcpdump(1)",
            "wireshark(1)",
            "zstd(1)",
        ],
    },
    Prose {
        command: "mount",
        more: &[
            "Every folder of SOURCE appears; of the files, the captures under their logical names: a.pcap, a.pcap.zst, \
             a.pcap.partial and a.pcap.zst.partial all appear as a.pcap. Of several forms of one name a final one goes \
             before a partial one, and among those a raw one before a compressed one.",
            "The command returns when the mount answers, and serves in the background; with `-f` it prints a line that begins \
             with \"pcapzst: serving\" and stays. SIGTERM, SIGINT and SIGHUP unmount.",
            "Each whole frame, and of a raw partial file each whole record, that is on disk is visible at once. The rename to \
             the final name is the only sign that a capture is finished; it changes nothing for who reads.",
            "By default only the user who mounted can enter. The kernel checks permission bits in any case. `tcpdump`(8) that \
             is run by root becomes the user tcpdump once it has opened its first file: with `-V` the second one needs `-o \
             allow_other`, or tcpdump its `-Z root`.",
            "Attributes of a file, answered by name and not listed: user.pcapzst.state (growing, draining, complete, refused \
             or damaged), .format, .file_id, .frames, .physical_name, .physical_size, .torn_bytes and .error, the first fault \
             found.",
        ],
        is_about_mounts: true,
        files: &[],
        examples: &[
            (
                "Mount for everybody, with a gigabyte of cache:",
                &["pcapzst mount -o allow_other,cache_size=1G /captures /mnt/captures"],
            ),
            (
                "Follow a capture that is being written:",
                &["tail -c +1 -f /mnt/captures/2026-07-14/cap-1430.pcap | tcpdump -l -n -r -"],
            ),
            (
                "Why is this capture refused or damaged?",
                &["getfattr --only-values -n user.pcapzst.error /mnt/captures/cap-1430.pcap"],
            ),
        ],
        see: &[
            "pcapzst(1)",
            "pcapzst-umount(1)",
            "pcapzst-status(1)",
            "mount.pcapzst(8)",
            "fusermount3(1)",
            "mount(8)",
            "fuse(8)",
        ],
    },
    Prose {
        command: "umount",
        more: &[
            "A mount that is busy is unmounted lazily, and that is said: no path leads into it any more, and its program ends \
             with the last open file. A mount whose program is dead (\"Transport endpoint is not connected\") is cleared as \
             well. What is no pcapzst mount is left alone. `umount`(8) and `fusermount3 -u` work too.",
        ],
        is_about_mounts: false,
        files: &[],
        examples: &[("End a mount:", &["pcapzst umount /mnt/captures"])],
        see: &[
            "pcapzst(1)",
            "pcapzst-mount(1)",
            "fusermount3(1)",
            "umount(8)",
        ],
    },
    Prose {
        command: "status",
        more: &[
            "One counter a line, its name and its value; the names do not change. They are the JSON object in the attribute \
             user.pcapzst.stats of the mount's root.",
        ],
        is_about_mounts: false,
        files: &[],
        examples: &[(
            "Of one mount, as an object:",
            &["pcapzst status --json /mnt/captures"],
        )],
        see: &["pcapzst(1)", "pcapzst-mount(1)", "getfattr(1)"],
    },
    Prose {
        command: "inspect",
        more: &[
            "It reads headers, and decodes the header frame and the start of the first record. The logical name finds a \
             capture as well: day/x.pcap is also day/x.pcap.zst.partial. A partial or torn file ends with 5, which is no fault.",
        ],
        is_about_mounts: false,
        files: &[],
        examples: &[(
            "What is this file, frame by frame?",
            &["pcapzst inspect --json --frames cap.pcap.zst"],
        )],
        see: &["pcapzst(1)", "pcapzst-verify(1)", "capinfos(1)"],
    },
    Prose {
        command: "verify",
        more: &[
            "Every frame is decoded and held against its length and checksum, and every record against the format's rules. \
             Each capture gets a line with what was found, and each fault one with frame, physical offset, and what was wanted \
             and got. On a terminal a bar shows how far it is.",
        ],
        is_about_mounts: false,
        files: &[],
        examples: &[("A whole day:", &["pcapzst verify /captures/2026-07-14"])],
        see: &["pcapzst(1)", "pcapzst-inspect(1)"],
    },
    Prose {
        command: "pack",
        more: &[
            "Inputs are pcap with any of the four magics, the same in gzip, and plain zstd files; the first bytes tell which. \
             It is written under the name OUT.partial, under a lock, brought to the disk, and renamed: nothing that exists is \
             replaced without `--force`, and a second writer of the same file ends with 6 at once. What comes of it is still a \
             zstd file: `zstd -dc` gives the pcap back.",
            "What a killed pack left is gone on with by `--resume`: its torn end is cut off, and what is there is compared with \
             the input. A live capture that was started again goes behind it.",
            "SIGINT and SIGTERM finish a stream with its last whole record, and give up a file.",
        ],
        is_about_mounts: false,
        files: &[("OUT.partial", "the output until it is finished")],
        examples: &[
            (
                "One file, beside the input; several, into a folder:",
                &[
                    "pcapzst pack cap.pcap",
                    "pcapzst pack a.pcap b.pcap.gz -o packed/",
                ],
            ),
            (
                "A live capture, begun or gone on with after a crash:",
                &["tcpdump -i eth0 -U -w - | pcapzst pack - --resume -o /captures/live.pcap.zst"],
            ),
        ],
        see: &[
            "pcapzst(1)",
            "pcapzst-verify(1)",
            "pcapzst-cat(1)",
            "tcpdump(1)",
            "zstd(1)",
        ],
    },
    Prose {
        command: "cat",
        more: &[
            "Without `-f` it ends with 5 at the frontier of a capture that is partial or torn. With `-f` it goes on as the \
             capture grows, through its rename, and ends with 0 when the file has its final name and all of it is written. At a \
             fault it ends with 4, after the good bytes before it. A reader that closes the pipe is no error.",
        ],
        is_about_mounts: false,
        files: &[],
        examples: &[
            (
                "Follow a capture without a mount:",
                &["pcapzst cat -f day/x.pcap | wireshark -k -i -"],
            ),
            (
                "Some bytes of the source:",
                &["pcapzst cat --offset 24 --length 16 cap.pcap.zst | xxd"],
            ),
        ],
        see: &["pcapzst(1)", "pcapzst-pack(1)", "tail(1)"],
    },
    Prose {
        command: "completions",
        more: &["They go to standard output. Debian's package brings those of bash, zsh and fish."],
        is_about_mounts: false,
        files: &[],
        examples: &[(
            "For one user's bash:",
            &["pcapzst completions bash > ~/.local/share/bash-completion/completions/pcapzst"],
        )],
        see: &["pcapzst(1)", "bash(1)", "zsh(1)", "fish(1)"],
    },
];

/// The mount helper's page.
pub const HELPER: Prose = Prose {
    command: "mount.pcapzst",
    more: &[
        "Under this name, and as `mount.fuse.pcapzst`, `pcapzst`(1) takes the arguments of `mount`(8) and does what `pcapzst \
         mount` does: it shows the packet captures in the folder SOURCE as ordinary .pcap files at MOUNTPOINT, and returns \
         when they are there. It is not meant to be called by hand.",
        "`-f` (fake) checks nothing and mounts nothing. `-s`, `-n`, `-v`, `-t` and `-N` are accepted and change nothing.",
        "`umount`(8) ends the mount.",
    ],
    is_about_mounts: true,
    files: &[("/etc/fstab", "mounts that are made at boot, or by name")],
    examples: &[
        (
            "By hand:",
            &["mount -t pcapzst -o allow_other /captures /mnt/captures"],
        ),
        (
            "A line of /etc/fstab:",
            &["/captures  /mnt/captures  pcapzst  ro,allow_other,nofail,_netdev  0  0"],
        ),
    ],
    see: &[
        "pcapzst(1)",
        "pcapzst-mount(1)",
        "fstab(5)",
        "mount(8)",
        "umount(8)",
    ],
};
