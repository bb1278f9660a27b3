//! The page `/api/v1/ledger`: every node, every incarnation, and which numbers are missing.

use plimsoll_schemas::summary::{Ledger, LedgerPage, NodeLedger};
use plimsoll_schemas::time::seconds;

use super::read_view::ReadView;

/// Every ledger entry. Takes a while for many nodes, and is made only on request.
pub(super) fn ledger_page(view: &ReadView) -> LedgerPage {
    let mut fleet = Ledger::default();
    let nodes = view.nodes.iter().map(|(name, node)| {
        let account = &node.account;
        let ledger = account.ledger();
        fleet.add(&ledger);
        NodeLedger {
            node: name.to_string(),
            ledger,
            gap_samples: view.gap_samples(name),
            duplicates: account.duplicates(),
            duplicate_names: account.conflicts(),
            runs: account.runs().map(|(name, run, ended)| run.row(name, ended)).collect(),
            past: account.past().clone(),
        }
    });
    let nodes = nodes.collect();
    LedgerPage {
        mesh: view.mesh.to_string(),
        at_seconds: seconds(view.at.0),
        ready: view.ready,
        behind: view.behind,
        fleet,
        nodes,
    }
}
