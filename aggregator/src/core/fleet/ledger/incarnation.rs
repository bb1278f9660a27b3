//! One incarnation's part of a node's ledger entry: which of its messages were merged, and what
//! became of the samples that it reports as recorded. It does not depend on other incarnations.
//!
//! Where its samples are follows from three sums of its messages, [`IncarnationEntry::balance`]:
//!
//! - known = merged + lost, open = recorded - known, or surplus = known - recorded;
//! - unread = min(recorded before the oldest message received, open), missing = open - unread;
//! - beyond = reported - recorded, only of an unspooled incarnation without a final message;
//! - outstanding = missing + beyond: samples of which nothing is known.
//!
//! The same in each [`State`]: `recorded` is recorded + beyond, then `merged`, `unread`, `surplus`.
//! The state decides what the outstanding ones are:
//!
//! | state | `held` | `unaccounted` | `lost` by the crash | `crashed_runs` | `unknown_ns` |
//! |---|---|---|---|---|---|
//! | `Open`, has not ended | outstanding | 0 | 0 | 0 | 0 |
//! | `Open`, has ended | 0 | outstanding | 0 | 0 | 0 |
//! | `Left` | 0 | outstanding | 0 | 0 | 0 |
//! | `Reported`, spooled | 0 | outstanding | 0 | 1 | 0 |
//! | `Reported`, unspooled | 0 | 0 | outstanding | 1 | up to the next incarnation, unless noted |
//! | `Vanished`, spooled | 0 | outstanding | 0 | 1 | up to the next incarnation |
//! | `Vanished`, unspooled | 0 | 0 | outstanding | 1 | up to the next incarnation, unless noted |
//!
//! An incarnation counts as spooled unless it is known to be unspooled. What moves outstanding
//! samples on: a message that arrives (merged), or a newer one that states their loss (lost by its
//! reason).
//!
//! An open incarnation has ended if it is closed, or not the newest of its node. The crash loses
//! samples of jobs as `crash` and those that the node took of itself as `own`.
//!
//! DESIGN A48, A61, A176.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::limits::{LEDGER_HOLES_MAX, SEQ_AHEAD_MAX, SEQS_PER_SECOND_MAX};
use plimsoll_schemas::ids::{Incarnation, LossReason, Seq};
use plimsoll_schemas::limits::wire::CONFIRMED_SPANS_MAX;
use plimsoll_schemas::own_operations::OWN_LOST;
use plimsoll_schemas::summary::{IncarnationLedger, Ledger};
use plimsoll_schemas::time::{Wall, nanos};
use plimsoll_schemas::wire::confirmation::ConfirmedIncarnation;
use plimsoll_schemas::wire::{Bus, Header, Totals};
use serde::{Deserialize, Serialize};

use super::seqs::Seqs;

/// The reason under which the ledger names what ended with a process, as nodes name it.
const CRASH: &str = "crash";

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct IncarnationEntry {
    /// Its position among the node's incarnations: later ones have greater numbers.
    pub(super) order: u64,
    pub(super) seqs: Seqs,
    pub(super) newest: Seq,
    totals: Totals,
    oldest: Seq,
    /// Samples recorded, and not lost, before the oldest snapshot received.
    unread: u64,
    merged: u64,
    /// Those merged that the node took of itself.
    #[serde(default)]
    merged_own: u64,
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
    /// Samples that it reported as recorded, some of which no message may carry yet.
    #[serde(default)]
    reported: u64,
    /// Of those, what it took of itself.
    #[serde(default)]
    reported_own: u64,
    /// Its latest report whether a spool keeps its messages, with the report's number.
    #[serde(default)]
    spooled: Option<(Seq, bool)>,
    /// End of its latest interval received, by the node's clock.
    #[serde(default)]
    reported_until: Wall,
    /// When its newest message arrived, by the aggregator's clock; 0 if a former program stored it.
    #[serde(default)]
    pub(super) arrived: Wall,
    /// True when it ended without a final message and everything stored by then was read.
    #[serde(default)]
    pub(super) closed: bool,
    /// When the next incarnation began, by the node's clock, of a closed incarnation that a later
    /// one followed.
    #[serde(default)]
    next_began: Option<Wall>,
    /// True when its spool was gone at its end, and a later incarnation has reported what it had
    /// recorded.
    #[serde(default)]
    noted: bool,
}

