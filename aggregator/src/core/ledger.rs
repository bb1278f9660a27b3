//! The account of one node: which snapshots were merged, and where every other sample is.
//!
//! Each message carries the node's running totals, so the account needs no message to be
//! present: recorded is what the newest one says, merged is what was counted here, unseen is
//! what was recorded before the oldest one, and the difference is either held (more may come)
//! or unaccounted (the incarnation has ended).

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_schemas::ids::{Incarnation, Seq};
use plimsoll_schemas::limits::aggregator::{INCARNATIONS_MAX, INCARNATIONS_PAST_MAX};
use plimsoll_schemas::summary::Ledger;
use plimsoll_schemas::wire::{Header, Totals};
use serde::{Deserialize, Serialize};

use super::seqs::Seqs;

/// What to do with a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It is new, and of the node's incarnation with this number in order of appearance.
    Merge(u64),
    /// It was merged before.
    Duplicate,
    /// Its incarnation is too old to be remembered.
    Forgotten,
}

/// The account of one node over all its incarnations.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Account {
    runs: BTreeMap<Incarnation, Run>,
    /// Incarnations begun so far. Their order is that of their appearance here: a node whose
    /// clock was set back calls its later incarnation by a smaller number.
    begun: u64,
    /// Sum of the incarnations that are no longer told apart.
    past: Ledger,
    past_incarnations: BTreeSet<Incarnation>,
}

/// One incarnation.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Run {
    order: u64,
    seqs: Seqs,
    newest: Seq,
    totals: Totals,
    oldest: Seq,
    /// Samples recorded, and not lost, before the oldest snapshot heard.
    unseen: u64,
    merged: u64,
    said_farewell: bool,
}

impl Run {
    fn new(order: u64) -> Self {
        Self {
            order,
            seqs: Seqs::default(),
            newest: Seq(0),
            totals: Totals::default(),
            oldest: Seq(u64::MAX),
            unseen: 0,
            merged: 0,
            said_farewell: false,
        }
    }

    fn book(&mut self, header: &Header, samples: u64) {
        self.merged = self.merged.saturating_add(samples);
        self.said_farewell |= header.last;
        if header.seq > self.newest {
            self.newest = header.seq;
            self.totals = header.totals.clone();
        }
        if header.seq < self.oldest {
            self.oldest = header.seq;
            let gone = samples.saturating_add(header.totals.lost_sum());
            self.unseen = header.totals.recorded.saturating_sub(gone);
        }
    }

    fn ledger(&self, ended: bool) -> Ledger {
        let known = [self.merged, self.totals.lost_sum(), self.unseen];
        let known = known.into_iter().fold(0, u64::saturating_add);
        let missing = self.totals.recorded.saturating_sub(known);
        let lost = self.totals.lost.iter().map(|(reason, n)| (reason.to_string(), *n));
        Ledger {
            recorded: self.totals.recorded,
            merged: self.merged,
            held: if ended { 0 } else { missing },
            unaccounted: if ended { missing } else { 0 },
            unseen: self.unseen,
            lost: lost.collect(),
        }
    }
}

impl Account {
    /// Decides about a snapshot that carries `samples`, and books it when it is new.
    pub fn book(&mut self, header: &Header, samples: u64) -> Decision {
        if self.past_incarnations.contains(&header.incarnation) {
            return Decision::Forgotten;
        }
        let begun = &mut self.begun;
        let run = self.runs.entry(header.incarnation).or_insert_with(|| {
            *begun += 1;
            Run::new(*begun)
        });
        if !run.seqs.insert(header.seq.0) {
            return Decision::Duplicate;
        }
        run.book(header, samples);
        let order = run.order;
        self.fold_the_oldest();
        Decision::Merge(order)
    }

    fn fold_the_oldest(&mut self) {
        if self.runs.len() <= INCARNATIONS_MAX {
            return;
        }
        let oldest = self.runs.iter().min_by_key(|(_, run)| run.order).map(|(name, _)| *name);
        let Some((incarnation, run)) = oldest.and_then(|name| self.runs.remove_entry(&name)) else {
            return;
        };
        self.past.add(&run.ledger(true));
        self.past_incarnations.insert(incarnation);
        if self.past_incarnations.len() > INCARNATIONS_PAST_MAX {
            self.past_incarnations.pop_first();
        }
    }

    fn newest(&self) -> Option<&Run> {
        self.runs.values().max_by_key(|run| run.order)
    }

    /// True when the newest incarnation has said farewell.
    #[must_use]
    pub fn has_left(&self) -> bool {
        self.newest().is_some_and(|run| run.said_farewell)
    }

    /// Sequence numbers missing below the highest one heard, over all incarnations.
    #[must_use]
    pub fn holes(&self) -> u64 {
        self.runs.values().map(|run| run.seqs.holes()).fold(0, u64::saturating_add)
    }

