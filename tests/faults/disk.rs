//! A disk in memory whose n-th call fails, in each way that a disk has, for every n that there is.

use std::io;
use std::sync::{Arc, Mutex};

use pcapzst::capture::Error;
use pcapzst::capture::read_at::ReadAt;
use pcapzst::capture::stamp::Stamp;

/// No run of these tests needs as many calls: one that does goes round in circles.
const CALLS_MOST: u64 = 20_000;

/// What a call does instead of what it should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A bad block.
    Eio,
    /// A file server that has forgotten the file.
    Estale,
    /// EIO, and so does every call behind it: a disk that is gone.
    Gone,
    /// EINTR.
    Interrupted,
    /// One byte, though there are more.
    OneByte,
    /// Half of what was asked for.
    Half,
    /// Nothing, as at the end of the file, though it is not there: the file was cut off and written again meanwhile.
    Nothing,
}

impl Fault {
    const ALL: [Self; 7] = [
        Self::Eio,
        Self::Estale,
        Self::Gone,
        Self::Interrupted,
        Self::OneByte,
        Self::Half,
        Self::Nothing,
    ];

    /// The errno that has to come through, if this is a failure.
    fn errno(self) -> Option<i32> {
        match self {
            Self::Eio | Self::Gone => Some(libc::EIO),
            Self::Estale => Some(libc::ESTALE),
            Self::Interrupted | Self::OneByte | Self::Half | Self::Nothing => None,
        }
    }
}

/// The disk, and what it does wrong; clones are the same one.
#[derive(Clone, Default)]
pub struct Disk(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    bytes: Vec<u8>,
    /// Counts what was put there: the stamp's time.
    version: i64,
    /// The fault, and the calls that go well before it.
    fault: Option<(Fault, u64)>,
    /// Faults met.
    met: u64,
}

impl Inner {
    /// What the call that is made now does wrong.
    fn call(&mut self) -> Option<Fault> {
        match &mut self.fault {
            Some((fault, 0)) => {
                let fault = *fault;
                if fault != Fault::Gone {
                    self.fault = None;
                }
                self.met += 1;
                Some(fault)
            }
            Some((_, calls)) => {
                *calls -= 1;
                None
            }
            None => None,
        }
    }

    /// As [`Self::call`], for a call that gives no bytes, so that it cannot give too few of them.
    fn ask(&mut self) -> io::Result<()> {
        match self.call().and_then(Fault::errno) {
            Some(errno) => Err(io::Error::from_raw_os_error(errno)),
            None => Ok(()),
        }
    }
}

impl Disk {
    pub fn with(bytes: &[u8]) -> Self {
        let disk = Self::default();
        disk.set(bytes);
        disk
    }

    /// What the file holds from now on.
    pub fn set(&self, bytes: &[u8]) {
        let mut inner = self.0.lock().unwrap();
        inner.bytes = bytes.to_vec();
        inner.version += 1;
    }

    fn break_at(&self, fault: Fault, call: u64) {
        self.0.lock().unwrap().fault = Some((fault, call));
    }

    /// Nothing is wrong any more; how often something was.
    fn mend(&self) -> u64 {
        let mut inner = self.0.lock().unwrap();
        inner.fault = None;
        std::mem::take(&mut inner.met)
    }
}

impl ReadAt for Disk {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut inner = self.0.lock().unwrap();
        let len = match inner.call() {
            None => buf.len(),
            Some(Fault::OneByte) => buf.len().min(1),
            Some(Fault::Half) => buf.len().div_ceil(2),
            Some(Fault::Nothing) => 0,
            Some(Fault::Interrupted) => return Err(io::Error::from_raw_os_error(libc::EINTR)),
            Some(fault) => {
                let errno = fault.errno().unwrap();
                return Err(io::Error::from_raw_os_error(errno));
            }
        };
        ReadAt::read_at(&inner.bytes, &mut buf[..len], offset)
    }

    fn len(&self) -> io::Result<u64> {
        let mut inner = self.0.lock().unwrap();
        inner.ask()?;
        Ok(inner.bytes.len() as u64)
    }

    fn stamp(&self) -> io::Result<Option<Stamp>> {
        let mut inner = self.0.lock().unwrap();
        inner.ask()?;
        Ok(Some(Stamp {
            file: (1, 1),
            size: i64::try_from(inner.bytes.len()).unwrap(),
            mtime: (1_700_000_000 + inner.version, 1),
            ctime: (1_700_000_000 + inner.version, 1),
        }))
    }
}

/// Does `act` on what `prepare` makes of a sound disk, once for each fault at each of its calls: it fails with the fault's
/// own errno or does what it should, where no byte is lost it does not fail at all, and the next time it does what it
/// should. `act` checks its own outcome.
///
/// # Panics
/// When the outcome is another, or when `act` makes no call.
#[track_caller]
pub fn at_every_call<S>(
    what: &str,
    prepare: impl Fn(&Disk) -> S,
    act: impl Fn(&S, &Disk) -> Result<(), Error>,
) {
    for fault in Fault::ALL {
        let mut call = 0;
        loop {
            let place = format!("{what}: {fault:?} at call {call}");
            assert!(call < CALLS_MOST, "{place}: it does not end");
            let told = Place(&place);
            let disk = Disk::default();
            let scene = prepare(&disk);
            disk.break_at(fault, call);
            let outcome = act(&scene, &disk);
            if disk.mend() == 0 {
                assert_eq!(outcome, Ok(()), "{place}: nothing was wrong");
                break;
            }
            match (&outcome, fault.errno()) {
                (Ok(()), _) => {}
                (Err(Error::Io { errno, .. }), Some(wanted)) => {
                    assert_eq!(*errno, wanted, "{place}");
                }
                (Err(Error::CutOff | Error::Shrank), None) if fault == Fault::Nothing => {}
                (Err(Error::Fault(found)), None)
                    if fault == Fault::Nothing && found.kind.is_changed() => {}
                (Err(error), _) => panic!("{place}: {error:?}"),
            }
            assert_eq!(act(&scene, &disk), Ok(()), "{place}: the time behind it");
            drop(told);
            call += 1;
        }
        assert!(call > 0, "{what} makes no call");
    }
}

/// Says where it was when a check of the test's own fails.
struct Place<'a>(&'a str);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("this was {}", self.0);
        }
    }
}