/// What is known of an incarnation's end.
#[derive(Clone, Copy)]
enum State {
    /// Neither a final message nor a crash is known. Also an incarnation that goes on beside a
    /// later one: another node of the same name sends it.
    Open,
    /// Its final message was merged.
    Left,
    /// It ended without one; a later incarnation found its spool and sent its final message.
    Reported,
    /// It ended without one, and no later incarnation sent one for it.
    Vanished,
}

/// Where the samples of an incarnation are that are neither merged nor lost, as it reports.
struct Balance {
    /// In messages older than the oldest one received. The broker may have refused some of these
    /// meanwhile; those count as lost.
    unread: u64,
    /// In messages up to the newest one of which nothing is known.
    missing: u64,
    /// Reported beyond the newest message. The final message names all, and what an incarnation
    /// with a spool holds is recorded by its successor.
    beyond: u64,
    /// Merged or lost although it did not record them, and so another sender brought them under its
    /// name: each of its messages has totals with all samples of the messages before it.
    surplus: u64,
}

/// What an incarnation held when it crashed without a spool.
struct CrashLoss {
    of_jobs: u64,
    own: u64,
}

impl Balance {
    /// Samples of which nothing is known, of those recorded and those reported.
    fn outstanding(&self) -> u64 {
        self.missing.saturating_add(self.beyond)
    }
}

/// Messages of an incarnation about a time after a later one had begun that mean nothing yet: the
/// first few may be of a crash with a clock set back a little.
pub(super) const OVERLAPS_BORNE: u64 = 3;

impl IncarnationEntry {
    pub(super) fn new(order: u64) -> Self {
        Self { order, oldest: Seq(u64::MAX), ..Self::default() }
    }

    pub(super) fn book(&mut self, header: &Header, samples: u64) {
        self.merged = self.merged.saturating_add(samples);
        self.left_in_order |= header.last;
        self.successor = header.successor.or(self.successor);

        // A crash report is about no interval of the incarnation's own.
        if header.successor.is_none() {
            let until = header.start.plus(Duration::from_nanos(header.length_ns));
            self.reported_until = self.reported_until.max(until);
        }

        // Totals only grow, so those of the highest number are the latest, whatever arrived last.
        if header.seq > self.newest {
            self.newest = header.seq;
            self.totals = header.totals.clone();
        }

        if header.seq < self.oldest {
            self.oldest = header.seq;
            // Its totals include its own samples. The rest was recorded before
            // it, in messages that this aggregator may never have read.
            let gone = samples.saturating_add(header.totals.lost_sum());
            self.unread = header.totals.recorded.saturating_sub(gone);
        }

        if self.balance().missing == 0 {
            self.settled = self.newest;
        }
    }

    /// Samples that it has reported as lost for a reason.
    pub(super) fn lost(&self, reason: &LossReason) -> u64 {
        self.totals.lost.get(reason).copied().unwrap_or(0)
    }

    /// A message of it that was booked had arrived then.
    pub(super) fn on_arrival(&mut self, seq: Seq, arrived: Wall) {
        if seq == self.newest {
            self.arrived = arrived;
        }
    }

