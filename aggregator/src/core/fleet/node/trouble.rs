//! What is wrong with a node beside its latencies. Counters say how often, ever; here stands when
//! they last grew, which decides whether someone should look. Nothing is judged by it.

use crate::limits::TROUBLE_LASTS;
use plimsoll_schemas::limits::delivery::REROUTE_MESSAGES;
use plimsoll_schemas::summary::Presence;
use plimsoll_schemas::time::Wall;

use super::Node;
use super::vitals::Count;

/// A kind of trouble; greater is worse. What grew counts for [`TROUBLE_LASTS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trouble {
    /// Its outbox holds more than half of what it takes by default.
    OutboxDeep,
    /// It rerouted messages to the emergency lane.
    Rerouted,
    /// Two nodes sent under its name.
    NameConflict,
    /// Its kernel dropped datagrams.
    KernelDropped,
    /// It dropped messages.
    Dropped,
    /// It gave up samples.
    SamplesLost,
    /// Samples are missing from a run that has ended.
    Unaccounted,
    /// Samples are missing before ones that arrived, for too long to come by themselves.
    LedgerGap,
}

impl Trouble {
    /// All kinds.
    pub const ALL: [Self; 8] = [
        Self::OutboxDeep,
        Self::Rerouted,
        Self::NameConflict,
        Self::KernelDropped,
        Self::Dropped,
        Self::SamplesLost,
        Self::Unaccounted,
        Self::LedgerGap,
    ];

    /// The kind as a label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OutboxDeep => "outbox_deep",
            Self::Rerouted => "rerouted",
            Self::NameConflict => "name_conflict",
            Self::KernelDropped => "kernel_dropped",
            Self::Dropped => "dropped",
            Self::SamplesLost => "samples_lost",
            Self::Unaccounted => "unaccounted",
            Self::LedgerGap => "ledger_gap",
        }
    }
}

impl Node {
    /// What is wrong with it; `gap_samples` are missing for too long.
    pub fn troubles(&self, now: Wall, gap_samples: u64) -> impl Iterator<Item = Trouble> {
        let speaks = self.presence(now) == Presence::Heard;
        let deep = speaks && self.bus.value.outbox_messages > REROUTE_MESSAGES as u64;
        let grew = |what| {
            let last = self.vitals.counted(what).last();
            last.is_some_and(|at| now.since(at) < TROUBLE_LASTS)
        };
        let found = [
            (Trouble::OutboxDeep, deep),
            (Trouble::Rerouted, grew(Count::Rerouted)),
            (Trouble::NameConflict, grew(Count::NameConflicts)),
            (Trouble::KernelDropped, grew(Count::KernelDropped)),
            (Trouble::Dropped, grew(Count::Dropped)),
            (Trouble::SamplesLost, grew(Count::SamplesLost)),
            (Trouble::Unaccounted, self.account.unaccounted() > 0),
            (Trouble::LedgerGap, gap_samples > 0),
        ];
        found.into_iter().filter_map(|(of, is_so)| is_so.then_some(of))
    }
}
