//! The ledger of one incarnation: samples recorded, samples lost by reason, and samples that
//! sealed messages carry. Every sample that was ever counted in is in exactly one of sent, lost
//! and still held.

use plimsoll_schemas::ids::LossReason;
use plimsoll_schemas::own_operations::OWN_LOST;
use plimsoll_schemas::wire::Totals;

use super::loss::NEVER_SENT;

#[derive(Default)]
pub(super) struct Ledger {
    totals: Totals,
    /// Those recorded that the node took of itself.
    recorded_own: u64,
    /// Samples in all messages sealed so far.
    sealed: u64,
    /// Samples lost that no message ever carried, whatever the reason they are counted under.
    never_sent: u64,
}

/// A number of samples, and how many of them the node took of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SampleCount {
    pub(super) all: u64,
    pub(super) own: u64,
}

impl SampleCount {
    pub(super) fn of_jobs(samples: u64) -> Self {
        Self { all: samples, own: 0 }
    }
}

impl Ledger {
    pub(super) fn record(&mut self, samples: SampleCount) {
        self.totals.recorded = self.totals.recorded.saturating_add(samples.all);
        self.recorded_own = self.recorded_own.saturating_add(samples.own);
    }

    /// Counts samples that were recorded as lost: those that the node took of itself under a reason
    /// of their own.
    ///
    /// DESIGN N57.
    pub(super) fn lose(&mut self, reason: &'static str, samples: SampleCount) {
        let own = samples.own.min(samples.all);
        for (counted_as, samples) in [(reason, samples.all - own), (OWN_LOST, own)] {
            if samples == 0 {
                continue;
            }
            let name = LossReason::new(counted_as).expect("a constant of letters and underscores");
            let lost = self.totals.lost.entry(name).or_default();
            *lost = lost.saturating_add(samples);
            if NEVER_SENT.contains(&reason) {
                self.never_sent = self.never_sent.saturating_add(samples);
            }
        }
    }

    /// Counts the samples of a message that is sealed now, and returns the totals that it states.
    ///
    /// The totals are those of the sealing, not of the end of the interval: lanes may overtake
    /// each other and drafts may merge, so only now it is settled which samples have which
    /// number. Recorded is what messages 1 to this one carry plus what was dropped before it
    /// could be sent; lost is what was dropped so far plus what the broker rejected of earlier
    /// messages. So once every message up to this one that can arrive has been merged, merged =
    /// recorded - lost: the dropped cancel out, and the rejected are in both. A sample that waits
    /// in a draft is in neither.
    pub(super) fn seal(&mut self, samples: u64) -> Totals {
        self.sealed = self.sealed.saturating_add(samples);
        self.stated()
    }

    /// Recorded and lost as the last sealed message would state them now.
    pub(super) fn stated(&self) -> Totals {
        let recorded = self.sealed.saturating_add(self.never_sent);
        Totals { recorded, lost: self.totals.lost.clone() }
    }

    /// Recorded, including what still waits in drafts, and lost.
    pub(super) fn totals(&self) -> &Totals {
        &self.totals
    }

    pub(super) fn never_sent(&self) -> u64 {
        self.never_sent
    }

    pub(super) fn recorded_own(&self) -> u64 {
        self.recorded_own
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::loss::{OUTBOX_FULL, REFUSED};

    #[test]
    fn own_samples_are_lost_under_a_reason_of_their_own_and_the_sums_stay() {
        let mut ledger = Ledger::default();
        ledger.record(SampleCount { all: 26, own: 6 });
        ledger.seal(13);
        ledger.lose(OUTBOX_FULL, SampleCount { all: 13, own: 3 });
        ledger.lose(REFUSED, SampleCount { all: 13, own: 3 });
        let lost: Vec<_> = ledger.totals().lost.iter().map(|(of, n)| (of.as_str(), *n)).collect();
        assert_eq!(lost, [(OUTBOX_FULL, 10), (OWN_LOST, 6), (REFUSED, 10)]);
        // What was refused had been sealed: it is recorded once.
        let stated = ledger.stated();
        assert_eq!((stated.recorded, stated.lost_sum(), ledger.recorded_own()), (26, 26, 6));
    }
}
