//! Following where a command cannot be made to stand: between a look at the name and the walk, and the names themselves.

use super::*;
use crate::capture::live::Names;
use crate::capture::read_at::ReadAt;
use crate::capture::source::Source;
use crate::capture::{Engine, State};
use crate::format::marker;
use std::fs::{self, File};
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use tempfile::TempDir;

fn frame(content: &[u8]) -> Vec<u8> {
    let mut compressor = zstd::bulk::Compressor::new(2).unwrap();
    compressor.include_checksum(true).unwrap();
    compressor.compress(content).unwrap()
}

/// Little-endian, microseconds, version 2.4, Ethernet.
const HEADER: [u8; 24] = [
    0xD4, 0xC3, 0xB2, 0xA1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0,
];

fn record(byte: u8, len: u8) -> Vec<u8> {
    let mut record = vec![byte; 8];
    for _ in 0..2 {
        record.extend([len, 0, 0, 0]);
    }
    record.resize(16 + usize::from(len), byte);
    record
}

/// A capture on disk that a test writes while it is followed.
struct Scene {
    folder: TempDir,
    form: Form,
}

impl Scene {
    /// With the header and one record.
    fn new(form: Form) -> Self {
        let folder = TempDir::new().unwrap();
        let scene = Self { folder, form };
        File::create(&scene.names().partial).unwrap();
        let begin = match form {
            Form::Zst => [&marker::FRAME[..], &frame(&HEADER)].concat(),
            Form::Raw => HEADER.to_vec(),
        };
        scene.append(&begin);
        scene.push(&record(1, 40));
        scene
    }

    fn names(&self) -> Names {
        let complete = match self.form {
            Form::Zst => "x.pcap.zst",
            Form::Raw => "x.pcap",
        };
        Names {
            partial: self.folder.path().join(format!("{complete}.partial")),
            complete: self.folder.path().join(complete),
        }
    }

    fn append(&self, bytes: &[u8]) {
        let mut options = File::options();
        let mut file = options.append(true).open(self.names().partial).unwrap();
        file.write_all(bytes).unwrap();
    }

    /// Appends a record, in a frame of its own.
    fn push(&self, record: &[u8]) {
        match self.form {
            Form::Zst => self.append(&frame(record)),
            Form::Raw => self.append(record),
        }
    }

    fn rename(&self) {
        fs::rename(self.names().partial, self.names().complete).unwrap();
    }

    fn follow(&self) -> Follower {
        let file = File::open(self.names().partial).unwrap();
        let engine = Arc::new(Engine::default());
        let live = Live::open(&engine, file, self.form, Some(self.names())).unwrap();
        Follower::new(Arc::new(live), 0)
    }

    /// A follower that has taken all that is there.
    fn follow_all(&self) -> Follower {
        let mut follower = self.follow();
        let wanted = [&HEADER[..], &record(1, 40)].concat();
        assert_eq!(taken(&mut follower), (wanted, "NotYet".to_owned()));
        follower
    }
}

/// All bytes there are now, and what comes then.
fn taken(follower: &mut Follower) -> (Vec<u8>, String) {
    let mut all = Vec::new();
    loop {
        match follower.take_next().unwrap() {
            Next::Bytes(bytes) => {
                assert!(!bytes.is_empty());
                all.extend_from_slice(&bytes);
            }
            next => return (all, format!("{next:?}")),
        }
    }
}

#[test]
fn a_rename_between_the_look_at_the_name_and_the_walk_does_not_end_it_early() {
    for form in [Form::Zst, Form::Raw] {
        let scene = Scene::new(form);
        let mut follower = scene.follow_all();
        follower.live.look_at_name().unwrap();
        scene.push(&record(2, 50));
        scene.rename();
        assert!(follower.live.walk().unwrap());
        assert!(!follower.live.is_renamed(), "not known yet");
        assert_eq!(
            taken(&mut follower),
            (record(2, 50), "Complete".to_owned()),
            "{form:?}"
        );
    }
}

#[test]
fn what_comes_between_the_walk_and_the_rename_is_drained_behind_it() {
    for form in [Form::Zst, Form::Raw] {
        let scene = Scene::new(form);
        let mut follower = scene.follow_all();
        follower.live.look_at_name().unwrap();
        assert!(follower.live.walk().unwrap());
        scene.push(&record(2, 50));
        scene.rename();
        assert!(follower.take().unwrap().is_none());
        assert!(matches!(follower.ending(), Ok(Next::NotYet)));
        assert_eq!(
            taken(&mut follower),
            (record(2, 50), "Complete".to_owned()),
            "{form:?}"
        );
    }
}

#[test]
fn a_final_name_with_a_torn_end_is_not_complete_until_it_is_drained() {
    let scene = Scene::new(Form::Zst);
    let mut follower = scene.follow_all();
    let frame = frame(&record(2, 50));
    scene.append(&frame[..frame.len() - 1]);
    scene.rename();
    assert_eq!(taken(&mut follower), (Vec::new(), "NotYet".to_owned()));
    assert_eq!(follower.live().source().state(), State::Draining);
    let mut options = File::options();
    let mut file = options.append(true).open(scene.names().complete).unwrap();
    file.write_all(&frame[frame.len() - 1..]).unwrap();
    let wanted = (record(2, 50), "Complete".to_owned());
    assert_eq!(taken(&mut follower), wanted);
}

