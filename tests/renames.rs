//! The `.partial` rename under fire: whoever looks, at whatever moment, finds the whole capture.
//!
//! `PCAPZST_RENAMES` sets how many renames there are.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "a failed step of a test is a panic"
)]

mod common;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use common::day::Day;
use common::growth::{Form, Growth};
use common::mounted::Mounted;

/// Renames in one mount: it lives for a limited time only.
const ROUND: usize = 1000;
/// Looks of each reader at a file before its rename, and again after it.
const LOOKS: u64 = 2;

fn wanted_renames() -> usize {
    common::number("PCAPZST_RENAMES", 500)
}

/// What readers and renamer share. The files are `0.pcap`, `1.pcap` and so on, all with the same bytes.
struct Scene {
    mnt: PathBuf,
    truth: Vec<u8>,
    /// The file that is looked at.
    current: AtomicUsize,
    is_over: AtomicBool,
    /// Looks by each reader so far.
    looks: Vec<AtomicU64>,
    /// The looks whose file was renamed while they ran or just before.
    faults: std::sync::Mutex<BTreeMap<String, u64>>,
}

impl Scene {
    fn new(mounted: &Mounted, truth: &[u8]) -> Self {
        Self {
            mnt: mounted.path().to_path_buf(),
            truth: truth.to_vec(),
            current: AtomicUsize::new(0),
            is_over: AtomicBool::new(false),
            looks: READERS.iter().map(|_| AtomicU64::new(0)).collect(),
            faults: std::sync::Mutex::default(),
        }
    }

