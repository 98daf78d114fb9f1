//! What the service manager is told, where one started this program and wants to know (`NOTIFY_SOCKET`, `sd_notify(3)`).

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use super::session::Ground;

pub(super) const READY: &str = "READY=1\n";
pub(super) const STOPPING: &str = "STOPPING=1\n";

/// How long a manager that does not read is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// Sends one message of lines `NAME=value`. A mount in the background was started by somebody else than the manager, and
/// tells nothing.
pub(super) fn tell(ground: Ground, message: &str) {
    let Some(socket) = std::env::var_os("NOTIFY_SOCKET") else {
        return;
    };
    if ground == Ground::Fore
        && let Err(error) = send(socket.as_bytes(), message)
    {
        log::warn!("NOTIFY_SOCKET: {error}");
    }
}

/// To a socket's path, or to the name of one that is no file: behind an `@`.
fn send(socket: &[u8], message: &str) -> io::Result<()> {
    let address = match socket {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        path => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(path))?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_write_timeout(Some(PATIENCE))?;
    socket.send_to_addr(message.as_bytes(), &address)?;
    Ok(())
}
