//! The exit codes. Scripts rely on them: a number is never given another meaning.

use std::process::ExitCode;

use crate::capture::Error;
use crate::capture::report::Verdict;
use crate::format::FaultKind;
use crate::format::pcap::RecordFaultKind;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// All done.
    Done = 0,
    /// I/O failed, or something else that has no number of its own.
    Failed = 1,
    /// The command line makes no sense.
    Usage = 2,
    /// A file is not in this format, or of an unknown version.
    Foreign = 3,
    /// A file is damaged.
    Damaged = 4,
    /// A file is torn, or still growing.
    Incomplete = 5,
    /// Another writer holds the file.
    Busy = 6,
}

impl Exit {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 7] = [
        Self::Done,
        Self::Failed,
        Self::Usage,
        Self::Foreign,
        Self::Damaged,
        Self::Incomplete,
        Self::Busy,
    ];

    /// What it means, as help and manual say it.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "I/O failed, or something that has no code of its own",
            Self::Usage => "usage: the command line makes no sense",
            Self::Foreign => "not this format, or an unknown version of it",
            Self::Damaged => "damaged",
            Self::Incomplete => "incomplete: the end is torn or still to come",
            Self::Busy => "busy: another writer holds the file",
        }
    }

    /// The worse of two, where a command looks at several files.
    #[must_use]
    pub fn worse(self, other: Self) -> Self {
        // Worst first.
        const ORDER: [Exit; 7] = [
            Exit::Usage,
            Exit::Failed,
            Exit::Busy,
            Exit::Damaged,
            Exit::Foreign,
            Exit::Incomplete,
            Exit::Done,
        ];
        ORDER
            .into_iter()
            .find(|exit| *exit == self || *exit == other)
            .unwrap_or(self)
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

impl From<Verdict> for Exit {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Good => Self::Done,
            Verdict::Incomplete => Self::Incomplete,
            Verdict::Foreign => Self::Foreign,
            Verdict::Damaged => Self::Damaged,
        }
    }
}

impl From<&Error> for Exit {
    fn from(error: &Error) -> Self {
        match error {
            Error::Io { .. }
            | Error::NoMemory(_)
            | Error::Zstd(_)
            | Error::CutOff
            | Error::Shrank
            | Error::Panicked
            | Error::Exists(_)
            | Error::LeftBehind
            | Error::NotResumable(_)
            | Error::InputChanged
            | Error::PathChanged => Self::Failed,
            Error::Busy => Self::Busy,
            Error::Fault(fault) => match &fault.kind {
                FaultKind::NotPcap { .. } | FaultKind::NoHeader { .. } => Self::Foreign,
                FaultKind::Record(record) => match record.kind {
                    RecordFaultKind::Cut { .. } => Self::Incomplete,
                    RecordFaultKind::InclLen { .. } | RecordFaultKind::Split { .. } => {
                        Self::Damaged
                    }
                },
                kind if kind.is_foreign() => Self::Foreign,
                _ => Self::Damaged,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_for_ever() {
        let numbers = [
            (Exit::Done, 0),
            (Exit::Failed, 1),
            (Exit::Usage, 2),
            (Exit::Foreign, 3),
            (Exit::Damaged, 4),
            (Exit::Incomplete, 5),
            (Exit::Busy, 6),
        ];
        for (exit, number) in numbers {
            assert_eq!(exit as u8, number);
        }
        assert_eq!(numbers.map(|(exit, _)| exit), Exit::ALL);
    }

    #[test]
    fn the_worst_of_several_files_wins() {
        assert_eq!(Exit::Incomplete.worse(Exit::Damaged), Exit::Damaged);
        assert_eq!(Exit::Foreign.worse(Exit::Incomplete), Exit::Foreign);
        assert_eq!(Exit::Damaged.worse(Exit::Failed), Exit::Failed);
        assert_eq!(Exit::Done.worse(Exit::Done), Exit::Done);
    }
}
