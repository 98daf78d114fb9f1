//! Locks that outlive a panic, and a turn that is held across IO where a lock must not be.

use std::ops::{Deref, DerefMut};
use std::sync::{
    Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
};

/// The mutex's guard. A panic elsewhere does not lock others out: what our locks guard is consistent between statements.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A shared guard, as [`lock`].
pub(crate) fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

/// An exclusive guard, as [`lock`].
pub(crate) fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

/// Waits on `condvar`, as [`lock`].
pub(crate) fn wait<'a, T>(condvar: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condvar.wait(guard).unwrap_or_else(PoisonError::into_inner)
}

/// A value that one thread at a time takes out, works on without any lock, and puts back.
///
/// Who needs the same work done waits for the turn; who reads what earlier turns published never does.
#[derive(Debug)]
pub(super) struct Turn<T> {
    /// `None` while it is taken.
    slot: Mutex<Option<T>>,
    returned: Condvar,
}

impl<T> Turn<T> {
    pub(super) fn new(value: T) -> Self {
        Self {
            slot: Mutex::new(Some(value)),
            returned: Condvar::new(),
        }
    }

    /// The value, until the returned guard is dropped. Blocks while another thread has it.
    pub(super) fn take(&self) -> Taken<'_, T> {
        let mut slot = lock(&self.slot);
        loop {
            if let Some(value) = slot.take() {
                return Taken {
                    turn: self,
                    value: Some(value),
                };
            }
            slot = wait(&self.returned, slot);
        }
    }
}

/// A taken value; dropping it gives the turn to the next thread.
#[derive(Debug)]
pub(super) struct Taken<'a, T> {
    turn: &'a Turn<T>,
    /// `Some` until the drop.
    value: Option<T>,
}

impl<T> Deref for Taken<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value
            .as_ref()
            .unwrap_or_else(|| unreachable!("only drop takes it"))
    }
}

impl<T> DerefMut for Taken<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.value
            .as_mut()
            .unwrap_or_else(|| unreachable!("only drop takes it"))
    }
}

impl<T> Drop for Taken<'_, T> {
    fn drop(&mut self) {
        *lock(&self.turn.slot) = self.value.take();
        self.turn.returned.notify_one();
    }
}
