//! The ledger entry of one node: repetitions, gaps, crashes, and any order of messages.

mod crash;
mod order;

use std::collections::BTreeMap;

use plimsoll_schemas::ids::{Labels, LossReason, NodeName, Seq};
use plimsoll_schemas::time::Wall;
use plimsoll_schemas::wire::Totals;
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
        successor: None,
        labels: Labels::default(),
    }
}

#[test]
fn a_repeated_snapshot_is_merged_once() {
    let mut account = LedgerEntry::default();
    assert_eq!(account.book(&header(1, 1, 10, 0), 10), Decision::Merge);
    assert_eq!(account.book(&header(1, 1, 10, 0), 10), Decision::Duplicate);
    assert_eq!(account.ledger().merged, 10);
}

#[test]
fn a_gap_is_known_in_samples_and_closes_when_it_is_filled() {
    let mut account = LedgerEntry::default();
    account.book(&header(1, 1, 10, 0), 10);
    account.book(&header(1, 3, 35, 0), 5);
    assert_eq!((account.ledger().held, account.holes()), (20, 1));
    account.book(&header(1, 2, 30, 0), 20);
    assert!(account.ledger().is_settled());
    assert_eq!((account.ledger().merged, account.holes()), (35, 0));
}

#[test]
fn what_a_node_dropped_is_lost_by_name_and_not_held() {
    let mut account = LedgerEntry::default();
    account.book(&header(1, 1, 30, 20), 10);
    let ledger = account.ledger();
    assert_eq!(ledger.lost, BTreeMap::from([("outbox_full".to_owned(), 20)]));
    assert!(ledger.is_settled());
}

#[test]
fn what_came_before_the_oldest_message_and_was_refused_is_lost_and_no_longer_unread() {
    let mut account = LedgerEntry::default();
    account.book(&header(1, 2, 12, 0), 7);
    assert_eq!(account.ledger().unread, 5);
    account.book(&header(1, 3, 20, 5), 8);
    let ledger = account.ledger();
    assert_eq!((ledger.recorded, ledger.merged, ledger.unread, ledger.held), (20, 15, 0, 0));
    assert!(ledger.is_settled());
}

#[test]
fn what_an_ended_incarnation_still_owes_is_unaccounted() {
    let mut account = LedgerEntry::default();
    account.book(&header(1, 1, 10, 0), 10);
    account.book(&header(1, 3, 40, 0), 10);
    assert_eq!(account.ledger().held, 20);
    account.book(&header(2, 1, 5, 0), 5);
    let ledger = account.ledger();
    assert_eq!((ledger.held, ledger.unaccounted), (0, 20));
    account.book(&header(1, 2, 30, 0), 20);
    assert!(account.ledger().is_settled(), "delayed is not lost");
}

#[test]
fn samples_before_the_oldest_snapshot_received_are_unread() {
    let mut account = LedgerEntry::default();
    account.book(&header(1, 5, 100, 10), 20);
    let ledger = account.ledger();
    assert_eq!((ledger.unread, ledger.held), (70, 0));
    account.book(&header(1, 4, 80, 10), 30);
    let ledger = account.ledger();
    assert_eq!((ledger.unread, ledger.held, ledger.merged), (40, 0, 50));
}

#[test]
fn a_clock_set_back_does_not_make_the_new_incarnation_the_old_one() {
    let mut account = LedgerEntry::default();
    let final_message = Header { last: true, ..header(9, 1, 10, 0) };
    account.book(&final_message, 10);
    assert!(account.has_left());
    assert_eq!(account.book(&header(3, 1, 5, 0), 5), Decision::Merge);
    assert!(!account.has_left());
}

#[test]
fn incarnations_are_bounded_and_their_sums_remain() {
    let mut account = LedgerEntry::default();
    for incarnation in 1..=INCARNATIONS_MAX as u64 + 5 {
        account.book(&header(incarnation, 1, 10, 0), 10);
    }
    assert_eq!(account.incarnations.iter().count(), INCARNATIONS_MAX);
    assert_eq!(account.ledger().recorded, 10 * (INCARNATIONS_MAX as u64 + 5));
    assert_eq!(account.book(&header(5, 1, 10, 0), 10), Decision::Evicted);
    assert!(account.ledger().is_settled());
}

