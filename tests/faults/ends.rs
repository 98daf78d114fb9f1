//! The end of a capture on a disk whose calls fail.

use pcapzst::capture::Error;
use pcapzst::capture::writer::{Existing, Writer};

use crate::failing::Call;
use crate::{OUT, PARTIAL, Scene, errno};

/// A disk that knows no flags of a rename, and a writer of a capture's whole records.
fn by_link(seed: u64) -> (Scene, Writer) {
    let scene = Scene::new(seed);
    scene.disk.know_no_flags();
    let mut writer = scene.writer(Existing::Keep).unwrap();
    writer.write(&scene.pcap.bytes).unwrap();
    (scene, writer)
}

#[test]
fn where_a_rename_takes_no_flags_a_partial_name_that_could_not_be_removed_is_by_the_next_try() {
    let (scene, mut writer) = by_link(1110);
    scene.disk.fail(Call::Unlink, libc::EIO, 2);
    for _ in 0..2 {
        assert_eq!(errno(&writer.finish().unwrap_err()), libc::EIO);
        assert_eq!(scene.disk.names(), [OUT, PARTIAL]);
        // It is complete, and stays as it is.
        let more = [0; 16];
        assert!(matches!(writer.write(&more), Err(Error::Exists(_))));
        assert!(matches!(writer.flush(), Err(Error::Exists(_))));
    }
    writer.finish().unwrap();
    assert_eq!(scene.disk.names(), [OUT]);
    scene.check(OUT, scene.pcap.records());
}

#[test]
fn a_link_that_was_made_though_it_was_told_to_have_failed_is_known_for_the_writers_own() {
    let (scene, mut writer) = by_link(1111);
    // As of a file server whose answer was lost.
    std::fs::hard_link(scene.disk.join(PARTIAL), scene.disk.join(OUT)).unwrap();
    writer.finish().unwrap();
    assert_eq!(scene.disk.names(), [OUT]);
    scene.check(OUT, scene.pcap.records());
}

#[test]
fn where_a_rename_takes_no_flags_nothing_is_replaced_either() {
    let (scene, mut writer) = by_link(1112);
    std::fs::write(scene.disk.join(OUT), "another's").unwrap();
    for _ in 0..2 {
        assert!(matches!(writer.finish(), Err(Error::Exists(_))));
        assert_eq!(scene.disk.bytes(OUT), b"another's");
        assert_eq!(scene.disk.names(), [OUT, PARTIAL]);
    }
    // What has taken the partial name is another's too.
    std::fs::remove_file(scene.disk.join(OUT)).unwrap();
    scene.disk.fail(Call::Unlink, libc::EIO, 1);
    assert_eq!(errno(&writer.finish().unwrap_err()), libc::EIO);
    std::fs::remove_file(scene.disk.join(PARTIAL)).unwrap();
    std::fs::write(scene.disk.join(PARTIAL), "another's").unwrap();
    writer.finish().unwrap();
    assert_eq!(scene.disk.bytes(PARTIAL), b"another's");
    scene.check(OUT, scene.pcap.records());
}

#[test]
fn an_end_that_could_not_be_brought_to_the_disk_is_by_the_next_try() {
    let scene = Scene::new(1113);
    let mut writer = scene.writer(Existing::Keep).unwrap();
    writer.write(&scene.pcap.bytes).unwrap();
    scene.disk.fail(Call::Sync, libc::EIO, 1);
    scene.disk.fail(Call::SyncFolder, libc::EIO, 1);
    assert_eq!(errno(&writer.finish().unwrap_err()), libc::EIO);
    assert_eq!(scene.disk.names(), [PARTIAL]);
    assert_eq!(errno(&writer.finish().unwrap_err()), libc::EIO);
    assert_eq!(scene.disk.names(), [OUT]);
    writer.finish().unwrap();
    scene.check(OUT, scene.pcap.records());
}