    /// Whether it cannot have sent messages up to `seq` by then. Its own clock may be ahead, and a
    /// forged message may state any time.
    pub(super) fn is_far_ahead(&self, seq: Seq, arrived: Wall) -> bool {
        let seconds = arrived.since(self.reported_until.min(self.arrived)).as_secs();
        let allowed = SEQ_AHEAD_MAX.saturating_add(seconds.saturating_mul(SEQS_PER_SECOND_MAX));
        // Without a message it is known from what a successor found noted alone.
        self.newest.0 > 0 && seq.0.saturating_sub(self.newest.0) > allowed
    }

    /// Whether it neither recorded nor brought a sample.
    pub(super) fn is_empty(&self) -> bool {
        self.totals.recorded == 0 && self.merged == 0 && self.reported == 0
    }

    /// Counts samples of a message that was booked as those that the node took of itself.
    pub(super) fn add_own(&mut self, samples: u64) {
        self.merged_own = self.merged_own.saturating_add(samples);
    }

    /// Takes what its bus message with number `seq` reports of the whole incarnation.
    pub(super) fn on_report(&mut self, seq: Seq, bus: &Bus) {
        self.reported = self.reported.max(bus.recorded);
        self.reported_own = self.reported_own.max(bus.recorded_own);
        // A spool may fail and work again, so the report with the
        // highest number holds and not the one that arrived last.
        if self.spooled.is_none_or(|(newest, _)| seq > newest) {
            self.spooled = bus.spooled.map(|spooled| (seq, spooled)).or(self.spooled);
        }
    }

    /// Takes what a later incarnation found noted of it, in place of its spool.
    pub(super) fn on_noted(&mut self, recorded: u64) {
        self.reported = self.reported.max(recorded);
        self.noted = true;
    }

    /// Closes an incarnation that ended without a final message.
    pub(super) fn close(&mut self, next_began: Option<Wall>) {
        self.closed = true;
        self.next_began = next_began.or(self.next_began);
    }

    /// It goes on: nothing of it is closed.
    pub(super) fn reopen(&mut self) {
        (self.closed, self.next_began) = (false, None);
    }

    /// Whether it is to be closed, since a later incarnation began: it has no final message and is
    /// no other node's of the same name, which would go on beside the later incarnation.
    pub(super) fn awaits_close(&self) -> bool {
        !self.left_in_order && self.next_began.is_none() && self.overlaps <= OVERLAPS_BORNE
    }

    /// Whether it runs without a spool, as it reports, or its spool was gone at its end:
    /// what it holds ends with its process.
    pub(super) fn is_unspooled(&self) -> bool {
        let is_gone = self.noted && !self.left_in_order;
        is_gone || matches!(self.spooled, Some((_, false)))
    }

    /// The first number that is missing, of those between two that are there. A hole that was
    /// there when nothing was missing, as that of a message refused for good, is none if there
    /// is another: what is missing now is not in it.
    pub(super) fn hole(&self) -> Option<u64> {
        let holes = || self.seqs.gaps().map(|(first, _)| first);
        holes().find(|first| *first > self.settled.0).or_else(|| holes().next())
    }

    fn state(&self) -> State {
        if self.closed && !self.left_in_order && self.overlaps <= OVERLAPS_BORNE {
            State::Vanished
        } else if self.successor.is_some() {
            State::Reported
        } else if self.left_in_order {
            State::Left
        } else {
            State::Open
        }
    }

    /// Whether it ended without a final message of its own.
    pub(super) fn is_crash(&self) -> bool {
        match self.state() {
            State::Reported | State::Vanished => true,
            State::Open | State::Left => false,
        }
    }

    /// Whether its process died with all that it held, so that nothing more of it is sent.
    fn is_lost(&self) -> bool {
        self.is_unspooled() && self.is_crash()
    }

    fn balance(&self) -> Balance {
        let recorded = self.totals.recorded;
        let known = self.merged.saturating_add(self.totals.lost_sum());
        let open = recorded.saturating_sub(known);
        let unread = self.unread.min(open);

        let is_beyond = self.is_unspooled() && !self.left_in_order;
        Balance {
            unread,
            missing: open.saturating_sub(unread),
            beyond: if is_beyond { self.reported.saturating_sub(recorded) } else { 0 },
            surplus: known.saturating_sub(recorded),
        }
    }

