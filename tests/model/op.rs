//! What can happen in a folder of captures, and how it is drawn.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::Union;

/// Logical names of a case. The first two are at home compressed, the last one raw.
pub const NAMES: usize = 3;

/// Partial files that are preallocated before their marker is written: zeros at frontier 0.
pub const ZEROS_FIRST: bool = true;

/// A name, and under it the form at home there or the other one.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub name: usize,
    pub is_foreign: bool,
}

/// One thing that happens. What is not possible at the moment does nothing.
#[derive(Clone, Debug)]
pub enum Op {
    /// A partial file with the first `units` of marker and header (raw: header), and `records` records if that is all.
    Create {
        at: Place,
        units: usize,
        records: usize,
    },
    /// A whole frame; what was torn is completed before.
    Append {
        at: Place,
        records: usize,
    },
    /// The first `cut` bytes of a frame, or of a record.
    Tear {
        at: Place,
        records: usize,
        cut: usize,
    },
    /// The rest of it, also after the rename.
    Complete {
        at: Place,
    },
    /// A frame without source bytes: empty (`None`) or skippable.
    Filler {
        at: Place,
        len: Option<usize>,
    },
    Preallocate {
        at: Place,
        len: usize,
    },
    /// Bytes that can never become a frame.
    Garbage {
        at: Place,
        len: usize,
    },
    /// The rename to the final name. Preallocated zeros are cut off before, unless they are kept.
    Finish {
        at: Place,
        is_tail_kept: bool,
    },
    /// A new capture, complete, renamed over the final name.
    Replace {
        at: Place,
        records: usize,
    },
    /// The file that the name leads to goes.
    Delete {
        name: usize,
    },
    /// It goes and is made anew as a partial file, of the same or another capture.
    Recreate {
        name: usize,
        is_same: bool,
        records: usize,
    },
    /// A final raw file is packed, the packed one renamed, and the raw one removed, with a look after each step.
    Compress {
        name: usize,
    },
    /// The parts of `Compress`.
    Pack {
        name: usize,
    },
    DropRaw {
        name: usize,
    },

    /// The torn tail is cut off, and records framed anew.
    CutTorn {
        at: Place,
        records: usize,
    },
    /// The file is cut at `to` thousandths of its frames; then `regrow` thousandths of what was cut come back.
    Rewind {
        at: Place,
        to: usize,
        regrow: usize,
        frames: usize,
    },
    /// The file is emptied, and another capture begins in it.
    Restart {
        at: Place,
        units: usize,
        records: usize,
    },
    /// Garbage is cut off.
    Mend {
        at: Place,
    },

    /// Another capture, or the same one framed anew, is written over the file that the name leads to.
    CopyOver {
        name: usize,
        is_same: bool,
        is_size_kept: bool,
        are_times_kept: bool,
    },

    Lookup {
        name: usize,
    },
    Open {
        name: usize,
    },
    /// An open without a look-up before it, as the kernel may do it.
    OpenKnown {
        name: usize,
    },
    /// One open handle is asked for its size.
    StatHandle {
        handle: usize,
    },
    /// A range, in thousandths of the size, with a handle that may be old.
    Read {
        handle: usize,
        from: usize,
        len: usize,
    },
    Close {
        handle: usize,
    },
    List,
    /// The kernel forgets all inodes of the name that nobody has open.
    Forget {
        name: usize,
    },
}

/// What is compared with the model after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Everything: names, then open handles.
    NamesFirst,
    /// Everything: open handles, then names.
    HandlesFirst,
    /// Only what the step itself looks at.
    Nothing,
}

#[derive(Clone, Debug)]
pub struct Step(pub Look, pub Op);

/// Which kinds of writers there are.
#[derive(Clone, Copy, Debug)]
pub struct Groups {
    pub restarts: bool,
    pub in_place: bool,
}

pub fn steps(groups: Groups, most: usize) -> impl Strategy<Value = Vec<Step>> {
    let look = prop_oneof![
        4 => Just(Look::NamesFirst),
        2 => Just(Look::HandlesFirst),
        3 => Just(Look::Nothing),
    ];
    let step = (look, op(groups)).prop_map(|(look, op)| Step(look, op));
    vec(step, 1..=most)
}

fn place() -> impl Strategy<Value = Place> + Clone {
    let is_foreign = prop_oneof![12 => Just(false), 1 => Just(true)];
    (0..NAMES, is_foreign).prop_map(|(name, is_foreign)| Place { name, is_foreign })
}

