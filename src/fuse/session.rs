//! The life of a mount: checks, mounting, serving, signals, the end.
//!
//! In the background the process forks before it has any thread; the caller waits for one message over a pipe and so
//! returns 0 only when the mount answers, and with the real error when it does not.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use fuser::{Config, Session, SessionACL};
use nix::fcntl::OFlag;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::geteuid;

use super::adapter::Adapter;
use super::folder::{is_above, is_same};
use super::index_dir;
use super::mountinfo::{self, FSTYPE};
use super::mounting::{Mounting, Unmounted, dev_null};
use super::options::{Access, MountOptions};
use super::passthrough::Passthrough;
use crate::capture::Engine;
use crate::sys::{Forked, close_inherited, fork_single_threaded};
use crate::tree::way::Passing;
use crate::tree::{Options, Tree};

/// Signals that end a mount.
const ENDING: [Signal; 3] = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP];
/// Descriptors of captures that nobody reads: a share of the limit, within these bounds.
const IDLE_FILES: std::ops::RangeInclusive<usize> = 4..=256;

/// How long a mount that has ended goes on writing frame tables.
const KEEPING: Duration = Duration::from_secs(2);

/// Why a mount could not be made, in words for the user.
#[derive(Debug)]
pub struct MountError(String);

impl fmt::Display for MountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for MountError {}

fn failed<E: fmt::Display>(what: impl fmt::Display) -> impl FnOnce(E) -> MountError {
    move |error| MountError(format!("{what}: {error}"))
}

/// What to mount where.
#[derive(Clone, Debug)]
pub struct Request {
    /// The folder of captures.
    pub source: PathBuf,
    /// Where to show them.
    pub point: PathBuf,
    /// The `-o` options.
    pub options: MountOptions,
}

/// Mounts and serves until the mount ends. Calls `on_ready` once the mount answers.
///
/// # Errors
/// Why it could not be mounted, or how the session broke.
pub fn serve(request: &Request, on_ready: impl FnOnce(&Path)) -> Result<(), MountError> {
    let (source, point) = checked_paths(request)?;
    crate::sys::keep_memory_exact();
    let options = &request.options;
    let descriptors = raise_descriptor_limit();
    // Others have not the right, and the kernel need not be told of a depth.
    let passing = if geteuid().is_root() {
        options.passing
    } else {
        Passing::Off
    };
    let passthrough = Passthrough::new(&source, passing);
    let index = index_dir::open(&options.index, &source, &point).map_err(MountError)?;
    let engine = Engine::new(options.cache_size, options.max_frame_size).with_index(index);
    let engine = Arc::new(engine);
    let tree = Tree::open(
        &source,
        Arc::clone(&engine),
        Options {
            naming: options.naming.clone(),
            shown: options.shown,
            overrides: options.overrides,
            idle_files: (descriptors / 4).clamp(*IDLE_FILES.start(), *IDLE_FILES.end()),
            open_files: descriptors / 2,
            passing,
        },
    )
    .map_err(failed(source.display()))?;

    // Before any thread: all of them inherit the mask, and the signals reach the one that waits for them.
    let mut ending = SigSet::empty();
    for signal in ENDING {
        ending.add(signal);
    }
    ending.thread_block().map_err(failed("blocking signals"))?;

    let (mounting, device) =
        Mounting::new(&source, &point, options).map_err(failed(point.display()))?;
    let mounting = Arc::new(mounting);
    let outcome = run(
        (tree, passthrough),
        device,
        &mounting,
        ending,
        options,
        || {
            on_ready(&point);
        },
    );
    if outcome.is_err() {
        // The first error is the one to tell.
        let _ = mounting.unmount();
    }
    engine.finish(KEEPING);
    outcome.map_err(failed(point.display()))
}

fn run(
    (tree, passthrough): (Tree, Passthrough),
    device: std::os::fd::OwnedFd,
    mounting: &Arc<Mounting>,
    ending: SigSet,
    options: &MountOptions,
    on_ready: impl FnOnce(),
) -> io::Result<()> {
    let acl = match options.access {
        Access::Owner => SessionACL::Owner,
        Access::Root => SessionACL::RootAndOwner,
        Access::Other => SessionACL::All,
    };
    let cpus = thread::available_parallelism().map_or(2, usize::from);
    let mut config = Config::default();
    let loops = options.threads.unwrap_or(cpus.max(2));
    config.n_threads = Some(loops);
    let notifier = Arc::new(OnceLock::new());
    let answers = device.try_clone()?;
    let adapter = Adapter::new(
        Arc::new(tree),
        loops,
        passthrough,
        Arc::clone(&notifier),
        answers,
    );
    let session = Session::from_fd(adapter, device, acl, config)?;
    // Set once, before the first request is taken.
    let _ = notifier.set(session.notifier());
    let session = session.spawn()?;

    let for_signals = Arc::clone(mounting);
    thread::Builder::new()
        .name("pcapzst-signal".to_owned())
        .spawn(move || end_on_signal(&for_signals, ending))?;
    // The first request of all: what the caller is told is that the mount answers, not that it should.
    mounting.point().metadata()?;
    mounting.raise_readahead();
    on_ready();
    match session.join() {
        // A request that the kernel was handing over while the mount went away. With the mount still in its place the
        // connection was cut by somebody.
        Err(error)
            if error.raw_os_error() == Some(libc::ECONNABORTED)
                && matches!(mounting.unmount(), Ok(None)) =>
        {
            Ok(())
        }
        outcome => outcome,
    }
}