#[test]
fn what_a_node_of_many_restarts_sends_again_is_never_merged_twice() {
    let mut account = LedgerEntry::default();
    let all = (INCARNATIONS_MAX + INCARNATIONS_PAST_MAX) as u64 + 10;
    for incarnation in 7..7 + all {
        assert!(matches!(account.book(&header(incarnation, 1, 10, 0), 10), Decision::Merge));
    }
    for incarnation in 7..7 + all {
        let decision = account.book(&header(incarnation, 1, 10, 0), 10);
        assert!(!matches!(decision, Decision::Merge), "{incarnation}: {decision:?}");
    }
    assert_eq!((account.ledger().merged, account.past_floor), (10 * all, Some(Incarnation(16))));
    // An incarnation that was not folded goes on sending, whatever became of those below it.
    let mut account = LedgerEntry { past_floor: Some(Incarnation(50)), ..LedgerEntry::default() };
    account.book(&header(60, 1, 10, 0), 10);
    account.past_floor = Some(Incarnation(70));
    assert!(matches!(account.book(&header(60, 2, 20, 0), 10), Decision::Merge));
    assert_eq!(account.book(&header(70, 1, 10, 0), 10), Decision::Evicted);
}

/// The final message for a crashed incarnation: sent by its successor, under the crashed
/// incarnation's name.
fn crash_report(of: u64, seq: u64, successor: u64, recorded: u64, crash: u64) -> Header {
    let lost = BTreeMap::from([(LossReason::new("crash").unwrap(), crash)]);
    Header {
        totals: Totals { recorded, lost },
        last: true,
        successor: Some(Incarnation(successor)),
        ..header(of, seq, 0, 0)
    }
}

#[test]
fn the_ledger_of_a_crashed_incarnation_with_a_crash_report_balances() {
    let mut account = LedgerEntry::default();
    account.book(&header(1, 1, 10, 0), 10);
    account.book(&header(1, 2, 30, 0), 20);
    account.book(&header(2, 1, 5, 0), 5);
    account.book(&crash_report(1, 3, 2, 37, 7), 0);
    let ledger = account.ledger();
    assert_eq!((ledger.recorded, ledger.merged, ledger.lost["crash"]), (42, 35, 7));
    assert!(ledger.is_settled(), "{ledger:?}");
}

#[test]
fn a_crash_report_never_makes_its_incarnation_the_newest_whichever_comes_first() {
    let crashed = [header(1, 1, 10, 0), header(1, 2, 30, 0), crash_report(1, 3, 2, 30, 0)];
    let successors = [header(2, 1, 5, 0), header(2, 2, 9, 0)];
    let final_message = Header { last: true, ..header(2, 3, 9, 0) };
    let book = |account: &mut LedgerEntry, header: &Header| account.book(header, 0);
    for successor_first in [false, true] {
        let mut account = LedgerEntry::default();
        let orders =
            if successor_first { [&successors[..], &crashed] } else { [&crashed[..], &successors] };
        for header in orders.into_iter().flatten() {
            book(&mut account, header);
            let crashed_is_alone = !successor_first && header.incarnation == Incarnation(1);
            assert!(!account.has_left(), "{header:?} {crashed_is_alone}");
        }
        let newest = account.incarnations.newest().map(|(_, entry)| entry.newest);
        assert_eq!(newest, Some(Seq(2)), "successor first: {successor_first}");
        let ended: Vec<bool> = account.incarnations().map(|(_, _, ended)| ended).collect();
        assert_eq!(ended, [true, false], "successor first: {successor_first}");
        // The successor's next message is newer than every message about the crashed incarnation.
        assert_eq!(book(&mut account, &final_message), Decision::Merge);
        let later = account.order(Incarnation(2));
        assert!(account.incarnations().all(|(_, entry, _)| Some(entry.order) <= later));
        assert!(account.has_left());
    }
}

#[test]
fn successors_that_name_each_other_end_nothing_but_themselves() {
    let mut account = LedgerEntry::default();
    for (of, successor) in [(1, 2), (2, 3), (3, 1)] {
        account.book(&crash_report(of, 1, successor, 10, 10), 0);
        account.book(&crash_report(of, 2, successor, 20, 20), 0);
    }
    assert!(!account.has_left() && account.ledger().is_settled());
    assert_eq!(account.book(&header(9, 1, 5, 0), 5), Decision::Merge);
    assert_eq!(account.order(Incarnation(9)), Some(account.incarnations.begun));
}

/// A message about a second of the node's clock, of the incarnation that began in another.
fn at_second(began: u64, seq: u64, second: u64) -> Header {
    const SECOND: u64 = 1_000_000_000;
    Header { start: Wall(second * SECOND), ..header(began * SECOND, seq, seq, 0) }
}

