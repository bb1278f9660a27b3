//! Incarnations that end without a final message, with and without a spool.

use plimsoll_schemas::wire::{Bus, NotedIncarnation};
use proptest::prelude::*;

use super::*;

const SECOND: u64 = 1_000_000_000;

/// A bus message of the incarnation that began in second `began`: up to it messages carry
/// `carried`, and the incarnation has recorded `recorded`.
fn report(began: u64, seq: u64, carried: u64, recorded: u64, spooled: bool) -> (Header, Bus) {
    let header = Header { length_ns: SECOND, ..at_second(began, seq, began + seq) };
    let header = Header { totals: Totals { recorded: carried, ..Totals::default() }, ..header };
    (header, Bus { recorded, spooled: Some(spooled), ..Bus::default() })
}

/// A bus message of an incarnation that found no spool of `former`, and a note of this many
/// samples.
fn found(began: u64, seq: u64, former: Incarnation, recorded: u64) -> (Header, Bus) {
    let (header, bus) = report(began, seq, 0, 0, true);
    (header, Bus { former: [NotedIncarnation { incarnation: former, recorded }].into(), ..bus })
}

fn take(account: &mut LedgerEntry, (header, bus): &(Header, Bus), samples: u64) {
    if account.book(header, samples) == Decision::Merge {
        account.on_report(header, bus);
    }
}

/// Whether the sums add up.
fn balances(ledger: &Ledger) -> bool {
    let lost: u64 = ledger.lost.values().sum();
    let known = ledger.merged + ledger.held + ledger.unaccounted + ledger.unread + lost;
    ledger.recorded == known
}

#[test]
fn what_an_incarnation_without_a_spool_had_reported_and_held_is_lost_by_its_crash() {
    let mut account = LedgerEntry::default();
    take(&mut account, &report(1, 1, 541, 1_516, false), 541);
    let ledger = account.ledger();
    assert_eq!((ledger.recorded, ledger.merged, ledger.held), (1_516, 541, 975));
    take(&mut account, &report(10, 1, 5, 5, false), 5);
    // Messages of it may be unread yet.
    let ledger = account.ledger();
    assert_eq!((ledger.unaccounted, ledger.crashed_runs, account.lost_of_jobs()), (975, 0, 0));
    let first = at_second(1, 1, 1).incarnation;
    assert_eq!(account.awaiting_close().collect::<Vec<_>>(), [first]);
    account.close(first);
    assert_eq!(account.awaiting_close().count(), 0);
    let ledger = account.ledger();
    assert_eq!((ledger.recorded, ledger.merged, ledger.lost["crash"]), (1_521, 546, 975));
    assert!(ledger.is_settled() && balances(&ledger), "{ledger:?}");
    // Its last report is about the second that ended 7 s before the next incarnation began.
    assert_eq!((ledger.crashed_runs, ledger.unknown_ns), (1, 7 * SECOND));
    assert_eq!((account.lost_of_jobs(), account.unaccounted(), account.crashes()), (975, 0, 1));
}

/// Of the 1 000 samples that are reported, 30 are the node's own.
#[test]
fn what_a_crashed_incarnation_took_of_itself_is_lost_apart_and_no_sample_of_a_job_with_it() {
    for (merged_own, unread, own) in [(27, 0, 3), (30, 0, 0), (27, 2, 1), (20, 500, 0), (0, 0, 30)]
    {
        let mut account = LedgerEntry::default();
        let (header, bus) = report(1, 1, 600, 1_000, false);
        account.book(&header, 600 - unread);
        account.add_own(header.incarnation, merged_own);
        account.on_report(&header, &Bus { recorded_own: 30, ..bus });
        take(&mut account, &report(10, 1, 0, 0, false), 0);
        account.close(header.incarnation);
        let ledger = account.ledger();
        assert!(balances(&ledger), "{ledger:?}");
        let lost = |reason: &str| ledger.lost.get(reason).copied().unwrap_or(0);
        assert_eq!((lost("crash"), lost("own")), (400 - own, own), "{merged_own} {unread}");
        assert_eq!(account.lost_of_jobs(), 400 - own);
    }
}

