//! Standard input: read to its end, or after a signal until nothing more comes.
//!
//! With `tcpdump | pcapzst pack -` an interrupt reaches both, and tcpdump's last packets are on their way: what is in the
//! pipe is taken, and what tcpdump still writes into it. Only the time counts in which the stream gave nothing, so that
//! nothing is lost when it was this program that took long.

use std::io::{self, PipeReader, Read};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::complain;
use super::feed::{Event, next_piece};

/// How long, in all, a stream is waited for after a signal.
const WAIT_AT_MOST: Duration = Duration::from_millis(500);
/// Bytes after which a stream that goes on after a signal is left: many times what pipes and their writers hold.
const TAKE_AT_LEAST: u64 = 16 * 1024 * 1024;

/// A stream, and the word of a signal.
pub(super) struct Stream<I> {
    input: I,
    /// Ends with the first signal.
    told: PipeReader,
    /// Once there was a signal.
    drain: Option<Drain>,
}

/// What was done since the signal.
#[derive(Clone, Copy, Default)]
struct Drain {
    waited: Duration,
    taken: u64,
}

impl<I: Read + AsFd> Stream<I> {
    pub(super) fn new(input: I, told: PipeReader) -> Self {
        Self {
            input,
            told,
            drain: None,
        }
    }

    /// Reads the next piece, once there is one; after a signal every end but a failure is [`Event::Stop`].
    pub(super) fn next(&mut self) -> Event {
        match self.await_input() {
            Ok(true) => {}
            Ok(false) => return Event::Stop,
            Err(error) => return Event::Failed(error),
        }
        let event = next_piece(&mut self.input);
        let Some(drain) = &mut self.drain else {
            return event;
        };
        match event {
            Event::End => Event::Stop,
            Event::Piece(_) if drain.taken >= TAKE_AT_LEAST => {
                let taken = drain.taken;
                complain(
                    Path::new("-"),
                    format!(
                        "went on after the signal; all behind its next {taken} bytes is left out"
                    ),
                );
                Event::Stop
            }
            Event::Piece(piece) => {
                drain.taken += piece.len() as u64;
                Event::Piece(piece)
            }
            event => event,
        }
    }

    /// Waits until a read gives something, its end included; false where it was waited for long enough after a signal.
    fn await_input(&mut self) -> io::Result<bool> {
        if self.drain.is_none() {
            let [input, told] = [self.input.as_fd(), self.told.as_fd()];
            let mut both = [input, told].map(|fd| PollFd::new(fd, PollFlags::POLLIN));
            while let Err(errno) = poll(&mut both, PollTimeout::NONE) {
                go_on_after(errno)?;
            }
            let [_, told] = both;
            if told.any() != Some(true) {
                return Ok(true);
            }
        }
        let drain = self.drain.get_or_insert_default();
        loop {
            let wait = WAIT_AT_MOST.saturating_sub(drain.waited);
            let wait = PollTimeout::try_from(wait).unwrap_or(PollTimeout::ZERO);
            let begin = Instant::now();
            let ready = poll(
                &mut [PollFd::new(self.input.as_fd(), PollFlags::POLLIN)],
                wait,
            );
            drain.waited += begin.elapsed();
            match ready {
                Ok(ready) => return Ok(ready > 0),
                Err(errno) => go_on_after(errno)?,
            }
        }
    }
}

/// A process that was stopped and goes on finds its wait interrupted.
fn go_on_after(errno: Errno) -> io::Result<()> {
    match errno {
        Errno::EINTR => Ok(()),
        errno => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{PipeWriter, Write};

    use super::*;

    /// A stream, what is written into it, and what a signal closes.
    fn stream() -> (Stream<PipeReader>, PipeWriter, PipeWriter) {
        let (input, writer) = io::pipe().unwrap();
        let (told, tell) = io::pipe().unwrap();
        (Stream::new(input, told), writer, tell)
    }

    /// As if the stream had been waited for as long as that is done.
    fn after_waiting(stream: &mut Stream<PipeReader>) {
        stream.drain = Some(Drain {
            waited: WAIT_AT_MOST,
            taken: 0,
        });
    }

    fn len(event: &Event) -> Option<usize> {
        match event {
            Event::Piece(piece) => Some(piece.len()),
            _ => None,
        }
    }

    #[test]
    fn without_a_signal_a_stream_has_its_own_end() {
        let (mut stream, mut writer, _tell) = stream();
        writer.write_all(&[1; 1000]).unwrap();
        drop(writer);
        assert_eq!(len(&stream.next()), Some(1000));
        assert!(matches!(stream.next(), Event::End));
    }

    #[test]
    fn what_waits_in_the_pipe_is_taken_however_long_after_the_signal() {
        for has_ended in [true, false] {
            let (mut stream, mut writer, tell) = stream();
            drop(tell);
            after_waiting(&mut stream);
            writer.write_all(&[1; 1000]).unwrap();
            let writer = Some(writer).filter(|_| !has_ended);
            assert_eq!(len(&stream.next()), Some(1000));
            assert!(matches!(stream.next(), Event::Stop));
            drop(writer);
        }
    }

    #[test]
    fn a_stream_that_is_silent_after_a_signal_is_waited_for_and_left() {
        let (mut stream, _writer, tell) = stream();
        drop(tell);
        assert!(matches!(stream.next(), Event::Stop));
        assert!(stream.drain.unwrap().waited >= WAIT_AT_MOST.mul_f32(0.9));
    }

    #[test]
    fn a_stream_that_never_ends_is_left_at_a_bound_and_one_that_ends_there_is_whole() {
        for has_more in [true, false] {
            let (mut stream, mut writer, tell) = stream();
            drop(tell);
            stream.drain = Some(Drain {
                waited: Duration::ZERO,
                taken: TAKE_AT_LEAST - 1,
            });
            writer.write_all(&[1; 1000]).unwrap();
            assert_eq!(len(&stream.next()), Some(1000), "up to the bound and over");
            if has_more {
                writer.write_all(&[1]).unwrap();
            }
            drop(writer);
            assert!(matches!(stream.next(), Event::Stop));
        }
    }
}
