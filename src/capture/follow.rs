//! A capture followed to its completion, on the physical file and without a mount.
//!
//! The rename is the only sign that a capture is complete (format document, section 7.2): the name is looked at before the
//! file, so that what is drained after the rename was seen is all of it. The descriptor stays the same throughout.
//!
//! Until it is drained, a renamed file is still read as a partial one: its writer may have restarted between two looks, and
//! what a restart leaves must not be called damage. Bytes are given only when a look behind the read finds the same capture
//! there: a reader may be slow, and the file another one meanwhile.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::Engine;
use super::bytes::Bytes;
use super::error::Error;
use super::report::check_frame;
use super::source::{Form, OnFault, Progress, Source, State};
use crate::format::pcap::GLOBAL_HEADER_LEN;

/// Source bytes of a raw capture taken in one step.
const RAW_STEP: usize = 1024 * 1024;
/// File times advance in ticks, of 2 seconds at worst (FAT).
const SETTLED_AFTER: Duration = Duration::from_secs(3);
/// What the kernel puts behind the path of a file that was removed (`d_path` in its `fs/d_path.c`).
const REMOVED: &[u8] = b" (deleted)";

/// The two paths of a capture that is being written: the one it has, and the one that it will have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// While it is written.
    pub partial: PathBuf,
    /// Once it is complete: `partial` without its suffix, in the same folder.
    pub complete: PathBuf,
}

/// What comes next of a followed capture.
#[derive(Clone, Debug)]
pub enum Next {
    /// Source bytes: a whole frame, or the part of one that was not taken yet; of a raw capture a step that ends anywhere, but
    /// never behind the last whole record of a partial one. Never empty.
    Bytes(Bytes),
    /// Nothing now; more may come.
    NotYet,
    /// Nothing any more: all of a complete capture was taken.
    Complete,
    /// Nothing any more: the file was removed before the capture was complete, and all of it was taken.
    Removed,
    /// Nothing any more: another capture was written over it.
    Replaced,
}

/// A reader that takes a capture from one source offset on, as it grows.
#[derive(Debug)]
pub struct Follower {
    source: Source,
    file: Arc<File>,
    /// `None` once the final name was seen; the source is told when it is drained.
    names: Option<Names>,
    is_removed: bool,
    /// Source offset of the first byte that is wanted.
    from: u64,
    /// Source offset of the next byte to take.
    at: u64,
    /// What the file was like before the last walk that came to its end.
    walked: Option<LastChange>,
}

impl Follower {
    /// Follows the capture that `file` stores in `form` from source offset `from` on. `names` are its paths while it is
    /// written; without them it has its final name already.
    ///
    /// The engine's cache must hold two of the largest frames: a frame that was taken is given when a look behind it, which
    /// may decode another one, finds the same capture.
    ///
    /// # Errors
    /// IO and memory only; what is wrong with the content, [`Self::take_next`] tells.
    pub fn new(
        engine: &Arc<Engine>,
        file: File,
        form: Form,
        names: Option<Names>,
        from: u64,
    ) -> Result<Self, Error> {
        let file = Arc::new(file);
        let progress = match names {
            Some(_) => Progress::Partial,
            None => Progress::Final,
        };
        let reading = Box::new(Arc::clone(&file));
        Ok(Self {
            source: Source::open(Arc::clone(engine), reading, form, progress)?,
            file,
            names,
            is_removed: false,
            from,
            at: from,
            walked: None,
        })
    }

    /// The capture.
    #[must_use]
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// The physical file, wherever it has been renamed to.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The next bytes. Blocks on the disk and on decoding, never on the writer.
    ///
    /// # Errors
    /// Besides IO, the fault at which following stops: a malformed or broken frame, a record that the format does not allow.
    /// All bytes before it were given. It is met again at every further call.
    pub fn take_next(&mut self) -> Result<Next, Error> {
        let mut is_all_walked = false;
        loop {
            let taken = self.take()?;
            if taken.is_none() && is_all_walked {
                if self.names.is_some() || self.source.progress() == Progress::Final {
                    return self.ending();
                }
                // Renamed, and all of it taken that a partial file shows: now it is judged as a final one.
                self.source.rename_seen();
                self.walked = None;
            }
            is_all_walked = self.look()?;
            if let Some(bytes) = taken {
                let end = self.at + bytes.len() as u64;
                if end <= self.source.reachable() {
                    self.at = end;
                    return Ok(Next::Bytes(bytes));
                }
            }
        }
    }

    /// Looks at the name and walks what has come; whether that was all.
    fn look(&mut self) -> Result<bool, Error> {
        let own = self.file.metadata().map_err(Error::io("looking at it"))?;
        // The name first: a file that has its final name already is drained to its end.
        self.look_at_name(&own);
        // A backlog is not walked once more for each of its frames.
        let change = LastChange::of(&own);
        if self.walked == Some(change) && LastChange::is_settled(&own) {
            return Ok(true);
        }
        let is_all_walked = self.walk()?;
        self.walked = Some(change).filter(|_| is_all_walked);
        Ok(is_all_walked)
    }

