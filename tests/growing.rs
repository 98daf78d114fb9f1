//! A capture that grows, step by step, under readers that were there before: each look is exact, and an append costs no
//! more than what it brought.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "a failed step of a test is a panic"
)]

mod common;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write, pipe};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use common::day::Day;
use common::frames::Marked;
use common::growth::{Form, Growth};
use common::pcap::{Magic, Pcap};
use common::sys::{self, Map, Sharing};
use common::{Rng, assert_same, run, tool};

const PAGE: usize = 4096;

fn partial(day: &Day, form: Form) -> PathBuf {
    day.source().join(format!("x{}.partial", form.ending()))
}

fn append_to(file: &Path) -> File {
    OpenOptions::new().append(true).open(file).unwrap()
}

fn len_of(file: &File) -> usize {
    usize::try_from(file.metadata().unwrap().len()).unwrap()
}

/// All bytes from the start on, by pread.
#[track_caller]
fn all_of(file: &File) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut buffer = vec![0; 1 << 17];
    loop {
        match file.read_at(&mut buffer, bytes.len() as u64).unwrap() {
            0 => return bytes,
            len => bytes.extend_from_slice(&buffer[..len]),
        }
    }
}

#[test]
fn the_last_page_read_again_after_each_append_has_no_zero_that_the_source_lacks() {
    for form in [Form::Zst, Form::Raw] {
        let day = Day::new();
        let physical = partial(&day, form);
        // Appends of 17 to 5000 source bytes, never a whole page; some torn, raw ones by any number of bytes.
        let growth = Growth::new(form, 91, 300, 1..4985);
        fs::write(&physical, &growth.steps[0].bytes).unwrap();
        let mounted = day.mount();
        let path = mounted.join("x.pcap");
        let kept = File::open(&path).unwrap();
        // Mapped further than the file reaches: it grows into the map.
        let whole = Map::new(&kept, 0, growth.truth.len(), Sharing::Shared).unwrap();
        let mut writer = append_to(&physical);
        for (number, step) in growth.steps.iter().enumerate().skip(1) {
            writer.write_all(&step.bytes).unwrap();
            let what = format!("{form:?}, step {number}");
            let seen = &growth.truth[..step.visible];
            let page = step.visible.saturating_sub(1) / PAGE * PAGE;
            let before = page.saturating_sub(PAGE);
            let mut got = vec![0; 3 * PAGE];
            let len = kept.read_at(&mut got, before as u64).unwrap();
            assert_same(&got[..len], &seen[before..], &format!("{what}: pread"));
            // The size is asked for, as whoever maps a file must.
            assert_eq!(len_of(&kept), step.visible, "{what}");
            let mut got = vec![0; step.visible - before];
            whole.copy(before, &mut got).unwrap();
            assert_same(&got, &seen[before..], &format!("{what}: the kept map"));
            let fresh = Map::new(&kept, page, step.visible - page, Sharing::Private).unwrap();
            let mut got = vec![0; step.visible - page];
            fresh.copy(0, &mut got).unwrap();
            assert_same(&got, &seen[page..], &format!("{what}: a new map"));
        }
        drop(whole);
        fs::rename(&physical, physical.with_extension("")).unwrap();
        assert_same(&fs::read(&path).unwrap(), &growth.truth, "once it is final");
    }
}

#[test]
fn a_map_touched_behind_the_size_the_kernel_knows_is_an_error_until_somebody_asks() {
    let day = Day::new();
    let pcap = Pcap::of_size(Magic::LeUs, 92, 200_000);
    let marked = Marked::pack(&pcap, 50_000);
    let physical = partial(&day, Form::Zst);
    fs::write(&physical, &marked.physical[..marked.frames[0].1.end]).unwrap();
    let mounted = day.mount();
    let kept = File::open(mounted.join("x.pcap")).unwrap();
    let known = len_of(&kept);
    let map = Map::new(&kept, 0, pcap.bytes.len(), Sharing::Shared).unwrap();
    // The page that holds the end is in the kernel's hands: it has to go before the size grows.
    map.copy(known - 100, &mut [0; 100]).unwrap();
    append_to(&physical)
        .write_all(&marked.physical[marked.frames[0].1.end..])
        .unwrap();
    let behind = known.next_multiple_of(PAGE) + PAGE;
    let mut got = vec![0; 100];
    let error = map.copy(behind, &mut got).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EFAULT));
    assert_eq!(len_of(&kept), pcap.bytes.len());
    map.copy(behind, &mut got).unwrap();
    assert_same(&got, &pcap.bytes[behind..behind + 100], "after fstat");
}

