//! Threads that do what may block, so that the loops which take the kernel's requests never do.
//!
//! A lane starts a thread when a job finds none idle, up to its bound; beyond that jobs queue, and when the queue is full
//! the caller does the job itself, which slows the taking of further requests down to what is answered; but a job with a
//! key, whose order matters, queues always: there are no more of those than callers who wait for an answer. Jobs of one *key*
//! are done one at a time, in their order, and those that wait hold no thread: so a file with a long walk before it, and
//! any number of requests for it, leave the other threads to the other files. A panic in a job ends that job only: its
//! reply object, dropped, answers EIO.

use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use crate::capture::sync::{lock, wait};

/// Jobs that wait for a thread. The kernel bounds requests in flight too (`max_background`, one a waiting caller).
const QUEUE_MOST: usize = 4096;
/// Stack of a thread: decoding and walking recurse nowhere.
const STACK_BYTES: usize = 512 * 1024;

type Work = Box<dyn FnOnce() + Send>;

struct Job {
    key: Option<u64>,
    work: Work,
}

/// A bounded set of threads for one kind of work; its clones are the same set, which ends with the last of them.
#[derive(Clone)]
pub(crate) struct Lane {
    name: &'static str,
    threads_most: usize,
    shared: Arc<Shared>,
    /// Held by the lane's clones and not by its threads.
    _open: Arc<CloseOnDrop>,
}

/// Ends the threads.
struct CloseOnDrop(Arc<Shared>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        lock(&self.0.queue).is_closed = true;
        self.0.changed.notify_all();
    }
}

struct Shared {
    queue: Mutex<Queue>,
    /// Notified for every job and once at the end.
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    /// Jobs that any thread may begin.
    jobs: VecDeque<Job>,
    /// For each key of which a job is queued or being done, those behind it.
    behind: HashMap<u64, VecDeque<Work>>,
    /// Jobs in `jobs` and in `behind`.
    waiting: usize,
    threads: usize,
    idle: usize,
    is_closed: bool,
}

impl std::fmt::Debug for Lane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lane")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Lane {
    /// A lane of at most `threads_most` threads, none of which runs yet.
    #[must_use]
    pub(crate) fn new(name: &'static str, threads_most: usize) -> Self {
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            changed: Condvar::new(),
        });
        Self {
            name,
            threads_most,
            _open: Arc::new(CloseOnDrop(Arc::clone(&shared))),
            shared,
        }
    }

    /// Has `job` done, by another thread if there is one to be had, else before this returns.
    pub(crate) fn run(&self, job: impl FnOnce() + Send + 'static) {
        self.push(None, Box::new(job));
    }

    /// As [`Self::run`], behind all jobs with the same `key` that came before.
    pub(crate) fn run_behind(&self, key: u64, job: impl FnOnce() + Send + 'static) {
        self.push(Some(key), Box::new(job));
    }

    /// As [`Self::run`], unless `most` jobs wait already; whether it will be done.
    pub(crate) fn run_within(&self, most: usize, job: impl FnOnce() + Send + 'static) -> bool {
        let has_room = lock(&self.shared.queue).waiting < most;
        if has_room {
            self.push(None, Box::new(job));
        }
        has_room
    }

    /// Has `job` done by the calling thread before this returns; but where a job with the same `key` came before, by a
    /// thread of the lane behind that one.
    pub(crate) fn run_here(&self, key: Option<u64>, job: impl FnOnce() + Send + 'static) {
        let Some(key) = key else {
            return contain(job);
        };
        {
            let mut queue = lock(&self.shared.queue);
            if let Some(behind) = queue.behind.get_mut(&key) {
                behind.push_back(Box::new(job));
                queue.waiting += 1;
                return;
            }
            queue.behind.insert(key, VecDeque::new());
        }
        contain(job);
        let mut queue = lock(&self.shared.queue);
        if !queue.has_behind(key) {
            // Nobody is woken for nothing.
            queue.behind.remove(&key);
            return;
        }
        if self.has_thread(&mut queue) {
            queue.next_of(key);
            drop(queue);
            self.shared.changed.notify_one();
            return;
        }
        // No thread is to be had: what came meanwhile is done here too.
        while let Some(work) = queue.behind.get_mut(&key).and_then(VecDeque::pop_front) {
            queue.waiting -= 1;
            drop(queue);
            contain(work);
            queue = lock(&self.shared.queue);
        }
        queue.behind.remove(&key);
    }

    fn push(&self, key: Option<u64>, work: Work) {
        let mut queue = lock(&self.shared.queue);
        if queue.waiting >= QUEUE_MOST && key.is_none() {
            drop(queue);
            return contain(work);
        }
        if let Some(behind) = key.and_then(|key| queue.behind.get_mut(&key)) {
            behind.push_back(work);
            queue.waiting += 1;
            return;
        }
        if !self.has_thread(&mut queue) {
            drop(queue);
            return contain(work);
        }
        if let Some(key) = key {
            queue.behind.insert(key, VecDeque::new());
        }
        queue.jobs.push_back(Job { key, work });
        queue.waiting += 1;
        drop(queue);
        self.shared.changed.notify_one();
    }

    /// Whether there is a thread for one more job; starts one where none is idle.
    fn has_thread(&self, queue: &mut Queue) -> bool {
        let wants_thread = queue.idle <= queue.jobs.len() && queue.threads < self.threads_most;
        if wants_thread {
            let shared = Arc::clone(&self.shared);
            let spawned = thread::Builder::new()
                .name(self.name.to_owned())
                .stack_size(STACK_BYTES)
                .spawn(move || shared.work());
            if spawned.is_ok() {
                queue.threads += 1;
            }
        }
        queue.threads > 0
    }
}

