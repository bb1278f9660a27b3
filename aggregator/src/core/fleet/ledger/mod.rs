//! The ledger entry of one node: which snapshots were merged, and where every other sample is.
//!
//! Each message carries the node's running totals, so the entry needs no message to be present.
//! Recorded is the total of the newest message, merged is what was counted here, and unread is what
//! was recorded before the oldest one. The difference is either held (more may come), or
//! unaccounted (the incarnation has ended), or lost by a crash (it ended without a spool). A
//! negative difference is the surplus: another sender's messages were merged under the node's name.
//!
//! DESIGN A48, A176.

use std::collections::BTreeSet;

use crate::limits::{INCARNATIONS_MAX, INCARNATIONS_PAST_MAX};
use plimsoll_schemas::ids::{Incarnation, LossReason, Seq};
use plimsoll_schemas::limits::wire::CONFIRMED_RUNS_MAX;
use plimsoll_schemas::own_operations::OWN_LOST;
use plimsoll_schemas::summary::Ledger;
use plimsoll_schemas::time::Wall;
use plimsoll_schemas::wire::confirmation::ConfirmedIncarnation;
use plimsoll_schemas::wire::{Bus, Header, NotedRun};
use serde::{Deserialize, Serialize};

pub use run::Run;
pub use seqs::Seqs;

use run::OVERLAPS_BORNE;
use runs::Runs;

mod run;
mod runs;
mod seqs;

/// What to do with a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    Merge,
    /// It was merged before.
    Duplicate,
    /// Its incarnation is too old to be remembered.
    Evicted,
}

/// Samples that are missing below the newest message of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    pub samples: u64,
    /// Where the oldest one begins: an incarnation, and its first number that is missing.
    pub hole: (Incarnation, u64),
}

/// The ledger entry of one node over all its incarnations.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LedgerEntry {
    runs: Runs,
    /// Sum of the incarnations that were folded and have no run of their own any more.
    past: Ledger,
    past_incarnations: BTreeSet<Incarnation>,
    /// The greatest name that was evicted from `past_incarnations`. An unknown incarnation whose
    /// name is no greater may be an evicted one, so nothing of it is merged.
    #[serde(default)]
    past_floor: Option<Incarnation>,
    /// Messages that had been merged before.
    #[serde(default)]
    duplicates: u64,
    /// Messages that two nodes of one name must have sent.
    #[serde(default)]
    conflicts: u64,
}

impl LedgerEntry {
    /// Decides about a snapshot that carries `samples`, and books it when it is new.
    pub fn book(&mut self, header: &Header, samples: u64) -> Decision {
        if self.is_past(header.incarnation) {
            return Decision::Evicted;
        }
        let run = self.runs.run_of(header.incarnation);
        if !run.seqs.insert(header.seq.0) {
            run.duplicates += 1;
            self.duplicates += 1;
            return Decision::Duplicate;
        }
        run.book(header, samples);
        self.runs.put_in_order(header);
        self.runs.reopen_newest();
        self.detect_overlap(header);
        self.fold_the_oldest();
        Decision::Merge
    }

    /// What a snapshot that is not booked yet reports as lost beyond what its run had reported, by
    /// reason. Of a run that is received for the first time, in the middle, that is nothing: who
    /// received its beginning knows.
    pub fn newly_lost(&self, header: &Header) -> Vec<(LossReason, u64)> {
        let lost = &header.totals.lost;
        if lost.is_empty() {
            return Vec::new();
        }
        let run = self.runs.get(header.incarnation);
        if run.is_none() && header.seq > Seq(1) {
            return Vec::new();
        }
        let before = |reason| run.map_or(0, |run| run.lost(reason));
        let more =
            lost.iter().map(|(reason, n)| (reason.clone(), n.saturating_sub(before(reason))));
        more.filter(|(_, n)| *n > 0).collect()
    }

    /// Whether a snapshot's number is so far ahead of its run's newest that the run cannot have
    /// sent as many messages. Of a run that is received for the first time it may be any.
    pub fn is_far_ahead(&self, header: &Header, arrived: Wall) -> bool {
        let run = self.runs.get(header.incarnation);
        run.is_some_and(|run| run.is_far_ahead(header.seq, arrived))
    }

    /// Whether what was merged of an incarnation has too many gaps, some of which should be filled
    /// first.
    pub fn is_fragmented(&self, incarnation: Incarnation) -> bool {
        self.runs.get(incarnation).is_some_and(|run| run.seqs.is_fragmented())
    }

