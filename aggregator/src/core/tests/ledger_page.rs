//! The ledger page of a whole core.

use plimsoll_schemas::summary::Ledger;

use super::*;

#[test]
fn a_statement_names_every_hole_repetition_and_successor() {
    let mut core = core();
    let (mut first, mut second) = (Speaker::new("a").of(7), Speaker::new("a").of(9));
    let sent: Vec<_> = (0..6).map(|_| first.send(start(), MS, 10)).collect();
    for seq in [2, 3, 5, 5] {
        deliver(&mut core, start(), &sent[seq]);
    }
    deliver(&mut core, start(), &first.crash_report(start(), 9));
    deliver(&mut core, start(), &second.send(start(), MS, 1));
    let statement = core.statement(start().wall);
    let node = &statement.nodes[0];
    assert_eq!((node.duplicates, node.runs.len()), (1, 2));
    let entry = &node.runs[0];
    assert_eq!((entry.incarnation, entry.newest_seq, entry.successor), (7, 7, Some(9)));
    assert_eq!((entry.missing_seqs, entry.holes.as_slice()), (3, &[(1, 2), (5, 5)][..]));
    assert!(entry.ended && entry.left_in_order && !node.runs[1].ended);
    let Ledger { recorded, merged, held, unaccounted, unread, .. } = entry.ledger;
    assert_eq!((recorded, merged, held, unaccounted, unread), (60, 30, 0, 10, 20));
    assert_eq!((node.ledger.recorded, statement.fleet.merged), (61, 31));
    assert!(statement.ready && !statement.behind);
}
