//! Memory maps of a capture that grows and is renamed (18).

use std::fs::{self, File, OpenOptions};
use std::io::Write;

use crate::common::assert_same;
use crate::common::day::Day;
use crate::common::frames::MARKER;
use crate::common::growth::{Form, Growth};
use crate::common::sys::{Sharing, read_by_map};

#[test]
fn maps_private_and_shared_hold_all_bytes_at_each_step_of_a_growing_capture_and_after_its_rename() {
    for form in [Form::Zst, Form::Raw] {
        let growth = Growth::new(form, 7, 60, 500..6_000);
        let day = Day::new();
        let complete = day.source().join(format!("x{}", form.ending()));
        let partial = day.source().join(format!("x{}.partial", form.ending()));
        fs::write(&partial, &growth.steps[0].bytes).unwrap();
        if form == Form::Zst {
            assert!(growth.steps[0].bytes.starts_with(&MARKER));
        }
        let mounted = day.mount();
        let path = mounted.join("x.pcap");
        let held = File::open(&path).unwrap();
        let check = |visible: usize, what: &str| {
            for sharing in [Sharing::Private, Sharing::Shared] {
                for file in [&held, &File::open(&path).unwrap()] {
                    // It asks for the size first, as a reader of maps does.
                    let bytes = read_by_map(file, sharing).unwrap();
                    assert_same(&bytes, &growth.truth[..visible], what);
                }
            }
        };
        for step in &growth.steps[1..] {
            let mut file = OpenOptions::new().append(true).open(&partial).unwrap();
            file.write_all(&step.bytes).unwrap();
            check(step.visible, "while it grows");
        }
        fs::rename(&partial, &complete).unwrap();
        check(growth.truth.len(), "renamed");
        fs::remove_file(&complete).unwrap();
        let bytes = read_by_map(&held, Sharing::Shared).unwrap();
        assert_same(&bytes, &growth.truth, "removed");
    }
}
