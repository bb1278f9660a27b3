//! Former incarnations that are delayed, and clocks that were set back.

use plimsoll_schemas::ids::{Labels, NodeName, Seq};
use plimsoll_schemas::time::Wall;
use plimsoll_schemas::wire::Totals;
use proptest::prelude::*;

use super::*;
use crate::core::fleet::ledger::incarnations::IN_SILENCE_BORNE;

const SECOND: u64 = 1_000_000_000;

/// Message `seq` of the incarnation that began at second `began` of the node's clock: one a second,
/// one sample each, the last of `last` with a final message.
fn header(began: u64, seq: u64, last: Option<u64>) -> Header {
    Header {
        node: NodeName::new("n").unwrap(),
        incarnation: Incarnation(began * SECOND),
        seq: Seq(seq),
        start: Wall((began + seq) * SECOND),
        length_ns: SECOND,
        totals: Totals { recorded: seq, ..Totals::default() },
        last: last == Some(seq),
        successor: None,
        labels: Labels::default(),
    }
}

fn book<'a>(account: &mut LedgerEntry, headers: impl IntoIterator<Item = &'a Header>) {
    for header in headers {
        account.book(header, 1);
    }
}

/// An incarnation that ended with a final message.
fn former() -> Vec<Header> {
    (1..=5).map(|seq| header(7, seq, Some(5))).collect()
}

/// The incarnation after it.
fn living() -> Vec<Header> {
    (1..=9).map(|seq| header(100, seq, None)).collect()
}

fn newest(account: &LedgerEntry) -> Option<u64> {
    account.incarnations.newest().map(|(name, _)| name.0 / SECOND)
}

proptest! {
    /// Wherever between the living incarnation's messages those of the former one come, reordered
    /// or not.
    #[test]
    fn a_delayed_former_incarnation_is_not_the_newest(
        former in Just(former()).prop_shuffle(), places in prop::collection::vec(0..9_usize, 5),
    ) {
        let mut account = LedgerEntry::default();
        let mut delayed = former.iter().zip(&places).collect::<Vec<_>>();
        delayed.sort_by_key(|(_, place)| **place);
        for (place, own) in living().iter().enumerate() {
            let due = delayed.iter().filter(|(_, at)| **at == place).map(|(header, _)| *header);
            book(&mut account, due);
            account.book(own, 1);
        }
        prop_assert_eq!((newest(&account), account.has_left()), (Some(100), false));
        prop_assert_eq!(account.conflicts(), 0);
        let ended: Vec<bool> = account.incarnations().map(|(_, _, ended)| ended).collect();
        prop_assert_eq!(ended, [true, false]);
    }
}

#[test]
fn a_silent_live_incarnation_is_still_the_newest_after_a_delayed_final_message() {
    let mut account = LedgerEntry::default();
    book(&mut account, &living()[..1]);
    for header in &former() {
        account.book(header, 1);
        assert_eq!((newest(&account), account.has_left()), (Some(100), false), "{header:?}");
    }
}

#[test]
fn after_a_clock_was_set_back_an_incarnation_that_goes_on_speaking_has_not_left() {
    let before: Vec<Header> = (1..=5).map(|seq| header(100, seq, Some(5))).collect();
    let after: Vec<Header> = (1..=9).map(|seq| header(7, seq, None)).collect();
    // All in order; and with the final message overtaken by the next incarnation's first messages.
    for overtaken in [0, 4] {
        let mut account = LedgerEntry::default();
        book(&mut account, before[..4].iter().chain(&after[..overtaken]));
        book(&mut account, before[4..].iter().chain(&after[overtaken..]));
        assert_eq!((newest(&account), account.has_left()), (Some(7), false), "{overtaken}");
        book(&mut account, &[header(7, 10, Some(10))]);
        assert!(account.has_left());
    }
}

#[test]
fn after_a_crash_and_a_clock_set_back_the_sending_incarnation_becomes_the_newest() {
    let mut account = LedgerEntry::default();
    book(&mut account, &living());
    let all: Vec<Header> = (1..=100).map(|seq| header(7, seq, None)).collect();
    let borne = IN_SILENCE_BORNE as usize;
    book(&mut account, &all[..borne]);
    assert_eq!((newest(&account), account.has_left()), (Some(100), false));
    book(&mut account, &all[borne..]);
    assert_eq!(newest(&account), Some(7));
    book(&mut account, &[header(7, 101, Some(101))]);
    assert!(account.has_left());
}

#[test]
fn a_long_former_incarnation_from_a_spool_yields_at_once_to_the_live_one() {
    let mut account = LedgerEntry::default();
    let living: Vec<Header> = (1..=9).map(|seq| header(1_000, seq, None)).collect();
    book(&mut account, &living[..3]);
    let all: Vec<Header> = (1..=90).map(|seq| header(7, seq, None)).collect();
    for (delayed, own) in all.chunks(20).zip(&living[3..]) {
        book(&mut account, delayed);
        account.book(own, 1);
        assert_eq!(newest(&account), Some(1_000));
    }
    let burst: Vec<Header> = (91..=300).map(|seq| header(7, seq, None)).collect();
    book(&mut account, &burst);
    account.book(&header(1_000, 10, None), 1);
    assert_eq!((newest(&account), account.conflicts()), (Some(1_000), 0));
}
