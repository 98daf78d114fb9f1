//! The state of the mount's program, from outside.

use std::fmt;
use std::fs;

use nix::unistd::Pid;

/// What it holds at one moment.
#[derive(Clone, Debug)]
pub struct Vitals {
    pub descriptors: usize,
    /// Those of them that lead to a removed file.
    pub removed: usize,
    pub rss_kib: u64,
    pub peak_kib: u64,
    pub threads: usize,
    /// Threads in an uninterruptible wait.
    pub stuck: usize,
}

impl Vitals {
    pub fn of(pid: Pid) -> Self {
        let proc = format!("/proc/{pid}");
        let status = fs::read_to_string(format!("{proc}/status")).unwrap();
        let number = |key: &str| -> u64 {
            let line = status.lines().find_map(|line| line.strip_prefix(key));
            let number = line.unwrap().split_whitespace().next();
            number.unwrap().parse().unwrap()
        };
        // A descriptor may be closed between the listing and the look at it.
        let links: Vec<_> = fs::read_dir(format!("{proc}/fd"))
            .unwrap()
            .filter_map(|entry| fs::read_link(entry.unwrap().path()).ok())
            .collect();
        let waits: Vec<_> = fs::read_dir(format!("{proc}/task"))
            .unwrap()
            .filter_map(|entry| fs::read_to_string(entry.unwrap().path().join("stat")).ok())
            .filter_map(|stat| stat.rsplit_once(") ").map(|(_, rest)| rest.to_owned()))
            .collect();
        Self {
            descriptors: links.len(),
            removed: links
                .iter()
                .filter(|link| link.to_string_lossy().ends_with(" (deleted)"))
                .count(),
            rss_kib: number("VmRSS:"),
            peak_kib: number("VmHWM:"),
            threads: waits.len(),
            stuck: waits.iter().filter(|wait| wait.starts_with('D')).count(),
        }
    }
}

impl fmt::Display for Vitals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} descriptors ({} of removed files), RSS {} MiB (peak {}), {} threads ({} stuck)",
            self.descriptors,
            self.removed,
            self.rss_kib / 1024,
            self.peak_kib / 1024,
            self.threads,
            self.stuck
        )
    }
}
