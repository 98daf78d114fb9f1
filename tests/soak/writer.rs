//! A capture machine: frames in a steady beat, whole and torn; the finished file is renamed, and another follows.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::field::{Capture, Field, add};
use crate::common::Rng;
use crate::common::growth::{Form, Growth};

/// Time between two writes. Of three frames one comes in pieces, two or three: three writes in two frames, fifty frames a
/// second.
const BEAT: Duration = Duration::from_micros(13_333);
/// Finished captures of each writer that stay.
const KEPT: usize = 2;

/// A writer and the file it is at.
pub struct Writer<'a> {
    field: &'a Field,
    number: usize,
    rng: Rng,
    sequence: u64,
    file: File,
    capture: Arc<Capture>,
    /// Steps written of it.
    step: usize,
    /// Records whose end is on disk.
    records: usize,
}

impl<'a> Writer<'a> {
    /// Starts the first capture.
    pub fn new(field: &'a Field, number: usize) -> Self {
        let mut rng = Rng::new(number as u64 + 1);
        let (capture, file) = start(field, number, 0, &mut rng);
        Self {
            field,
            number,
            rng,
            sequence: 0,
            file,
            capture,
            step: 1,
            records: 0,
        }
    }

    /// Writes until the soak is over, and finishes the last capture.
    pub fn run(mut self) {
        while !self.field.is_over_within(BEAT) {
            if self.step < self.capture.growth.steps.len() {
                self.write_step();
                continue;
            }
            self.finish();
            self.remove_old();
            self.sequence += 1;
            (self.capture, self.file) =
                start(self.field, self.number, self.sequence, &mut self.rng);
            (self.step, self.records) = (1, 0);
        }
        while self.step < self.capture.growth.steps.len() {
            self.write_step();
        }
        self.finish();
    }

    fn write_step(&mut self) {
        let capture = &self.capture;
        let step = &capture.growth.steps[self.step];
        self.step += 1;
        capture.frontier.announce(step.visible);
        self.file.write_all(&step.bytes).unwrap();
        if step.visible > capture.growth.ends[self.records] {
            self.records += 1;
            capture.landed[self.records].store(self.field.nanos(), Ordering::SeqCst);
            add(&self.field.totals.frames, 1);
        } else {
            add(&self.field.totals.torn, 1);
        }
        capture.frontier.publish(step.visible);
    }

    fn finish(&self) {
        let capture = &self.capture;
        let last = path(self.field, capture);
        fs::rename(partial(self.field, capture), last).unwrap();
        capture.is_final.store(true, Ordering::SeqCst);
        add(&self.field.totals.finished, 1);
    }

    fn remove_old(&self) {
        let mut captures = self.field.captures[self.number].lock().unwrap();
        if captures.len() > KEPT {
            let oldest = captures.remove(0);
            oldest.is_removed.store(true, Ordering::SeqCst);
            fs::remove_file(path(self.field, &oldest)).unwrap();
            add(&self.field.totals.removed, 1);
        }
    }
}

/// Creates the next capture of a writer; readers know of it once its header is on disk.
fn start(field: &Field, number: usize, sequence: u64, rng: &mut Rng) -> (Arc<Capture>, File) {
    let form = if number.is_multiple_of(4) {
        Form::Raw
    } else {
        Form::Zst
    };
    let seed = sequence * 64 + number as u64 + 1000;
    let records = 15 + rng.below(75);
    let longest = [1500, 9000, 65_536][rng.below(3)];
    let growth = Growth::new(form, seed, records, 40..longest);
    let capture = Arc::new(Capture::new(format!("w{number}-{sequence}.pcap"), growth));
    let mut file = OpenOptions::new()
        .append(true)
        .create_new(true)
        .open(partial(field, &capture))
        .unwrap();
    let first = &capture.growth.steps[0];
    file.write_all(&first.bytes).unwrap();
    capture.frontier.announce(first.visible);
    capture.frontier.publish(first.visible);
    let mut captures = field.captures[number].lock().unwrap();
    captures.push(Arc::clone(&capture));
    (capture, file)
}

fn path(field: &Field, capture: &Capture) -> PathBuf {
    let name = capture.name.strip_suffix(".pcap").unwrap();
    let ending = capture.growth.form.ending();
    field.source.join(format!("{name}{ending}"))
}

fn partial(field: &Field, capture: &Capture) -> PathBuf {
    let mut partial = path(field, capture).into_os_string();
    partial.push(".partial");
    partial.into()
}
