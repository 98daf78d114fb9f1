//! Complete captures: opened, read in every way, checked, and looked at again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use pcapzst::capture::follow::{Follower, Next};
use pcapzst::capture::live::Live;
use pcapzst::capture::prefetch::Keeps;
use pcapzst::capture::records::{NextPacket, Records};
use pcapzst::capture::report::{Verdict, verify};
use pcapzst::capture::{Engine, Error, Form, OnFault, Progress, Source, State};

use crate::common::frames::{Handmade, Marked};
use crate::common::pcap::{Magic, Pcap};
use crate::disk::{Disk, at_every_call};
use crate::{capture, check_facts, engine, open, read_all};

/// Each form, its bytes on disk, and their source.
fn forms(seed: u64) -> [(Form, Vec<u8>, Vec<u8>); 2] {
    let (pcap, marked, _) = capture(seed);
    [
        (Form::Zst, marked.physical, marked.source),
        (Form::Raw, pcap.bytes.clone(), pcap.bytes),
    ]
}

/// Does `act` on an open complete capture of each form, at every call.
fn on_each_form(seed: u64, what: &str, act: impl Fn(&Source, &[u8]) -> Result<(), Error>) {
    for (form, physical, truth) in forms(seed) {
        at_every_call(
            &format!("{what}, {form:?}"),
            |disk| {
                disk.set(&physical);
                open(disk, form, Progress::Final).unwrap()
            },
            |source, _| {
                act(source, &truth)?;
                check_facts(source, &truth, State::Complete);
                Ok(())
            },
        );
    }
}

#[test]
fn opening_gives_the_capture_or_the_disks_error() {
    for (form, physical, truth) in forms(901) {
        at_every_call(
            &format!("opening, {form:?}"),
            |disk| disk.set(&physical),
            |(), disk| {
                let source = open(disk, form, Progress::Final)?;
                check_facts(&source, &truth, State::Complete);
                read_all(&source, &truth, OnFault::Fail)
            },
        );
    }
}

#[test]
fn opening_what_is_refused_or_torn_gives_that_verdict_or_the_disks_error() {
    let (pcap, marked, _) = capture(902);
    let torn = marked.physical[..marked.physical.len() - 1].to_vec();
    let mut bad_header = Marked::new(&pcap.header()[..20]);
    bad_header.data(&pcap.bytes[24..]);
    let damaged = [&marked.physical[..], b"no frame"].concat();
    for (bytes, state) in [
        (b"this is no capture at all".to_vec(), State::Refused),
        (bad_header.physical, State::Refused),
        (damaged, State::Damaged),
        (torn, State::Draining),
    ] {
        at_every_call(
            state.as_str(),
            |disk| disk.set(&bytes),
            |(), disk| {
                let source = open(disk, Form::Zst, Progress::Final)?;
                assert_eq!(source.state(), state);
                source.refresh()?;
                assert_eq!(source.state(), state);
                Ok(())
            },
        );
    }
}

#[test]
fn reads_of_every_kind_give_right_bytes_or_the_disks_error() {
    on_each_form(903, "reading", |source, truth| {
        read_all(source, truth, OnFault::Fail)
    });
    on_each_form(904, "reading up to a fault", |source, truth| {
        read_all(source, truth, OnFault::ServeGood)
    });
    on_each_form(905, "reading pieces", |source, truth| {
        let pieces = source.read_pieces(0, truth.len(), OnFault::Fail)?;
        assert_eq!(pieces.len(), truth.len());
        Ok(())
    });
}

#[test]
fn a_reader_in_a_row_gets_right_bytes_though_what_is_read_ahead_of_him_fails() {
    // Long enough a run that something is read ahead.
    let pcap = Pcap::of_size(Magic::LeUs, 912, 400_000);
    let marked = Marked::pack(&pcap, 40_000);
    let open = |disk: &Disk, engine: Engine| {
        let (file, engine) = (Box::new(disk.clone()), Arc::new(engine));
        let source = Source::open(Arc::clone(&engine), file, Form::Zst, Progress::Final).unwrap();
        (source, engine)
    };
    let disk = Disk::default();
    disk.set(&marked.physical);
    // Who holds the engine while nothing is being read ahead.
    let (_source, engine) = open(&disk, Engine::default().without_threads());
    let holders = Arc::strong_count(&engine);
    let ahead = AtomicU64::new(0);
    at_every_call(
        "reading ahead",
        |disk| {
            disk.set(&marked.physical);
            open(disk, Engine::default())
        },
        |(source, engine), _| {
            let pattern = Arc::default();
            let read = |at: usize| {
                source.read_ahead(&pattern, at as u64, 20_000, Keeps::Frames);
                let bytes = source.read(at as u64, 20_000, OnFault::Fail)?;
                let end = marked.source.len().min(at + 20_000);
                assert!(*bytes == marked.source[at..end], "at {at}");
                Ok(())
            };
            let mut places = (0..marked.source.len()).step_by(20_000);
            let outcome = places.try_for_each(read);
            // What still fails ahead would give its error to who joins it later.
            while Arc::strong_count(engine) > holders {
                thread::yield_now();
            }
            ahead.fetch_add(engine.cache_stats().ahead, Ordering::Relaxed);
            outcome
        },
    );
    assert!(ahead.into_inner() > 0, "nothing was read ahead");
}

