//! The report of a local mesh: quantiles, budgets, and the ledger compared with the raw samples.

use std::collections::BTreeMap;

use plimsoll_schemas::alert::{Notification, Scope};
use plimsoll_schemas::figure::{counted, span};
use plimsoll_schemas::summary::{BudgetRow, Ledger, Quantiles, Summary};
use serde::Serialize;

use crate::table::crashes;

/// The report of one run.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// How long the workloads ran.
    pub seconds: f64,
    /// Quantiles of every operation over all nodes.
    pub fleet: BTreeMap<String, Quantiles>,
    /// The report of every node.
    pub nodes: BTreeMap<String, NodeReport>,
    /// The last evaluation of every budget.
    pub budgets: Vec<BudgetRow>,
    /// Alert changes reported at least a second late, because no aggregator ran at their time.
    pub late: Vec<Notification>,
    /// The sum of all nodes' ledgers.
    pub ledger: Ledger,
    /// True if every recorded sample is merged or lost for a stated reason, and none of the raw
    /// files of the jobs is missing.
    pub accounted: bool,
}

/// The report of one node.
#[derive(Clone, Debug, Default, Serialize)]
pub struct NodeReport {
    /// Quantiles of its operations.
    pub operations: BTreeMap<String, Quantiles>,
    pub ledger: Ledger,
    /// Samples in its job's raw file by operation; the merged counts must hold them.
    pub raw: BTreeMap<String, u64>,
    /// Merged samples of these operations that its job did not send: other programs did.
    pub elsewhere: u64,
}

impl Report {
    /// Compares the final summary with the samples that the jobs wrote to their raw files.
    pub fn new(
        seconds: f64,
        summary: &Summary,
        raw: BTreeMap<String, BTreeMap<String, u64>>,
    ) -> Self {
        let mut nodes: BTreeMap<String, NodeReport> = raw
            .into_iter()
            .map(|(node, raw)| (node, NodeReport { raw, ..NodeReport::default() }))
            .collect();

        let (mut fleet, mut ledger) = (BTreeMap::new(), Ledger::default());

        for row in &summary.operations {
            let operations = match &row.scope {
                Scope::Fleet => &mut fleet,
                Scope::Node(node) => &mut nodes.entry(node.to_string()).or_default().operations,
            };
            operations.insert(row.operation.clone(), row.total.clone());
        }

        for row in &summary.nodes {
            ledger.add(&row.ledger);
            nodes.entry(row.node.clone()).or_default().ledger = row.ledger.clone();
        }

        for node in nodes.values_mut() {
            node.elsewhere = node.beyond_raw();
        }
        let accounted = ledger.is_settled() && nodes.values().all(NodeReport::agrees_with_raw);
        let late = summary.changes.iter().filter(|notification| notification.late_seconds >= 1.0);
        let (late, budgets) = (late.cloned().collect(), summary.budgets.clone());
        Self { seconds, fleet, nodes, budgets, late, ledger, accounted }
    }

    /// The report as text.
    pub fn words(&self) -> String {
        let mut text = String::new();
        for (name, node) in &self.nodes {
            let Ledger { recorded, merged, held, unaccounted, unread, lost, .. } = &node.ledger;
            let lost: u64 = lost.values().sum();
            let raw: u64 = node.raw.values().sum();

            text += &format!(
                "{name}: recorded {recorded} = merged {merged} + held {held} + lost {lost} + \
                 unaccounted {unaccounted} + unread {unread}; its job sent {raw}, the rest are \
                 samples of the node itself{}\n",
                crashes(&node.ledger)
            );

            if node.elsewhere > 0 {
                let others = counted(node.elsewhere, "sample");
                text += &format!("{name}: {others} came from other programs\n");
            }
        }

        for Notification { key, state, late_seconds, .. } in &self.late {
            let state = state.as_str();
            let late = span(late_seconds.round());
            text += &format!("{key} {state}, reported {late} late\n");
        }

        let verdict = if self.accounted {
            "every sample is accounted for"
        } else {
            "SAMPLES ARE NOT ACCOUNTED FOR"
        };

        text + verdict
    }
}

