//! The page `/api/v1/ledger`: every node, every incarnation, which numbers are missing, and the sum
//! of evicted nodes.

use plimsoll_schemas::ids::NodeName;
use plimsoll_schemas::summary::{LedgerPage, NodeLedger};
use plimsoll_schemas::time::seconds;

use super::read_view::ReadView;
use crate::core::fleet::Node;

impl ReadView {
    /// Every ledger entry. Takes a while for many nodes, and is made only on request.
    pub fn ledger_page(&self) -> LedgerPage {
        let evicted = self.own.merged.gone.clone();
        // Evicted nodes are in the fleet's sums, which must never fall.
        let mut fleet = evicted.clone();

        let nodes = self.nodes.iter().map(|(name, node)| {
            let entry = entry(self, name, node);
            fleet.add(&entry.ledger);
            entry
        });

        let nodes = nodes.collect();
        LedgerPage {
            mesh: self.mesh.to_string(),
            at_seconds: seconds(self.at.0),
            ready: self.ready,
            behind: self.behind,
            fleet,
            nodes,
            evicted,
        }
    }
}

pub(super) fn entry(view: &ReadView, name: &NodeName, node: &Node) -> NodeLedger {
    let account = &node.account;
    NodeLedger {
        node: name.to_string(),
        ledger: account.ledger(),
        gap_samples: view.gap_samples(name),
        duplicates: account.duplicates(),
        duplicate_names: account.conflicts(),
        runs: account.incarnations().map(|(name, entry, ended)| entry.row(name, ended)).collect(),
        past: account.past().clone(),
    }
}
