//! The account of one node: which snapshots were merged, and where every other sample is.
//!
//! Each message carries the node's running totals, so the account needs no message to be
//! present: recorded is what the newest one says, merged is what was counted here, and the
//! difference is either held (more may come) or unaccounted (the incarnation has ended).

use std::collections::BTreeMap;

use plimsoll_schemas::ids::{Incarnation, Seq};
use plimsoll_schemas::limits::aggregator::INCARNATIONS_MAX;
use plimsoll_schemas::summary::Ledger;
use plimsoll_schemas::wire::{Header, Totals};

use super::seqs::Seqs;

/// What to do with a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It is new.
    Merge,
    /// It was merged before.
    Duplicate,
    /// Its incarnation is too old to be remembered.
    Forgotten,
}

/// The account of one node over all its incarnations.
#[derive(Clone, Debug, Default)]
pub struct Account {
    runs: BTreeMap<Incarnation, Run>,
    /// Sum of the incarnations that are no longer told apart.
    past: Ledger,
    /// The newest incarnation among those.
    past_until: Option<Incarnation>,
}

/// One incarnation.
#[derive(Clone, Debug, Default)]
struct Run {
    seqs: Seqs,
    newest: Seq,
    totals: Totals,
    merged: u64,
    said_farewell: bool,
}

impl Account {
    /// Decides about a snapshot that carries `samples`, and books it when it is new.
    pub fn book(&mut self, header: &Header, samples: u64) -> Decision {
        if self.past_until.is_some_and(|until| header.incarnation <= until) {
            return Decision::Forgotten;
        }
        let run = self.runs.entry(header.incarnation).or_default();
        if !run.seqs.insert(header.seq.0) {
            return Decision::Duplicate;
        }
        run.merged = run.merged.saturating_add(samples);
        run.said_farewell |= header.last;
        if header.seq > run.newest {
            run.newest = header.seq;
            run.totals = header.totals.clone();
        }
        self.fold_the_oldest();
        Decision::Merge
    }

    fn fold_the_oldest(&mut self) {
        if self.runs.len() <= INCARNATIONS_MAX {
            return;
        }
        if let Some((incarnation, run)) = self.runs.pop_first() {
            run.add_to(&mut self.past, true);
            self.past_until = Some(incarnation);
        }
    }

    /// True when the newest incarnation has said farewell.
    #[must_use]
    pub fn has_left(&self) -> bool {
        self.runs.last_key_value().is_some_and(|(_, run)| run.said_farewell)
    }

    /// The newest incarnation.
    #[must_use]
    pub fn newest(&self) -> Option<Incarnation> {
        self.runs.last_key_value().map(|(incarnation, _)| *incarnation)
    }

    /// Sequence numbers missing below the highest one heard, over all incarnations.
    #[must_use]
    pub fn holes(&self) -> u64 {
        self.runs.values().map(|run| run.seqs.holes()).sum()
    }

    /// The account. An incarnation has ended when it said farewell or a newer one has begun.
    #[must_use]
    pub fn ledger(&self) -> Ledger {
        let mut ledger = self.past.clone();
        let newest = self.newest();
        for (incarnation, run) in &self.runs {
            run.add_to(&mut ledger, run.said_farewell || Some(*incarnation) != newest);
        }
        ledger
    }
}

impl Run {
    fn add_to(&self, ledger: &mut Ledger, ended: bool) {
        let missing =
            self.totals.recorded.saturating_sub(self.merged).saturating_sub(self.totals.lost_sum());
        ledger.recorded += self.totals.recorded;
        ledger.merged += self.merged;
        *if ended { &mut ledger.unaccounted } else { &mut ledger.held } += missing;
        for (reason, n) in &self.totals.lost {
            *ledger.lost.entry(reason.to_string()).or_default() += n;
        }
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
        }
    }

    #[test]
    fn a_repeated_snapshot_is_merged_once() {
        let mut account = Account::default();
        assert_eq!(account.book(&header(1, 1, 10, 0), 10), Decision::Merge);
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
        account.book(&header(1, 2, 30, 0), 10);
        assert_eq!(account.ledger().held, 20);
        account.book(&header(2, 1, 5, 0), 5);
        let ledger = account.ledger();
        assert_eq!((ledger.held, ledger.unaccounted), (0, 20));
        account.book(&header(1, 1, 20, 0), 20);
        assert!(account.ledger().is_settled(), "late is not lost");
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
                prop_assert_eq!(ledger.recorded, ledger.merged + ledger.held);
            }
            headers.iter().for_each(|(header, n)| { account.book(header, *n); });
            let ledger = account.ledger();
            prop_assert_eq!((ledger.merged, ledger.held), (running, 0));
        }
    }
}
