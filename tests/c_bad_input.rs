//! Every odd input of the table (`odd/`) through the C library's own functions, from a path and from memory.
#![allow(
    unsafe_code,
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "C functions are called; a failed step of a test is a panic"
)]

mod common;
mod odd;

use std::ffi::{CStr, CString, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

use common::assert_same;
use odd::{Odd, Served, on_disk};
use pcapzst::capi::pcapzst_next::*;
use pcapzst::capi::pcapzst_state::*;
use pcapzst::capi::pcapzst_status::*;
use pcapzst::capi::*;

/// What opening `odd` is to give.
fn opened(odd: &Odd) -> pcapzst_status {
    match (odd.file.as_str(), odd.state) {
        (name, _) if !name.contains(".zst") => PCAPZST_E_NOT_MARKED,
        (name, "refused") if name.starts_with("marker-version-") => PCAPZST_E_VERSION,
        ("header-bad-checksum.pcap.zst", _) => PCAPZST_E_ZSTD,
        (_, "refused") if odd.inspect == 3 => PCAPZST_E_NOT_MARKED,
        (_, "refused") => PCAPZST_E_FORMAT,
        _ => PCAPZST_OK,
    }
}

/// What following its packets to the end is to give.
fn followed(odd: &Odd, is_in_memory: bool) -> pcapzst_status {
    match &odd.served {
        Served::Hole { .. } if odd.state == "damaged" => PCAPZST_E_LIMIT,
        Served::Hole { .. } => PCAPZST_E_ZSTD,
        Served::Prefix { .. } => PCAPZST_E_FORMAT,
        Served::Whole(_) if odd.verify == 4 => PCAPZST_E_FORMAT,
        Served::Whole(_) if odd.inspect == 5 && is_in_memory => PCAPZST_E_TORN,
        Served::Whole(_) | Served::Refused(_) => PCAPZST_OK,
    }
}

struct Opened {
    status: pcapzst_status,
    reader: *mut pcapzst_reader,
    version: u32,
}

impl Drop for Opened {
    fn drop(&mut self) {
        // SAFETY: NULL, or a reader that nobody uses any more.
        unsafe { pcapzst_close(self.reader) };
    }
}

fn open_path(path: &Path) -> Opened {
    let path = CString::new(path.as_os_str().as_bytes()).unwrap();
    let (mut reader, mut version) = (ptr::dangling_mut(), 77);
    // SAFETY: all four are what the function asks for.
    let status = unsafe {
        pcapzst_open(
            path.as_ptr(),
            ptr::null(),
            &raw mut reader,
            &raw mut version,
        )
    };
    Opened {
        status,
        reader,
        version,
    }
}

fn open_memory(bytes: &[u8]) -> Opened {
    let (mut reader, mut version) = (ptr::dangling_mut(), 77);
    // SAFETY: as above, and the table outlives the reader.
    let status = unsafe {
        pcapzst_open_memory(
            bytes.as_ptr().cast(),
            bytes.len() as u64,
            ptr::null(),
            &raw mut reader,
            &raw mut version,
        )
    };
    Opened {
        status,
        reader,
        version,
    }
}

fn info(opened: &Opened) -> pcapzst_info {
    let mut info = std::mem::MaybeUninit::uninit();
    // SAFETY: the reader is open, and the function fills what it is given when it succeeds.
    unsafe {
        assert_eq!(
            pcapzst_get_info(opened.reader, info.as_mut_ptr()),
            PCAPZST_OK
        );
        info.assume_init()
    }
}

fn last_error() -> String {
    // SAFETY: never NULL, and copied before the next call.
    unsafe { CStr::from_ptr(pcapzst_last_error()) }
        .to_string_lossy()
        .into_owned()
}

/// Takes packets until something else comes: how many, the status, and what comes next.
fn follow(opened: &Opened) -> (u64, pcapzst_status, pcapzst_next) {
    let mut records = ptr::null_mut();
    let mut packet = pcapzst_packet {
        ts_ns: 0,
        source_offset: 0,
        data: ptr::null(),
        captured_length: 0,
        original_length: 0,
    };
    let mut next = PCAPZST_NOT_YET;
    let mut packets = 0;
    // SAFETY: the reader is open, the iterator is closed once and not used behind that.
    unsafe {
        assert_eq!(
            pcapzst_records_open(opened.reader, 0, &raw mut records),
            PCAPZST_OK
        );
        let status = loop {
            let status = pcapzst_records_next(records, &raw mut packet, &raw mut next);
            if status != PCAPZST_OK || next != PCAPZST_PACKET {
                break status;
            }
            packets += 1;
        };
        pcapzst_records_close(records);
        (packets, status, next)
    }
}

/// All source bytes that `pcapzst_read` gives, and the status behind them.
fn read_all(opened: &Opened) -> (Vec<u8>, pcapzst_status) {
    let mut all = Vec::new();
    let mut buffer = vec![0; 100_000];
    loop {
        let mut got = 77;
        // SAFETY: the buffer is as long as is said.
        let status = unsafe {
            pcapzst_read(
                opened.reader,
                all.len() as u64,
                buffer.as_mut_ptr().cast::<c_void>(),
                buffer.len() as u64,
                &raw mut got,
            )
        };
        if got == 0 {
            return (all, status);
        }
        assert_eq!(status, PCAPZST_OK, "bytes come with success");
        all.extend_from_slice(&buffer[..usize::try_from(got).unwrap()]);
    }
}

fn check(odd: &Odd, opened: &Opened, is_in_memory: bool) {
    let file = &odd.file;
    let wanted = self::opened(odd);
    assert_eq!(opened.status, wanted, "opening {file}: {}", last_error());
    if wanted != PCAPZST_OK {
        assert!(opened.reader.is_null(), "{file}");
        let version = match wanted {
            PCAPZST_E_VERSION => u32::from(odd.bytes[12]),
            PCAPZST_E_NOT_MARKED => 0,
            _ => 1,
        };
        assert_eq!(opened.version, version, "{file}");
        let place = odd.fault_at.map(|at| format!("physical offset {at}:"));
        let told = last_error();
        if let Some(place) = place.filter(|_| file.contains(".zst")) {
            assert!(told.contains(&place), "{file}: \"{place}\" in {told}");
        }
        return;
    }
    let info = info(opened);
    let state = match odd.state {
        "draining" if is_in_memory => PCAPZST_CUT_SHORT,
        "growing" => PCAPZST_GROWING,
        "draining" => PCAPZST_DRAINING,
        "damaged" => PCAPZST_DAMAGED,
        _ => PCAPZST_COMPLETE,
    };
    assert_eq!(info.state, state, "{file}");
    let (_, status, next) = follow(opened);
    let wanted = followed(odd, is_in_memory);
    assert_eq!(status, wanted, "{file}: {}", last_error());
    let is_at_end = odd.state == "complete" && status == PCAPZST_OK;
    assert_eq!(next == PCAPZST_AT_END, is_at_end, "{file}");
    let (bytes, status) = read_all(opened);
    let (wanted, wanted_status) = match &odd.served {
        Served::Whole(bytes) => (bytes, PCAPZST_OK),
        Served::Prefix { good, .. } => (good, PCAPZST_E_FORMAT),
        Served::Hole { before, .. } => (before, followed(odd, false)),
        Served::Refused(_) => panic!("{file} is open"),
    };
    assert_same(&bytes, wanted, file);
    assert_eq!(status, wanted_status, "{file}: {}", last_error());
}

#[test]
fn each_odd_input_has_its_status_from_a_path() {
    let table = odd::table();
    let folder = on_disk(&table);
    for odd in &table {
        check(odd, &open_path(&folder.path().join(&odd.file)), false);
    }
}

#[test]
fn each_odd_input_has_its_status_from_memory() {
    // Bytes in memory have no name that could say that more comes.
    let is_final = |odd: &&Odd| odd.file.ends_with(".pcap.zst");
    for odd in odd::table().iter().filter(is_final) {
        if odd.bytes.is_empty() {
            assert_eq!(open_memory(&odd.bytes).status, PCAPZST_E_INVALID);
        } else {
            check(odd, &open_memory(&odd.bytes), true);
        }
    }
}
