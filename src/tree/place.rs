//! A capture found by a path: opened by what its name says, or its first bytes where the name says nothing.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io;
use std::iter;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::name::{FORMS, Naming};
use crate::capture::live::Names;
use crate::capture::read_at::read_part;
use crate::capture::{Error, Form, Progress};
use crate::format::frame;

/// Where a capture lies.
#[derive(Debug)]
pub struct Place {
    /// The physical file.
    pub path: PathBuf,
    /// The logical name, or the file's own where it is no capture's.
    pub logical: OsString,
    /// How it is stored.
    pub form: Form,
    /// What its name says.
    pub progress: Progress,
}

impl Place {
    /// Opens the file at `path`. When there is none, but the capture whose name that is lies there in another form, that one:
    /// a name that was right a moment ago, or the logical name, finds the capture too.
    pub fn open(path: &Path) -> Result<(File, Self), Error> {
        Self::open_as(path, None)
    }

    /// As [`Self::open`]; where there is no such file, only another one in the form `wanted` is looked for, if there is one.
    pub fn open_as(path: &Path, wanted: Option<Form>) -> Result<(File, Self), Error> {
        let naming = Naming::default();
        let name = path.file_name().unwrap_or(path.as_os_str());
        let Some(parsed) = naming.parse(name) else {
            let file = open_regular(path).map_err(Error::io("opening"))?;
            let place = Self::of_open(&file, path)?;
            return Ok((file, place));
        };
        let is_wanted = |form: &(Form, Progress)| wanted.is_none_or(|wanted| wanted == form.0);
        let forms = || FORMS.iter().copied().filter(is_wanted);
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

    /// Where the file at `path`, which is open already, lies: by what the name says, else by its first bytes.
    pub fn of_open(file: &File, path: &Path) -> Result<Self, Error> {
        let name = path.file_name().unwrap_or(path.as_os_str());
        let (logical, form, progress) = match Naming::default().parse(name) {
            Some(parsed) => (parsed.logical, parsed.form, parsed.progress),
            None => (name, form_by_content(file)?, Progress::Final),
        };
        Ok(Self {
            path: path.to_owned(),
            logical: logical.to_owned(),
            form,
            progress,
        })
    }

    /// The names by which the capture is followed to its completion; `None` where it has its final name.
    #[must_use]
    pub fn names(&self) -> Option<Names> {
        let name = Naming::default().physical(&self.logical, self.form, Progress::Final);
        (self.progress == Progress::Partial).then(|| Names {
            partial: self.path.clone(),
            complete: self.path.with_file_name(name),
        })
    }
}

/// Opens a regular file, and nothing that could block.
pub fn open_regular(path: &Path) -> io::Result<File> {
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
    let magic = read_part(file, &mut magic, 0).map_err(Error::io("reading"))?;
    Ok(match frame::start(magic) {
        Ok(frame::Start::Zstd | frame::Start::Skippable) => Form::Zst,
        _ => Form::Raw,
    })
}