    /// Looks with one reader until the renames are over.
    fn read(&self, reader: usize) {
        let mut kept = None;
        while !self.is_over.load(Ordering::SeqCst) {
            let number = self.current.load(Ordering::SeqCst);
            let path = self.mnt.join(format!("{number}.pcap"));
            if let Err(fault) = READERS[reader](self, number, &path, &mut kept) {
                let fault = format!("reader {reader}: {fault}");
                *self.faults.lock().unwrap().entry(fault).or_default() += 1;
            }
            self.looks[reader].fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Lets every reader look at the current file.
    fn be_looked_at(&self) {
        let before: Vec<_> = self.looks.iter().map(load).collect();
        for (looks, before) in self.looks.iter().zip(before) {
            while load(looks) < before + LOOKS && !self.is_over.load(Ordering::SeqCst) {
                thread::yield_now();
            }
        }
    }

    fn check(&self, what: &str, got: &[u8]) -> Result<(), String> {
        if got.len() != self.truth.len() {
            return Err(format!("{what}: {} bytes", got.len()));
        }
        let fault = got.iter().zip(&self.truth).position(|(a, b)| a != b);
        fault.map_or(Ok(()), |at| Err(format!("{what}: byte {at} is wrong")))
    }
}

fn load(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::SeqCst)
}

fn failed(what: &str) -> impl Fn(io::Error) -> String {
    move |error| format!("{what}: {error}")
}

/// A file that a reader opened when it was first current, and its inode number.
type Kept = Option<(usize, u64, File)>;

type Reader = fn(&Scene, usize, &Path, &mut Kept) -> Result<(), String>;

const READERS: [Reader; 5] = [stat, open_and_read, keep_and_read, keep_and_read, list];

fn stat(scene: &Scene, _: usize, path: &Path, _: &mut Kept) -> Result<(), String> {
    let size = path.metadata().map_err(failed("stat"))?.len();
    if size == scene.truth.len() as u64 {
        Ok(())
    } else {
        Err(format!("stat: size {size}"))
    }
}

fn open_and_read(scene: &Scene, _: usize, path: &Path, _: &mut Kept) -> Result<(), String> {
    let mut file = File::open(path).map_err(failed("open"))?;
    let mut got = Vec::new();
    file.read_to_end(&mut got).map_err(failed("read"))?;
    scene.check("a new handle", &got)
}

/// Opens a file once, before its rename, and reads it again and again; the name must go on leading to the same inode.
fn keep_and_read(scene: &Scene, number: usize, path: &Path, kept: &mut Kept) -> Result<(), String> {
    if kept.as_ref().is_none_or(|(old, ..)| *old != number) {
        let file = File::open(path).map_err(failed("open to keep"))?;
        let inode = file.metadata().map_err(failed("fstat"))?.ino();
        *kept = Some((number, inode, file));
    }
    let (_, inode, file) = kept.as_ref().unwrap();
    let named = path.metadata().map_err(failed("stat"))?;
    let held = file.metadata().map_err(failed("fstat"))?;
    if (named.ino(), held.ino()) != (*inode, *inode) {
        return Err("the inode number changed".to_owned());
    }
    if held.len() != scene.truth.len() as u64 {
        return Err(format!("fstat: size {}", held.len()));
    }
    // One more than there is, so that the end is seen too.
    let mut got = vec![0; scene.truth.len() + 1];
    let mut len = 0;
    loop {
        let more = file.read_at(&mut got[len..], len as u64);
        match more.map_err(failed("pread"))? {
            0 => break,
            more => len += more,
        }
    }
    scene.check("an old handle", &got[..len])
}

/// A listing shows every file so far once, under whichever name it is on disk.
fn list(scene: &Scene, number: usize, _: &Path, _: &mut Kept) -> Result<(), String> {
    // Long listings would be all that this reader does.
    if number % 50 > 2 {
        thread::yield_now();
        return Ok(());
    }
    let mut seen = vec![0_u32; number + 1];
    for entry in fs::read_dir(&scene.mnt).map_err(failed("opendir"))? {
        let name = entry.map_err(failed("readdir"))?.file_name();
        let name = name.into_string().unwrap();
        let found = name.strip_suffix(".pcap").and_then(|it| it.parse().ok());
        let found: usize = found.ok_or_else(|| format!("listed: {name}"))?;
        // Later ones may have come meanwhile.
        if let Some(seen) = seen.get_mut(found) {
            *seen += 1;
        }
    }
    match seen.iter().position(|times| *times != 1) {
        None => Ok(()),
        Some(at) => Err(format!("a file is listed {} times", seen[at])),
    }
}

fn rename_under_fire(form: Form, seed: u64) {
    let growth = Growth::new(form, seed, 12, 40..900);
    let physical: Vec<u8> = growth
        .steps
        .iter()
        .flat_map(|step| step.bytes.clone())
        .collect();
    let started = Instant::now();
    let mut looks = 0;
    let mut left = wanted_renames() / 2;
    while left > 0 {
        let round = left.min(ROUND);
        left -= round;
        let day = Day::new();
        let name = |number: usize| day.source().join(format!("{number}{}", form.ending()));
        let partial = |number: usize| {
            let mut partial = name(number).into_os_string();
            partial.push(".partial");
            PathBuf::from(partial)
        };
        fs::write(partial(0), &physical).unwrap();
        let mounted = day.mount();
        let scene = Scene::new(&mounted, &growth.truth);
        thread::scope(|scope| {
            // A failed step must not leave the readers looking.
            let _over = Over(&scene);
            for reader in 0..READERS.len() {
                let over = &scene;
                scope.spawn(move || {
                    let _over = Over(over);
                    over.read(reader);
                });
            }
            for number in 0..round {
                scene.be_looked_at();
                fs::rename(partial(number), name(number)).unwrap();
                scene.be_looked_at();
                fs::write(partial(number + 1), &physical).unwrap();
                scene.current.store(number + 1, Ordering::SeqCst);
            }
        });
        looks += scene.looks[..READERS.len() - 1]
            .iter()
            .map(load)
            .sum::<u64>();
        let faults = scene.faults.into_inner().unwrap();
        assert!(faults.is_empty(), "{faults:#?}");
        mounted.unmount();
    }
    println!(
        "{form:?}: {} renames, {looks} looks in {:?}",
        wanted_renames() / 2,
        started.elapsed()
    );
}

struct Over<'a>(&'a Scene);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::SeqCst);
    }
}

#[test]
fn no_look_at_a_compressed_capture_falls_between_its_two_names() {
    rename_under_fire(Form::Zst, 21);
}

#[test]
fn no_look_at_a_raw_capture_falls_between_its_two_names() {
    rename_under_fire(Form::Raw, 22);
}