/// Unmounts at each ending signal. The session ends by itself once the last handle is closed.
fn end_on_signal(mounting: &Mounting, ending: SigSet) {
    while let Ok(signal) = ending.wait() {
        match mounting.unmount() {
            Ok(Some(Unmounted::Detached)) => {
                log::warn!("{signal}: unmounted; open files are served until they are closed");
            }
            Ok(_) => log::info!("{signal}: unmounted"),
            Err(error) => log::error!("{signal}: unmounting: {error}"),
        }
    }
}

/// Mounts in a new process that goes on serving; returns once the mount answers.
///
/// # Errors
/// The child's error, in its words.
pub fn serve_in_background(request: &Request) -> Result<(), MountError> {
    // Before the daemon leaves the folder that relative paths start from.
    let (source, point) = checked_paths(request)?;
    let request = &Request {
        source,
        point,
        options: request.options.clone(),
    };
    let (reader, writer) = nix::unistd::pipe2(OFlag::O_CLOEXEC).map_err(failed("pipe"))?;
    match fork_single_threaded().map_err(failed("fork"))? {
        Forked::Parent => {
            drop(writer);
            await_child(File::from(reader))
        }
        Forked::Child => {
            drop(reader);
            let mut report = File::from(writer);
            close_inherited(&report);
            let outcome = detach_from_terminal()
                .map_err(failed("setsid"))
                .and_then(|()| serve(request, |_| tell_ready(&mut report)));
            let code = match outcome {
                Ok(()) => 0,
                Err(error) => {
                    // Nobody reads this if the mount was ready before; then the log has it.
                    let _ = write!(report, "{error}");
                    1
                }
            };
            std::process::exit(code);
        }
    }
}

/// What the child sends once it serves. An error's text never starts with NUL.
const READY: u8 = 0;

fn await_child(mut report: File) -> Result<(), MountError> {
    let mut message = Vec::new();
    report
        .read_to_end(&mut message)
        .map_err(failed("waiting for the daemon"))?;
    match message.first() {
        Some(&READY) => Ok(()),
        Some(_) => Err(MountError(String::from_utf8_lossy(&message).into_owned())),
        None => Err(MountError(
            "the daemon ended before it served the mount".to_owned(),
        )),
    }
}

fn detach_from_terminal() -> io::Result<()> {
    nix::unistd::setsid()?;
    // The daemon must not keep the folder it was started in from being unmounted.
    nix::unistd::chdir("/")?;
    Ok(())
}

/// Lets the caller go: it waits for the pipe's end, and `$(…)` for that of the standard streams.
fn tell_ready(report: &mut File) {
    let outcome = (|| {
        let null = dev_null()?;
        nix::unistd::dup2_stdin(&null)?;
        nix::unistd::dup2_stdout(&null)?;
        nix::unistd::dup2_stderr(&null)?;
        report.write_all(&[READY])?;
        // The pipe's last writer becomes /dev/null; `report` itself lives on until the session ends.
        *report = null;
        io::Result::Ok(())
    })();
    if let Err(error) = outcome {
        log::error!("telling the caller: {error}");
    }
}

/// The paths, absolute and without links, if one may be mounted on the other.
fn checked_paths(request: &Request) -> Result<(PathBuf, PathBuf), MountError> {
    let (given_source, given_point) = (&request.source, &request.point);
    let source = given_source
        .canonicalize()
        .map_err(failed(given_source.display()))?;
    let point = given_point
        .canonicalize()
        .and_then(|point| point.metadata().map(|_| point))
        .map_err(|error| {
            let hint = if error.raw_os_error() == Some(libc::ENOTCONN) {
                format!(
                    " (a dead mount is there: run `pcapzst umount {}`, then mount again)",
                    given_point.display()
                )
            } else {
                String::new()
            };
            MountError(format!("{}: {error}{hint}", given_point.display()))
        })?;
    for folder in [&source, &point] {
        if !folder.is_dir() {
            return Err(MountError(format!("{}: not a folder", folder.display())));
        }
    }
    let overlap = if is_same(&source, &point) {
        Some("is the source folder itself")
    } else if is_above(&source, &point) {
        Some("lies inside the source folder")
    } else if is_above(&point, &source) {
        Some("lies above the source folder")
    } else {
        None
    };
    if let Some(overlap) = overlap {
        return Err(MountError(format!(
            "{}: the mount point {overlap}, {}: mounted there, it would hide or contain itself",
            point.display(),
            source.display()
        )));
    }
    match mountinfo::at(&point) {
        Ok(Some(mount)) if mount.fstype == FSTYPE => Err(MountError(format!(
            "{}: a pcapzst mount is there already (end it with `pcapzst umount {}`)",
            point.display(),
            point.display()
        ))),
        Ok(_) => Ok((source, point)),
        Err(error) => Err(failed("/proc/self/mountinfo")(error)),
    }
}

/// Raises the soft limit of open files to the hard one; the limit then.
fn raise_descriptor_limit() -> usize {
    let limit = match getrlimit(Resource::RLIMIT_NOFILE) {
        Ok((_, hard)) if setrlimit(Resource::RLIMIT_NOFILE, hard, hard).is_ok() => hard,
        Ok((soft, _)) => soft,
        // POSIX's least.
        Err(_) => 20,
    };
    usize::try_from(limit).unwrap_or(usize::MAX)
}