#[test]
fn two_nodes_with_one_name_are_noticed_and_each_message_is_merged_once() {
    let mut account = LedgerEntry::default();
    for second in 1..=20 {
        for began in [1, 2] {
            for again in [false, true] {
                let decision = account.book(&at_second(began, second, 2 + second), 1);
                assert_eq!(decision == Decision::Duplicate, again, "{decision:?}");
            }
        }
    }
    assert_eq!(account.ledger().merged, 40);
    // All but the first, before which the other was not received, and those that have no effect.
    assert_eq!(account.conflicts(), 19 - OVERLAPS_BORNE);
}

#[test]
fn a_crash_and_a_restart_under_the_same_name_are_no_conflict_of_names() {
    let mut account = LedgerEntry::default();
    for seq in 1..=5 {
        account.book(&at_second(1, seq, seq), 1);
    }
    // The successor first sends what it inherited unsent, from the middle of the crashed
    // incarnation.
    account.book(&at_second(20, 1, 3), 1);
    for seq in 2..=5 {
        account.book(&at_second(20, seq, 20 + seq), 1);
    }
    // What the crashed incarnation had sealed comes only now, and its final message after it.
    for seq in 6..=15 {
        account.book(&at_second(1, seq, seq), 1);
    }
    let last = Header {
        last: true,
        successor: Some(at_second(20, 1, 1).incarnation),
        ..at_second(1, 16, 16)
    };
    account.book(&last, 0);
    for seq in 6..=9 {
        account.book(&at_second(20, seq, 20 + seq), 1);
    }
    assert_eq!((account.conflicts(), account.has_left()), (0, false));
    assert_eq!(account.ledger().merged, 24);
}

#[test]
fn what_is_confirmed_is_of_the_latest_incarnations_and_of_their_latest_numbers() {
    let mut account = LedgerEntry::default();
    for incarnation in 1..=CONFIRMED_INCARNATIONS_MAX as u64 + 2 {
        account.book(&header(incarnation, 1, 1, 0), 1);
        account.book(&header(incarnation, 3, 2, 0), 1);
    }
    let confirmed = account.confirmed();
    let names: Vec<u64> = confirmed.iter().map(|confirmed| confirmed.incarnation.0).collect();
    assert_eq!(names, (3..=CONFIRMED_INCARNATIONS_MAX as u64 + 2).rev().collect::<Vec<_>>());
    let spans = vec![(Seq(1), Seq(1)), (Seq(3), Seq(3))];
    assert!(confirmed.iter().all(|confirmed| confirmed.spans == spans), "{confirmed:?}");
}

#[test]
fn an_account_stored_before_there_were_successors_is_still_read() {
    let mut account = LedgerEntry::default();
    account.book(&header(1, 1, 10, 0), 10);
    account.book(&header(1, 3, 40, 0), 10);
    let mut stored = serde_json::to_value(&account).unwrap();
    let whole = stored.as_object_mut().unwrap();
    let new = ["duplicates", "conflicts", "past_floor"];
    assert!(new.iter().all(|new| whole.remove(*new).is_some()));
    let entry = whole["runs"]["by_name"]["1"].as_object_mut().unwrap();
    let new = [
        "successor",
        "duplicates",
        "overlaps",
        "settled",
        "reported",
        "spooled",
        "reported_until",
        "closed",
        "next_began",
        "noted",
    ];
    assert!(new.iter().all(|new| entry.remove(*new).is_some()));
    let read: LedgerEntry = serde_json::from_value(stored).unwrap();
    assert_eq!((read.ledger(), read.gap()), (account.ledger(), account.gap()));
}

proptest! {
    /// Invariants 1, 2 and 3: for messages in any order and any number of times, the ledger entry
    /// balances and ends at the node's own totals.
    #[test]
    fn any_order_with_repetitions_yields_one_ledger(
        samples in prop::collection::vec(0..50_u64, 1..40),
        order in prop::collection::vec(any::<prop::sample::Index>(), 0..120),
    ) {
        let mut running = 0;
        let headers: Vec<(Header, u64)> = samples.iter().zip(1..).map(|(n, seq)| {
            running += n;
            (header(1, seq, running, 0), *n)
        }).collect();
        let mut account = LedgerEntry::default();
        for index in &order {
            let (header, n) = index.get(&headers);
            account.book(header, *n);
            let ledger = account.ledger();
            prop_assert_eq!(ledger.recorded, ledger.merged + ledger.held + ledger.unread);
        }
        headers.iter().for_each(|(header, n)| { account.book(header, *n); });
        let ledger = account.ledger();
        prop_assert_eq!((ledger.merged, ledger.is_settled()), (running, true));
    }
}