fn op(groups: Groups) -> impl Strategy<Value = Op> {
    let mut all = writer();
    all.extend(reader());
    if groups.restarts {
        all.extend(restarts());
    }
    if groups.in_place {
        let flags = (0..NAMES, any::<bool>(), any::<bool>(), any::<bool>());
        let copy = flags.prop_map(
            |(name, is_same, is_size_kept, are_times_kept)| Op::CopyOver {
                name,
                is_same,
                is_size_kept,
                are_times_kept,
            },
        );
        all.push((5, copy.boxed()));
    }
    Union::new_weighted(all)
}

type Weighted = Vec<(u32, BoxedStrategy<Op>)>;

fn writer() -> Weighted {
    let cut = prop_oneof![1..24_usize, 1..400_usize, 1..150_000_usize];
    let filler = prop_oneof![Just(None), (0..40_usize).prop_map(Some)];
    let records = 0..4_usize;
    vec![
        (
            4,
            (place(), 0..3_usize, records.clone())
                .prop_map(|(at, units, records)| Op::Create { at, units, records })
                .boxed(),
        ),
        (
            14,
            (place(), 1..5_usize)
                .prop_map(|(at, records)| Op::Append { at, records })
                .boxed(),
        ),
        (
            9,
            (place(), 1..4_usize, cut)
                .prop_map(|(at, records, cut)| Op::Tear { at, records, cut })
                .boxed(),
        ),
        (4, place().prop_map(|at| Op::Complete { at }).boxed()),
        (
            3,
            (place(), filler)
                .prop_map(|(at, len)| Op::Filler { at, len })
                .boxed(),
        ),
        (
            3,
            (place(), 1..5000_usize)
                .prop_map(|(at, len)| Op::Preallocate { at, len })
                .boxed(),
        ),
        (
            1,
            (place(), 1..40_usize)
                .prop_map(|(at, len)| Op::Garbage { at, len })
                .boxed(),
        ),
        (
            9,
            (place(), any::<bool>())
                .prop_map(|(at, is_tail_kept)| Op::Finish { at, is_tail_kept })
                .boxed(),
        ),
        (
            3,
            (place(), records.clone())
                .prop_map(|(at, records)| Op::Replace { at, records })
                .boxed(),
        ),
        (3, (0..NAMES).prop_map(|name| Op::Delete { name }).boxed()),
        (
            3,
            (0..NAMES, any::<bool>(), records)
                .prop_map(|(name, is_same, records)| Op::Recreate {
                    name,
                    is_same,
                    records,
                })
                .boxed(),
        ),
        (3, (0..NAMES).prop_map(|name| Op::Compress { name }).boxed()),
    ]
}

fn reader() -> Weighted {
    let name = 0..NAMES;
    let handle = 0..8_usize;
    vec![
        (3, name.clone().prop_map(|name| Op::Lookup { name }).boxed()),
        (6, name.clone().prop_map(|name| Op::Open { name }).boxed()),
        (
            3,
            name.clone().prop_map(|name| Op::OpenKnown { name }).boxed(),
        ),
        (
            2,
            handle
                .clone()
                .prop_map(|handle| Op::StatHandle { handle })
                .boxed(),
        ),
        (
            6,
            (handle.clone(), 0..1100_usize, 0..1100_usize)
                .prop_map(|(handle, from, len)| Op::Read { handle, from, len })
                .boxed(),
        ),
        (2, handle.prop_map(|handle| Op::Close { handle }).boxed()),
        (1, Just(Op::List).boxed()),
        (3, name.prop_map(|name| Op::Forget { name }).boxed()),
    ]
}

fn restarts() -> Weighted {
    let regrow = prop_oneof![Just(0_usize), 0..1000_usize, 1000..1500_usize];
    vec![
        (
            4,
            (place(), 0..4_usize)
                .prop_map(|(at, records)| Op::CutTorn { at, records })
                .boxed(),
        ),
        (
            6,
            (place(), 0..1001_usize, regrow, 1..4_usize)
                .prop_map(|(at, to, regrow, frames)| Op::Rewind {
                    at,
                    to,
                    regrow,
                    frames,
                })
                .boxed(),
        ),
        (
            4,
            (place(), 0..3_usize, 0..4_usize)
                .prop_map(|(at, units, records)| Op::Restart { at, units, records })
                .boxed(),
        ),
        (3, place().prop_map(|at| Op::Mend { at }).boxed()),
    ]
}
