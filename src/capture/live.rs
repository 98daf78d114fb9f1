//! A capture by its physical file: looked at as it grows, to the rename that completes it, without a mount.
//!
//! The rename is the only sign that a capture is complete (format document, section 7.2): the name is looked at before the
//! file, so that what is drained after the rename was seen is all of it. The descriptor stays the same throughout.
//!
//! Until it is drained, a renamed file is still read as a partial one: its writer may have restarted between two looks, and
//! what a restart leaves must not be called damage.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::Engine;
use super::error::Error;
use super::read_at::ReadAt;
use super::source::{Form, Progress, Source, State};
use super::sync::Turn;
use super::watch::Watch;

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

/// What a capture may still become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outlook {
    /// More may come.
    NotYet,
    /// It is complete.
    Complete,
    /// No more can come, and it is not whole: its file was removed, or its bytes are in memory and end within a frame.
    CutShort,
    /// Another capture was written over it.
    Replaced,
}

/// A capture, and the file and names by which it is watched. Shared between threads.
#[derive(Debug)]
pub struct Live {
    source: Source,
    /// `None` for bytes in memory, which never change.
    file: Option<Arc<File>>,
    standing: Turn<Standing>,
    watch: OnceLock<Watch>,
}

/// What the last looks found.
#[derive(Debug)]
struct Standing {
    /// `None` once the final name was seen; the source is told when it is drained.
    names: Option<Names>,
    is_removed: bool,
    /// What the file was like before the last walk that came to its end, and as what it was walked.
    walked: Option<(LastChange, Progress)>,
}

impl Live {
    /// Opens the capture that `file` stores in `form`, and walks what is there. `names` are its paths while it is written;
    /// without them it has its final name already.
    ///
    /// # Errors
    /// IO and memory only; the facts of the source tell what is wrong with the content.
    pub fn open(
        engine: &Arc<Engine>,
        file: File,
        form: Form,
        names: Option<Names>,
    ) -> Result<Self, Error> {
        let file = Arc::new(file);
        let progress = match names {
            Some(_) => Progress::Partial,
            None => Progress::Final,
        };
        let reading = Box::new(Arc::clone(&file));
        let source = Source::open(Arc::clone(engine), reading, form, progress)?;
        let live = Self::new(source, Some(file), names);
        live.look_at_name()?;
        Ok(live)
    }

