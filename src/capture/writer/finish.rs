//! The end of a file that is written: on disk, then under its final name, or removed.

use std::fs::File;
use std::io;
use std::path::Path;

use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};

use super::{Existing, Writer, Written};
use crate::capture::error::Error;
use crate::format::FaultKind;
use crate::format::pcap::GLOBAL_HEADER_LEN;

/// Which names the file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Named {
    /// It is written.
    Partial,
    /// It is complete, and could not be rid of its partial name yet.
    Both,
    /// Only the folder may still have to be brought to the disk.
    Final,
}

impl Writer {
    /// Flushes, brings the file to the disk and gives it its final name.
    ///
    /// Bytes of half a record are left out and counted in [`Written::cut_bytes`].
    ///
    /// # Errors
    /// A source without a whole global header, or one that ends before what a leftover file holds; [`Error::PathChanged`];
    /// [`Error::Exists`] when `out` has come to be meanwhile; IO. The partial file stays. IO may fail behind the final name,
    /// too: nothing more can be written then, and the next call does what is left.
    pub fn finish(&mut self) -> Result<Written, Error> {
        if self.named == Named::Partial {
            self.complete()?;
        }
        if self.named == Named::Both {
            self.remove_partial_name()?;
        }
        let folder = match self.out.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        File::open(folder)
            .and_then(|folder| folder.sync_all())
            .map_err(Error::io("syncing the folder"))?;
        Ok(self.written)
    }

    /// All of [`Self::finish`] up to the final name.
    fn complete(&mut self) -> Result<(), Error> {
        // What could not be written before, a header among it.
        self.flush()?;
        if let Some(error) = &self.refused {
            return Err(error.clone());
        }
        let got = self.pending.len() as u64;
        if self.splitter.is_none() || self.leftover.is_some() && got < GLOBAL_HEADER_LEN {
            return Err(self.fault(FaultKind::NoHeader { got }).into());
        }
        let appends = self.appends();
        if let Some(leftover) = &self.leftover {
            leftover.end(&mut self.pending, appends)?;
            self.leftover = None;
            self.flush()?;
        }
        self.written.cut_bytes = self.pending.len() as u64;
        self.partial.sync()?;
        self.check_path()?;
        self.rename()
    }

    /// That the partial path still leads to the file that was written: who moved it away or put another in its place has other
    /// plans with it. Between this look and the rename nothing can be noticed.
    fn check_path(&self) -> Result<(), Error> {
        if self.partial.is_at(self.partial.path())? {
            Ok(())
        } else {
            Err(Error::PathChanged)
        }
    }

    /// Gives the partial file its final name, over another file only where that was asked for.
    fn rename(&mut self) -> Result<(), Error> {
        let doing = Error::io("renaming to the final name");
        let flags = match self.options.existing {
            Existing::Replace => RenameFlags::empty(),
            Existing::Keep | Existing::Resume { .. } | Existing::Append => {
                RenameFlags::RENAME_NOREPLACE
            }
        };
        let rename = renameat2(AT_FDCWD, self.partial.path(), AT_FDCWD, &self.out, flags);
        self.named = match rename.map_err(io::Error::from) {
            Ok(()) => Named::Final,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => self.named_already()?,
            // NFS and others know no flags. A link does not replace a file either.
            Err(error) if is_unknown(&error) && !flags.is_empty() => {
                match std::fs::hard_link(self.partial.path(), &self.out) {
                    Ok(()) => Named::Both,
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                        self.named_already()?
                    }
                    Err(error) => return Err(doing(error)),
                }
            }
            Err(error) => return Err(doing(error)),
        };
        Ok(())
    }

    /// The final name is taken: by this file, if a link was made of which a file server's answer was lost.
    fn named_already(&self) -> Result<Named, Error> {
        if self.partial.is_at(&self.out)? {
            Ok(Named::Both)
        } else {
            Err(taken_meanwhile())
        }
    }

    /// Leaves the file with its final name only. What has taken the partial one meanwhile stays.
    fn remove_partial_name(&mut self) -> Result<(), Error> {
        let partial = self.partial.path();
        if self.partial.is_at(partial)? {
            std::fs::remove_file(partial).map_err(Error::io("removing the partial file"))?;
        }
        self.named = Named::Final;
        Ok(())
    }

    /// Finishes a source that was stopped: as [`Self::finish`], but what a leftover file holds beyond it stays.
    pub fn finish_stopped(&mut self) -> Result<Written, Error> {
        if self.leftover.take().is_some() {
            self.pending.clear();
        }
        self.finish()
    }

    /// Gives up: removes the partial file. For an input that is still there; a live one keeps what was written, and so does one
    /// that is gone on with.
    pub fn abandon(mut self) -> Result<(), Error> {
        match self.named {
            Named::Partial => {
                self.check_path()?;
                let partial = self.partial.path();
                std::fs::remove_file(partial).map_err(Error::io("removing the partial file"))
            }
            Named::Both => self.remove_partial_name(),
            Named::Final => Ok(()),
        }
    }
}

/// Whether a call with flags is one that the file system does not know.
fn is_unknown(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOSYS))
}

fn taken_meanwhile() -> Error {
    Error::Exists("the output has come to exist meanwhile; what was packed is in the partial file")
}

#[cfg(test)]
mod tests {
    use crate::capture::Error;
    use crate::capture::writer::{Options, Writer};

    /// Little-endian, microseconds, version 2.4, Ethernet.
    const HEADER: [u8; 24] = [
        0xD4, 0xC3, 0xB2, 0xA1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0,
    ];

    #[test]
    fn behind_the_rename_finishing_goes_on_and_nothing_else_does() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("x.pcap.zst");
        let mut writer = Writer::create(&out, Options::default()).unwrap();
        writer.write(&HEADER).unwrap();
        let written = writer.finish().unwrap();
        // As after a folder that could not be brought to the disk.
        assert_eq!(writer.finish(), Ok(written));
        assert!(matches!(writer.write(&[0; 16]), Err(Error::Exists(_))));
        assert!(matches!(writer.flush(), Err(Error::Exists(_))));
        writer.abandon().unwrap();
        assert_eq!(
            out.metadata().unwrap().len(),
            written.physical_bytes,
            "a finished file stays as it is"
        );
    }
}