impl NodeReport {
    fn merged(&self, operation: &str) -> u64 {
        self.operations.get(operation).map_or(0, |q| q.count)
    }

    /// The nodes listen on UDP too, so that anyone on this machine may add to an operation.
    fn agrees_with_raw(&self) -> bool {
        self.raw.iter().all(|(operation, n)| self.merged(operation) >= *n)
    }

    fn beyond_raw(&self) -> u64 {
        self.raw.iter().map(|(operation, n)| self.merged(operation).saturating_sub(*n)).sum()
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::ids::NodeName;
    use plimsoll_schemas::summary::{Freshness, NodeRow, OperationRow, Presence, RulesState};

    use super::*;

    fn summary(merged: u64) -> Summary {
        let ledger = Ledger { recorded: 10, merged, held: 10 - merged, ..Ledger::default() };
        let total = Quantiles { count: merged, ..Quantiles::default() };
        Summary {
            mesh: "m".into(),
            version: "0".into(),
            at_seconds: 0.0,
            ready: true,
            broker: "jetstream".into(),
            freshness: Freshness::default(),
            rollups: Vec::new(),
            presence: BTreeMap::new(),
            ledger: Ledger::default(),
            samples: None,
            nodes: vec![NodeRow {
                node: "a".into(),
                presence: Presence::Left,
                last_seen_seconds: 0.0,
                ledger,
                outbox_depth: 0,
                outbox_depth_max: 0,
                gap_samples: 0,
                rerouted: 0,
                dropped: 0,
                version: String::new(),
                suspect_units: 0,
            }],
            operations: vec![OperationRow {
                scope: Scope::Node(NodeName::new("a").unwrap()),
                operation: "op".into(),
                unit: None,
                own: false,
                freshness: Freshness::default(),
                total,
                windows: BTreeMap::new(),
            }],
            budgets: Vec::new(),
            changes: Vec::new(),
            rules: RulesState::default(),
        }
    }

    fn raw(n: u64) -> BTreeMap<String, BTreeMap<String, u64>> {
        BTreeMap::from([("a".to_owned(), BTreeMap::from([("op".to_owned(), n)]))])
    }

    #[test]
    fn a_late_alert_change_is_in_the_report_with_its_delay() {
        let notification = |late_seconds| {
            let text = format!(
                r#"{{"mesh":"m","rule":"r","scope":"fleet","operation":"o","from":"pending",
                    "state":"firing","at_seconds":1.0,"late_seconds":{late_seconds},
                    "evidence":{{"gap_samples":1}}}}"#
            );
            serde_json::from_str(&text).unwrap()
        };
        let changes = vec![notification(0.0), notification(72.4)];
        let report = Report::new(1.0, &Summary { changes, ..summary(10) }, raw(10));
        let lines: Vec<String> = report.words().lines().map(str::to_owned).collect();
        assert_eq!(lines[1..lines.len() - 1], ["r (fleet, o) firing, reported 72 s late"]);
        assert_eq!(report.late.len(), 1);
    }

    #[test]
    fn a_run_is_accounted_only_if_ledger_and_raw_files_both_agree() {
        for (merged, sent, accounted, elsewhere) in
            [(10, 10, true, 0), (10, 11, false, 0), (9, 9, false, 0), (10, 8, true, 2)]
        {
            let report = Report::new(1.0, &summary(merged), raw(sent));
            assert_eq!(report.accounted, accounted, "{merged} merged, {sent} sent");
            assert_eq!(report.nodes["a"].elsewhere, elsewhere, "{merged} merged, {sent} sent");
            assert_eq!(report.words().contains("came from other programs"), elsewhere > 0);
        }
    }
}
