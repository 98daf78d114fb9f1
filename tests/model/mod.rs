//! A reference model of a folder of captures: random sequences of what writers and readers do, and after each step
//! everything that is visible compared with what PRODUCT.md, section 3, and docs/SEMANTICS.md say.
//!
//! `world` and `file` are what is on disk, `truth` is what the captures hold, `ledger` is what readers were shown and what
//! follows from it, `case` and `read` compare. Nothing here uses the library crate.
#![allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "each test file uses its own part of this module, and a failed step of a test is a panic"
)]

pub mod case;
pub mod file;
pub mod ideal;
pub mod ledger;
pub mod op;
pub mod read;
pub mod reader;
pub mod truth;
pub mod world;
pub mod writer;

use std::fmt::Write;

use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

use op::{Groups, Step, steps};

/// Raises the number of cases: `PCAPZST_MODEL_CASES=100000 cargo test --test tree_model`.
const CASES: &str = "PCAPZST_MODEL_CASES";

/// Kinds of readers that a case can have, if they differ: `run` gets a number below this with the steps.
pub const VARIANTS: usize = 4;

/// Runs `cases` random cases of up to `most` steps, always the same ones.
///
/// # Panics
/// With the shortest sequence found that fails, when one does.
pub fn check(
    groups: Groups,
    cases: u32,
    most: usize,
    run: impl Fn(usize, &[Step]) -> Result<(), String>,
) {
    let cases = crate::common::number(CASES, cases);
    let config = Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 20_000,
        ..Config::default()
    };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let input = (0..VARIANTS, steps(groups, most));
    let result = TestRunner::new_with_rng(config, rng).run(&input, |(variant, steps)| {
        run(variant, &steps).map_err(TestCaseError::fail)
    });
    match result {
        Ok(()) => {}
        Err(TestError::Fail(_, (variant, steps))) => {
            let (steps, wrong) = shortest(steps, |steps| run(variant, steps));
            let mut text = String::new();
            for step in steps {
                writeln!(text, "    {step:?},").unwrap();
            }
            panic!("{wrong}\nthe shortest sequence found, variant {variant}:\n{text}");
        }
        Err(abort) => panic!("{abort}"),
    }
}

/// `steps` without those that the failure does not need: proptest leaves some in place.
fn shortest(
    mut steps: Vec<Step>,
    run: impl Fn(&[Step]) -> Result<(), String>,
) -> (Vec<Step>, String) {
    let mut wrong = run(&steps).err();
    for place in (0..steps.len()).rev() {
        let removed = steps.remove(place);
        match run(&steps) {
            Ok(()) => steps.insert(place, removed),
            Err(other) => wrong = Some(other),
        }
    }
    (steps, wrong.expect("it failed before"))
}