#[test]
fn an_append_costs_one_decode_and_nobody_reads_again_what_was_read() {
    const BEFORE: usize = 300;
    const APPENDS: usize = 100;
    let day = Day::new();
    let pcap = Pcap::of_size(Magic::LeUs, 93, 26 << 20);
    let marked = Marked::pack(&pcap, 65_536);
    let frames = &marked.frames[..BEFORE + APPENDS];
    let physical = partial(&day, Form::Zst);
    fs::write(&physical, &marked.physical[..frames[BEFORE - 1].1.end]).unwrap();
    let mounted = day.mount();
    let path = mounted.join("x.pcap");
    let mut follower = File::open(&path).unwrap();
    let mut got = Vec::new();
    follower.read_to_end(&mut got).unwrap();
    assert_eq!(got.len(), frames[BEFORE - 1].0.end);
    assert_eq!(mounted.counter("decodes"), BEFORE as u64);

    let (bytes_before, calls_before) = mounted.reads();
    let given_before = mounted.counter("read_bytes");
    let random = File::open(&path).unwrap();
    let mut rng = Rng::new(93);
    let mut writer = append_to(&physical);
    let mut asked = 0;
    for (source, on_disk) in &frames[BEFORE..] {
        writer.write_all(&marked.physical[on_disk.clone()]).unwrap();
        // tail: fstat, then what is new.
        assert_eq!(len_of(&follower), source.end);
        let from = got.len();
        follower.read_to_end(&mut got).unwrap();
        assert_same(&got[from..], &pcap.bytes[source.clone()], "the follower");
        asked += source.len();
        for _ in 0..20 {
            let at = rng.below(source.end - PAGE);
            let mut page = [0; PAGE];
            random.read_exact_at(&mut page, at as u64).unwrap();
            assert_same(&page, &pcap.bytes[at..at + PAGE], "a random reader");
            asked += PAGE;
        }
    }
    let decodes = mounted.counter("decodes");
    assert_eq!(decodes, (BEFORE + APPENDS) as u64, "one an append");
    let given = mounted.counter("read_bytes") - given_before;
    assert_eq!(given, asked as u64, "no byte was asked for twice");
    let (bytes, calls) = mounted.reads();
    let on_disk: usize = frames[BEFORE..].iter().map(|(_, disk)| disk.len()).sum();
    let (bytes, calls) = (bytes - bytes_before, calls - calls_before);
    println!("{APPENDS} appends of {on_disk} bytes in all: {bytes} bytes in {calls} reads");
    // The walk sees headers, the decode each frame once; the start of the file is compared behind each decode. The rest
    // are the kernel's requests themselves, which come through read(2) as well.
    assert!(bytes < 2 * on_disk as u64 + APPENDS as u64 * 64 * 1024);
}

#[test]
fn an_append_to_a_raw_capture_is_followed_from_where_the_last_one_ended() {
    const APPENDS: usize = 200;
    let day = Day::new();
    let pcap = Pcap::of_size(Magic::BeNs, 94, 8 << 20);
    let physical = partial(&day, Form::Raw);
    let tail = pcap.ends.len() - APPENDS - 1;
    fs::write(&physical, &pcap.bytes[..pcap.ends[tail]]).unwrap();
    let mounted = day.mount();
    let path = mounted.join("x.pcap");
    let mut follower = File::open(&path).unwrap();
    let mut got = Vec::new();
    follower.read_to_end(&mut got).unwrap();
    let (before, _) = mounted.reads();
    let mut writer = append_to(&physical);
    for pair in pcap.ends[tail..].windows(2) {
        writer.write_all(&pcap.bytes[pair[0]..pair[1]]).unwrap();
        assert_eq!(len_of(&follower), pair[1]);
        follower.read_to_end(&mut got).unwrap();
    }
    assert_same(&got, &pcap.bytes, "the follower");
    let (bytes, _) = mounted.reads();
    let appended = (pcap.bytes.len() - pcap.ends[tail]) as u64;
    println!("{appended} bytes appended, {} read", bytes - before);
    // A megabyte would be an eighth of the file at each append.
    assert!(bytes - before < 4 * appended + APPENDS as u64 * 8192);
}

