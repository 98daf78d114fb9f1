//! Waiting for a file to change, and for whoever reads our output to go away.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};

/// A look is due after this long, whatever was reported: network file systems report only what this machine does.
pub const LOOK_AFTER: Duration = Duration::from_secs(1);

/// A watch on one file, whatever becomes of its name.
#[derive(Debug)]
pub struct Watch {
    /// `None` where the kernel has no watch to spare.
    inotify: Option<Inotify>,
}

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// It is time to look.
    Look,
    /// Nobody reads the output any more.
    NobodyReads,
}

impl Watch {
    /// Watches `file` from now on: what happens before the first wait ends it.
    #[must_use]
    pub fn new(file: &File) -> Self {
        let watch = || {
            let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?;
            // Through the descriptor, so that it is this file whatever its name leads to by now.
            let path = format!("/proc/self/fd/{}", file.as_raw_fd());
            inotify.add_watch(
                path.as_str(),
                AddWatchFlags::IN_MODIFY | AddWatchFlags::IN_ATTRIB | AddWatchFlags::IN_MOVE_SELF,
            )?;
            Ok::<_, Errno>(inotify)
        };
        Self {
            inotify: watch()
                .inspect_err(|errno| log::info!("inotify: {errno}; looking once a second"))
                .ok(),
        }
    }

    /// Waits until the file has changed since the last wait, `output` has lost its reader, or `patience` is over.
    pub fn wait(&self, output: Option<BorrowedFd<'_>>, patience: Duration) -> io::Result<Woken> {
        let mut polled = Vec::new();
        if let Some(inotify) = &self.inotify {
            polled.push(PollFd::new(inotify.as_fd(), PollFlags::POLLIN));
        }
        // Errors and hang-ups are reported without being asked for.
        polled.extend(output.map(|output| PollFd::new(output, PollFlags::empty())));
        let patience = match self.inotify {
            Some(_) => patience,
            None => patience.min(LOOK_AFTER),
        };
        let timeout = PollTimeout::try_from(patience).unwrap_or(PollTimeout::MAX);
        match poll(&mut polled, timeout) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let gone = PollFlags::POLLERR | PollFlags::POLLHUP | PollFlags::POLLNVAL;
        let is_gone = |polled: &PollFd<'_>| {
            let events = polled.revents();
            events.is_some_and(|events| events.intersects(gone))
        };
        if output.is_some() && polled.last().is_some_and(is_gone) {
            return Ok(Woken::NobodyReads);
        }
        if let Some(inotify) = &self.inotify {
            // Which events does not matter, and a queue that has run over is one more. Those that are left end the next wait:
            // to empty the queue of a busy writer might never end.
            let _ = inotify.read_events();
        }
        Ok(Woken::Look)
    }
}
