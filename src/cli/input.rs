//! A capture named on the command line.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::capture::{Engine, Error, Source};
use crate::tree::place::Place;

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
