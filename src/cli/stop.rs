//! SIGINT and SIGTERM, for whichever input is packed at the moment.

use std::io::{self, PipeReader};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex};

use nix::sys::signal::SigSet;

use super::feed::{Event, start};
use crate::capture::Error;
use crate::capture::sync::lock;

/// Tells of the first signal: a file's writer by an event, a stream's reader by the end of a pipe.
pub(super) struct Stopper {
    stopping: Arc<Mutex<Stopping>>,
    /// Nothing is ever written to it.
    told: PipeReader,
}

#[derive(Default)]
struct Stopping {
    is_stopped: bool,
    current: Option<SyncSender<Event>>,
}

impl Stopper {
    /// Waits for signals from now on, in a thread of its own.
    pub(super) fn listen(signals: SigSet) -> Result<Self, Error> {
        let stopping = Arc::new(Mutex::new(Stopping::default()));
        let (told, tell) = io::pipe().map_err(Error::io("pipe"))?;
        let stopper = Self {
            stopping: Arc::clone(&stopping),
            told,
        };
        start("pcapzst-signal", move || {
            let mut tell = Some(tell);
            while signals.wait().is_ok() {
                drop(tell.take());
                let current = {
                    let mut stopping = lock(&stopping);
                    stopping.is_stopped = true;
                    stopping.current.clone()
                };
                // An input that has ended meanwhile takes no more; the flag holds for the next one.
                if let Some(current) = current {
                    let _ = current.send(Event::Stop);
                }
            }
        })?;
        Ok(stopper)
    }

    /// Sends signals to `events` from now on; whether none has come before.
    pub(super) fn direct_to(&self, events: SyncSender<Event>) -> bool {
        let mut stopping = lock(&self.stopping);
        stopping.current = Some(events);
        !stopping.is_stopped
    }

    /// A pipe that ends with the first signal.
    pub(super) fn told(&self) -> Result<PipeReader, Error> {
        self.told.try_clone().map_err(Error::io("pipe"))
    }
}