    /// A message that was decided about had arrived then.
    pub fn on_arrival(&mut self, header: &Header, arrived: Wall) {
        if let Some(run) = self.runs.get_mut(header.incarnation) {
            run.on_arrival(header.seq, arrived);
        }
    }

    /// Counts samples of a message that was merged as those that the node took of itself.
    pub fn add_own(&mut self, incarnation: Incarnation, samples: u64) {
        if let Some(run) = self.runs.get_mut(incarnation) {
            run.add_own(samples);
        }
    }

    /// Takes what a run's own bus message reports of the whole run.
    pub fn on_report(&mut self, header: &Header, bus: &Bus) {
        if let Some(run) = self.runs.get_mut(header.incarnation) {
            run.on_report(header.seq, bus);
        }
        for former in &bus.former {
            self.on_former(header.incarnation, *former);
        }
    }

    /// Takes what a run found noted of one before it, of which no message may have arrived.
    fn on_former(&mut self, incarnation: Incarnation, former: NotedRun) {
        let NotedRun { incarnation: name, recorded } = former;
        // A clock that was set back between the two makes the name of the former one the greater.
        let is_known = self.runs.contains(name) || name < incarnation;
        if name == incarnation || !is_known || self.is_past(name) {
            return;
        }
        self.runs.run_of(name).on_noted(recorded);
        self.runs.put_before(name, incarnation);
        self.fold_the_oldest();
    }

    /// Runs that a later one followed although no final message of theirs was received, unless
    /// closed.
    pub fn awaiting_close(&self) -> impl Iterator<Item = Incarnation> {
        let newest = self.runs.newest().map(|(_, run)| run.order);
        let former = self.runs.iter().filter(move |(_, run)| Some(run.order) != newest);
        former.filter(|(_, run)| run.awaits_close()).map(|(incarnation, _)| incarnation)
    }

    /// Closes a run that a later one followed: everything that the streams held of it was read.
    /// What it held without a spool is lost from now on; a message that arrives later nevertheless
    /// is merged and reduces that.
    pub fn close(&mut self, incarnation: Incarnation) {
        let next_began = self.runs.began_after(incarnation);
        if let Some(run) = self.runs.get_mut(incarnation) {
            run.close(next_began);
        }
    }

    /// Nothing of the newest run can come any more, unless a spool holds it.
    pub fn on_expired(&mut self) {
        let newest = self.runs.newest().map(|(name, _)| name);
        let Some(run) = newest.and_then(|name| self.runs.get_mut(name)) else { return };
        if run.is_unspooled() && !run.left_in_order {
            run.close(None);
        }
    }

    fn is_past(&self, incarnation: Incarnation) -> bool {
        let below = self.past_floor.is_some_and(|floor| incarnation <= floor);
        let unknown = || !self.runs.contains(incarnation);
        self.past_incarnations.contains(&incarnation) || below && unknown()
    }

    /// Two nodes of one name resemble a run that goes on although a later one has begun. So does
    /// what a successor sends of a crashed run, except that it is about earlier times. A run's own
    /// name is the time when it began; its messages may start earlier, for it may inherit older
    /// ones.
    fn detect_overlap(&mut self, header: &Header) {
        let Some((newest, run)) = self.runs.newest() else { return };
        let (began, order) = (Wall(newest.0), run.order);
        let Some(run) = self.runs.get_mut(header.incarnation) else { return };
        if run.order < order && run.successor.is_none() && header.start > began {
            run.overlaps = run.overlaps.saturating_add(1);
            self.conflicts += u64::from(run.overlaps > OVERLAPS_BORNE);
        }
    }

    fn fold_the_oldest(&mut self) {
        let oldest = self.runs.take_oldest(INCARNATIONS_MAX);
        let Some((incarnation, mut run, next_began)) = oldest else { return };
        // Nothing of it is merged any more.
        if run.awaits_close() {
            run.close(next_began);
        }

        self.past.add(&run.ledger(true));
        self.past_incarnations.insert(incarnation);

        if self.past_incarnations.len() > INCARNATIONS_PAST_MAX {
            let popped = self.past_incarnations.pop_first();
            // One of the future was forged, or is of a wrong clock: runs that begin until then must
            // not be taken for former ones.
            let arrived = self.runs.latest_arrival();
            let is_past = |name: &Incarnation| arrived.is_none_or(|at| Wall(name.0) <= at);
            self.past_floor = self.past_floor.max(popped.filter(is_past));
        }
    }