#[test]
fn what_arrives_after_all_of_a_crashed_incarnation_is_merged_and_lost_no_more() {
    let mut account = LedgerEntry::default();
    take(&mut account, &report(1, 1, 10, 100, false), 10);
    take(&mut account, &report(10, 1, 0, 0, false), 0);
    account.close(at_second(1, 1, 1).incarnation);
    take(&mut account, &report(1, 3, 60, 100, false), 20);
    let ledger = account.ledger();
    assert_eq!((ledger.merged, ledger.lost["crash"], ledger.recorded), (30, 70, 100));
    // What is lost by name is no gap, and its delayed final message adds nothing else.
    assert_eq!(account.gap(), None);
    let (header, bus) = report(1, 4, 60, 60, false);
    take(&mut account, &(Header { last: true, ..header }, bus), 0);
    take(&mut account, &report(1, 2, 40, 100, false), 30);
    let ledger = account.ledger();
    assert_eq!((ledger.recorded, ledger.merged, ledger.crashed_runs), (60, 60, 0));
    assert!(ledger.is_settled() && ledger.lost.is_empty(), "{ledger:?}");
}

#[test]
fn what_a_crashed_incarnation_with_a_spool_held_is_its_successors_to_report() {
    let mut account = LedgerEntry::default();
    take(&mut account, &report(1, 1, 10, 100, true), 10);
    assert_eq!(account.ledger().recorded, 10, "its successor records the rest");
    take(&mut account, &report(10, 1, 90, 90, true), 90);
    account.close(at_second(1, 1, 1).incarnation);
    // The spool may be gone with the disk, in which case no incarnation reports the rest.
    let ledger = account.ledger();
    assert_eq!((ledger.recorded, ledger.crashed_runs, ledger.unknown_ns), (100, 1, 7 * SECOND));
    assert!(ledger.is_settled() && ledger.lost.is_empty(), "{ledger:?}");
    let (report, _) = report(1, 2, 10, 0, true);
    let successor = Some(at_second(10, 1, 1).incarnation);
    account.book(&Header { last: true, successor, ..report }, 0);
    let ledger = account.ledger();
    assert_eq!((ledger.recorded, ledger.crashed_runs, ledger.unknown_ns), (100, 1, 0));
}

#[test]
fn what_was_noted_of_an_incarnation_whose_spool_is_gone_is_merged_or_lost_by_name_in_any_order() {
    let crashed = at_second(1, 1, 1).incarnation;
    let messages = [
        (report(1, 1, 10, 40, true), 10),
        (report(1, 2, 30, 60, true), 20),
        (found(10, 1, crashed, 100), 0),
        (found(10, 2, crashed, 100), 0),
    ];
    for order in [[0, 1, 2, 3], [2, 0, 3, 1], [3, 2, 1, 0], [2, 3, 1, 0]] {
        let mut account = LedgerEntry::default();
        for at in order {
            take(&mut account, &messages[at].0, messages[at].1);
            assert!(balances(&account.ledger()), "{order:?}");
        }
        assert_eq!(account.awaiting_close().collect::<Vec<_>>(), [crashed], "{order:?}");
        account.close(crashed);
        let ledger = account.ledger();
        assert_eq!((ledger.merged, ledger.lost["crash"], ledger.recorded), (30, 70, 100));
        assert_eq!((ledger.crashed_runs, ledger.unknown_ns, account.unaccounted()), (1, 0, 0));
    }
    // The reporting incarnation has left before its report is read.
    let mut account = LedgerEntry::default();
    let (header, bus) = report(10, 3, 0, 0, true);
    take(&mut account, &(Header { last: true, ..header }, bus), 0);
    for at in [2, 0, 1] {
        take(&mut account, &messages[at].0, messages[at].1);
    }
    account.close(crashed);
    let ledger = account.ledger();
    assert_eq!((ledger.held, ledger.lost["crash"], account.has_left()), (0, 70, true));
    // An incarnation of which nothing arrived, not even its name.
    let mut account = LedgerEntry::default();
    take(&mut account, &found(10, 1, crashed, 100), 0);
    account.close(crashed);
    assert_eq!((account.lost_of_jobs(), account.crashes()), (100, 1));
}

#[test]
fn a_note_adds_nothing_to_an_incarnation_that_left_in_order_or_cannot_be_a_former_one() {
    let mut account = LedgerEntry::default();
    let (header, bus) = report(1, 1, 40, 40, true);
    let left = header.incarnation;
    take(&mut account, &(Header { last: true, ..header }, bus), 40);
    take(&mut account, &found(10, 1, left, 100), 0);
    account.close(left);
    let own = at_second(10, 1, 1).incarnation;
    take(&mut account, &found(10, 2, own, 100), 0);
    take(&mut account, &found(10, 3, Incarnation(own.0 + 1), 100), 0);
    let ledger = account.ledger();
    assert_eq!((ledger.recorded, ledger.merged, account.incarnations().count()), (40, 40, 2));
    assert!(ledger.is_settled() && ledger.crashed_runs == 0, "{ledger:?}");
}

