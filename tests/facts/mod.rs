//! The facts of docs/SEMANTICS.md that no other test asserts, and what these tests share.

mod attributes;
mod command;
mod damage;
mod growth;
mod identity;
mod names;
mod restart;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use nix::errno::Errno;

use crate::common::frames::Marked;
use crate::common::pcap::{Magic, Pcap};
use crate::common::sys::attribute;

/// A capture of some 60 KB, and the same in three frames or so.
fn capture(seed: u64) -> (Pcap, Marked) {
    let pcap = Pcap::of_size(Magic::LeUs, seed, 60_000);
    let marked = Marked::pack(&pcap, 20_000);
    (pcap, marked)
}

fn append(file: &Path, bytes: &[u8]) {
    let mut file = OpenOptions::new().append(true).open(file).unwrap();
    file.write_all(bytes).unwrap();
}

/// Writes over a file where it lies: it keeps its inode, and is as long as `bytes` then.
fn write_over(file: &Path, bytes: &[u8]) {
    let file = OpenOptions::new().write(true).open(file).unwrap();
    file.write_all_at(bytes, 0).unwrap();
    file.set_len(bytes.len() as u64).unwrap();
}

fn cut(file: &Path, len: usize) {
    let file = OpenOptions::new().write(true).open(file).unwrap();
    file.set_len(len as u64).unwrap();
}

fn size(path: &Path) -> usize {
    usize::try_from(fs::metadata(path).unwrap().len()).unwrap()
}

fn number(path: &Path) -> u64 {
    fs::metadata(path).unwrap().ino()
}

fn state(path: &Path) -> String {
    attribute(path, "user.pcapzst.state").unwrap()
}

#[track_caller]
fn errno<T>(result: io::Result<T>) -> Errno {
    match result {
        Ok(_) => panic!("no error"),
        Err(error) => Errno::from_raw(error.raw_os_error().unwrap()),
    }
}

/// Reads on from `start`: the bytes, and the error that ends them, if it is none that stands for the end of the file.
fn read_on(file: &File, start: usize) -> (Vec<u8>, Option<Errno>) {
    let mut bytes = Vec::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read_at(&mut buffer, (start + bytes.len()) as u64) {
            Ok(0) => return (bytes, None),
            Ok(len) => bytes.extend_from_slice(&buffer[..len]),
            Err(error) => return (bytes, Some(errno::<()>(Err(error)))),
        }
    }
}
