//! A capture followed to its completion, on the physical file and without a mount.
//!
//! The rename is the only sign that a capture is complete (format document, section 7.2): the name is looked at before the
//! file, so that what is drained after the rename was seen is all of it. The descriptor stays the same throughout.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Engine;
use super::bytes::Bytes;
use super::error::Error;
use super::report::check_frame;
use super::source::{Form, OnFault, Progress, Source, State};
use crate::format::pcap::GLOBAL_HEADER_LEN;

/// Source bytes of a raw capture taken in one step.
const RAW_STEP: usize = 1024 * 1024;

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
    /// Source bytes: a whole frame, or the part of one that was not taken yet; whole records of a raw capture. Never empty.
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
    /// `None` once the final name was seen.
    names: Option<Names>,
    is_removed: bool,
    /// Source offset of the next byte to take.
    at: u64,
}

impl Follower {
    /// Follows the capture that `file` stores in `form` from source offset `from` on. `names` are its paths while it is
    /// written; without them it has its final name already.
    ///
    /// # Errors
    /// IO and memory only; what is wrong with the content, [`Self::take_next`] tells.
    pub fn new(
        engine: Arc<Engine>,
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
        Ok(Self {
            source: Source::open(engine, Box::new(Arc::clone(&file)), form, progress)?,
            file,
            names,
            is_removed: false,
            at: from,
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
            if let Some(bytes) = self.take()? {
                self.at += bytes.len() as u64;
                return Ok(Next::Bytes(bytes));
            }
            if is_all_walked {
                return self.ending();
            }
            // The name first: a file that has its final name already is drained to its end.
            self.look_at_name()?;
            is_all_walked = match self.source.refresh_step() {
                Ok(reach) => !reach.is_part(),
                // The writer cut it back at this very moment.
                Err(Error::Shrank) => true,
                Err(error) => return Err(error),
            };
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
            Err(Error::Fault(_) | Error::CutOff) => Ok(None),
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
            Err(Error::CutOff) => return Ok(None),
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
        let is_final = self.source.progress() == Progress::Final;
        Ok(match facts.state {
            State::Complete => Next::Complete,
            // A frame before the first one that was taken.
            State::Damaged if is_final && facts.torn_bytes == 0 => Next::Complete,
            _ if self.is_removed => Next::Removed,
            _ => Next::NotYet,
        })
    }

    /// Looks whether the file has its final name by now, or none.
    fn look_at_name(&mut self) -> Result<(), Error> {
        let own = self.file.metadata().map_err(Error::io("looking at it"))?;
        self.is_removed = own.nlink() == 0;
        let Some(names) = &self.names else {
            return Ok(());
        };
        if leads_to(&names.partial, &own) {
            return Ok(());
        }
        if !leads_to(&names.complete, &own) {
            if self.is_removed {
                return Ok(());
            }
            // Renamed, but not to where it was expected.
            match moved(&self.file, names) {
                Some(Moved::Partial(names)) => {
                    self.names = Some(names);
                    return Ok(());
                }
                Some(Moved::Complete) => {}
                None => return Ok(()),
            }
        }
        self.names = None;
        self.source.rename_seen();
        Ok(())
    }
}

fn leads_to(path: &Path, file: &Metadata) -> bool {
    path.metadata()
        .is_ok_and(|found| (found.dev(), found.ino()) == (file.dev(), file.ino()))
}

/// What the name says that a file was moved to.
enum Moved {
    Partial(Names),
    Complete,
}

/// The name that the kernel knows the open file by, other than `names`; `None` where it does not say.
fn moved(file: &File, names: &Names) -> Option<Moved> {
    let path = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()?;
    let own = file.metadata().ok()?;
    if !leads_to(&path, &own) {
        return None;
    }
    let partial = names.partial.as_os_str().as_bytes();
    let suffix = partial.strip_prefix(names.complete.as_os_str().as_bytes())?;
    let bytes = path.as_os_str().as_bytes();
    Some(match bytes.strip_suffix(suffix) {
        Some(complete) => Moved::Partial(Names {
            complete: PathBuf::from(OsStr::from_bytes(complete)),
            partial: path,
        }),
        None => Moved::Complete,
    })
}