#[test]
fn the_latest_report_decides_whether_there_is_a_spool() {
    for (first, then, held) in [(true, false, 90), (false, true, 0)] {
        let mut account = LedgerEntry::default();
        let reports = [report(1, 1, 10, 50, first), report(1, 2, 10, 100, then)];
        for order in [[0, 1], [1, 0]] {
            order.iter().for_each(|at| take(&mut account, &reports[*at], [10, 0][*at]));
            assert_eq!(account.ledger().held, held, "{first} {then} {order:?}");
        }
    }
}

#[test]
fn a_node_that_runs_beside_another_of_its_name_has_not_crashed() {
    let mut account = LedgerEntry::default();
    for seq in 1..=9 {
        for began in [1, 5] {
            take(&mut account, &report(began, 10 + seq, seq, seq + 3, false), 1);
        }
    }
    let older = at_second(1, 1, 1).incarnation;
    assert_eq!(account.awaiting_close().count(), 0);
    account.close(older);
    assert_eq!((account.crashes(), account.lost_of_jobs()), (0, 0));
}

#[test]
fn an_expired_incarnation_without_a_spool_has_crashed_until_it_goes_on() {
    let mut account = LedgerEntry::default();
    take(&mut account, &report(1, 1, 10, 100, false), 10);
    account.on_expired();
    let ledger = account.ledger();
    assert_eq!((ledger.lost["crash"], ledger.held, ledger.crashed_runs), (90, 0, 1));
    assert_eq!(ledger.unknown_ns, 0, "no end of it is known");
    let back = account.clone();
    take(&mut account, &report(1, 2, 20, 120, false), 10);
    let ledger = account.ledger();
    assert_eq!((ledger.held, ledger.crashed_runs, account.lost_of_jobs()), (100, 0, 0));
    // Another incarnation instead: now it is known for how long nothing was.
    let mut account = back;
    take(&mut account, &report(86_400, 1, 0, 0, false), 0);
    let waiting: Vec<_> = account.awaiting_close().collect();
    waiting.into_iter().for_each(|incarnation| account.close(incarnation));
    let ledger = account.ledger();
    assert_eq!((ledger.lost["crash"], ledger.unknown_ns), (90, 86_397 * SECOND));
    // A node with a spool may come back with all of it.
    let mut account = LedgerEntry::default();
    take(&mut account, &report(1, 1, 10, 100, true), 10);
    account.on_expired();
    assert_eq!(account.crashes(), 0);
}

#[test]
fn crashes_are_counted_beyond_the_incarnations_that_are_kept() {
    let mut account = LedgerEntry::default();
    let all = INCARNATIONS_MAX as u64 + 5;
    for incarnation in 1..=all {
        take(&mut account, &report(10 * incarnation, 1, 2, 7, false), 2);
    }
    let waiting: Vec<_> = account.awaiting_close().collect();
    waiting.into_iter().for_each(|incarnation| account.close(incarnation));
    let ledger = account.ledger();
    assert_eq!((ledger.crashed_runs, ledger.lost["crash"]), (all - 1, 5 * (all - 1)));
    assert_eq!((ledger.unknown_ns, ledger.held), (8 * SECOND * (all - 1), 5));
    assert_eq!((account.crashes(), balances(&ledger)), (all - 1, true));
}

#[test]
fn reports_at_their_greatest_balance() {
    let mut account = LedgerEntry::default();
    take(&mut account, &report(1, 1, 10, u64::MAX, false), 10);
    take(&mut account, &report(u64::MAX / SECOND - 9, 1, 0, 0, false), 0);
    account.close(at_second(1, 1, 1).incarnation);
    let ledger = account.ledger();
    assert_eq!((ledger.recorded, ledger.lost["crash"]), (u64::MAX, u64::MAX - 10));
}

/// What arrives of the incarnations of a node.
#[derive(Clone, Debug)]
enum Arrival {
    /// The next message of the `nth` incarnation, which may have found a note of another.
    Message { nth: u64, samples: u64, spooled: bool, noted: Option<(u64, u64)> },
    /// What a successor, of which nothing else need arrive, reports of an incarnation that crashed.
    CrashReport { nth: u64, successor: u64, lost: u64 },
    /// All that the streams held was read.
    Closed,
}

