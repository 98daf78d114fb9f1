//! A source that is mounted read-only: nothing misses the right to write.

use nix::mount::{MsFlags, mount};

use super::{day, use_all};
use crate::common::mounted::Mounted;
use crate::common::user::{bind, in_own_namespace};
use crate::common::{pcapzst, run, tool};

#[test]
fn a_source_that_is_mounted_read_only_is_served_checked_and_packed_from() {
    in_own_namespace(
        "untouched::read_only::a_source_that_is_mounted_read_only_is_served_checked_and_packed_from",
        || {
            let day = day();
            let source = day.source();
            bind(&source, &source);
            let flags = MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
            let none = None::<&str>;
            mount(none, &source, none, flags, none).unwrap();
            let refused = run(tool("touch").arg(source.join("new"))).fails();
            assert!(refused.stderr.contains("Read-only"), "{}", refused.stderr);
            let mounted = Mounted::new(&source, "all");
            use_all(&day, mounted.path());
            let ended = mounted.unmount();
            assert!(!ended.log.contains("Read-only"), "{}", ended.log);
            for name in ["final.pcap.zst", "raw.pcap"] {
                run(pcapzst().arg("verify").arg(source.join(name))).ok();
            }
            let out = day.out().join("x.pcap.zst");
            run(pcapzst()
                .arg("pack")
                .arg(source.join("raw.pcap"))
                .arg("-o")
                .arg(&out))
            .ok();
            run(pcapzst().arg("verify").arg(&out)).ok();
            // Beside its input it has no place, and says so.
            let refused = run(pcapzst().arg("pack").arg(source.join("raw.pcap"))).exits(1);
            assert!(refused.stderr.contains("Read-only"), "{}", refused.stderr);
        },
    );
}
