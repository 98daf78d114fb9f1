//! A mount whose program goes on in the background.
//!
//! The process forks before it has any thread; the caller waits for one message over a pipe and so returns 0 only when the
//! mount answers, and with the real error when it does not. When the caller is gone by then, there is no mount: nobody was
//! told of it.

use std::fs::File;
use std::io::{self, Read, Write};

use nix::fcntl::OFlag;

use super::mounting::dev_null;
use super::paths::checked_paths;
use super::session::{Ground, MountError, Request, failed, serve};
use crate::sys::{Forked, close_inherited, fork_single_threaded};

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
            // The daemon must not keep the folder it was started in from being unmounted.
            let outcome = nix::unistd::chdir("/")
                .map_err(failed("/"))
                .and_then(|()| serve(request, Ground::Back, |_| tell_ready(&mut report)));
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
        Some(_) => Err(MountError::new(
            String::from_utf8_lossy(&message).into_owned(),
        )),
        None => Err(MountError::new(
            "the daemon ended before it served the mount".to_owned(),
        )),
    }
}

/// Leaves the terminal and lets the caller go: it waits for the pipe's end, and `$(…)` for that of the standard streams.
///
/// The terminal, and with it the process group, is left only now: an interrupt while the caller waits is for both. And an
/// automounter waits for this mount and holds up whoever looks at its point, but for its own process group (autofs, "oz
/// mode"; systemd starts mount(8) in its own); the first request to the mount is such a look.
///
/// # Errors
/// The caller has not waited: it was interrupted.
fn tell_ready(report: &mut File) -> io::Result<()> {
    nix::unistd::setsid()?;
    let null = dev_null()?;
    nix::unistd::dup2_stdin(&null)?;
    nix::unistd::dup2_stdout(&null)?;
    nix::unistd::dup2_stderr(&null)?;
    report
        .write_all(&[READY])
        .map_err(|error| io::Error::new(error.kind(), "whoever started it did not wait for it"))?;
    // The pipe's last writer becomes /dev/null; `report` itself lives on until the session ends.
    *report = null;
    Ok(())
}