impl Shared {
    fn work(&self) {
        let mut queue = lock(&self.queue);
        loop {
            if let Some(Job { key, work }) = queue.jobs.pop_front() {
                queue.waiting -= 1;
                drop(queue);
                contain(work);
                queue = lock(&self.queue);
                if let Some(key) = key {
                    queue.next_of(key);
                }
            } else if queue.is_closed {
                return;
            } else {
                queue.idle += 1;
                queue = wait(&self.changed, queue);
                queue.idle -= 1;
            }
        }
    }
}

impl Queue {
    fn has_behind(&self, key: u64) -> bool {
        self.behind
            .get(&key)
            .is_some_and(|behind| !behind.is_empty())
    }

    /// Queues the next job of `key`, of which one has just been done: behind those of others.
    fn next_of(&mut self, key: u64) {
        match self.behind.get_mut(&key).and_then(VecDeque::pop_front) {
            Some(work) => self.jobs.push_back(Job {
                key: Some(key),
                work,
            }),
            None => {
                self.behind.remove(&key);
            }
        }
    }
}

/// Runs `job`; a panic ends here. What was shared is consistent after any statement, so going on is sound.
pub(crate) fn contain(job: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(job)).is_err() {
        log::error!(
            "a request ended in a panic and was answered with an I/O error; please report it"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn a_blocked_job_does_not_hold_up_the_next_one() {
        let lane = Lane::new("test", 2);
        let (release, blocked) = mpsc::channel::<()>();
        let (done, outcome) = mpsc::channel();
        lane.run(move || blocked.recv().expect("released"));
        lane.run(move || done.send(7).expect("received"));
        assert_eq!(outcome.recv(), Ok(7));
        release.send(()).expect("still there");
    }

    #[test]
    fn jobs_of_one_key_are_done_in_order_and_leave_the_threads_to_others() {
        let lane = Lane::new("test", 2);
        let (release, blocked) = mpsc::channel::<()>();
        let (done, outcome) = mpsc::channel();
        lane.run_behind(1, move || blocked.recv().expect("released"));
        for number in 0..100 {
            let done = done.clone();
            lane.run_behind(1, move || done.send(number).expect("received"));
        }
        // The lane has two threads, and a hundred jobs wait for the blocked one: there still is a thread for another key.
        let (other_done, other) = mpsc::channel();
        lane.run_behind(2, move || other_done.send(()).expect("received"));
        assert_eq!(other.recv(), Ok(()));
        assert_eq!(outcome.try_recv(), Err(mpsc::TryRecvError::Empty));
        release.send(()).expect("still there");
        let order: Vec<i32> = outcome.iter().take(100).collect();
        assert_eq!(order, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn a_job_done_here_comes_behind_those_of_its_key_and_before_those_that_come_meanwhile() {
        let lane = Lane::new("test", 2);
        let (done, outcome) = mpsc::channel();
        let (inner, first) = (lane.clone(), done.clone());
        lane.run_here(Some(1), move || {
            let second = first.clone();
            inner.run_here(Some(1), move || second.send(2).expect("received"));
            first.send(1).expect("received");
        });
        assert_eq!(outcome.recv(), Ok(1));
        assert_eq!(outcome.recv(), Ok(2));
        let (release, blocked) = mpsc::channel::<()>();
        lane.run_behind(1, move || blocked.recv().expect("released"));
        let third = done.clone();
        lane.run_here(Some(1), move || third.send(3).expect("received"));
        assert_eq!(outcome.try_recv(), Err(mpsc::TryRecvError::Empty));
        release.send(()).expect("still there");
        assert_eq!(outcome.recv(), Ok(3));
        let caller = thread::current().id();
        lane.run_here(None, move || assert_eq!(thread::current().id(), caller));
        assert!(
            lock(&lane.shared.queue).behind.len() <= 1,
            "no key is left behind"
        );
    }

    #[test]
    fn a_panic_ends_only_its_own_job() {
        let lane = Lane::new("test", 1);
        let (done, outcome) = mpsc::channel();
        lane.run(|| panic!("contained"));
        lane.run(move || done.send(7).expect("received"));
        assert_eq!(outcome.recv(), Ok(7));
    }
}