    fn walk(&self) -> Result<bool, Error> {
        match self.source.refresh_step() {
            Ok(reach) => Ok(!reach.is_part()),
            // The writer cut it back at this very moment.
            Err(Error::Shrank) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// What there is from `self.at` on, one frame or step of it; `None` if there is nothing now.
    fn take(&self) -> Result<Option<Bytes>, Error> {
        let at = self.at;
        let outcome = match self.source.form() {
            Form::Zst if at >= GLOBAL_HEADER_LEN => return self.take_of_frame(),
            Form::Zst => {
                let rest = usize::try_from(GLOBAL_HEADER_LEN - at).unwrap_or(usize::MAX);
                self.source.read(at, rest, OnFault::ServeGood)
            }
            Form::Raw => self.source.read(at, RAW_STEP, OnFault::ServeGood),
        };
        match outcome {
            Ok(bytes) => Ok(Some(bytes).filter(|bytes| !bytes.is_empty())),
            // A walk fault, which the ending tells, or bytes that the writer has cut off for now.
            Err(Error::Fault(_) | Error::CutOff | Error::Shrank) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The rest of the frame that holds `self.at`, its records checked.
    fn take_of_frame(&self) -> Result<Option<Bytes>, Error> {
        let Some((index, span, frame)) = self.source.frame_at(self.at) else {
            return Ok(None);
        };
        let frame = match frame {
            Ok(frame) => frame,
            // The writer is cutting it back.
            Err(Error::CutOff | Error::Shrank) => return Ok(None),
            Err(Error::Fault(fault)) if fault.kind.is_changed() && !self.is_final() => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let mut end = span.src_end().as_u64();
        if let Some(header) = self.source.facts().header {
            let records = check_frame(&header, index, &span, &frame);
            if let Some((record, fault)) = records.fault {
                end = record.at.as_u64();
                if end <= self.at {
                    return Err(fault.into());
                }
            }
        }
        let within = |at: u64| usize::try_from(at - span.src_start.as_u64()).unwrap_or(usize::MAX);
        Ok(Some(frame.part(within(self.at), within(end))))
    }

    /// How it stands, when all that is there was taken.
    fn ending(&self) -> Result<Next, Error> {
        let facts = self.source.facts();
        if facts.is_replaced {
            return Ok(Next::Replaced);
        }
        if let Some(fault) = self.source.walk_fault() {
            return Err(fault.into());
        }
        let is_complete = match facts.state {
            State::Complete => true,
            // A frame before the first one that was taken.
            State::Damaged => self.is_final() && facts.torn_bytes == 0,
            _ => false,
        };
        if !is_complete {
            return Ok(if self.is_removed {
                Next::Removed
            } else {
                Next::NotYet
            });
        }
        // A writer that cut its file back and called it complete: what was given is more than the capture.
        if self.at > self.from && self.at > self.source.reachable() {
            return Err(Error::CutOff);
        }
        Ok(Next::Complete)
    }

    fn is_final(&self) -> bool {
        self.source.progress() == Progress::Final
    }

    /// Looks whether the file has its final name by now, or none.
    fn look_at_name(&mut self, own: &Metadata) {
        self.is_removed = own.nlink() == 0;
        let Some(names) = &self.names else {
            return;
        };
        if leads_to(&names.partial, own) {
            return;
        }
        if leads_to(&names.complete, own) {
            self.names = None;
            return;
        }
        // Renamed, but not to where it was expected.
        let moved =
            known_path(&self.file, own).and_then(|path| Moved::to(path, names, self.source.form()));
        match moved {
            Some(Moved::Partial(names)) => self.names = Some(names),
            Some(Moved::Complete) => self.names = None,
            None => {}
        }
    }
}

/// What changes with each write to a file, or move of it: its length, and its times in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LastChange(u64, [i64; 4]);

impl LastChange {
    fn of(file: &Metadata) -> Self {
        let times = [
            file.mtime(),
            file.mtime_nsec(),
            file.ctime(),
            file.ctime_nsec(),
        ];
        Self(file.len(), times)
    }

    /// Whether a further write would show: the last one is longer ago than any clock tick.
    fn is_settled(file: &Metadata) -> bool {
        let age = file.modified().map(|time| time.elapsed());
        matches!(age, Ok(Ok(age)) if age > SETTLED_AFTER)
    }
}

fn leads_to(path: &Path, file: &Metadata) -> bool {
    path.metadata()
        .is_ok_and(|found| (found.dev(), found.ino()) == (file.dev(), file.ino()))
}

/// The path that the kernel knows the open file by, or knew it by when it was removed; `None` where it does not say.
fn known_path(file: &File, own: &Metadata) -> Option<PathBuf> {
    let path = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()?;
    if own.nlink() > 0 {
        return leads_to(&path, own).then_some(path);
    }
    let removed = path.as_os_str().as_bytes().strip_suffix(REMOVED)?;
    Some(PathBuf::from(OsStr::from_bytes(removed)))
}

/// What a name says of a file that was moved to it.
#[derive(Debug, PartialEq, Eq)]
enum Moved {
    Partial(Names),
    Complete,
}

impl Moved {
    /// `None` for a name that no capture in `form` has: that is no sign of completion.
    fn to(path: PathBuf, names: &Names, form: Form) -> Option<Self> {
        let ending: &[u8] = match form {
            Form::Raw => b".pcap",
            Form::Zst => b".pcap.zst",
        };
        let partial = names.partial.as_os_str().as_bytes();
        let suffix = partial.strip_prefix(names.complete.as_os_str().as_bytes())?;
        let bytes = path.as_os_str().as_bytes();
        match bytes.strip_suffix(suffix) {
            Some(complete) if complete.ends_with(ending) => Some(Self::Partial(Names {
                complete: PathBuf::from(OsStr::from_bytes(complete)),
                partial: path,
            })),
            None if bytes.ends_with(ending) => Some(Self::Complete),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
