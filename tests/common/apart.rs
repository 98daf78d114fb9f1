//! Shell scripts in a mount namespace of their own: what they mount over the machine's folders nobody else sees.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use super::day::scratch;
use super::{called, tool};

/// `script`, with its arguments to come as `$1` and on. It ends at the first command that fails.
pub fn apart(script: &str) -> Command {
    let mut command = called(tool("unshare").get_program());
    command
        .args(["--mount", "--propagation", "private", "--"])
        .args(["sh", "-euc", script, "sh"]);
    command
}

/// A folder that a script may lay over /sbin, where mount(8) looks for its helpers: those of libfuse, and the program under
/// test under these names.
pub fn helpers(names: &[&str]) -> TempDir {
    let folder = scratch();
    let fuse = folder.path().join("mount.fuse");
    fs::copy(tool("mount.fuse3").get_program(), fuse).unwrap();
    for name in names {
        symlink(env!("CARGO_BIN_EXE_pcapzst"), folder.path().join(name)).unwrap();
    }
    folder
}

/// A syslog that listens for a script: `LAY_DEV`, with the folder's path as `$DEV`, makes it that of the namespace.
pub struct Syslog {
    folder: TempDir,
    socket: UnixDatagram,
}

/// Lays a /dev of its own, with the logger's socket in it, over the machine's.
pub const LAY_DEV: &str = r#"
    mkdir "$DEV/dev"
    mount -t tmpfs -o mode=755 tmpfs "$DEV/dev"
    for name in fuse null urandom; do
        : >"$DEV/dev/$name"
        mount --bind "/dev/$name" "$DEV/dev/$name"
    done
    : >"$DEV/dev/log"
    mount --bind "$DEV/socket" "$DEV/dev/log"
    mount --rbind "$DEV/dev" /dev
"#;

impl Syslog {
    pub fn new() -> Self {
        let folder = scratch();
        let socket = UnixDatagram::bind(folder.path().join("socket")).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        Self { folder, socket }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The lines that came, to the first with these words.
    #[track_caller]
    pub fn lines_to(&self, words: &str) -> Vec<String> {
        let mut lines = Vec::new();
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let len = self
                .socket
                .recv(&mut buffer)
                .unwrap_or_else(|error| panic!("{error}: no {words:?} in {lines:?}"));
            let line = String::from_utf8(buffer[..len].to_vec()).unwrap();
            let is_last = line.contains(words);
            lines.push(line);
            if is_last {
                return lines;
            }
        }
    }

    /// The number of lines that wait to be read.
    pub fn lines_so_far(&self) -> usize {
        self.socket.set_nonblocking(true).unwrap();
        let mut buffer = [0];
        let mut lines = 0;
        while self.socket.recv(&mut buffer).is_ok() {
            lines += 1;
        }
        lines
    }
}
