//! Lines on their way to a stream that may hold up whoever writes to it.

use std::io::{self, Write};
use std::sync::mpsc::{self, SyncSender};
use std::thread;
use std::time::Duration;

/// Lines that wait. More than the bound on their number lets through at once; of those without a bound some may be lost.
const LINES_MOST: usize = 4096;
/// How long a mount that ends waits for the stream to take the last lines.
const PATIENCE: Duration = Duration::from_secs(1);

/// Lines before a stream, which a thread of its own writes: nobody waits for the stream.
#[derive(Debug)]
pub(crate) struct Queue(SyncSender<Entry>);

#[derive(Debug)]
enum Entry {
    Line(String),
    /// Tells that all before it are written.
    Flush(SyncSender<()>),
}

impl Queue {
    /// A queue before the stream that `open` gives. The thread ends with the queue.
    pub(super) fn before<W: Write>(open: impl FnOnce() -> W + Send + 'static) -> io::Result<Self> {
        let (sender, entries) = mpsc::sync_channel(LINES_MOST);
        thread::Builder::new()
            .name("pcapzst-log".to_owned())
            .spawn(move || {
                let mut stream = open();
                for entry in entries {
                    // What cannot be written, or told, is lost: there is nobody left who would care.
                    let _ = match entry {
                        Entry::Line(line) => stream.write_all(line.as_bytes()).is_ok(),
                        Entry::Flush(done) => done.send(()).is_ok(),
                    };
                }
            })?;
        Ok(Self(sender))
    }

    /// Adds a line; one for which there is no room is lost.
    pub(super) fn add(&self, line: String) {
        let _ = self.0.try_send(Entry::Line(line));
    }

    /// Waits until what was added is written, but not for long.
    pub(super) fn flush(&self) {
        let (done, written) = mpsc::sync_channel(1);
        // Where the queue is full, the stream takes nothing.
        if self.0.try_send(Entry::Flush(done)).is_ok() {
            let _ = written.recv_timeout(PATIENCE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, Sender};

    /// Takes a line for each word that it is given, and passes it on.
    struct Slow(Receiver<()>, Sender<Vec<u8>>);

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.recv().map_err(io::Error::other)?;
            self.1.send(bytes.to_vec()).map_err(io::Error::other)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn nobody_waits_for_the_stream_and_what_it_takes_comes_in_order() {
        let ((go, may), (sent, came)) = (mpsc::channel(), mpsc::channel());
        let queue = Queue::before(move || Slow(may, sent)).expect("a thread");
        for number in 0..LINES_MOST * 2 {
            queue.add(number.to_string());
        }
        // Full: this waits for nothing.
        queue.flush();
        for number in 0..LINES_MOST {
            go.send(()).expect("the thread");
            let line = came.recv().expect("the thread");
            assert_eq!(line, number.to_string().into_bytes());
        }
    }

    #[test]
    fn a_flush_waits_for_all_before_it() {
        let ((go, may), (sent, came)) = (mpsc::channel(), mpsc::channel());
        let queue = Queue::before(move || Slow(may, sent)).expect("a thread");
        for number in 0..100 {
            queue.add(number.to_string());
            go.send(()).expect("the thread");
        }
        queue.flush();
        assert_eq!(came.try_iter().count(), 100);
    }
}
