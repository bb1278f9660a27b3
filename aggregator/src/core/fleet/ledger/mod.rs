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
use plimsoll_schemas::limits::wire::CONFIRMED_INCARNATIONS_MAX;
use plimsoll_schemas::own_operations::OWN_LOST;
use plimsoll_schemas::summary::Ledger;
use plimsoll_schemas::time::Wall;
use plimsoll_schemas::wire::confirmation::ConfirmedIncarnation;
use plimsoll_schemas::wire::{Bus, Header, NotedIncarnation};
use serde::{Deserialize, Serialize};

pub use incarnation::IncarnationEntry;
pub use seqs::Seqs;

use incarnation::OVERLAPS_BORNE;
use incarnations::Incarnations;

mod incarnation;
mod incarnations;
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

/// Samples that are missing below the newest message of an incarnation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    pub samples: u64,
    /// Where the oldest one begins: an incarnation, and its first number that is missing.
    pub hole: (Incarnation, u64),
}

/// The ledger entry of one node over all its incarnations.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LedgerEntry {
    #[serde(rename = "runs")]
    incarnations: Incarnations,
    /// Sum of the incarnations that were folded and have no entry of their own any more.
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
        // Before an entry is made: one that starts anew would merge again all that was folded.
        if self.is_past(header.incarnation) {
            return Decision::Evicted;
        }
        let entry = self.incarnations.entry_of(header.incarnation);

        if !entry.seqs.insert(header.seq.0) {
            entry.duplicates += 1;
            self.duplicates += 1;
            return Decision::Duplicate;
        }

        entry.book(header, samples);
        // The order first: what follows asks which incarnation is the newest.
        self.incarnations.put_in_order(header);
        self.incarnations.reopen_newest();
        self.detect_overlap(header);
        self.fold_the_oldest();
        Decision::Merge
    }

    /// What a snapshot that is not booked yet reports as lost beyond what its incarnation had
    /// reported, by reason. Of an incarnation that is received for the first time, in the middle,
    /// that is nothing: who received its beginning knows.
    pub fn newly_lost(&self, header: &Header) -> Vec<(LossReason, u64)> {
        let lost = &header.totals.lost;
        if lost.is_empty() {
            return Vec::new();
        }
        let entry = self.incarnations.get(header.incarnation);
        if entry.is_none() && header.seq > Seq(1) {
            return Vec::new();
        }
        let before = |reason| entry.map_or(0, |entry| entry.lost(reason));
        let more =
            lost.iter().map(|(reason, n)| (reason.clone(), n.saturating_sub(before(reason))));
        more.filter(|(_, n)| *n > 0).collect()
    }

    /// Whether a snapshot's number is so far ahead of its incarnation's newest that the incarnation
    /// cannot have sent as many messages. Of an incarnation that is received for the first time it
    /// may be any.
    pub fn is_far_ahead(&self, header: &Header, arrived: Wall) -> bool {
        let entry = self.incarnations.get(header.incarnation);
        entry.is_some_and(|entry| entry.is_far_ahead(header.seq, arrived))
    }

    /// Whether what was merged of an incarnation has too many gaps, some of which should be filled
    /// first.
    pub fn is_fragmented(&self, incarnation: Incarnation) -> bool {
        self.incarnations.get(incarnation).is_some_and(|entry| entry.seqs.is_fragmented())
    }

    /// A message that was decided about had arrived then.
    pub fn on_arrival(&mut self, header: &Header, arrived: Wall) {
        if let Some(entry) = self.incarnations.get_mut(header.incarnation) {
            entry.on_arrival(header.seq, arrived);
        }
    }

    /// Counts samples of a message that was merged as those that the node took of itself.
    pub fn add_own(&mut self, incarnation: Incarnation, samples: u64) {
        if let Some(entry) = self.incarnations.get_mut(incarnation) {
            entry.add_own(samples);
        }
    }

    /// Takes what an incarnation's own bus message reports of the whole incarnation.
    pub fn on_report(&mut self, header: &Header, bus: &Bus) {
        if let Some(entry) = self.incarnations.get_mut(header.incarnation) {
            entry.on_report(header.seq, bus);
        }
        for former in &bus.former {
            self.on_former(header.incarnation, *former);
        }
    }

    /// Takes what an incarnation found noted of one before it, of which no message may have
    /// arrived.
    fn on_former(&mut self, incarnation: Incarnation, former: NotedIncarnation) {
        let NotedIncarnation { incarnation: name, recorded } = former;
        // A clock that was set back between the two makes the name of the former one the greater.
        let is_known = self.incarnations.contains(name) || name < incarnation;
        if name == incarnation || !is_known || self.is_past(name) {
            return;
        }
        // If nothing of it arrived, this makes an entry: its samples
        // are lost by name and not missing without a reason (A48).
        self.incarnations.entry_of(name).on_noted(recorded);
        self.incarnations.put_before(name, incarnation);
        self.fold_the_oldest();
    }

    /// Incarnations that a later one followed although no final message of theirs was received,
    /// unless closed.
    pub fn awaiting_close(&self) -> impl Iterator<Item = Incarnation> {
        let newest = self.incarnations.newest().map(|(_, entry)| entry.order);
        let former = self.incarnations.iter().filter(move |(_, entry)| Some(entry.order) != newest);
        former.filter(|(_, entry)| entry.awaits_close()).map(|(incarnation, _)| incarnation)
    }

    /// Closes an incarnation that a later one followed: everything that the streams held of it was
    /// read. What it held without a spool is lost from now on; a message that arrives later
    /// nevertheless is merged and reduces that.
    pub fn close(&mut self, incarnation: Incarnation) {
        let next_began = self.incarnations.began_after(incarnation);
        if let Some(entry) = self.incarnations.get_mut(incarnation) {
            entry.close(next_began);
        }
    }

    /// Nothing of the newest incarnation can come any more, unless a spool holds it.
    pub fn on_expired(&mut self) {
        let newest = self.incarnations.newest().map(|(name, _)| name);
        let Some(entry) = newest.and_then(|name| self.incarnations.get_mut(name)) else { return };
        // What a spool holds may still be sent by a successor, however late.
        if entry.is_unspooled() && !entry.left_in_order {
            entry.close(None);
        }
    }

    fn is_past(&self, incarnation: Incarnation) -> bool {
        let below = self.past_floor.is_some_and(|floor| incarnation <= floor);
        let unknown = || !self.incarnations.contains(incarnation);
        self.past_incarnations.contains(&incarnation) || below && unknown()
    }

    /// Two nodes of one name resemble an incarnation that goes on although a later one has begun.
    /// So does what a successor sends of a crashed incarnation, except that it is about earlier
    /// times. An incarnation's own name is the time when it began; its messages may start earlier,
    /// for it may inherit older ones.
    fn detect_overlap(&mut self, header: &Header) {
        let Some((newest, entry)) = self.incarnations.newest() else { return };
        let (began, order) = (Wall(newest.0), entry.order);
        let Some(entry) = self.incarnations.get_mut(header.incarnation) else { return };
        if entry.order < order && entry.successor.is_none() && header.start > began {
            entry.overlaps = entry.overlaps.saturating_add(1);
            self.conflicts += u64::from(entry.overlaps > OVERLAPS_BORNE);
        }
    }

    fn fold_the_oldest(&mut self) {
        let oldest = self.incarnations.take_oldest(INCARNATIONS_MAX);
        let Some((incarnation, mut entry, next_began)) = oldest else { return };

        // Nothing of it is merged any more.
        if entry.awaits_close() {
            entry.close(next_began);
        }

        self.past.add(&entry.ledger(true));
        self.past_incarnations.insert(incarnation);

        if self.past_incarnations.len() > INCARNATIONS_PAST_MAX {
            let popped = self.past_incarnations.pop_first();
            // One of the future was forged, or is of a wrong clock: incarnations that begin until
            // then must not be taken for former ones.
            let arrived = self.incarnations.latest_arrival();
            let is_past = |name: &Incarnation| arrived.is_none_or(|at| Wall(name.0) <= at);
            self.past_floor = self.past_floor.max(popped.filter(is_past));
        }
    }

    /// Sequence numbers missing below the highest one received, over all incarnations.
    pub fn holes(&self) -> u64 {
        self.incarnations.iter().map(|(_, entry)| entry.seqs.holes()).fold(0, u64::saturating_add)
    }

    /// Messages that had been merged before.
    pub fn duplicates(&self) -> u64 {
        self.duplicates
    }

    /// What is missing between messages that were received. What a node recorded before the first
    /// one received is unread, and what its last one left open is held: neither is a gap.
    pub fn gap(&self) -> Option<Gap> {
        let mut gap: Option<Gap> = None;
        for (incarnation, entry) in
            self.incarnations.iter().filter(|(_, entry)| entry.missing() > 0)
        {
            let Some(first) = entry.hole() else { continue };
            let samples = gap.map_or(0, |gap| gap.samples).saturating_add(entry.missing());
            let hole = gap.map_or((incarnation, first), |gap| gap.hole);
            gap = Some(Gap { samples, hole });
        }
        gap
    }

    /// Messages of an incarnation that went on although a later one had begun.
    pub fn conflicts(&self) -> u64 {
        self.conflicts
    }

    /// The sum of the ledger entry. An incarnation has ended when its final message was merged, a
    /// newer one has begun or it was closed. A closed one is the newest again when only those with
    /// a successor are later; it goes on with its next message.
    pub fn ledger(&self) -> Ledger {
        let mut ledger = self.past.clone();
        for (_, entry, ended) in self.incarnations() {
            ledger.add(&entry.ledger(ended));
        }
        ledger
    }

    /// Whether no incarnation recorded or brought a sample.
    pub fn is_empty(&self) -> bool {
        self.past == Ledger::default()
            && self.incarnations.iter().all(|(_, entry)| entry.is_empty())
    }

    /// Samples of jobs that the node lost, over all incarnations.
    pub fn lost_of_jobs(&self) -> u64 {
        let past = self.past.lost.iter().filter(|(reason, _)| *reason != OWN_LOST);
        let past = past.map(|(_, samples)| *samples);
        let entries = self.incarnations.iter().map(|(_, entry)| entry.lost_of_jobs());
        past.chain(entries).fold(0, u64::saturating_add)
    }

    /// Incarnations that ended without a final message of their own.
    pub fn crashes(&self) -> u64 {
        let entries = self.incarnations.iter().filter(|(_, entry)| entry.is_crash());
        self.past.crashed_runs.saturating_add(entries.count() as u64)
    }

    /// Samples missing from incarnations that have ended.
    pub fn unaccounted(&self) -> u64 {
        let ended = self.incarnations().filter(|(_, _, ended)| *ended);
        ended
            .map(|(_, entry, _)| entry.unaccounted())
            .fold(self.past.unaccounted, u64::saturating_add)
    }

    /// Samples merged or lost beyond what was recorded, over all incarnations.
    pub fn surplus(&self) -> u64 {
        let entries = self.incarnations.iter().map(|(_, entry)| entry.surplus());
        entries.fold(self.past.surplus, u64::saturating_add)
    }

    /// All incarnations with an entry of their own, and whether each has ended; in order of
    /// their names.
    pub fn incarnations(&self) -> impl Iterator<Item = (Incarnation, &IncarnationEntry, bool)> {
        let newest = self.incarnations.newest().map(|(_, entry)| entry.order);
        self.incarnations.iter().map(move |(incarnation, entry)| {
            let ended = entry.left_in_order || entry.closed;
            (incarnation, entry, ended || Some(entry.order) != newest)
        })
    }

    /// The sum of the incarnations that were folded.
    pub fn past(&self) -> &Ledger {
        &self.past
    }

    /// The position of an incarnation in their order; `None` if it was folded or is unknown.
    pub fn order(&self, incarnation: Incarnation) -> Option<u64> {
        self.incarnations.order(incarnation)
    }

    /// Whether the newest incarnation has ended in order.
    pub fn has_left(&self) -> bool {
        self.incarnations.has_left()
    }

    /// What a confirmation to the node may contain of its latest incarnations, the latest first.
    pub fn confirmed(&self) -> Vec<ConfirmedIncarnation> {
        let mut entries: Vec<_> = self.incarnations.iter().collect();
        entries.sort_unstable_by_key(|(_, entry)| std::cmp::Reverse(entry.order));
        let latest = entries.into_iter().take(CONFIRMED_INCARNATIONS_MAX);
        latest.map(|(incarnation, entry)| entry.confirmed(incarnation)).collect()
    }
}

#[cfg(test)]
mod tests;
