//! The kinds of trouble that a node may be in beside its latencies. A counter that grew lately is a
//! reason to inspect the node; no rule judges by it.

/// A kind of trouble; greater is worse. What grew counts for [`crate::limits::TROUBLE_LASTS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trouble {
    /// Its outbox holds more than half of what it takes by default.
    OutboxDeep,
    /// It rerouted messages to the emergency lane.
    Rerouted,
    /// Two nodes sent under its name.
    DuplicateName,
    /// Its kernel dropped datagrams.
    KernelDropped,
    Dropped,
    /// An incarnation of it ended without a final message.
    RunCrashed,
    SamplesLost,
    /// Samples are missing from an incarnation that has ended, or more were merged than it
    /// recorded.
    Unaccounted,
    /// Samples are missing before ones that arrived, for too long to come by themselves.
    LedgerGap,
}

impl Trouble {
    pub const ALL: [Self; 9] = [
        Self::OutboxDeep,
        Self::Rerouted,
        Self::DuplicateName,
        Self::KernelDropped,
        Self::Dropped,
        Self::RunCrashed,
        Self::SamplesLost,
        Self::Unaccounted,
        Self::LedgerGap,
    ];

    /// The kind as a label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OutboxDeep => "outbox_deep",
            Self::Rerouted => "rerouted",
            Self::DuplicateName => "duplicate_name",
            Self::KernelDropped => "kernel_dropped",
            Self::Dropped => "dropped",
            Self::RunCrashed => "run_crashed",
            Self::SamplesLost => "samples_lost",
            Self::Unaccounted => "unaccounted",
            Self::LedgerGap => "ledger_gap",
        }
    }
}
