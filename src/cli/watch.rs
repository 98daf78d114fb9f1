//! Waiting for a file to change, and for whoever reads our output to go away.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};

/// A look is due after this many milliseconds, whatever was reported: network file systems report only what this machine
/// does.
const LOOK_AFTER: u16 = 1000;

/// A watch on one file, whatever becomes of its name.
#[derive(Debug)]
pub(super) struct Watch {
    /// `None` where the kernel has no watch to spare.
    inotify: Option<Inotify>,
}

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Woken {
    /// It is time to look.
    Look,
    /// Nobody reads the output any more.
    NobodyReads,
}

impl Watch {
    /// Watches `file` from now on: what happens before the first wait ends it.
    pub(super) fn new(file: &File) -> Self {
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

    /// Waits until the file has changed since the last wait, `output` has lost its reader, or a second has passed.
    pub(super) fn wait(&self, output: BorrowedFd<'_>) -> io::Result<Woken> {
        // Errors and hang-ups are reported without being asked for.
        let mut polled = vec![PollFd::new(output, PollFlags::empty())];
        if let Some(inotify) = &self.inotify {
            polled.push(PollFd::new(inotify.as_fd(), PollFlags::POLLIN));
        }
        match poll(&mut polled, PollTimeout::from(LOOK_AFTER)) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let gone = PollFlags::POLLERR | PollFlags::POLLHUP | PollFlags::POLLNVAL;
        let is_gone = polled[0]
            .revents()
            .is_some_and(|events| events.intersects(gone));
        if is_gone {
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
