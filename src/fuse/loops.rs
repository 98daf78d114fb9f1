//! The loops that take requests, and which of them are busy with one.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts loops that do a request themselves. A hand-over to another thread costs two wake-ups, as much as a short request
/// takes; but one loop always is free, to take what comes next.
#[derive(Debug)]
pub(super) struct Loops {
    busy_most: usize,
    busy: AtomicUsize,
}

/// A loop that is busy until this is dropped.
#[derive(Debug)]
pub(super) struct Busy<'a>(&'a Loops);

impl Loops {
    pub(super) fn new(loops: usize) -> Self {
        Self {
            busy_most: loops.saturating_sub(1),
            busy: AtomicUsize::new(0),
        }
    }

    /// The calling loop, if it may do a request itself: another one is free.
    pub(super) fn take(&self) -> Option<Busy<'_>> {
        let more = |busy| (busy < self.busy_most).then_some(busy + 1);
        self.busy
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .ok()
            .map(|_| Busy(self))
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_loop_is_never_taken() {
        assert!(Loops::new(1).take().is_none());
        let loops = Loops::new(3);
        let taken = [loops.take(), loops.take()];
        assert!(taken.iter().all(Option::is_some));
        assert!(loops.take().is_none());
        drop(taken);
        assert!(loops.take().is_some());
    }
}
