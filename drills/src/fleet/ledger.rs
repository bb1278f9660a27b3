//! Compares the fleet's own ledger with the aggregator's, node by node.

use std::collections::BTreeMap;

use plimsoll_schemas::summary::{LedgerPage, NodeLedger};

use super::incarnation::lost;
use super::node::FleetNode;
use crate::live::expectation::Look;

/// Differing nodes that the text describes.
const DESCRIBED_MAX: usize = 5;

/// Whether the aggregator's ledger entry of each node equals the node's own ledger, with nothing
/// pending. `prefix` begins the names of all nodes of this fleet.
pub fn compare(nodes: &[FleetNode], leave: bool, prefix: &str, page: &LedgerPage) -> Look {
    let mut theirs_of: BTreeMap<&str, &NodeLedger> = page
        .nodes
        .iter()
        .filter(|row| row.node.starts_with(prefix))
        .map(|row| (row.node.as_str(), row))
        .collect();

    let mut faults = Vec::new();
    for node in nodes {
        match theirs_of.remove(node.name().as_str()) {
            Some(row) => faults.extend(differs(node, leave, row)),
            None => faults.push(format!("{} is not in the ledger", node.name())),
        }
    }

    faults.extend(theirs_of.keys().map(|name| format!("{name} is unknown to the fleet")));
    if nodes.is_empty() {
        faults.push("no node at all".to_owned());
    }
    if !page.ready || page.behind {
        faults.push("the aggregator has not read everything".to_owned());
    }

    if faults.is_empty() {
        let sum = |of: fn(&FleetNode) -> u64| nodes.iter().map(of).sum::<u64>();
        let (recorded, lost) = (sum(|n| n.ledger().recorded), sum(|n| n.ledger().lost));
        let merged = recorded - lost;

        let seen = format!(
            "{recorded} samples of {} nodes: {merged} merged, {lost} lost, each node equal",
            nodes.len()
        );

        return Look::new(true, seen);
    }

    let more = faults.len().saturating_sub(DESCRIBED_MAX);
    faults.truncate(DESCRIBED_MAX);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    Look::new(false, faults.join("; ") + &more)
}

fn differs(node: &FleetNode, leave: bool, row: &NodeLedger) -> Option<String> {
    let (own, theirs) = (node.ledger(), &row.ledger);
    let lost = lost(node.incarnations());

    let figures = [
        ("recorded", own.recorded, theirs.recorded),
        ("merged", own.recorded - own.lost, theirs.merged),
        ("held", 0, theirs.held),
        ("unaccounted", 0, theirs.unaccounted),
        ("unread", 0, theirs.unread),
        ("incarnations", node.incarnations().count() as u64, row.runs.len() as u64),
        (
            "newest seq",
            node.incarnations().map(|entry| entry.seq).sum(),
            row.runs.iter().map(|entry| entry.newest_seq).sum(),
        ),
        ("missing seqs", 0, row.runs.iter().map(|entry| entry.missing_seqs).sum()),
        (
            "final_messages",
            u64::from(leave),
            row.runs.iter().map(|r| u64::from(r.left_in_order)).sum(),
        ),
    ];

    let unequal = figures.iter().filter(|(_, own, theirs)| own != theirs);
    let mut differences: Vec<String> =
        unequal.map(|(what, own, theirs)| format!("{what} {theirs} instead of {own}")).collect();
    if lost != theirs.lost {
        differences.push(format!("lost {:?} instead of {lost:?}", theirs.lost));
    }
    (!differences.is_empty()).then(|| format!("{}: {}", node.name(), differences.join(", ")))
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::ids::MeshName;
    use plimsoll_schemas::summary::{IncarnationLedger, Ledger};
    use plimsoll_schemas::time::Wall;

    use super::*;
    use crate::fleet::body::{NodeProfile, Palette};
    use crate::fleet::load::Load;
    use crate::fleet::load::tests::LOAD;
    use crate::fleet::queue::Queue;

    const REGIME: Load = Load { samples: 10, first_samples: 10, rounds: 3, leave: false, ..LOAD };

    /// A node that has sent its final message, and lost two samples.
    fn seen_node() -> FleetNode {
        let (mesh, palette) = (MeshName::new("m").unwrap(), Palette::new().unwrap());
        let profile = |rng: &mut _| NodeProfile::job(rng, palette.tables());
        let mut node = FleetNode::new(&mesh, &REGIME, 7, profile, 5, Wall(1)).unwrap();
        let mut queue = Queue::default();
        while node.due_ns().is_some() {
            node.seal(&palette, Wall(1), 0, &mut queue);
        }
        node.lose("outbox_full", 2);
        node
    }

    fn page(node: &FleetNode) -> LedgerPage {
        let lost = BTreeMap::from([("outbox_full".to_owned(), 2)]);
        let ledger = Ledger { recorded: 90, merged: 88, lost, ..Ledger::default() };
        let newest_seq = node.incarnations().map(|entry| entry.seq).sum();
        let entry = IncarnationLedger {
            newest_seq,
            ledger: ledger.clone(),
            ..IncarnationLedger::default()
        };
        let name = node.name().to_string();
        let row = NodeLedger { node: name, ledger, runs: vec![entry], ..NodeLedger::default() };
        LedgerPage { ready: true, nodes: vec![row], ..LedgerPage::default() }
    }

    #[test]
    fn equal_ledgers_are_equal_and_nodes_of_another_fleet_are_ignored() {
        let node = seen_node();
        let mut page = page(&node);
        let stranger = NodeLedger { node: "gpu7".to_owned(), ..page.nodes[0].clone() };
        page.nodes.push(stranger);
        let look = compare(std::slice::from_ref(&node), false, "fleet-3", &page);
        let seen = "90 samples of 1 nodes: 88 merged, 2 lost, each node equal";
        assert_eq!((look.met, look.seen.as_str()), (true, seen));
    }

    #[test]
    fn whatever_differs_is_named_with_its_node() {
        type Change = fn(&mut LedgerPage);
        let changes: [(Change, &str); 10] = [
            (|page| page.nodes[0].ledger.merged += 1, "merged 89 instead of 88"),
            (|page| page.nodes[0].ledger.recorded -= 1, "recorded 89 instead of 90"),
            (|page| page.nodes[0].ledger.held = 4, "held 4 instead of 0"),
            (|page| page.nodes[0].ledger.lost.clear(), "lost {} instead of {\"outbox_full\": 2}"),
            (|page| page.nodes[0].runs[0].missing_seqs = 1, "missing seqs 1 instead of 0"),
            (|page| page.nodes[0].runs[0].newest_seq -= 1, "newest seq"),
            (|page| page.nodes[0].runs[0].left_in_order = true, "final_messages 1 instead of 0"),
            (|page| page.nodes.clear(), "fleet-3-00007 is not in the ledger"),
            (|page| page.nodes[0].node.push('0'), "fleet-3-000070 is unknown to the fleet"),
            (|page| page.behind = true, "has not read everything"),
        ];
        let node = seen_node();
        for (change, described) in changes {
            let mut page = page(&node);
            change(&mut page);
            let look = compare(std::slice::from_ref(&node), false, "fleet-3", &page);
            assert!(!look.met && look.seen.contains(described), "{described}: {}", look.seen);
        }
        assert!(!compare(&[], false, "fleet-3", &page(&node)).met, "no nodes prove nothing");
    }
}
