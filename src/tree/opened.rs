//! An open physical file with the capture in it, looked at again as often as somebody asks.

use std::fs::File;
use std::ops::Deref;
use std::sync::{Arc, Mutex};

use nix::sys::stat::{FileStat, fstat};

use super::errno::Failure;
use super::origin::Stamp;
use crate::capture::sync::lock;
use crate::capture::{Facts, Form, Progress, Source};

/// Looks at a file that is being written, until one finds size and times together.
const SIZED_ATTEMPTS: u32 = 4;

/// An open physical file and the capture in it. What a node points to weakly stays allocated when all others have let go of
/// it, so that is a pointer and no more.
#[derive(Debug)]
pub struct Opened(Box<Parts>);

/// What [`Opened`] holds.
#[derive(Debug)]
pub struct Parts {
    /// The capture.
    pub source: Source,
    pub(super) file: Arc<File>,
    /// The status of a file that no longer grows, before and after what is known of it was walked; `None` while it grows,
    /// or when it changed meanwhile.
    settled: Mutex<Option<Stamp>>,
}

impl Deref for Opened {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl Opened {
    /// `source`, which reads `file` and was walked after its status was `before`.
    #[must_use]
    pub fn new(source: Source, file: Arc<File>, before: &FileStat) -> Self {
        let opened = Self(Box::new(Parts {
            source,
            file,
            settled: Mutex::new(None),
        }));
        opened.settle(Stamp::of(before));
        opened
    }

    /// Looks at the file again: walks what has come, knowing whether its name was seen to be final.
    pub fn look(&self, progress: Progress) -> Result<(), Failure> {
        if progress == Progress::Final {
            self.source.rename_seen();
        }
        self.refresh()
    }

    /// Looks at the file again under the name it was last seen with.
    pub fn refresh(&self) -> Result<(), Failure> {
        let before = Stamp::of(&self.stat()?);
        self.source.refresh()?;
        self.settle(before);
        Ok(())
    }

    /// Whether the file may change and still be this capture: it grows, or is a raw one, which may be written to under its
    /// final name too.
    #[must_use]
    pub fn changes(&self) -> bool {
        self.source.may_grow() || self.source.form() == Form::Raw
    }

    /// What is known of the capture, and the status that the file had at that length: every size has its own times.
    ///
    /// A writer that is faster than this leaves them a moment apart.
    pub fn sized(&self) -> Result<(Facts, FileStat), Failure> {
        let mut attempts = 1..SIZED_ATTEMPTS;
        loop {
            let (facts, stat) = (self.source.facts(), self.stat()?);
            let is_one = u64::try_from(stat.st_size) == Ok(facts.physical_len);
            if is_one || !self.changes() || attempts.next().is_none() {
                return Ok((facts, stat));
            }
            self.refresh()?;
        }
    }

    /// Notes for which status the file was walked, once nothing more may come. From here on every read compares it: so it
    /// must be known before the first one, or what was written over the file until then would be taken for the capture.
    fn settle(&self, before: Stamp) {
        let is_still = |stat| Stamp::of(&stat) == before;
        if !self.source.may_grow() && self.stat().is_ok_and(is_still) {
            lock(&self.settled).get_or_insert(before);
        }
    }

    /// The physical file's status now, wherever it has been renamed to.
    pub fn stat(&self) -> Result<FileStat, Failure> {
        Ok(fstat(&self.file)?)
    }

    /// Whether no name leads to the file any more, so that only its descriptor keeps it on disk.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.stat().is_ok_and(|stat| stat.st_nlink == 0)
    }

    /// Whether the file still holds this capture, as far as can be told now: what a new handle may be given.
    pub fn is_current(&self) -> Result<bool, Failure> {
        if self.source.may_grow() {
            self.refresh()?;
            return Ok(!self.source.facts().is_replaced);
        }
        match self.check_unchanged() {
            Err(Failure::Stale) => Ok(false),
            outcome => outcome.map(|()| true),
        }
    }

    /// Whether a file that no longer grows still holds what was walked.
    ///
    /// # Errors
    /// [`Failure::Stale`] when it was written over: what would be read now is not what this capture was.
    pub fn check_unchanged(&self) -> Result<(), Failure> {
        let now = Stamp::of(&self.stat()?);
        let settled = *lock(&self.settled);
        match settled {
            Some(settled) if settled == now => return Ok(()),
            Some(settled) if self.source.form() == Form::Zst && !settled.is_written_as(&now) => {
                return Err(Failure::Stale);
            }
            // Renamed, its rights changed, or written over with the time of the last write put back; or it changed while it
            // was walked; or a raw file that is written to under its final name.
            _ if !self.source.is_as_walked()? => return Err(Failure::Stale),
            _ => {}
        }
        *lock(&self.settled) = Some(now);
        Ok(())
    }
}
