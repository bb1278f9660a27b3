//! Captures that alerts order: of the node at fault and of the node with the median value.

use plimsoll_schemas::alert::{AlertsPage, FunctionEvidence, ProfileEvidence};
use plimsoll_schemas::summary::ProfileRow;

use super::*;

/// Nodes a to f whose samples take `values` in milliseconds, judged for `seconds`.
fn judged(mut core: Core, values: [u64; 6], seconds: u32) -> Core {
    let mut speakers = ["a", "b", "c", "d", "e", "f"].map(Speaker::new);
    for second in 0..seconds {
        let now = start().after(second * SECOND);
        for (speaker, ms) in speakers.iter_mut().zip(values) {
            deliver(&mut core, now, &speaker.send(now, ms * MS, 200));
        }
        core.on_deadline(now);
    }
    core
}

fn capturing() -> Core {
    let mut core = core();
    core.captures_mut().on_breach = true;
    core
}

/// Nodes of all captures, those with a rule first.
fn captured(core: &Core) -> Vec<ProfileRow> {
    let mut rows = core.captures().rows();
    rows.sort_by(|a, b| a.node.cmp(&b.node));
    rows
}

fn page(core: &Core, now: Now) -> AlertsPage {
    core.alerts_page(
        now.wall,
        &AlertsQuery { state: Some(AlertState::Firing), ..AlertsQuery::default() },
    )
}

#[test]
fn an_alert_captures_its_node_and_the_one_with_the_median_value() {
    let core = judged(capturing(), [3, 90, 5, 4, 9, 7], 12);
    let rows = captured(&core);
    let nodes: Vec<_> = rows.iter().map(|row| row.node.as_str()).collect();
    // Of 3, 4, 5, 7 and 9 ms.
    assert_eq!(nodes, ["b", "c"]);
    assert_eq!(rows[0].start_seconds, rows[1].start_seconds);
    assert_eq!(rows[0].peer.as_ref(), Some(&rows[1].id));
    for row in &rows {
        assert_eq!(row.rule.as_ref().unwrap().as_str(), "epoch_hook");
        assert_eq!(row.operation.as_ref().unwrap().as_str(), "epoch_hook");
    }
}

#[test]
fn nothing_is_captured_unless_it_is_set_or_without_a_peer() {
    let values = [3, 90, 5, 4, 9, 7];
    assert_eq!(captured(&judged(core(), values, 12)), []);
    let mut alone = capturing();
    let mut speaker = Speaker::new("a");
    for second in 0..12 {
        let now = start().after(second * SECOND);
        deliver(&mut alone, now, &speaker.send(now, 90 * MS, 200));
        alone.on_deadline(now);
    }
    assert!(!page(&alone, start().after(12 * SECOND)).alerts.is_empty());
    assert_eq!(captured(&alone), []);
}

#[test]
fn what_a_node_does_more_than_its_peer_is_sent_once_and_goes_with_the_alert() {
    let mut core = judged(capturing(), [3, 90, 5, 4, 9, 7], 12);
    let now = start().after(12 * SECOND);
    let alert = page(&core, now).alerts.into_iter().find(|of| of.key.scope.node() == "b").unwrap();
    let function = FunctionEvidence { function: "gc (a.py:1)".into(), culprit: 0.5, peer: 0.1 };
    let evidence = ProfileEvidence {
        id: "1".repeat(32),
        peer_id: "2".repeat(32),
        labels: Labels::default(),
        peer: NodeName::new("c").unwrap(),
        peer_labels: Labels::default(),
        functions: vec![function],
        link: None,
    };
    let sent = |core: &mut Core| {
        let changes = core.alerting.changes().iter();
        changes.filter(|of| of.key == alert.key).map(|of| of.summary.clone()).collect::<Vec<_>>()
    };
    let before = sent(&mut core).len();
    core.on_compared(now.wall, &alert.key, evidence.clone());
    let after = sent(&mut core);
    assert_eq!(after.len(), before + 1);
    assert!(after[before].ends_with("; in gc (a.py:1) +400 ms/s against node c"), "{after:?}");
    let shown = page(&core, now).alerts.into_iter().find(|of| of.key == alert.key).unwrap();
    assert_eq!(shown.context.unwrap().profile, Some(evidence.clone()));

    // Of an alert that has ended it is no evidence.
    let gone = AlertKey { operation: Operation::new("other").unwrap(), ..alert.key.clone() };
    core.on_compared(now.wall, &gone, evidence);
    assert_eq!(sent(&mut core).len(), before + 1);
}