    /// The account. An incarnation has ended when it said farewell or a newer one has begun.
    #[must_use]
    pub fn ledger(&self) -> Ledger {
        let mut ledger = self.past.clone();
        for run in self.runs.values() {
            ledger.add(&run.ledger(run.said_farewell || run.order != self.begun));
        }
        ledger
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::ids::{LossReason, NodeName};
    use plimsoll_schemas::time::Wall;
    use proptest::prelude::*;

    use super::*;

    fn header(incarnation: u64, seq: u64, recorded: u64, lost: u64) -> Header {
        let reason = LossReason::new("outbox_full").unwrap();
        Header {
            node: NodeName::new("n").unwrap(),
            incarnation: Incarnation(incarnation),
            seq: Seq(seq),
            start: Wall(0),
            length_ns: 1,
            totals: Totals { recorded, lost: BTreeMap::from([(reason, lost)]) },
            last: false,
            heir: None,
        }
    }

    #[test]
    fn a_repeated_snapshot_is_merged_once() {
        let mut account = Account::default();
        assert_eq!(account.book(&header(1, 1, 10, 0), 10), Decision::Merge(1));
        assert_eq!(account.book(&header(1, 1, 10, 0), 10), Decision::Duplicate);
        assert_eq!(account.ledger().merged, 10);
    }

    #[test]
    fn a_gap_is_known_in_samples_and_closes_when_it_is_filled() {
        let mut account = Account::default();
        account.book(&header(1, 1, 10, 0), 10);
        account.book(&header(1, 3, 35, 0), 5);
        assert_eq!((account.ledger().held, account.holes()), (20, 1));
        account.book(&header(1, 2, 30, 0), 20);
        assert!(account.ledger().is_settled());
        assert_eq!((account.ledger().merged, account.holes()), (35, 0));
    }

    #[test]
    fn what_a_node_gave_up_is_lost_by_name_and_not_held() {
        let mut account = Account::default();
        account.book(&header(1, 1, 30, 20), 10);
        let ledger = account.ledger();
        assert_eq!(ledger.lost, BTreeMap::from([("outbox_full".to_owned(), 20)]));
        assert!(ledger.is_settled());
    }

    #[test]
    fn what_an_ended_incarnation_still_owes_is_unaccounted() {
        let mut account = Account::default();
        account.book(&header(1, 1, 10, 0), 10);
        account.book(&header(1, 3, 40, 0), 10);
        assert_eq!(account.ledger().held, 20);
        account.book(&header(2, 1, 5, 0), 5);
        let ledger = account.ledger();
        assert_eq!((ledger.held, ledger.unaccounted), (0, 20));
        account.book(&header(1, 2, 30, 0), 20);
        assert!(account.ledger().is_settled(), "late is not lost");
    }

    #[test]
    fn what_was_recorded_before_the_oldest_snapshot_heard_is_unseen_until_it_comes() {
        let mut account = Account::default();
        account.book(&header(1, 5, 100, 10), 20);
        let ledger = account.ledger();
        assert_eq!((ledger.unseen, ledger.held), (70, 0));
        account.book(&header(1, 4, 80, 10), 30);
        let ledger = account.ledger();
        assert_eq!((ledger.unseen, ledger.held, ledger.merged), (40, 0, 50));
    }

    #[test]
    fn a_clock_set_back_does_not_make_the_new_incarnation_the_old_one() {
        let mut account = Account::default();
        let farewell = Header { last: true, ..header(9, 1, 10, 0) };
        account.book(&farewell, 10);
        assert!(account.has_left());
        assert_eq!(account.book(&header(3, 1, 5, 0), 5), Decision::Merge(2));
        assert!(!account.has_left());
    }

    #[test]
    fn incarnations_are_bounded_and_their_sums_remain() {
        let mut account = Account::default();
        for incarnation in 1..=INCARNATIONS_MAX as u64 + 5 {
            account.book(&header(incarnation, 1, 10, 0), 10);
        }
        assert_eq!(account.runs.len(), INCARNATIONS_MAX);
        assert_eq!(account.ledger().recorded, 10 * (INCARNATIONS_MAX as u64 + 5));
        assert_eq!(account.book(&header(5, 1, 10, 0), 10), Decision::Forgotten);
        assert!(account.ledger().is_settled());
    }

    proptest! {
        /// Invariants 1, 2 and 3: whatever arrives, in any order and any number of times, the
        /// account balances and ends where the node's own totals are.
        #[test]
        fn any_order_with_repetitions_gives_the_same_account(
            samples in prop::collection::vec(0..50_u64, 1..40),
            order in prop::collection::vec(any::<prop::sample::Index>(), 0..120),
        ) {
            let mut running = 0;
            let headers: Vec<(Header, u64)> = samples.iter().zip(1..).map(|(n, seq)| {
                running += n;
                (header(1, seq, running, 0), *n)
            }).collect();
            let mut account = Account::default();
            for index in &order {
                let (header, n) = index.get(&headers);
                account.book(header, *n);
                let ledger = account.ledger();
                prop_assert_eq!(ledger.recorded, ledger.merged + ledger.held + ledger.unseen);
            }
            headers.iter().for_each(|(header, n)| { account.book(header, *n); });
            let ledger = account.ledger();
            prop_assert_eq!((ledger.merged, ledger.is_settled()), (running, true));
        }
    }
}
