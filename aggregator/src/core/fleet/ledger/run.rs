//! One incarnation's part of a node's ledger entry: which of its messages were merged, and what
//! became of the samples that it reports as recorded. It does not depend on other incarnations.

use crate::limits::LEDGER_HOLES_MAX;
use plimsoll_schemas::ids::{Incarnation, Seq};
use plimsoll_schemas::limits::wire::CONFIRMED_SPANS_MAX;
use plimsoll_schemas::summary::{Ledger, RunLedger};
use plimsoll_schemas::wire::confirmation::ConfirmedIncarnation;
use plimsoll_schemas::wire::{Header, Totals};
use serde::{Deserialize, Serialize};

use super::seqs::Seqs;

/// One incarnation.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    /// Its position among the node's incarnations: later ones have greater numbers.
    pub(super) order: u64,
    pub(super) seqs: Seqs,
    pub(super) newest: Seq,
    totals: Totals,
    oldest: Seq,
    /// Samples recorded, and not lost, before the oldest snapshot received.
    unread: u64,
    merged: u64,
    pub(super) left_in_order: bool,
    /// The incarnation that sent the final message for it, after a crash.
    #[serde(default)]
    pub(super) successor: Option<Incarnation>,
    /// Messages that had been merged before.
    #[serde(default)]
    pub(super) duplicates: u64,
    /// Messages about a time after a later incarnation had begun.
    #[serde(default)]
    pub(super) overlaps: u64,
    /// The newest number when last nothing was missing.
    #[serde(default)]
    settled: Seq,
}

impl Run {
    pub(super) fn new(order: u64) -> Self {
        Self {
            order,
            seqs: Seqs::default(),
            newest: Seq(0),
            totals: Totals::default(),
            oldest: Seq(u64::MAX),
            unread: 0,
            merged: 0,
            left_in_order: false,
            successor: None,
            duplicates: 0,
            overlaps: 0,
            settled: Seq(0),
        }
    }

    pub(super) fn book(&mut self, header: &Header, samples: u64) {
        self.merged = self.merged.saturating_add(samples);
        self.left_in_order |= header.last;
        self.successor = header.successor.or(self.successor);
        if header.seq > self.newest {
            self.newest = header.seq;
            self.totals = header.totals.clone();
        }
        if header.seq < self.oldest {
            self.oldest = header.seq;
            let gone = samples.saturating_add(header.totals.lost_sum());
            self.unread = header.totals.recorded.saturating_sub(gone);
        }
        if self.missing() == 0 {
            self.settled = self.newest;
        }
    }

    /// The first number that is missing, of those between two that are there. A hole that was
    /// there when nothing was missing, as that of a message refused for good, is none if there
    /// is another: what is missing now is not in it.
    pub(super) fn hole(&self) -> Option<u64> {
        let holes = || self.seqs.gaps().map(|(first, _)| first);
        holes().find(|first| *first > self.settled.0).or_else(|| holes().next())
    }

    /// Samples recorded of which nothing is known.
    pub(super) fn missing(&self) -> u64 {
        self.open().saturating_sub(self.unread())
    }

    /// Samples in messages older than the oldest one received. The broker may have refused some of
    /// these meanwhile; those count as lost.
    fn unread(&self) -> u64 {
        self.unread.min(self.open())
    }

    /// Samples neither merged nor lost.
    fn open(&self) -> u64 {
        let known = self.merged.saturating_add(self.totals.lost_sum());
        self.totals.recorded.saturating_sub(known)
    }

    /// Samples that it lost.
    pub(super) fn lost(&self) -> u64 {
        self.totals.lost_sum()
    }

    /// Its ledger entry. No process holds what is missing from an incarnation that has ended.
    pub(super) fn ledger(&self, ended: bool) -> Ledger {
        let missing = self.missing();
        let lost = self.totals.lost.iter().map(|(reason, n)| (reason.to_string(), *n));
        Ledger {
            recorded: self.totals.recorded,
            merged: self.merged,
            held: if ended { 0 } else { missing },
            unaccounted: if ended { missing } else { 0 },
            unread: self.unread(),
            lost: lost.collect(),
        }
    }

    /// What a confirmation may contain about it.
    pub(super) fn confirmed(&self, incarnation: Incarnation) -> ConfirmedIncarnation {
        let spans = self.seqs.latest(CONFIRMED_SPANS_MAX).into_iter();
        let spans = spans.map(|(first, last)| (Seq(first), Seq(last))).collect();
        ConfirmedIncarnation { incarnation, spans }
    }

    /// Its row on the ledger page.
    #[must_use]
    pub fn row(&self, incarnation: Incarnation, ended: bool) -> RunLedger {
        let (missing_seqs, holes) = holes(&self.seqs);
        RunLedger {
            incarnation: incarnation.0,
            newest_seq: self.newest.0,
            ledger: self.ledger(ended),
            missing_seqs,
            holes,
            duplicates: self.duplicates,
            ended,
            left_in_order: self.left_in_order,
            successor: self.successor.map(|successor| successor.0),
        }
    }
}

/// How many numbers are missing from the first on, and the latest spans of them.
fn holes(seqs: &Seqs) -> (u64, Vec<(u64, u64)>) {
    let first = seqs.spans().next().map(|(first, _)| first);
    let before = first.filter(|first| *first > 1).map(|first| (1, first - 1));
    let mut holes: Vec<_> = before.into_iter().chain(seqs.gaps()).collect();
    holes.drain(..holes.len().saturating_sub(LEDGER_HOLES_MAX));
    (seqs.holes(), holes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_are_listed_up_to_the_bound_and_counted_beyond_it() {
        let mut seqs = Seqs::default();
        (1..=200).for_each(|n| assert!(seqs.insert(2 * n)));
        let (missing, holes) = holes(&seqs);
        assert_eq!((missing, holes.len()), (200, LEDGER_HOLES_MAX));
        assert_eq!(holes.last(), Some(&(399, 399)));
    }
}
