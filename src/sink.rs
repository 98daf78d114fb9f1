//! Where log lines go: standard error, the system's log, or a file.
//!
//! What is logged at all is `env_logger`'s filter (`RUST_LOG`). Every line is one line, whatever bytes a file's name has, and
//! their number has a bound (`flood`): no client and no capture fills the disk through the log.

mod flood;
mod queue;

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::net::UnixDatagram;
use std::panic::{self, PanicHookInfo};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use log::{Level, LevelFilter, Log, Metadata, Record};

use flood::Flood;
use queue::Queue;

use crate::plain::Plain;

/// The target of lines about a mount's own life: its start and its end.
pub(crate) const MOUNT: &str = "pcapzst::mount";
/// What is logged without `RUST_LOG`. What the file system below and the kernel's requests bring up is for whoever asks.
pub const FILTER: &str = "warn,fuser=error,pcapzst::mount=info";
/// Whose lines are those of the protocol crate.
const FUSER: &str = "fuser";
/// Where syslog listens on this machine (`_PATH_LOG` of syslog.h).
const SYSLOG: &str = "/dev/log";
/// The facility `LOG_DAEMON` (RFC 5424, 6.2.1).
const DAEMON: u8 = 3 << 3;

/// Where lines go.
#[derive(Debug)]
pub(crate) enum Sink {
    /// To syslog. By hand: syslog(3) waits, under a lock, for a logger that does not read, and with it every request that logs.
    Syslog(UnixDatagram),
    /// To a file, which is open for appending.
    File(File),
    /// To standard error, by a thread of its own: a pipe or terminal that nobody reads holds up no request.
    Stderr(Queue),
}

/// Where lines go now: straight to standard error where nothing is set.
static SINK: RwLock<Option<Arc<Sink>>> = RwLock::new(None);
static FLOOD: Flood = Flood::new();

impl Sink {
    /// Syslog, whether somebody listens there or not.
    ///
    /// # Errors
    /// No descriptor is left.
    pub(crate) fn syslog() -> io::Result<Self> {
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        Ok(Self::Syslog(socket))
    }

    /// Standard error, for a process whose threads are to inherit the caller's signal mask.
    ///
    /// # Errors
    /// No thread can be had.
    pub(crate) fn stderr() -> io::Result<Self> {
        Queue::before(io::stderr).map(Self::Stderr)
    }

    /// Writes a line. One that cannot be written is lost: there is nobody left to tell.
    fn write(&self, level: Level, text: &str) {
        let _ = match self {
            // Sent to the path each time, so that a logger may be started again.
            Self::Syslog(socket) => {
                let priority = DAEMON | severity(level);
                let pid = std::process::id();
                socket
                    .send_to(
                        format!("<{priority}>pcapzst[{pid}]: {text}").as_bytes(),
                        SYSLOG,
                    )
                    .map(|_| ())
            }
            // In one call, so that lines of two threads do not mix.
            Self::File(file) => {
                // A clock before 1970 has no such form.
                let now = humantime::format_rfc3339_millis(SystemTime::now().max(UNIX_EPOCH));
                let mut file: &File = file;
                file.write_all(format!("{now} {level} {text}\n").as_bytes())
            }
            Self::Stderr(queue) => {
                queue.add(on_stderr(text));
                Ok(())
            }
        };
    }
}

/// Severities of RFC 5424, 6.2.1.
fn severity(level: Level) -> u8 {
    match level {
        Level::Error => 3,
        Level::Warn => 4,
        Level::Info => 6,
        Level::Debug | Level::Trace => 7,
    }
}

/// From now on lines go to `sink`.
pub(crate) fn switch_to(sink: Sink) {
    *SINK.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(sink));
}

/// Whether lines go to standard error.
pub(crate) fn is_stderr() -> bool {
    matches!(current().as_deref(), None | Some(Sink::Stderr(_)))
}

fn current() -> Option<Arc<Sink>> {
    SINK.read().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Has this process log, and its panics with it.
pub(crate) fn install() {
    let filter = env_logger::Env::default().default_filter_or(FILTER);
    let filter = env_logger::Builder::from_env(filter).build();
    let most: LevelFilter = filter.filter();
    if log::set_boxed_logger(Box::new(Logger { filter })).is_ok() {
        log::set_max_level(most);
        let to_stderr = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if current().is_some() {
                log_panic(info);
            } else if admits() {
                to_stderr(info);
            }
        }));
    }
}

