//! Fuzz targets: any bytes go in, and a property that does not hold comes out as a panic.
//!
//! Each lies beside the code that it exercises; here they have their names, those of `fuzz/fuzz_targets/`. What they found, and what
//! they start from, is in `tests/corpus/`, and goes through the same functions in every `cargo test`. `scripts/fuzz` runs them; what
//! each of them says is in docs/RELIABILITY.md.

pub use crate::capi::fuzz::open_memory;
pub use crate::capture::fuzz::{chunking, frame, index, round_trip};
pub use crate::format::fuzz::{marker, walk};
pub use crate::tree::fuzz::name;

/// Global headers and records, in a slice and in a raw capture that grows.
pub fn records(bytes: &[u8]) {
    crate::format::fuzz::records(bytes);
    crate::capture::fuzz::raw(bytes);
}

/// A target: its name, and what it does with an input.
pub type Target = (&'static str, fn(&[u8]));

/// All of them.
pub const TARGETS: [Target; 9] = [
    ("chunking", chunking),
    ("frame", frame),
    ("index", index),
    ("marker", marker),
    ("name", name),
    ("open_memory", open_memory),
    ("records", records),
    ("round_trip", round_trip),
    ("walk", walk),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::*;

    fn root() -> &'static Path {
        Path::new(env!("CARGO_MANIFEST_DIR"))
    }

    /// What lies in a folder of the repository.
    fn list(folder: &str) -> Vec<PathBuf> {
        let entries = fs::read_dir(root().join(folder)).expect(folder);
        let mut paths: Vec<_> = entries.map(|entry| entry.expect(folder).path()).collect();
        paths.sort();
        paths
    }

    fn names(folder: &str) -> BTreeSet<String> {
        let stem = |path: &PathBuf| {
            path.file_stem()
                .map(|stem| stem.to_string_lossy().into_owned())
        };
        list(folder).iter().filter_map(stem).collect()
    }

    #[test]
    fn every_kept_input_of_every_target_holds() {
        for (name, target) in TARGETS {
            let inputs = list(&format!("tests/corpus/{name}"));
            assert!(!inputs.is_empty(), "{name} has no corpus");
            for input in inputs {
                // What fails is told by its name: the panic alone does not.
                println!("{}", input.display());
                target(&fs::read(&input).expect("a file"));
            }
        }
    }

    #[test]
    fn targets_have_a_program_and_a_corpus_each_and_no_other_has() {
        let wanted: BTreeSet<_> = TARGETS.map(|(name, _)| name.to_owned()).into();
        assert_eq!(names("tests/corpus"), wanted);
        assert_eq!(names("fuzz/fuzz_targets"), wanted);
    }

    #[test]
    fn no_input_at_all_holds_too() {
        for (_, target) in TARGETS {
            target(&[]);
        }
    }
}
