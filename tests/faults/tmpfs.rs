//! A small file system of the test's own, gone with it whatever happens.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::fs;
use std::path::{Path, PathBuf};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use tempfile::TempDir;

use crate::common::mounted::free;

/// A tmpfs, mounted on a folder of its own. Needs root.
pub struct Tmpfs(TempDir);

impl Tmpfs {
    /// With room for so many KiB.
    #[track_caller]
    pub fn new(kib: usize) -> Self {
        let tmpfs = Self(
            tempfile::Builder::new()
                .prefix("pcapzst-tmpfs-")
                .tempdir()
                .unwrap(),
        );
        tmpfs.mount(MsFlags::empty(), kib);
        tmpfs
    }

    #[track_caller]
    fn mount(&self, flags: MsFlags, kib: usize) {
        let size = format!("size={kib}k");
        mount(
            Some("tmpfs"),
            self.path(),
            Some("tmpfs"),
            flags,
            Some(&*size),
        )
        .unwrap_or_else(|errno| panic!("mounting a tmpfs, which needs root: {errno}"));
    }

    /// Gives it room for so many KiB, with what it holds.
    pub fn resize(&self, kib: usize) {
        self.mount(MsFlags::MS_REMOUNT, kib);
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// Takes it out of the tree while it is in use: who has it open goes on.
    pub fn detach(&self) {
        umount2(self.path(), MntFlags::MNT_DETACH).unwrap();
    }

    /// Takes every page that is free.
    pub fn fill(&self) {
        use std::io::Write;
        let mut file = fs::File::create(self.join("filler")).unwrap();
        while file.write_all(&[0xA5; 4096]).is_ok() {}
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        free(self.path());
    }
}
