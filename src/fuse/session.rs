//! The life of a mount: checks, mounting, serving, signals, the end.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use fuser::{Config, Session, SessionACL};
use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::SigSet;
use nix::unistd::geteuid;

use super::adapter::Adapter;
use super::ending::{Ending, ending_signals};
use super::index_dir;
use super::log_file;
use super::manager;
use super::mounting::Mounting;
use super::options::{Access, MountOptions};
use super::passthrough::Passthrough;
use super::paths::checked_paths;
use crate::capture::Engine;
use crate::sink::{self, MOUNT, Sink};
use crate::tree::way::Passing;
use crate::tree::{Links, Options, Tree};

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

impl MountError {
    pub(super) fn new(words: String) -> Self {
        Self(words)
    }
}

pub(super) fn failed<E: fmt::Display>(what: impl fmt::Display) -> impl FnOnce(E) -> MountError {
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

/// Where a mount's program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ground {
    /// Before whoever started it: a terminal, or a service manager.
    Fore,
    /// As a process of its own that nobody sees.
    Back,
}

/// Mounts and serves until the mount ends. Calls `on_ready` once the mount answers; an error of it ends the mount.
///
/// # Errors
/// Why it could not be mounted, or how the session broke.
pub fn serve(
    request: &Request,
    ground: Ground,
    on_ready: impl FnOnce(&Path) -> io::Result<()>,
) -> Result<(), MountError> {
    let (source, point) = checked_paths(request)?;
    crate::sys::keep_memory_exact();
    let options = &request.options;
    let sink = sink_of(options, ground, &source, &point)?;
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
            // Others' rights end where the kernel sees no folder: behind a link that we follow for them.
            links: match options.access {
                Access::Other => Links::Trusted,
                Access::Owner | Access::Root => Links::Everybodys,
            },
        },
    )
    .map_err(|errno| MountError(format!("{}: {errno}{}", source.display(), hint(errno))))?;

    // Before any thread: all of them inherit the mask, and the signals reach the one that waits for them.
    let signals = ending_signals(ground);
    signals.thread_block().map_err(failed("blocking signals"))?;

    let (mounting, device) =
        Mounting::new(&source, &point, options).map_err(failed(point.display()))?;
    let ending = Arc::new(Ending::new(mounting, ground));
    let outcome = run(
        (tree, passthrough),
        device,
        &ending,
        signals,
        options,
        || {
            manager::tell(ground, manager::READY);
            if let Some(sink) = sink {
                sink::switch_to(sink);
                log::info!(target: MOUNT, "serving {} at {} (pcapzst {})", source.display(), point.display(), env!("CARGO_PKG_VERSION"));
            } else {
                // Only now: its thread is to inherit the mask.
                sink::switch_to(Sink::stderr()?);
            }
            on_ready(&point)
        },
    );
    if outcome.is_err() {
        // The first error is the one to tell.
        let _ = ending.mounting().unmount();
    }
    ending.note_over();
    engine.finish(KEEPING);
    let outcome = outcome.map_err(failed(point.display()));
    match &outcome {
        Ok(()) => ending.log_end(),
        // Else whoever started it is told.
        Err(error) if !sink::is_stderr() => log::error!(target: MOUNT, "{error}"),
        Err(_) => {}
    }
    log::logger().flush();
    outcome
}

fn run(
    (tree, passthrough): (Tree, Passthrough),
    device: std::os::fd::OwnedFd,
    ending: &Arc<Ending>,
    signals: SigSet,
    options: &MountOptions,
    on_ready: impl FnOnce() -> io::Result<()>,
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

    let for_signals = Arc::clone(ending);
    thread::Builder::new()
        .name("pcapzst-signal".to_owned())
        .spawn(move || for_signals.await_signals(signals))?;
    // The first request of all: what the caller is told is that the mount answers, not that it should.
    ending.mounting().point().metadata()?;
    ending.mounting().raise_readahead();
    on_ready()?;
    match session.join() {
        // A request that the kernel was handing over while the mount went away. With the mount still in its place the
        // connection was cut by somebody.
        Err(error)
            if error.raw_os_error() == Some(libc::ECONNABORTED)
                && matches!(ending.mounting().unmount(), Ok(None)) =>
        {
            Ok(())
        }
        outcome => outcome,
    }
}

/// What an error means that comes of how this program was started.
fn hint(errno: Errno) -> &'static str {
    match errno {
        Errno::ENOSYS => {
            " (openat2 is missing: Linux before 5.6, or a filter of system calls, such as RestrictSUIDSGID= of systemd)"
        }
        _ => "",
    }
}

/// Where the log goes once the mount answers, where that is not standard error.
fn sink_of(
    options: &MountOptions,
    ground: Ground,
    source: &Path,
    point: &Path,
) -> Result<Option<Sink>, MountError> {
    match (&options.log_file, ground) {
        (Some(path), _) => {
            let file = log_file::open(path, source, point).map_err(MountError)?;
            Ok(Some(Sink::File(file)))
        }
        (None, Ground::Back) => Ok(Some(Sink::syslog().map_err(failed("syslog"))?)),
        (None, Ground::Fore) => Ok(None),
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
