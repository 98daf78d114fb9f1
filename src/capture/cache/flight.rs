//! A decode that is going on, for those who ask for its frame meanwhile.

use std::sync::{Arc, Condvar, Mutex};

use super::{Frame, Key, Shared, Slot};
use crate::capture::error::Error;
use crate::capture::sync::{lock, wait};

/// A decode that others may join.
#[derive(Debug, Default)]
pub(super) struct Flight {
    outcome: Mutex<Option<Outcome>>,
    landed: Condvar,
}

/// How a flight ended; `None` when there was no room for one that nobody needs yet: who joined it decodes by himself.
pub(super) type Outcome = Option<Result<Arc<Frame>, Error>>;

impl Flight {
    /// Waits for the decode; how it ended.
    pub(super) fn join(&self) -> Outcome {
        let mut outcome = lock(&self.outcome);
        loop {
            if let Some(outcome) = &*outcome {
                return outcome.clone();
            }
            outcome = wait(&self.landed, outcome);
        }
    }
}

/// Ends a flight when it is dropped, also by a panic in the decode: joiners must never wait for nobody.
pub(super) struct Landing<'a> {
    shared: &'a Shared,
    key: Key,
    flight: &'a Flight,
    /// That of a panic, until there is another.
    outcome: Outcome,
}

impl<'a> Landing<'a> {
    pub(super) fn new(shared: &'a Shared, key: Key, flight: &'a Flight) -> Self {
        Self {
            shared,
            key,
            flight,
            outcome: Some(Err(Error::Panicked)),
        }
    }

    /// Ends the flight with `outcome`.
    pub(super) fn land(mut self, outcome: Outcome) {
        self.outcome = outcome;
    }
}

impl Drop for Landing<'_> {
    fn drop(&mut self) {
        let outcome = self.outcome.take();
        {
            let mut state = lock(&self.shared.state);
            match &outcome {
                Some(Ok(frame)) => state.slots.put(self.key, Slot::Ready(Arc::clone(frame))),
                Some(Err(_)) | None => state.slots.pop(&self.key),
            };
        }
        *lock(&self.flight.outcome) = Some(outcome);
        self.flight.landed.notify_all();
        // What has landed can be evicted: who found nothing to evict may find it now.
        self.shared.freed.notify_all();
    }
}
