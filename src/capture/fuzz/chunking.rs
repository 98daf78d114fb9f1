//! The same bytes whole, and as they arrive.

use super::{Growing, read};
use crate::capture::error::Error;
use crate::capture::read_at::ReadAt;
use crate::capture::survey::Survey;
use crate::capture::{Facts, Form, Progress, Source};
use crate::format::Fault;
use crate::format::fuzz::{Dice, Grown, assert_same_end, steps};
use crate::format::walk::{Step, Walk};

/// Any bytes as a compressed capture, looked at whole, through small windows, and as they arrive: the same walk, and at the end the
/// same facts, frames and source bytes.
pub fn chunking(bytes: &[u8]) {
    let mut dice = Dice::of(bytes);
    let mut whole = Grown::default();
    steps(&mut Walk::new(), bytes, bytes.len(), &mut whole);
    for window in [1, 1 + dice.below(100)] {
        let mut seen = Grown::default();
        steps(&mut Walk::new(), bytes, window, &mut seen);
        assert_same(&seen, &whole, "through a window");
    }
    let lengths = dice.growth(bytes.len());
    let mut walk = Walk::new();
    let mut grown = Grown::default();
    for length in &lengths {
        let before = grown.fault.take();
        steps(&mut walk, &bytes[..*length], 1 + dice.below(64), &mut grown);
        if before.is_some() {
            assert_same_end(
                before.as_ref(),
                grown.fault.as_ref(),
                "a fault is one for ever",
            );
        }
    }
    assert_same(&grown, &whole, "as they arrive");
    survey(bytes, &lengths, &whole);
    source(bytes, &lengths);
}

fn assert_same(left: &Grown, right: &Grown, what: &str) {
    assert_eq!(left.steps, right.steps, "{what}");
    assert_eq!(left.torn, right.torn, "{what}");
    assert_same_end(left.fault.as_ref(), right.fault.as_ref(), what);
}

/// The walk with its reads.
fn survey(bytes: &[u8], lengths: &[usize], whole: &Grown) {
    let file = Growing::none(bytes);
    let mut survey = Survey::default();
    let mut seen = Grown::default();
    for length in lengths {
        file.grow(*length);
        survey.forget_window();
        (seen.fault, seen.torn) = (None, None);
        loop {
            match survey.step(&*file, *length as u64) {
                Ok(Step::Need { .. }) => panic!("it reads by itself"),
                Ok(Step::End) => break,
                Ok(Step::Torn(torn)) => {
                    seen.torn = Some(torn);
                    break;
                }
                Ok(step) => seen.steps.push(step),
                Err(Error::Fault(fault)) => {
                    seen.fault = Some(fault);
                    break;
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
    assert_same(&seen, whole, "with its reads");
}

/// All of it.
fn source(bytes: &[u8], lengths: &[usize]) {
    let file = Growing::none(bytes);
    let growing = file.open(Form::Zst, Progress::Partial);
    let mut shown = 0;
    for length in lengths {
        file.grow(*length);
        growing.refresh().expect("memory does not fail");
        let facts = growing.facts();
        assert_eq!(facts.physical_len, *length as u64);
        assert!(growing.reachable() >= shown, "what was shown is taken back");
        shown = growing.reachable();
    }
    let whole = Growing::whole(bytes);
    let at_once = whole.open(Form::Zst, Progress::Partial);
    assert_same_source(&growing, &at_once, "as they arrive");
    growing.rename_seen();
    growing.refresh().expect("memory does not fail");
    let last = whole.open(Form::Zst, Progress::Final);
    assert_same_source(&growing, &last, "renamed");
    let all = read(&last, 0, 1 << 22);
    assert!(
        read(&growing, 0, 1 << 22) == all,
        "other bytes when renamed"
    );
    assert!(
        all.len() as u64 <= last.facts().frontier,
        "more than there is"
    );
    assert!(ReadAt::len(&*file).is_ok_and(|len| len == bytes.len() as u64));
}

fn assert_same_source(left: &Source, right: &Source, what: &str) {
    let place = |facts: &Facts| {
        (
            (facts.state, facts.size, facts.frontier, facts.physical_len),
            (
                facts.frames,
                facts.torn_bytes,
                facts.file_id,
                facts.header,
                facts.is_replaced,
            ),
        )
    };
    let (left_facts, right_facts) = (left.facts(), right.facts());
    assert_eq!(place(&left_facts), place(&right_facts), "{what}");
    let fault = |facts: &Facts| -> Option<Fault> { facts.error.clone() };
    assert_same_end(
        fault(&left_facts).as_ref(),
        fault(&right_facts).as_ref(),
        what,
    );
    let spans =
        |source: &Source| -> Vec<_> { (0..).map_while(|index| source.span(index)).collect() };
    assert_eq!(spans(left), spans(right), "{what}");
    assert_eq!(
        (left.reachable(), left.size()),
        (right.reachable(), right.size()),
        "{what}"
    );
}