    /// Opens the compressed capture that `bytes` are, all of it.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn in_memory(engine: &Arc<Engine>, bytes: Box<dyn ReadAt>) -> Result<Self, Error> {
        let source = Source::open(Arc::clone(engine), bytes, Form::Zst, Progress::Final)?;
        Ok(Self::new(source, None, None))
    }

    pub(super) fn new(source: Source, file: Option<Arc<File>>, names: Option<Names>) -> Self {
        Self {
            source,
            file,
            standing: Turn::new(Standing {
                names,
                is_removed: false,
                walked: None,
            }),
            watch: OnceLock::new(),
        }
    }

    /// The capture.
    #[must_use]
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// The physical file, wherever it has been renamed to; `None` for bytes in memory.
    #[must_use]
    pub fn file(&self) -> Option<&File> {
        self.file.as_deref()
    }

    /// Looks at the name, walks all that has come, and judges a renamed capture as a final one; what it may still become.
    ///
    /// # Errors
    /// Besides IO, the fault behind which nothing can be mapped.
    pub fn refresh(&self) -> Result<Outlook, Error> {
        if self.file.is_some() {
            self.look_at_name()?;
            self.source.refresh()?;
            if self.begin_draining() {
                self.source.refresh()?;
            }
        }
        self.outlook()
    }

    /// Waits until the file has changed since the last wait, or `patience` is over. The first wait ends at once: whether the file
    /// changed before, nothing tells. One thread at a time: two that wait take each other's news.
    pub fn wait(&self, patience: Duration) -> Result<(), Error> {
        let Some(file) = &self.file else {
            return Ok(());
        };
        let mut is_new = false;
        let watch = self.watch.get_or_init(|| {
            is_new = true;
            Watch::new(file)
        });
        if is_new {
            return Ok(());
        }
        watch.wait(None, patience).map_err(Error::io("waiting"))?;
        Ok(())
    }

    /// Looks at the name and walks a step of what has come; whether that was all.
    pub(super) fn look(&self) -> Result<bool, Error> {
        let Some(file) = &self.file else {
            return Ok(true);
        };
        // The name first: a file that has its final name already is drained to its end.
        let own = self.look_at_name_of(file)?;
        // A backlog is not walked once more for each of its frames.
        let now = (LastChange::of(&own), self.source.progress());
        if self.standing.take().walked == Some(now) && LastChange::is_settled(&own) {
            return Ok(true);
        }
        let is_all_walked = self.walk()?;
        self.standing.take().walked = Some(now).filter(|_| is_all_walked);
        Ok(is_all_walked)
    }

    /// Walks a step; whether that was all.
    pub(super) fn walk(&self) -> Result<bool, Error> {
        match self.source.refresh_step() {
            Ok(reach) => Ok(!reach.is_part()),
            // The writer cut it back at this very moment.
            Err(Error::Shrank) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Looks whether the file has its final name by now, or none.
    pub(super) fn look_at_name(&self) -> Result<(), Error> {
        match &self.file {
            Some(file) => self.look_at_name_of(file).map(|_| ()),
            None => Ok(()),
        }
    }

    fn look_at_name_of(&self, file: &File) -> Result<Metadata, Error> {
        let mut standing = self.standing.take();
        let own = file.metadata().map_err(Error::io("looking at it"))?;
        standing.look_at_name(file, &own, self.source.form());
        Ok(own)
    }

    /// Whether its final name was seen.
    pub(super) fn is_renamed(&self) -> bool {
        self.standing.take().names.is_none()
    }

    /// After the rename, when all was taken that a partial file shows: from now on it is judged as a final one. Whether that was
    /// still to be said.
    pub(super) fn begin_draining(&self) -> bool {
        let is_to_be_said = self.is_renamed() && self.source.progress() == Progress::Partial;
        if is_to_be_said {
            self.source.rename_seen();
        }
        is_to_be_said
    }

    /// What it may still become, by the last look.
    ///
    /// # Errors
    /// The fault behind which nothing can be mapped.
    pub fn outlook(&self) -> Result<Outlook, Error> {
        let facts = self.source.facts();
        if facts.is_replaced {
            return Ok(Outlook::Replaced);
        }
        if let Some(fault) = self.source.walk_fault() {
            return Err(fault.into());
        }
        let is_final = self.source.progress() == Progress::Final;
        let is_complete = match facts.state {
            State::Complete => true,
            // A frame that does not decode, and nothing behind the last one.
            State::Damaged => is_final && facts.torn_bytes == 0,
            _ => false,
        };
        Ok(match is_complete {
            true => Outlook::Complete,
            false if self.file.is_none() || self.standing.take().is_removed => Outlook::CutShort,
            false => Outlook::NotYet,
        })
    }
}

impl Standing {
    fn look_at_name(&mut self, file: &File, own: &Metadata, form: Form) {
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
        let moved = known_path(file, own).and_then(|path| Moved::to(path, names, form));
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
pub(crate) fn known_path(file: &File, own: &Metadata) -> Option<PathBuf> {
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
mod tests {
    use super::*;

    #[test]
    fn a_move_is_judged_by_the_ending_of_the_new_name() {
        let names = |stem: &str| Names {
            partial: PathBuf::from(format!("{stem}.partial")),
            complete: PathBuf::from(stem),
        };
        let zst = |path: &str| Moved::to(PathBuf::from(path), &names("a/x.pcap.zst"), Form::Zst);
        let moved = |stem| Some(Moved::Partial(names(stem)));
        assert_eq!(zst("/b/y.pcap.zst.partial"), moved("/b/y.pcap.zst"));
        assert_eq!(zst("/b/y.pcap.zst"), Some(Moved::Complete));
        for path in [
            "/b/y.pcap",
            "/b/y.pcap.partial",
            "/b/y.pcap.zst.partial.old",
            "/b/y.zst",
        ] {
            assert_eq!(zst(path), None, "{path}");
        }
        let raw = |path: &str| Moved::to(PathBuf::from(path), &names("a/x.pcap"), Form::Raw);
        assert_eq!(raw("/b/y.pcap.partial"), moved("/b/y.pcap"));
        assert_eq!(raw("/b/y.pcap"), Some(Moved::Complete));
        assert_eq!(raw("/b/y.pcap.zst"), None);
    }
}