    /// Samples in the gaps between its messages, which may still come.
    pub(super) fn missing(&self) -> u64 {
        if self.is_lost() { 0 } else { self.balance().missing }
    }

    /// Samples merged or lost that it did not record.
    pub(super) fn surplus(&self) -> u64 {
        self.balance().surplus
    }

    /// Samples missing from it for no named reason, if it has ended.
    pub(super) fn unaccounted(&self) -> u64 {
        if self.is_lost() { 0 } else { self.balance().outstanding() }
    }

    /// Samples of jobs that it lost.
    pub(super) fn lost_of_jobs(&self) -> u64 {
        let named = self.totals.lost_sum().saturating_sub(self.lost_own());
        named.saturating_add(self.crash_loss(&self.balance()).of_jobs)
    }

    /// Samples that it took of itself and reports as lost.
    fn lost_own(&self) -> u64 {
        self.totals.lost.get(OWN_LOST).copied().unwrap_or(0)
    }

    /// Own samples are those that surely were: as it reported, unless that was merged, lost or may
    /// be among the unread. So no sample of a job counts as one.
    fn crash_loss(&self, balance: &Balance) -> CrashLoss {
        if !self.is_lost() {
            return CrashLoss { of_jobs: 0, own: 0 };
        }
        let known = self.merged_own.saturating_add(self.lost_own()).saturating_add(balance.unread);
        let own = self.reported_own.saturating_sub(known).min(balance.outstanding());
        CrashLoss { of_jobs: balance.outstanding() - own, own }
    }

    /// The time up to the next incarnation of which nothing is known. A successor that found its
    /// spool, or its note, reports what was recorded then, even if the spool had failed for a
    /// while.
    fn unknown(&self) -> Duration {
        let is_unknown = match self.state() {
            State::Vanished => !self.noted,
            State::Reported => !self.noted && self.is_unspooled(),
            State::Open | State::Left => false,
        };
        let next = self.next_began.filter(|_| is_unknown);
        next.map_or(Duration::ZERO, |began| began.since(self.reported_until))
    }

    /// Its ledger entry, by the table above.
    pub(super) fn ledger(&self, ended: bool) -> Ledger {
        let balance = self.balance();
        let crash = self.crash_loss(&balance);

        let lost = self.totals.lost.iter().map(|(reason, n)| (reason.to_string(), *n));
        let mut lost: BTreeMap<String, u64> = lost.collect();

        for (reason, samples) in [(CRASH, crash.of_jobs), (OWN_LOST, crash.own)] {
            if samples > 0 {
                let lost = lost.entry(reason.to_owned()).or_default();
                *lost = lost.saturating_add(samples);
            }
        }

        Ledger {
            recorded: self.totals.recorded.saturating_add(balance.beyond),
            merged: self.merged,
            held: if ended { 0 } else { balance.outstanding() },
            unaccounted: if ended { self.unaccounted() } else { 0 },
            unread: balance.unread,
            surplus: balance.surplus,
            lost,
            crashed_runs: u64::from(self.is_crash()),
            unknown_ns: nanos(self.unknown()),
        }
    }

    /// What a confirmation may contain about it.
    pub(super) fn confirmed(&self, incarnation: Incarnation) -> ConfirmedIncarnation {
        let spans = self.seqs.latest(CONFIRMED_SPANS_MAX).into_iter();
        let spans = spans.map(|(first, last)| (Seq(first), Seq(last))).collect();
        ConfirmedIncarnation { incarnation, spans }
    }

    /// Its row on the ledger page.
    pub fn row(&self, incarnation: Incarnation, ended: bool) -> IncarnationLedger {
        let (missing_seqs, holes) = holes(&self.seqs);
        IncarnationLedger {
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
