//! A look at a file with much to walk: it goes in steps, and readers of what is mapped already never wait for it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "a failed step of a test is a panic"
)]

mod common;

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use common::assert_same;
use common::frames::{Handmade, Marked};
use common::pcap::{Magic, Pcap};
use pcapzst::capture::read_at::ReadAt;
use pcapzst::capture::{Engine, Form, OnFault, Progress, Source};

const STEP: u64 = 8 * 1024 * 1024;

/// Bytes that the test changes, and a gate in the way of one read of them.
#[derive(Clone, Default)]
struct Gated(Arc<Inner>);

#[derive(Default)]
struct Inner {
    bytes: Mutex<Vec<u8>>,
    gate: Mutex<Option<Gate>>,
}

/// The next read from `at` on says that it is there, and waits.
struct Gate {
    at: u64,
    reached: Sender<()>,
    opened: Receiver<()>,
}

impl Gated {
    fn set(&self, bytes: &[u8]) {
        *self.0.bytes.lock().unwrap() = bytes.to_vec();
    }

    /// Closes the gate before `at`: what tells that a read stands there, and what lets it pass.
    fn close_gate(&self, at: usize) -> (Receiver<()>, Sender<()>) {
        let (reached, is_reached) = channel();
        let (open, opened) = channel();
        let at = at as u64;
        *self.0.gate.lock().unwrap() = Some(Gate {
            at,
            reached,
            opened,
        });
        (is_reached, open)
    }
}

impl ReadAt for Gated {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let gate = self
            .0
            .gate
            .lock()
            .unwrap()
            .take_if(|gate| offset >= gate.at);
        if let Some(gate) = gate {
            gate.reached.send(()).unwrap();
            gate.opened.recv().unwrap();
        }
        ReadAt::read_at(&*self.0.bytes.lock().unwrap(), buf, offset)
    }

    fn len(&self) -> io::Result<u64> {
        ReadAt::len(&*self.0.bytes.lock().unwrap())
    }
}

/// 40 MiB in frames that zstd could not make smaller, and their source.
fn large() -> Marked {
    let mut pcap = Pcap::new(Magic::LeUs);
    let payload = vec![0x5A; 60_000];
    while pcap.bytes.len() < 1 << 20 {
        pcap.push_udp(&payload);
    }
    let mut marked = Marked::new(pcap.header());
    let content = &pcap.bytes[24..];
    let frame = Handmade::raw(content).build();
    for _ in 0..40 {
        marked.frame(&frame, content);
    }
    marked
}

#[test]
fn one_step_of_a_compressed_backlog_walks_8_mib_and_ends_at_a_frame() {
    let large = large();
    let file = Gated::default();
    let source = open(&file, Form::Zst);
    file.set(&large.physical);
    let mut steps = 0;
    let mut walked = 0;
    loop {
        let reach = source.refresh_step().unwrap();
        steps += 1;
        let frontier = usize::try_from(source.facts().frontier).unwrap();
        let ends_at_frame =
            |frame: &&(std::ops::Range<usize>, std::ops::Range<usize>)| frame.0.end == frontier;
        let now = large.frames.iter().find(ends_at_frame).unwrap().1.end as u64;
        let frame = large.frames[0].1.len() as u64;
        assert!(now - walked <= STEP + frame, "{} bytes", now - walked);
        walked = now;
        if !reach.is_part() {
            break;
        }
    }
    assert!(steps >= 5, "40 MiB in {steps} steps");
    assert_eq!(source.size(), large.source.len() as u64);
}

#[test]
fn one_step_of_a_raw_backlog_follows_8_mib_of_records() {
    let large = large();
    let file = Gated::default();
    let source = open(&file, Form::Raw);
    file.set(&large.source);
    let mut sizes = vec![0];
    while source.refresh_step().unwrap().is_part() {
        sizes.push(source.size());
    }
    assert_eq!(source.size(), large.source.len() as u64);
    sizes.push(source.size());
    for pair in sizes.windows(2) {
        assert!(pair[1] - pair[0] <= STEP + 512 * 1024, "{pair:?}");
    }
}

#[test]
fn a_look_takes_all_steps_of_a_backlog() {
    let large = large();
    for (form, bytes) in [(Form::Zst, &large.physical), (Form::Raw, &large.source)] {
        let file = Gated::default();
        let source = open(&file, form);
        file.set(bytes);
        source.refresh().unwrap();
        assert_eq!(source.size(), large.source.len() as u64);
    }
}

