//! The ledger of one incarnation: samples recorded, samples lost by reason, and samples that
//! sealed messages carry. Every sample that was ever counted in is in exactly one of sent, lost
//! and still held.

use plimsoll_schemas::ids::LossReason;
use plimsoll_schemas::wire::Totals;

use super::loss::NEVER_SENT;

/// The ledger.
#[derive(Default)]
pub(super) struct Ledger {
    totals: Totals,
    /// Samples in all messages sealed so far.
    sealed: u64,
}

impl Ledger {
    /// Counts samples as recorded.
    pub(super) fn record(&mut self, samples: u64) {
        self.totals.recorded = self.totals.recorded.saturating_add(samples);
    }

    /// Counts samples that were recorded as lost.
    pub(super) fn lose(&mut self, reason: &'static str, samples: u64) {
        if samples > 0 {
            let reason = LossReason::new(reason).expect("a constant of letters and underscores");
            let lost = self.totals.lost.entry(reason).or_default();
            *lost = lost.saturating_add(samples);
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
        let lost = &self.totals.lost;
        let never_sent: u64 = NEVER_SENT.into_iter().filter_map(|reason| lost.get(reason)).sum();
        Totals { recorded: self.sealed.saturating_add(never_sent), lost: lost.clone() }
    }

    /// Recorded, including what still waits in drafts, and lost.
    pub(super) fn totals(&self) -> &Totals {
        &self.totals
    }
}