#[test]
fn frames_by_number_and_place_are_right_or_fail() {
    let (_, marked, _) = capture(906);
    at_every_call(
        "frames",
        |disk| {
            disk.set(&marked.physical);
            open(disk, Form::Zst, Progress::Final).unwrap()
        },
        |source, _| {
            for (number, (src, phys)) in marked.frames.iter().enumerate() {
                let (span, bytes) = source.frame(number).unwrap();
                assert!(*bytes? == marked.source[src.clone()]);
                let (_, _, bytes) = source.frame_at(src.start as u64).unwrap();
                assert!(*bytes? == marked.source[src.clone()]);
                let mut out = vec![0; src.len()];
                source.decode(number, &span, &mut out)?;
                assert!(out == marked.source[src.clone()]);
                let mut out = vec![0; phys.len()];
                source.read_stored(number, &span, &mut out)?;
                assert!(out == marked.physical[phys.clone()]);
                // The next one is to go to the disk again.
                source.forget(0..u64::MAX);
            }
            let mut prologue = vec![0; marked.frames[0].1.start];
            assert_eq!(source.prologue_len(), prologue.len() as u64);
            source.read_prologue(&mut prologue)?;
            assert!(prologue == marked.physical[..prologue.len()]);
            check_facts(source, &marked.source, State::Complete);
            Ok(())
        },
    );
}

#[test]
fn a_check_finds_nothing_wrong_or_fails() {
    on_each_form(907, "verify", |source, truth| {
        let found = verify(source, |_| {})?;
        assert_eq!(found.verdict, Verdict::Good, "{:?}", found.faults);
        assert_eq!(found.packets, 40);
        assert_eq!(found.facts.size, truth.len() as u64);
        Ok(())
    });
}

#[test]
fn a_second_look_finds_the_same_capture_or_fails() {
    on_each_form(908, "is it as walked", |source, _| {
        assert!(source.is_as_walked()?, "another capture");
        source.refresh()
    });
}

/// A first frame whose window is too large to stream a prefix of: it is decoded whole for the `FileId`.
fn with_large_window() -> Marked {
    let pcap = Pcap::random(Magic::LeUs, 909, 20);
    let mut marked = Marked::new(pcap.header());
    let chunks = pcap.chunks(4000);
    let mut first = Handmade::raw(&pcap.bytes[chunks[0].clone()]);
    first.window = Some(15 << 3);
    marked.frame(&first.build(), &pcap.bytes[chunks[0].clone()]);
    for chunk in &chunks[1..] {
        marked.data(&pcap.bytes[chunk.clone()]);
    }
    marked
}

/// A first record header that begins in one frame and ends in the next.
fn with_split_record() -> Marked {
    let pcap = Pcap::random(Magic::LeUs, 910, 20);
    let mut marked = Marked::new(pcap.header());
    marked.data(&pcap.bytes[24..30]);
    marked.data(&pcap.bytes[30..2000]);
    marked.data(&pcap.bytes[2000..]);
    marked
}

#[test]
fn an_odd_first_frame_gives_the_same_id_or_the_disks_error() {
    for marked in [with_large_window(), with_split_record()] {
        at_every_call(
            "opening an odd one",
            |disk| disk.set(&marked.physical),
            |(), disk| {
                let source = open(disk, Form::Zst, Progress::Final)?;
                check_facts(&source, &marked.source, State::Complete);
                read_all(&source, &marked.source, OnFault::Fail)
            },
        );
        // The same while it grows: what one look could not learn the next one does.
        at_every_call(
            "a look at an odd one",
            |disk| {
                disk.set(&marked.physical[..marked.frames[0].1.start]);
                let source = open(disk, Form::Zst, Progress::Partial).unwrap();
                disk.set(&marked.physical);
                source
            },
            |source, _| {
                source.refresh()?;
                check_facts(source, &marked.source, State::Growing);
                read_all(source, &marked.source, OnFault::Fail)
            },
        );
    }
}

#[test]
fn who_takes_a_capture_in_order_gets_all_of_it_once_though_the_disk_fails_on_the_way() {
    let (_, marked, _) = capture(911);
    let open = |disk: &Disk, from| {
        disk.set(&marked.physical);
        let live = Live::in_memory(&engine(), Box::new(disk.clone())).unwrap();
        Follower::new(Arc::new(live), from)
    };
    at_every_call(
        "following",
        |disk| std::sync::Mutex::new((open(disk, 0), Vec::new())),
        |scene, _| {
            let (follower, got) = &mut *scene.lock().unwrap();
            loop {
                match follower.take_next()? {
                    Next::Bytes(bytes) => got.extend_from_slice(&bytes),
                    Next::Complete => break,
                    other => panic!("{other:?}"),
                }
            }
            assert!(*got == marked.source);
            Ok(())
        },
    );
    at_every_call(
        "packets",
        |disk| std::sync::Mutex::new((Records::new(open(disk, 24)), 0)),
        |scene, _| {
            let (records, packets) = &mut *scene.lock().unwrap();
            loop {
                match records.take_next()? {
                    NextPacket::Packet(_) => *packets += 1,
                    NextPacket::Ending(Next::Complete) => break,
                    NextPacket::Ending(other) => panic!("{other:?}"),
                }
            }
            assert_eq!(*packets, 40);
            Ok(())
        },
    );
}
