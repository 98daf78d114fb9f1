//! How a capture is stored, what its name says, and where it stands.

/// How a capture is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// As the pcap itself.
    Raw,
    /// As marked zstd frames.
    Zst,
}

impl Form {
    /// `raw` or `zst`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Zst => "zst",
        }
    }
}

/// What the physical name says. The rename is the only completion signal (format document, section 7.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Progress {
    /// The name still has its partial suffix.
    Partial,
    /// The final name.
    Final,
}

/// Where a capture stands in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Being written: a partial name.
    Growing,
    /// Final name, and a tail that is not framed yet.
    Draining,
    /// Final name, and every byte mapped.
    Complete,
    /// Not this format, an unknown version, or a broken marker or header.
    Refused,
    /// A later frame is malformed or does not decode.
    Damaged,
}

impl State {
    /// All of them, in the order of a capture's life.
    pub const ALL: [Self; 5] = [
        Self::Growing,
        Self::Draining,
        Self::Complete,
        Self::Refused,
        Self::Damaged,
    ];

    /// The word that attributes and `--json` show.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Growing => "growing",
            Self::Draining => "draining",
            Self::Complete => "complete",
            Self::Refused => "refused",
            Self::Damaged => "damaged",
        }
    }
}
