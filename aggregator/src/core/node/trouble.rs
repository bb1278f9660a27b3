//! What is wrong with a node beside its latencies. Counters say how often, ever; here stands when
//! they last grew, which decides whether someone should look. Nothing is judged by it.

use plimsoll_schemas::limits::aggregator::TROUBLE_LASTS;
use plimsoll_schemas::limits::node::REROUTE_MESSAGES;
use plimsoll_schemas::summary::Presence;
use plimsoll_schemas::time::Wall;
use plimsoll_schemas::wire::Header;
use serde::{Deserialize, Serialize};

use super::Node;

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

/// Counters of which any growth is trouble.
const COUNTERS: [Trouble; 5] = [
    Trouble::Rerouted,
    Trouble::NameConflict,
    Trouble::KernelDropped,
    Trouble::Dropped,
    Trouble::SamplesLost,
];

/// When counters last grew, in the order of [`COUNTERS`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Growth {
    /// Where they stood.
    stood: [u64; COUNTERS.len()],
    grew: [Option<Wall>; COUNTERS.len()],
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

impl Growth {
    /// A counter that fell began anew with its run, as Prometheus takes it.
    fn see(&mut self, at: Wall, stand: [u64; COUNTERS.len()]) {
        let before = std::mem::replace(&mut self.stood, stand);
        for ((grew, now), before) in self.grew.iter_mut().zip(stand).zip(before) {
            if now > before || now < before && now > 0 {
                *grew = (*grew).max(Some(at));
            }
        }
    }

    fn recent(&self, now: Wall) -> impl Iterator<Item = Trouble> {
        let recent = move |grew: Option<Wall>| grew.is_some_and(|at| now.since(at) < TROUBLE_LASTS);
        COUNTERS.into_iter().zip(self.grew).filter_map(move |(of, grew)| recent(grew).then_some(of))
    }
}

impl Node {
    /// Looks at its counters after a message was merged.
    pub fn watch_counters(&mut self, header: &Header) {
        let bus = &self.bus.value;
        let lost = header.totals.lost_sum();
        let stand = [bus.rerouted, self.account.conflicts(), bus.kernel_dropped, bus.dropped, lost];
        self.growth.see(self.last_heard, stand);
    }

    /// What is wrong with it; `gap_samples` are missing for too long.
    pub fn troubles(&self, now: Wall, gap_samples: u64) -> impl Iterator<Item = Trouble> {
        let speaks = self.presence(now) == Presence::Heard;
        let deep = speaks && self.bus.value.outbox_messages > REROUTE_MESSAGES as u64;
        let standing = [
            (Trouble::OutboxDeep, deep),
            (Trouble::Unaccounted, self.account.unaccounted() > 0),
            (Trouble::LedgerGap, gap_samples > 0),
        ];
        let standing = standing.into_iter().filter_map(|(of, is_so)| is_so.then_some(of));
        standing.chain(self.growth.recent(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_is_trouble_while_it_has_grown_lately() {
        let second = |n| Wall(n * 1_000_000_000);
        let at = |growth: &Growth, n| growth.recent(second(n)).collect::<Vec<_>>();
        let mut growth = Growth::default();
        growth.see(second(1), [9, 0, 0, 0, 7]);
        assert_eq!(at(&growth, 1), [Trouble::Rerouted, Trouble::SamplesLost]);
        growth.see(second(2), [9, 0, 0, 0, 8]);
        growth.see(second(3), [9, 0, 0, 0, 8]);
        let lasts = TROUBLE_LASTS.as_secs();
        assert_eq!(at(&growth, 1 + lasts), [Trouble::SamplesLost]);
        assert_eq!(at(&growth, 2 + lasts), []);
        growth.see(second(600), [0; COUNTERS.len()]);
        assert_eq!(at(&growth, 600), [], "a new run has lost nothing");
        growth.see(second(601), [0, 0, 3, 0, 0]);
        assert_eq!(at(&growth, 601), [Trouble::KernelDropped]);
    }
}
