//! Captures that grow: looked at as they do, renamed, restarted and replaced.

use pcapzst::capture::{Error, Form, Known, OnFault, Progress, Source, State};

use crate::disk::at_every_call;
use crate::{capture, check_facts, engine, open, read_all};

/// A form of a capture: its bytes on disk, those of an earlier moment, and its source.
type Grown = (Form, Vec<u8>, Vec<u8>, Vec<u8>);

fn forms(seed: u64) -> [Grown; 2] {
    let (pcap, marked, _) = capture(seed);
    let middle = marked.frames[marked.frames.len() / 2].clone();
    let early = marked.physical[..middle.1.start + 7].to_vec();
    let early_raw = pcap.bytes[..middle.0.start + 7].to_vec();
    [
        (Form::Zst, marked.physical, early, marked.source),
        (Form::Raw, pcap.bytes.clone(), early_raw, pcap.bytes),
    ]
}

#[test]
fn a_look_at_what_has_come_finds_all_of_it_or_fails_and_nothing_is_lost() {
    for (form, physical, early, truth) in forms(921) {
        for first in [0, 5, 24, early.len()] {
            at_every_call(
                &format!("growth from {first}, {form:?}"),
                |disk| {
                    disk.set(&physical[..first.min(early.len())]);
                    let source = open(disk, form, Progress::Partial).unwrap();
                    disk.set(&physical);
                    source
                },
                |source, _| {
                    source.refresh()?;
                    check_facts(source, &truth, State::Growing);
                    read_all(source, &truth, OnFault::Fail)
                },
            );
        }
    }
}

#[test]
fn a_growing_capture_is_opened_at_its_size_or_not_at_all() {
    for (form, physical, early, truth) in forms(922) {
        at_every_call(
            &format!("opening a growing one, {form:?}"),
            |disk| disk.set(&physical),
            |(), disk| {
                let source = open(disk, form, Progress::Partial)?;
                check_facts(&source, &truth, State::Growing);
                read_all(&source, &truth, OnFault::Fail)
            },
        );
        // The same, of which more was shown before.
        let known = {
            let disk = crate::disk::Disk::with(&physical);
            let facts = open(&disk, form, Progress::Partial).unwrap().facts();
            Known {
                size: facts.frontier,
                file_id: facts.file_id,
                header: facts.header,
            }
        };
        at_every_call(
            &format!("opening it again, {form:?}"),
            |disk| disk.set(&early),
            |(), disk| {
                let file = Box::new(disk.clone());
                let progress = Progress::Partial;
                let source = Source::open_known(engine(), file, form, progress, known)?;
                let facts = source.facts();
                assert_eq!(facts.size, truth.len() as u64, "what was shown stays");
                assert!(!facts.is_replaced);
                assert_eq!(facts.file_id, known.file_id);
                Ok(())
            },
        );
    }
}

#[test]
fn a_rename_is_drained_or_the_look_fails() {
    for (form, physical, early, truth) in forms(923) {
        at_every_call(
            &format!("draining, {form:?}"),
            |disk| {
                disk.set(&early);
                let source = open(disk, form, Progress::Partial).unwrap();
                disk.set(&physical);
                source.rename_seen();
                source
            },
            |source, _| {
                source.refresh()?;
                check_facts(source, &truth, State::Complete);
                read_all(source, &truth, OnFault::Fail)
            },
        );
    }
}

/// What a restarted writer makes of a capture: the file before, in the middle of it, and behind.
struct Restart {
    form: Form,
    before: Vec<u8>,
    /// Cut back, and in part written again.
    middle: Vec<u8>,
    behind: Vec<u8>,
    truth: Vec<u8>,
}

fn restarts(seed: u64) -> [Restart; 2] {
    let (pcap, coarse, fine) = capture(seed);
    [
        Restart {
            form: Form::Zst,
            middle: fine.physical[..fine.frames[4].1.end + 3].to_vec(),
            before: coarse.physical,
            behind: fine.physical,
            truth: pcap.bytes.clone(),
        },
        Restart {
            form: Form::Raw,
            middle: pcap.bytes[..pcap.ends[7] + 3].to_vec(),
            before: pcap.bytes.clone(),
            behind: pcap.bytes.clone(),
            truth: pcap.bytes,
        },
    ]
}

#[test]
fn a_restarted_writer_takes_nothing_back_whatever_the_disk_does() {
    for restart in restarts(924) {
        let Restart { form, truth, .. } = &restart;
        // Seen on its way, or not before all is there again.
        for is_seen in [true, false] {
            at_every_call(
                &format!("a restart, {form:?}, seen: {is_seen}"),
                |disk| {
                    disk.set(&restart.before);
                    open(disk, *form, Progress::Partial).unwrap()
                },
                |source, disk| {
                    if is_seen {
                        disk.set(&restart.middle);
                        source.refresh()?;
                        assert_eq!(source.size(), truth.len() as u64);
                        assert!(!source.facts().is_replaced);
                    }
                    disk.set(&restart.behind);
                    source.refresh()?;
                    check_facts(source, truth, State::Growing);
                    read_all(source, truth, OnFault::Fail)
                },
            );
        }
    }
}

#[test]
fn a_reader_who_meets_other_frames_gets_the_same_bytes_or_an_error() {
    let [restart, _] = restarts(925);
    at_every_call(
        "reading past a restart",
        |disk| {
            disk.set(&restart.before);
            let source = open(disk, restart.form, Progress::Partial).unwrap();
            disk.set(&restart.behind);
            source
        },
        |source, _| read_all(source, &restart.truth, OnFault::Fail),
    );
    at_every_call(
        "frames past a restart",
        |disk| {
            disk.set(&restart.before);
            let source = open(disk, restart.form, Progress::Partial).unwrap();
            disk.set(&restart.behind);
            source
        },
        |source, _| {
            let mut at = 24;
            while at < restart.truth.len() {
                let (_, span, bytes) = source.frame_at(at as u64).ok_or(Error::CutOff)?;
                let bytes = bytes?;
                let start = usize::try_from(span.src_start.as_u64()).unwrap();
                let end = start + bytes.len();
                assert!(*bytes == restart.truth[start..end]);
                at = end;
            }
            Ok(())
        },
    );
}

#[test]
fn another_capture_in_the_file_is_told_from_a_bad_disk() {
    let (other, other_marked, _) = capture(927);
    for restart in restarts(926) {
        let now = match restart.form {
            Form::Zst => &other_marked.physical,
            Form::Raw => &other.bytes,
        };
        at_every_call(
            &format!("replaced, {:?}", restart.form),
            |disk| {
                disk.set(&restart.before);
                let source = open(disk, restart.form, Progress::Partial).unwrap();
                disk.set(now);
                source
            },
            |source, _| {
                source.refresh()?;
                assert!(source.facts().is_replaced);
                assert_eq!(source.size(), restart.truth.len() as u64);
                let read = source.read(100, 10, OnFault::Fail);
                assert_eq!(read.unwrap_err(), Error::CutOff);
                Ok(())
            },
        );
    }
}
