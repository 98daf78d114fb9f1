//! What the service manager is told, where one started this program and wants to know (`NOTIFY_SOCKET`, `sd_notify(3)`).

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use sd_notify::NotifyState;

use super::session::Ground;

/// A mount in the background was started by somebody else than the manager, and tells nothing.
pub(super) fn tell(ground: Ground, states: &[NotifyState<'_>]) {
    if ground == Ground::Back {
        return;
    }
    let socket = std::env::var_os("NOTIFY_SOCKET").unwrap_or_default();
    let outcome = match socket.as_bytes() {
        [b'@', name @ ..] => tell_abstract(OsStr::from_bytes(name), states),
        _ => sd_notify::notify(states),
    };
    if let Err(error) = outcome {
        log::warn!("NOTIFY_SOCKET: {error}");
    }
}

/// To a socket that is no file (`unix(7)`), which the library does not know of.
fn tell_abstract(name: &OsStr, states: &[NotifyState<'_>]) -> io::Result<()> {
    let address = SocketAddr::from_abstract_name(name.as_bytes())?;
    let message: String = states.iter().map(|state| format!("{state}\n")).collect();
    UnixDatagram::unbound()?.send_to_addr(message.as_bytes(), &address)?;
    Ok(())
}