#[test]
fn a_capture_that_grew_after_it_was_opened_is_copied_whole_once_its_size_was_asked_for() {
    for form in [Form::Zst, Form::Raw] {
        let day = Day::new();
        let growth = Growth::new(form, 95, 120, 1..3000);
        let half = growth.steps.len() / 2;
        let physical = partial(&day, form);
        let written = |steps: &[common::growth::Step]| -> Vec<u8> {
            steps.iter().flat_map(|step| step.bytes.clone()).collect()
        };
        fs::write(&physical, written(&growth.steps[..half])).unwrap();
        let mounted = day.mount();
        let path = mounted.join("x.pcap");
        let early = growth.steps[half - 1].visible;
        let mut kept: Vec<File> = (0..4).map(|_| File::open(&path).unwrap()).collect();
        for file in &kept {
            assert_eq!(len_of(file), early);
        }
        append_to(&physical)
            .write_all(&written(&growth.steps[half..]))
            .unwrap();
        let out = day.out().join("copy.pcap");
        for (way, file) in ["read", "sendfile", "splice", "copy"]
            .into_iter()
            .zip(&mut kept)
        {
            assert_eq!(len_of(file), growth.truth.len());
            let mut got = Vec::new();
            match way {
                "read" => got = all_of(file),
                "copy" => {
                    io::copy(file, &mut File::create(&out).unwrap()).unwrap();
                    got = fs::read(&out).unwrap();
                }
                _ => loop {
                    let (mut reader, writer) = pipe().unwrap();
                    let moved = match way {
                        "splice" => sys::splice(file, writer.as_raw_fd(), 60_000).unwrap(),
                        _ => sys::sendfile(file, writer.as_raw_fd(), 60_000).unwrap(),
                    };
                    drop(writer);
                    let before = got.len();
                    reader.read_to_end(&mut got).unwrap();
                    assert_eq!(got.len() - before, moved);
                    if moved == 0 {
                        break;
                    }
                },
            }
            assert_same(&got, &growth.truth, &format!("{form:?}: {way}"));
            assert_eq!(file.seek(SeekFrom::End(0)).unwrap(), got.len() as u64);
        }
        for arguments in [&["--reflink=auto"][..], &["--sparse=always"], &["-a"]] {
            run(tool("cp").args(arguments).arg(&path).arg(&out)).ok();
            assert_same(&fs::read(&out).unwrap(), &growth.truth, "cp");
        }
        run(tool("busybox").arg("cp").arg(&path).arg(&out)).ok();
        assert_same(&fs::read(&out).unwrap(), &growth.truth, "busybox cp");
    }
}

#[test]
fn times_move_with_every_visible_growth_and_never_go_back() {
    for form in [Form::Zst, Form::Raw] {
        let day = Day::new();
        let growth = Growth::new(form, 96, 60, 1..3000);
        let physical = partial(&day, form);
        fs::write(&physical, &growth.steps[0].bytes).unwrap();
        let mounted = day.mount();
        let path = mounted.join("x.pcap");
        let kept = File::open(&path).unwrap();
        let times = |file: &fs::Metadata| {
            let (mtime, ctime) = (file.mtime(), file.ctime());
            [(mtime, file.mtime_nsec()), (ctime, file.ctime_nsec())]
        };
        let mut writer = append_to(&physical);
        let mut before = fs::metadata(&path).unwrap();
        for step in &growth.steps[1..] {
            let was = fs::metadata(&physical).unwrap();
            writer.write_all(&step.bytes).unwrap();
            let real = fs::metadata(&physical).unwrap();
            let now = fs::metadata(&path).unwrap();
            assert_eq!(now.len(), step.visible as u64);
            assert_eq!(times(&now), times(&real), "the physical file's");
            assert_eq!(times(&now), times(&kept.metadata().unwrap()), "fstat");
            let moved = times(&real)[0] > times(&was)[0];
            assert_eq!(times(&now)[0] > times(&before)[0], moved);
            assert!((now.atime(), now.atime_nsec()) >= (before.atime(), before.atime_nsec()));
            before = now;
        }
        fs::rename(&physical, physical.with_extension("")).unwrap();
        let now = fs::metadata(&path).unwrap();
        assert_eq!(times(&now)[0], times(&before)[0], "the rename is no write");
        assert!(times(&now)[1] >= times(&before)[1]);
    }
}

#[test]
fn tcpdump_never_sees_half_a_packet_of_a_raw_capture_that_grows() {
    let day = Day::new();
    let growth = Growth::new(Form::Raw, 97, 60, 40..1400);
    let physical = partial(&day, Form::Raw);
    fs::write(&physical, &growth.steps[0].bytes).unwrap();
    let mounted = day.mount();
    let path = mounted.join("x.pcap");
    let mut writer = append_to(&physical);
    for step in &growth.steps[1..] {
        writer.write_all(&step.bytes).unwrap();
        let ran = run(tool("tcpdump").args(["-tttt", "-nr"]).arg(&path)).ok();
        assert!(!ran.stderr.contains("truncated"), "{}", ran.stderr);
        let packets = growth.ends.iter().filter(|end| **end <= step.visible);
        let seen = ran
            .text()
            .lines()
            .filter(|line| line.starts_with("20"))
            .count();
        assert_eq!(seen, packets.count() - 1);
    }
}
