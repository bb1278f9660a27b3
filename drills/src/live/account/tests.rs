//! Ledgers of made-up summaries: each kind of fault is reported as that kind only.

use plimsoll_schemas::summary::{Freshness, Ledger, NodeRow, OperationRow, Presence, Quantiles};

use super::*;

fn name() -> NodeName {
    NodeName::new("a").unwrap()
}

fn ledger(recorded: u64, merged: u64) -> Ledger {
    Ledger { recorded, merged, ..Ledger::default() }
}

/// Ten samples of `x` were sent, and two taken by the node itself.
fn of(x_merged: u64, ledger: Ledger) -> Account {
    let raw = Raw::from([(name(), vec![("x".to_owned(), 1); 10])]);
    let row = |operation: &str, count| OperationRow {
        scope: Scope::Node(name()),
        operation: operation.to_owned(),
        unit: None,
        own: operation == PUBLISH,
        freshness: Freshness::default(),
        total: Quantiles { count, ..Quantiles::default() },
        windows: BTreeMap::new(),
    };
    let node = NodeRow {
        node: "a".to_owned(),
        gap_samples: 0,
        rerouted: 0,
        presence: Presence::Left,
        last_seen_seconds: 0.0,
        ledger,
        outbox_depth: 0,
        outbox_depth_max: 0,
        dropped: 0,
        version: String::new(),
        suspect_units: 0,
    };
    let operations = vec![row("x", x_merged), row(PUBLISH, 2)];
    let summary = Summary { nodes: vec![node], operations, ..Summary::default() };
    accounts("d", &raw, &summary).remove(0)
}

fn seen(account: &Account) -> (u64, u64, bool) {
    let (duplicated, unexplained) = (account.duplicated, account.unexplained);
    (duplicated, unexplained, judge(std::slice::from_ref(account), Terms::CRASH).met)
}

#[test]
fn all_merged_or_lost_for_an_allowed_reason_is_sound_and_nothing_else_is() {
    let lost = |reason: &str, count| BTreeMap::from([(reason.to_owned(), count)]);
    for (what, merged, ledger, expected) in [
        ("all merged", 10, ledger(12, 12), (0, 0, true)),
        ("lost in a crash", 7, Ledger { lost: lost("crash", 3), ..ledger(12, 9) }, (0, 0, true)),
        ("lost of its own", 7, Ledger { lost: lost("own", 3), ..ledger(12, 9) }, (0, 3, false)),
        ("dropped", 7, Ledger { lost: lost("drop", 3), ..ledger(12, 9) }, (0, 0, false)),
        ("held", 7, Ledger { held: 3, ..ledger(12, 9) }, (0, 0, false)),
        ("gone", 7, Ledger { unaccounted: 3, ..ledger(12, 9) }, (0, 0, false)),
        ("never seen", 7, Ledger { unread: 3, ..ledger(12, 9) }, (0, 0, false)),
        ("merged twice", 11, ledger(13, 13), (1, 0, false)),
        ("unexplained", 7, ledger(9, 9), (0, 3, false)),
        ("unbalanced", 7, ledger(12, 9), (0, 6, false)),
        ("merged and not shown", 7, ledger(12, 12), (0, 6, false)),
    ] {
        assert_eq!(seen(&of(merged, ledger)), expected, "{what}");
    }
}

#[test]
fn sent_and_own_are_merged_lost_or_unexplained() {
    for ledger in [ledger(12, 12), ledger(9, 9)] {
        let account = of(ledger.merged - 2, ledger);
        assert_eq!(account.sent + account.own, account.merged + account.unexplained, "{account:?}");
    }
}

#[test]
fn so_many_may_be_unexplained_and_not_one_more() {
    for (unexplained_max, met) in [(2, false), (3, true)] {
        let terms = Terms { unexplained_max, ..Terms::CRASH };
        assert_eq!(judge(&[of(7, ledger(9, 9))], terms).met, met);
    }
}

#[test]
fn samples_of_a_node_that_is_not_in_the_summary_are_unexplained() {
    let raw = Raw::from([(name(), vec![("x".to_owned(), 1); 10])]);
    let account = accounts("d", &raw, &Summary::default()).remove(0);
    assert_eq!(seen(&account), (0, 10, false));
}

#[test]
fn a_job_that_sent_nothing_proves_nothing() {
    assert!(!judge(&[], Terms::CRASH).met);
    assert!(!judge(&[Account::default()], Terms::CRASH).met);
}

#[test]
fn the_table_has_a_row_for_each_node_with_its_reasons() {
    let lost = BTreeMap::from([("crash".to_owned(), 3)]);
    let table = table(&[of(7, Ledger { lost, ..ledger(12, 9) })]);
    let row = table.lines().find(|line| line.starts_with("d ")).unwrap();
    let words: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(words, ["d", "a", "10", "2", "9", "3", "0", "0", "0", "0", "crash", "3"]);
    assert_eq!(super::table(&[]), "");
}