fn log_panic(info: &PanicHookInfo<'_>) {
    let thread = std::thread::current();
    log::error!("thread {:?} {info}", thread.name().unwrap_or("unnamed"));
    // Empty without RUST_BACKTRACE.
    let backtrace = std::backtrace::Backtrace::capture();
    if backtrace.status() == std::backtrace::BacktraceStatus::Captured {
        for line in backtrace.to_string().lines() {
            log::error!("{line}");
        }
    }
}

struct Logger {
    filter: env_logger::Logger,
}

impl Log for Logger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.filter.enabled(metadata)
    }

    fn log(&self, record: &Record<'_>) {
        if !self.filter.matches(record) {
            return;
        }
        let text = record.args().to_string();
        if is_reply_to_nobody(record.target(), &text)
            && !log::log_enabled!(target: FUSER, Level::Debug)
        {
            return;
        }
        // Who asked for more than information gets all of it; and a mount ends but once.
        let is_bounded = record.level() <= Level::Info && record.target() != MOUNT;
        if is_bounded && !admits() {
            return;
        }
        write(record.level(), &Plain(text).to_string());
    }

    /// Waits a moment for what is queued, where there is a queue.
    fn flush(&self) {
        if let Some(Sink::Stderr(queue)) = current().as_deref() {
            queue.flush();
        }
    }
}

/// Whether the bound on lines has room for one more; if so, how many it kept back is told before it.
fn admits() -> bool {
    FLOOD.admits(Instant::now(), |missing| {
        let words = format!("too much to log: {missing} lines were left out here");
        write(Level::Warn, &words);
    })
}

/// Whether this is fuser's word about a reply that the kernel does not want any more (ENOENT): the reader was killed, or the
/// mount ended meanwhile. That is no error, and readers could fill the log with it.
fn is_reply_to_nobody(target: &str, text: &str) -> bool {
    target.starts_with(FUSER)
        && text.starts_with("Failed to send FUSE reply")
        && text.ends_with("(os error 2)")
}

fn write(level: Level, text: &str) {
    match current() {
        Some(sink) => sink.write(level, text),
        // In one call, as above. Nobody may listen any more, which is no reason to panic.
        None => {
            let _ = io::stderr().write_all(on_stderr(text).as_bytes());
        }
    }
}

fn on_stderr(text: &str) -> String {
    format!("pcapzst: {text}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    const FILE: &str = "PCAPZST_TEST_LOG";

    /// The child of the test below: it has a log and a hook of its own.
    #[test]
    #[ignore = "run by the test below, in a process of its own"]
    fn panics_with_a_log_file() {
        let path = std::env::var_os(FILE).expect("the test below gives it");
        let file = File::options().append(true).create(true).open(path);
        install();
        switch_to(Sink::File(file.expect("a folder of the test's own")));
        let thread = std::thread::Builder::new().name("worker".to_owned());
        let outcome = thread.spawn(|| crate::lane::contain(|| panic!("one\ntwo")));
        assert!(outcome.expect("a thread").join().is_ok());
    }

    #[test]
    fn a_reply_that_nobody_waits_for_is_no_error_and_another_failure_is() {
        let of = |errno| {
            let error = io::Error::from_raw_os_error(errno);
            is_reply_to_nobody(
                "fuser::reply",
                &format!("Failed to send FUSE reply: {error}"),
            )
        };
        assert!(of(libc::ENOENT));
        assert!(!of(libc::EINVAL));
        assert!(!is_reply_to_nobody(
            "pcapzst::tree",
            "a.pcap: x (os error 2)"
        ));
    }

    #[test]
    fn a_panic_is_in_the_log_and_not_on_standard_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        let ran = Command::new(std::env::current_exe().expect("a path"))
            .args(["--exact", "sink::tests::panics_with_a_log_file"])
            .args(["--ignored", "--nocapture", "--test-threads=1"])
            .env(FILE, &path)
            .env("RUST_BACKTRACE", "1")
            .env_remove("RUST_LOG")
            .output()
            .expect("this program");
        let stderr = String::from_utf8_lossy(&ran.stderr);
        assert!(
            ran.status.success() && !stderr.contains("panicked"),
            "{stderr}"
        );
        let log = std::fs::read_to_string(&path).expect("a log");
        let first = log.lines().next().unwrap_or_default();
        assert!(
            first.contains("Z ERROR thread \"worker\" panicked at src/sink.rs:")
                && first.ends_with("one\\ntwo"),
            "{log}"
        );
        let words = "a request ended in a panic";
        assert!(
            log.lines().last().is_some_and(|line| line.contains(words)),
            "{log}"
        );
        assert!(log.contains("contain"), "no backtrace: {log}");
    }
}
