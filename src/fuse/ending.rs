//! How a mount ends: by a signal, or from outside.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, Once};

use nix::sys::signal::{SigSet, Signal};

use super::manager;
use super::mounting::{Mounting, Unmounted};
use super::session::Ground;
use crate::capture::sync::lock;
use crate::sink::MOUNT;

/// Signals that end a mount.
const ENDING: [Signal; 3] = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP];

/// The end of a mount: by a signal, or from outside.
pub(super) struct Ending {
    mounting: Mounting,
    ground: Ground,
    /// The first that unmounted it.
    signal: Mutex<Option<Signal>>,
    /// Whether the service manager has been told of the end.
    told: Once,
    /// Whether the session has ended. From then on the kernel may give the mount's numbers to another one.
    is_over: AtomicBool,
}

impl Ending {
    pub(super) fn new(mounting: Mounting, ground: Ground) -> Self {
        Self {
            mounting,
            ground,
            signal: Mutex::new(None),
            told: Once::new(),
            is_over: AtomicBool::new(false),
        }
    }

    pub(super) fn mounting(&self) -> &Mounting {
        &self.mounting
    }

    /// From now on no signal unmounts anything.
    pub(super) fn note_over(&self) {
        self.is_over.store(true, Ordering::Release);
    }

    /// Unmounts at each ending signal. The session ends by itself once the last handle is closed.
    pub(super) fn await_signals(&self, signals: SigSet) {
        let point = self.mounting.point().display();
        while let Ok(signal) = signals.wait() {
            if self.is_over.load(Ordering::Acquire) {
                return;
            }
            lock(&self.signal).get_or_insert(signal);
            let outcome = match self.mounting.unmount() {
                Ok(outcome) => outcome,
                Err(error) => {
                    // The mount goes on, and ends for another reason.
                    *lock(&self.signal) = None;
                    log::error!(target: MOUNT, "{signal}: unmounting {point}: {error}");
                    continue;
                }
            };
            let words = "open files are served until they are closed";
            // What else there is to tell is told when the session ends, or was told when it was detached.
            let is_detached = outcome == Some(Unmounted::Detached);
            if is_detached {
                log::warn!(target: MOUNT, "{signal}: {point} is unmounted; {words}");
            }
            // Last: a manager that does not read makes this wait.
            self.tell_of_the_end();
            if is_detached {
                manager::tell(self.ground, &format!("STATUS={words}\n"));
            }
        }
    }

    /// Tells the service manager, once, that the end has begun.
    fn tell_of_the_end(&self) {
        self.told
            .call_once(|| manager::tell(self.ground, manager::STOPPING));
    }

    pub(super) fn log_end(&self) {
        let point = self.mounting.point().display();
        let signal = *lock(&self.signal);
        match signal {
            Some(signal) => log::info!(target: MOUNT, "{point} is unmounted: {signal}"),
            None => log::info!(target: MOUNT, "{point} is unmounted: from outside"),
        }
        self.tell_of_the_end();
    }
}

/// The signals that end a mount. Of those that end a terminal's programs, one in the foreground leaves out what it was
/// started to ignore, as nohup(1) does: blocked and waited for, it would come in all the same.
pub(super) fn ending_signals(ground: Ground) -> SigSet {
    let ignored = match ground {
        Ground::Fore => ignored_signals(),
        Ground::Back => 0,
    };
    let mut signals = SigSet::empty();
    for signal in ENDING {
        let bit = 1_u64 << (signal as i32 - 1);
        if signal == Signal::SIGTERM || ignored & bit == 0 {
            signals.add(signal);
        }
    }
    signals
}

/// The mask of `SigIgn` (`proc_pid_status(5)`); none where that cannot be read.
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or_default()
}