#[test]
fn what_is_mapped_is_read_while_a_restarted_file_is_walked_anew() {
    let pcap = Pcap::random(Magic::LeUs, 5, 2000);
    let marked = Marked::pack(&pcap, 4000);
    let kept = marked.frames[marked.frames.len() / 2].clone();
    let forms = [
        (Form::Zst, &marked.physical, kept.1.end, kept.0.end),
        (Form::Raw, &pcap.bytes, kept.0.end, kept.0.end),
    ];
    for (form, bytes, cut_physical, cut_source) in forms {
        let file = Gated::default();
        file.set(bytes);
        let source = Arc::new(open(&file, form));
        assert_eq!(source.size(), pcap.bytes.len() as u64);
        // The writer cuts its file back, and the walk goes over it anew. It is stopped on its way.
        file.set(&bytes[..cut_physical]);
        let (is_reached, open) = file.close_gate(cut_physical / 4);
        let walker = Arc::clone(&source);
        let walk = thread::spawn(move || walker.refresh());
        is_reached.recv().unwrap();
        let read = source.read(0, cut_source, OnFault::Fail).unwrap();
        assert_same(&read, &pcap.bytes[..cut_source], "while it is walked");
        assert_eq!(source.size(), pcap.bytes.len() as u64);
        open.send(()).unwrap();
        walk.join().unwrap().unwrap();
        let read = source.read(0, cut_source, OnFault::Fail).unwrap();
        assert_same(&read, &pcap.bytes[..cut_source], "when it was walked");
        assert_eq!(source.size(), pcap.bytes.len() as u64);
    }
}

#[test]
fn a_reader_of_bytes_that_were_framed_anew_waits_for_the_walk_and_gets_them() {
    let pcap = Pcap::random(Magic::LeUs, 6, 2000);
    let (coarse, small) = (Marked::pack(&pcap, 9000), Marked::pack(&pcap, 1500));
    let file = Gated::default();
    file.set(&coarse.physical);
    let source = Arc::new(open(&file, Form::Zst));
    // Cut back and written again in other frames between two looks, and so far not as long as before.
    let written = small
        .frames
        .iter()
        .rfind(|frame| frame.1.end < coarse.physical.len())
        .unwrap();
    file.set(&small.physical[..written.1.end]);
    let (is_reached, open) = file.close_gate(written.1.end / 2);
    let walker = Arc::clone(&source);
    let walk = thread::spawn(move || walker.refresh());
    is_reached.recv().unwrap();
    let same = Arc::clone(&source);
    let end = written.0.end;
    let bytes = thread::spawn(move || same.read(0, end, OnFault::Fail));
    open.send(()).unwrap();
    walk.join().unwrap().unwrap();
    let bytes = bytes.join().unwrap().unwrap();
    assert_same(&bytes, &pcap.bytes[..end], "in the new frames");
}

fn open(file: &Gated, form: Form) -> Source {
    let engine = Arc::new(Engine::default());
    Source::open(engine, Box::new(file.clone()), form, Progress::Partial).unwrap()
}

#[test]
fn a_raw_file_emptied_and_preallocated_anew_shows_no_zeros() {
    let pcap = Pcap::random(Magic::LeUs, 7, 2000);
    let file = Gated::default();
    file.set(&pcap.bytes);
    let source = open(&file, Form::Raw);
    assert_eq!(source.size(), pcap.bytes.len() as u64);
    // As long as before, and all zeros; then the first records once more.
    let mut again = vec![0; pcap.bytes.len()];
    file.set(&again);
    source.refresh().unwrap();
    let written = pcap.ends[10];
    again[..written].copy_from_slice(&pcap.bytes[..written]);
    file.set(&again);
    source.refresh().unwrap();
    let read = source.read(0, written, OnFault::Fail).unwrap();
    assert_same(&read, &pcap.bytes[..written], "written again");
    let behind = source.read(written as u64, 100, OnFault::Fail);
    assert!(behind.is_err(), "zeros of a preallocated file");
    file.set(&pcap.bytes);
    source.refresh().unwrap();
    let read = source.read(0, pcap.bytes.len(), OnFault::Fail).unwrap();
    assert_same(&read, &pcap.bytes, "all of it again");
}