    /// Sequence numbers missing below the highest one received, over all incarnations.
    pub fn holes(&self) -> u64 {
        self.runs.iter().map(|(_, run)| run.seqs.holes()).fold(0, u64::saturating_add)
    }

    /// Messages that had been merged before.
    pub fn duplicates(&self) -> u64 {
        self.duplicates
    }

    /// What is missing between messages that were received. What a node recorded before the first
    /// one received is unread, and what its last one left open is held: neither is a gap.
    pub fn gap(&self) -> Option<Gap> {
        let mut gap: Option<Gap> = None;
        for (incarnation, run) in self.runs.iter().filter(|(_, run)| run.missing() > 0) {
            let Some(first) = run.hole() else { continue };
            let samples = gap.map_or(0, |gap| gap.samples).saturating_add(run.missing());
            let hole = gap.map_or((incarnation, first), |gap| gap.hole);
            gap = Some(Gap { samples, hole });
        }
        gap
    }

    /// Messages of a run that went on although a later one had begun.
    pub fn conflicts(&self) -> u64 {
        self.conflicts
    }

    /// The sum of the ledger entry. An incarnation has ended when its final message was merged, a
    /// newer one has begun or it was closed. A closed one is the newest again when only those with
    /// a successor are later; it goes on with its next message.
    pub fn ledger(&self) -> Ledger {
        let mut ledger = self.past.clone();
        for (_, run, ended) in self.runs() {
            ledger.add(&run.ledger(ended));
        }
        ledger
    }

    /// Whether no run recorded or brought a sample.
    pub fn is_empty(&self) -> bool {
        self.past == Ledger::default() && self.runs.iter().all(|(_, run)| run.is_empty())
    }

    /// Samples of jobs that the node lost, over all incarnations.
    pub fn lost_of_jobs(&self) -> u64 {
        let past = self.past.lost.iter().filter(|(reason, _)| *reason != OWN_LOST);
        let past = past.map(|(_, samples)| *samples);
        let runs = self.runs.iter().map(|(_, run)| run.lost_of_jobs());
        past.chain(runs).fold(0, u64::saturating_add)
    }

    /// Runs that ended without a final message of their own.
    pub fn crashes(&self) -> u64 {
        let runs = self.runs.iter().filter(|(_, run)| run.is_crash());
        self.past.crashed_runs.saturating_add(runs.count() as u64)
    }

    /// Samples missing from incarnations that have ended.
    pub fn unaccounted(&self) -> u64 {
        let ended = self.runs().filter(|(_, _, ended)| *ended);
        ended.map(|(_, run, _)| run.unaccounted()).fold(self.past.unaccounted, u64::saturating_add)
    }

    /// Samples merged or lost beyond what was recorded, over all incarnations.
    pub fn surplus(&self) -> u64 {
        let runs = self.runs.iter().map(|(_, run)| run.surplus());
        runs.fold(self.past.surplus, u64::saturating_add)
    }

    /// All incarnations with a run of their own, and whether each has ended; in order of their
    /// names.
    pub fn runs(&self) -> impl Iterator<Item = (Incarnation, &Run, bool)> {
        let newest = self.runs.newest().map(|(_, run)| run.order);
        self.runs.iter().map(move |(incarnation, run)| {
            let ended = run.left_in_order || run.closed;
            (incarnation, run, ended || Some(run.order) != newest)
        })
    }

    /// The sum of the incarnations that were folded.
    pub fn past(&self) -> &Ledger {
        &self.past
    }

    /// The position of an incarnation in their order; `None` if it was folded or is unknown.
    pub fn order(&self, incarnation: Incarnation) -> Option<u64> {
        self.runs.order(incarnation)
    }

    /// Whether the newest incarnation has ended in good order.
    pub fn has_left(&self) -> bool {
        self.runs.has_left()
    }

    /// What a confirmation to the node may contain of its latest incarnations, the latest first.
    pub fn confirmed(&self) -> Vec<ConfirmedIncarnation> {
        let mut runs: Vec<_> = self.runs.iter().collect();
        runs.sort_unstable_by_key(|(_, run)| std::cmp::Reverse(run.order));
        let latest = runs.into_iter().take(CONFIRMED_RUNS_MAX);
        latest.map(|(incarnation, run)| run.confirmed(incarnation)).collect()
    }
}

#[cfg(test)]
mod tests;
