//! A capture named on the command line: opened by what its name says, or its first bytes where the name says nothing.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io;
use std::iter;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::capture::read_at::read_full;
use crate::capture::{Engine, Error, Form, Progress, Source};
use crate::format::frame;
use crate::tree::name::{FORMS, Naming};

/// An open capture and its names.
#[derive(Debug)]
pub(super) struct Input {
    /// The physical file.
    pub(super) path: PathBuf,
    /// The logical name, or the file's own where it is no capture's.
    pub(super) logical_name: String,
    /// The capture.
    pub(super) source: Source,
}

impl Input {
    /// Opens the capture at `path`, as [`Place::open`] finds it.
    pub(super) fn open(engine: &Arc<Engine>, path: &Path) -> Result<Self, Error> {
        let (file, place) = Place::open(path)?;
        let engine = Arc::clone(engine);
        Ok(Self {
            source: Source::open(engine, Box::new(file), place.form, place.progress)?,
            logical_name: place.logical.to_string_lossy().into_owned(),
            path: place.path,
        })
    }
}

/// Where a capture lies.
#[derive(Debug)]
pub(super) struct Place {
    /// The physical file.
    pub(super) path: PathBuf,
    /// The logical name, or the file's own where it is no capture's.
    pub(super) logical: OsString,
    /// How it is stored.
    pub(super) form: Form,
    /// What its name says.
    pub(super) progress: Progress,
}

impl Place {
    /// Opens the file at `path`. When there is none, but the capture whose name that is lies there in another form, that one:
    /// a name that was right a moment ago, or the logical name, finds the capture too.
    pub(super) fn open(path: &Path) -> Result<(File, Self), Error> {
        let naming = Naming::default();
        let name = path.file_name().unwrap_or(path.as_os_str());
        let Some(parsed) = naming.parse(name) else {
            let file = open_regular(path).map_err(Error::io("opening"))?;
            let form = form_by_content(&file)?;
            let place = Self {
                path: path.to_owned(),
                logical: name.to_owned(),
                form,
                progress: Progress::Final,
            };
            return Ok((file, place));
        };
        let forms = || FORMS.iter().copied();
        let finals = forms().filter(|form| form.1 == Progress::Final);
        // The final names once more: the file may be renamed between two looks.
        let others = forms().chain(finals);
        let mut first_error = None;
        for (form, progress) in iter::once((parsed.form, parsed.progress)).chain(others) {
            let path = path.with_file_name(naming.physical(parsed.logical, form, progress));
            match open_regular(&path) {
                Ok(file) => {
                    let logical = parsed.logical.to_owned();
                    let place = Self {
                        path,
                        logical,
                        form,
                        progress,
                    };
                    return Ok((file, place));
                }
                // That of the name given is the one to tell; only where there is no such file, others are looked for.
                Err(error) if first_error.is_none() && error.kind() != io::ErrorKind::NotFound => {
                    return Err(Error::io("opening")(error));
                }
                Err(error) => {
                    first_error.get_or_insert(error);
                }
            }
        }
        let error = first_error.unwrap_or_else(|| io::ErrorKind::NotFound.into());
        Err(Error::io("opening")(error))
    }

    /// The path that the capture has once it is complete.
    pub(super) fn complete_path(&self) -> PathBuf {
        let name = Naming::default().physical(&self.logical, self.form, Progress::Final);
        self.path.with_file_name(name)
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