fn arrivals() -> impl Strategy<Value = Arrival> {
    const NTH: std::ops::Range<u64> = 1..7;
    let noted = prop::option::of((NTH, 0..50_u64));
    prop_oneof![
        5 => (NTH, 0..50_u64, any::<bool>(), noted).prop_map(|(nth, samples, spooled, noted)| {
            Arrival::Message { nth, samples, spooled, noted }
        }),
        2 => (NTH, NTH, 0..50_u64)
            .prop_map(|(nth, successor, lost)| Arrival::CrashReport { nth, successor, lost }),
        2 => Just(Arrival::Closed),
    ]
}

proptest! {
    /// Whatever arrives of an incarnation that died without a spool, in whatever order and how
    /// often, before and after it is closed: the sums add up at each step, nothing counts twice,
    /// and at the end all that it had reported is merged or lost.
    #[test]
    fn a_crash_without_a_spool_balances_in_any_order(
        samples in prop::collection::vec((0..50_u64, 0..50_u64), 1..20),
        order in prop::collection::vec(any::<prop::sample::Index>(), 0..60),
        closed_at in 0..60_usize,
    ) {
        let (mut carried, mut ahead) = (0, 0);
        let messages: Vec<_> = samples.iter().zip(1..).map(|((n, more), seq)| {
            carried += n;
            ahead = (carried + more).max(ahead);
            (report(1, seq, carried, ahead, false), *n)
        }).collect();
        let mut account = LedgerEntry::default();
        take(&mut account, &messages[0].0, messages[0].1);
        take(&mut account, &report(1_000, 1, 3, 3, false), 3);
        let crashed = at_second(1, 1, 1).incarnation;
        let mut merged = BTreeMap::from([(messages[0].0.0.seq, messages[0].1)]);
        let mut reported = 0;
        for (step, index) in order.iter().enumerate() {
            if step == closed_at {
                account.close(crashed);
            }
            let (message, n) = index.get(&messages);
            take(&mut account, message, *n);
            merged.insert(message.0.seq, *n);
            let ledger = account.ledger();
            prop_assert!(balances(&ledger), "{ledger:?}");
            prop_assert_eq!(ledger.merged, 3 + merged.values().sum::<u64>());
            prop_assert!(ledger.recorded <= 3 + ahead);
            prop_assert!(ledger.recorded >= reported, "what is recorded never falls");
            reported = ledger.recorded;
        }
        messages.iter().for_each(|(message, n)| take(&mut account, message, *n));
        account.close(crashed);
        let ledger = account.ledger();
        let lost = ledger.lost.get("crash").copied().unwrap_or(0);
        prop_assert_eq!((ledger.merged, lost), (3 + carried, ahead - carried));
        prop_assert!(ledger.is_settled());
    }

    /// Whichever incarnation is the newest, what it holds is not lost as well.
    #[test]
    fn incarnations_that_follow_each_other_balance(
        arrivals in prop::collection::vec(arrivals(), 1..40),
    ) {
        let name = |nth: u64| at_second(10 * nth, 1, 0).incarnation;
        let mut account = LedgerEntry::default();
        let mut sent: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        for arrival in arrivals {
            match arrival {
                Arrival::Message { nth, samples, spooled, noted } => {
                    let (seq, carried) = sent.entry(nth).or_default();
                    (*seq, *carried) = (*seq + 1, *carried + samples);
                    let (header, bus) = report(10 * nth, *seq, *carried, *carried, spooled);
                    let note =
                        |(nth, recorded)| NotedIncarnation { incarnation: name(nth), recorded };
                    let bus = Bus { former: noted.map(note).into_iter().collect(), ..bus };
                    take(&mut account, &(header, bus), samples);
                }
                Arrival::CrashReport { nth, successor, lost } => {
                    let (seq, carried) = sent.entry(nth).or_default();
                    *seq += 1;
                    let (header, bus) = report(10 * nth, *seq, *carried, *carried + lost, true);
                    let reason = LossReason::new("crash").unwrap();
                    let lost_by_reason = BTreeMap::from([(reason, lost)]);
                    let totals = Totals { recorded: *carried + lost, lost: lost_by_reason };
                    let successor = Some(name(successor));
                    let header = Header { totals, last: true, successor, ..header };
                    take(&mut account, &(header, bus), 0);
                }
                Arrival::Closed => {
                    let waiting: Vec<_> = account.awaiting_close().collect();
                    waiting.into_iter().for_each(|incarnation| account.close(incarnation));
                }
            }
            let ledger = account.ledger();
            prop_assert!(balances(&ledger), "{ledger:?} {account:?}");
        }
    }
}
