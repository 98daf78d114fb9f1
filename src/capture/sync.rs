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

/// A value that one thread at a time takes out, works on without any lock, and puts back: in the order in which they came.
///
/// Who needs the same work done waits for the turn; who reads what earlier turns published never does.
#[derive(Debug)]
pub(super) struct Turn<T> {
    slot: Mutex<Slot<T>>,
    returned: Condvar,
}

#[derive(Debug)]
struct Slot<T> {
    /// `None` while it is taken.
    value: Option<T>,
    /// The number that the next who comes gets.
    next: u64,
    /// The number whose turn it is.
    serving: u64,
}

impl<T> Turn<T> {
    pub(super) fn new(value: T) -> Self {
        Self {
            slot: Mutex::new(Slot {
                value: Some(value),
                next: 0,
                serving: 0,
            }),
            returned: Condvar::new(),
        }
    }

    /// The value, until the returned guard is dropped. Blocks while others have it, or came before.
    pub(super) fn take(&self) -> Taken<'_, T> {
        let mut slot = lock(&self.slot);
        let number = slot.next;
        slot.next += 1;
        loop {
            if slot.serving == number
                && let Some(value) = slot.value.take()
            {
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

#[expect(clippy::unreachable, reason = "only drop takes the value")]
impl<T> Deref for Taken<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value
            .as_ref()
            .unwrap_or_else(|| unreachable!("only drop takes it"))
    }
}

#[expect(clippy::unreachable, reason = "only drop takes the value")]
impl<T> DerefMut for Taken<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.value
            .as_mut()
            .unwrap_or_else(|| unreachable!("only drop takes it"))
    }
}

impl<T> Drop for Taken<'_, T> {
    fn drop(&mut self) {
        {
            let mut slot = lock(&self.turn.slot);
            slot.value = self.value.take();
            slot.serving += 1;
        }
        self.turn.returned.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::thread;

    #[test]
    fn who_takes_the_turn_again_waits_for_those_who_came_meanwhile() {
        let turn = Turn::new(());
        let (taken, order) = channel();
        let first = turn.take();
        thread::scope(|scope| {
            let waiter = taken.clone();
            scope.spawn(|| {
                let _mine = turn.take();
                waiter.send("waiter").expect("received");
                drop(waiter);
            });
            while lock(&turn.slot).next < 2 {
                thread::yield_now();
            }
            drop(first);
            let _again = turn.take();
            taken.send("first again").expect("received");
        });
        let order: Vec<_> = order.try_iter().collect();
        assert_eq!(order, ["waiter", "first again"]);
    }
}