#[test]
fn bytes_that_were_cut_off_while_they_were_read_are_not_given_before_they_are_there_again() {
    for form in [Form::Zst, Form::Raw] {
        let scene = Scene::new(form);
        let mut follower = scene.follow_all();
        let file = File::options()
            .write(true)
            .open(scene.names().partial)
            .unwrap();
        let boundary = file.metadata().unwrap().len();
        scene.push(&record(2, 50));
        assert!(follower.live.walk().unwrap());
        assert!(follower.take().unwrap().is_some(), "it is there");
        file.set_len(boundary).unwrap();
        assert_eq!(taken(&mut follower), (Vec::new(), "NotYet".to_owned()));
        scene.push(&record(2, 50));
        scene.rename();
        let wanted = (record(2, 50), "Complete".to_owned());
        assert_eq!(taken(&mut follower), wanted, "{form:?}");
    }
}

#[test]
fn a_fault_is_met_again_at_every_call() {
    let scene = Scene::new(Form::Zst);
    let mut follower = scene.follow_all();
    scene.append(b"junk");
    let fault = follower.take_next().unwrap_err();
    assert!(matches!(fault, Error::Fault(_)), "{fault}");
    scene.rename();
    assert_eq!(follower.take_next().unwrap_err(), fault);
}

#[test]
fn another_file_under_either_name_is_no_completion() {
    let scene = Scene::new(Form::Zst);
    let mut follower = scene.follow_all();
    fs::write(scene.names().complete, b"an older one").unwrap();
    assert_eq!(taken(&mut follower), (Vec::new(), "NotYet".to_owned()));
    let aside = scene.folder.path().join("aside");
    fs::rename(scene.names().partial, &aside).unwrap();
    fs::write(scene.names().partial, b"a newer one").unwrap();
    assert_eq!(taken(&mut follower), (Vec::new(), "NotYet".to_owned()));
    fs::remove_file(aside).unwrap();
    assert_eq!(taken(&mut follower), (Vec::new(), "CutShort".to_owned()));
}

/// A file whose reads fail from one of them on, for a while.
struct Failing {
    file: Arc<File>,
    /// Reads before the first that fails.
    sound: AtomicU64,
    /// Reads that fail.
    bad: AtomicU64,
    errno: i32,
}

impl ReadAt for Failing {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let count_down = |counter: &AtomicU64| {
            let less = |left: u64| left.checked_sub(1);
            counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less)
        };
        if count_down(&self.sound).is_err() && count_down(&self.bad).is_ok() {
            return Err(io::Error::from_raw_os_error(self.errno));
        }
        self.file.read_at(buf, offset)
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
}

#[test]
fn reads_that_fail_at_any_moment_neither_end_it_nor_lose_or_repeat_a_byte() {
    for form in [Form::Zst, Form::Raw] {
        for (errno, bad) in [(libc::EIO, 1), (libc::ESTALE, 3), (libc::EINTR, 2)] {
            let mut reads = 0;
            while let Some(failures) = follow_through(form, reads, bad, errno) {
                let is_told = errno != libc::EINTR;
                assert_eq!(failures > 0, is_told, "{form:?}, {errno} at read {reads}");
                reads += 1;
            }
            assert!(reads > 5, "{form:?}: {reads} reads");
        }
    }
}

/// Follows a capture that grows, restarts and is renamed, over a file of which `bad` reads behind the first `sound` fail:
/// how often the follower told so; `None` if it came to its end before.
fn follow_through(form: Form, sound: u64, bad: u64, errno: i32) -> Option<u64> {
    let scene = Scene::new(form);
    let file = Arc::new(File::open(scene.names().partial).unwrap());
    let failing = Arc::new(Failing {
        file: Arc::clone(&file),
        sound: AtomicU64::new(u64::MAX),
        bad: AtomicU64::new(bad),
        errno,
    });
    let engine = Arc::new(Engine::default());
    let reading = Box::new(Arc::clone(&failing));
    let source = Source::open(engine, reading, form, Progress::Partial).unwrap();
    let live = Live::new(source, Some(file), Some(scene.names()));
    let mut follower = Follower::new(Arc::new(live), 0);
    failing.sound.store(sound, Ordering::Relaxed);
    let mut failures = 0;
    let mut all = Vec::new();
    let mut take = |follower: &mut Follower| loop {
        match follower.take_next() {
            Ok(Next::Bytes(bytes)) => all.extend_from_slice(&bytes),
            Ok(next) => return format!("{next:?}"),
            Err(error) => {
                let doing = "reading";
                assert_eq!(error, Error::Io { doing, errno });
                failures += 1;
            }
        }
    };
    assert_eq!(take(&mut follower), "NotYet");
    let before = fs::metadata(scene.names().partial).unwrap().len();
    scene.push(&record(2, 50));
    assert_eq!(take(&mut follower), "NotYet");
    let mut options = File::options();
    let cut = options.write(true).open(scene.names().partial).unwrap();
    cut.set_len(before).unwrap();
    assert_eq!(take(&mut follower), "NotYet");
    scene.push(&record(2, 50));
    scene.push(&record(3, 60));
    scene.rename();
    assert_eq!(take(&mut follower), "Complete");
    let wanted = [&HEADER[..], &record(1, 40), &record(2, 50), &record(3, 60)].concat();
    assert_eq!(all, wanted, "{form:?}, {errno} at read {sound}");
    (failing.bad.load(Ordering::Relaxed) == 0).then_some(failures)
}
