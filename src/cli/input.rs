//! A capture named on the command line: opened by what its name says, or its first bytes where the name says nothing.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::capture::read_at::read_full;
use crate::capture::{Engine, Error, Form, Progress, Source};
use crate::format::frame;
use crate::tree::name::Naming;

/// An open capture and its names.
#[derive(Debug)]
pub(super) struct Input {
    /// As it was given.
    pub(super) path: PathBuf,
    /// The logical name, or the file's own where it is no capture's.
    pub(super) logical_name: String,
    /// The capture.
    pub(super) source: Source,
}

impl Input {
    /// Opens the capture at `path`.
    pub(super) fn open(engine: &Arc<Engine>, path: &Path) -> Result<Self, Error> {
        let file = open_regular(path).map_err(Error::io("opening"))?;
        let name = path.file_name().unwrap_or(path.as_os_str());
        let naming = Naming::default();
        let parsed = naming.parse(name);
        let (logical, form, progress): (&OsStr, _, _) = match parsed {
            Some(parsed) => (parsed.logical, parsed.form, parsed.progress),
            None => (name, form_by_content(&file)?, Progress::Final),
        };
        Ok(Self {
            path: path.to_owned(),
            logical_name: logical.to_string_lossy().into_owned(),
            source: Source::open(Arc::clone(engine), Box::new(file), form, progress)?,
        })
    }
}

/// Opens a regular file, and nothing that could block.
pub(super) fn open_regular(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_file() {
        Ok(file)
    } else if kind.is_dir() {
        Err(io::Error::from_raw_os_error(libc::EISDIR))
    } else {
        Err(io::Error::from_raw_os_error(libc::EINVAL))
    }
}

fn form_by_content(file: &File) -> Result<Form, Error> {
    let mut magic = [0; 4];
    let len = read_full(file, &mut magic, 0).map_err(Error::io("reading"))?;
    Ok(match frame::start(&magic[..len]) {
        Ok(frame::Start::Zstd | frame::Start::Skippable) => Form::Zst,
        _ => Form::Raw,
    })
}
