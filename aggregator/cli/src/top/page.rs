//! One answer of an aggregator as rows: budgets, nodes and alerts with their text made safe.
//!
//! Built from `/metrics/summary` and `/api/v1/alerts`, so that every figure is the API's own.

use std::collections::HashMap;

use anyhow::{Context, Result};
use plimsoll_schemas::alert::{AlertRow, AlertState, AlertsPage, Scope};
use plimsoll_schemas::own_operations::is_own_name;
use plimsoll_schemas::rule::Severity;
use plimsoll_schemas::summary::{
    BudgetRow, Freshness, NodeRow, OperationRow, Presence, Summary, Verdict,
};
use serde::Serialize;

use crate::terminal_text::safe;

/// Where the rows come from.
pub(super) const SUMMARY: &str = "/metrics/summary";
/// Where alerts come from.
pub(super) const ALERTS: &str = "/api/v1/alerts";

/// All rows of one time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Page {
    pub(super) mesh: String,
    /// Time of the page, in seconds since 1970.
    pub(super) at_seconds: f64,
    /// False during the catch-up after a start.
    pub(super) ready: bool,
    /// State of the broker's connection.
    pub(super) broker: String,
    /// Up to when anything of the mesh is known.
    #[serde(flatten)]
    pub(super) freshness: Freshness,
    /// Nodes of the mesh by presence, those without a row among them.
    pub(super) up: u64,
    pub(super) silent: u64,
    pub(super) left: u64,
    /// Samples of all nodes.
    pub(super) recorded: u64,
    pub(super) merged: u64,
    pub(super) held: u64,
    pub(super) unaccounted: u64,
    pub(super) unread: u64,
    pub(super) lost: u64,
    /// Error in the rule files.
    pub(super) rules_error: Option<String>,
    /// Budgets that match no sample.
    pub(super) unmatched: Vec<String>,
    /// The fleet's, then those of nodes.
    pub(super) budgets: Vec<BudgetLine>,
    /// In the aggregator's order: the worst first.
    pub(super) nodes: Vec<NodeLine>,
    /// In the aggregator's order: firing first.
    pub(super) alerts: Vec<AlertLine>,
}

/// One budget of one scope.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct BudgetLine {
    pub(super) budget: String,
    pub(super) operation: String,
    /// `None` for the fleet.
    pub(super) node: Option<String>,
    pub(super) quantile: f64,
    pub(super) limit_ns: u64,
    /// Up to when it is known. Stale figures are left out.
    #[serde(flatten)]
    pub(super) freshness: Freshness,
    /// Of the operation in the budget's window.
    pub(super) p50_ns: Option<u64>,
    pub(super) p99_ns: Option<u64>,
    /// Whether producers' wide buckets make these figures approximate.
    pub(super) approximate: bool,
    /// Share of the limit that the budget's quantile leaves; negative above the limit.
    pub(super) headroom: Option<f64>,
    pub(super) samples: u64,
    pub(super) verdict: Verdict,
    pub(super) alert: AlertState,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct NodeLine {
    pub(super) node: String,
    pub(super) presence: Presence,
    /// Age of its last message.
    pub(super) seen_seconds: f64,
    /// The lowest of its budgets of jobs.
    pub(super) headroom: Option<f64>,
    pub(super) outbox_depth: u64,
    pub(super) outbox_depth_max: u64,
    pub(super) rerouted: u64,
    pub(super) dropped: u64,
    pub(super) held: u64,
    pub(super) unaccounted: u64,
    pub(super) lost: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct AlertLine {
    pub(super) state: AlertState,
    pub(super) severity: Severity,
    pub(super) rule: String,
    pub(super) operation: String,
    /// `None` for the fleet.
    pub(super) node: Option<String>,
    /// Age of the state.
    pub(super) since_seconds: f64,
    pub(super) summary: String,
    pub(super) is_acknowledged: bool,
    pub(super) is_silenced: bool,
}

impl Page {
    /// Reads the answers of [`SUMMARY`] and [`ALERTS`].
    pub(super) fn read(summary: &str, alerts: &str) -> Result<Self> {
        let summary: Summary =
            serde_json::from_str(summary).with_context(|| unexpected(SUMMARY))?;
        let alerts: AlertsPage =
            serde_json::from_str(alerts).with_context(|| unexpected(ALERTS))?;
        Ok(Self::new(&summary, &alerts))
    }

    fn new(summary: &Summary, alerts: &AlertsPage) -> Self {
        let presence = |of| summary.presence.get(&of).copied().unwrap_or_default();
        let budgets = budget_lines(summary);
        let nodes = node_lines(summary, &budgets);
        let ledger = &summary.ledger;

        Self {
            mesh: safe(&summary.mesh),
            at_seconds: summary.at_seconds,
            ready: summary.ready,
            broker: safe(&summary.broker),
            freshness: summary.freshness,
            up: presence(Presence::Up),
            silent: presence(Presence::Silent),
            left: presence(Presence::Left),
            recorded: ledger.recorded,
            merged: ledger.merged,
            held: ledger.held,
            unaccounted: ledger.unaccounted,
            unread: ledger.unread,
            lost: sum(ledger.lost.values()),
            rules_error: summary.rules.rules_error.as_deref().map(safe),
            unmatched: summary.rules.unmatched.iter().map(|name| safe(name)).collect(),
            budgets,
            nodes,
            alerts: alerts.alerts.iter().map(|row| alert_line(row, alerts.at_seconds)).collect(),
        }
    }

    /// Nodes of the mesh, those without a row among them.
    pub(super) fn nodes_total(&self) -> u64 {
        self.up.saturating_add(self.silent).saturating_add(self.left)
    }
}

fn unexpected(path: &str) -> String {
    format!("{path} has an unexpected form; aggregator and plimsoll may differ in version")
}

fn sum<'a>(of: impl Iterator<Item = &'a u64>) -> u64 {
    of.fold(0, |sum, n| sum.saturating_add(*n))
}

fn budget_lines(summary: &Summary) -> Vec<BudgetLine> {
    let operations: HashMap<(&Scope, &str), &OperationRow> =
        summary.operations.iter().map(|row| ((&row.scope, row.operation.as_str()), row)).collect();

    let line = |row: &BudgetRow| {
        let operation = operations.get(&(&row.scope, row.operation.as_str()));
        let window = operation.and_then(|operation| operation.windows.get(&row.window));
        // A stale p99 beside fresh ones would be taken for the present.
        let is_current = !row.freshness.stale;
        let quantiles = window.filter(|_| is_current).map(|window| &window.quantiles);
        let value_ns = row.value_ns.filter(|_| is_current);

        BudgetLine {
            budget: safe(&row.budget),
            operation: safe(&row.operation),
            node: node_of(&row.scope),
            quantile: row.quantile,
            limit_ns: row.limit_ns,
            freshness: row.freshness,
            p50_ns: quantiles.and_then(|of| of.p50_ns),
            p99_ns: quantiles.and_then(|of| of.p99_ns),
            approximate: quantiles.is_some_and(|of| of.approximate.is_some()),
            headroom: value_ns.map(|value| headroom(value, row.limit_ns)),
            samples: row.samples,
            verdict: row.verdict,
            alert: row.alert,
        }
    };

    let (fleet, nodes): (Vec<&BudgetRow>, Vec<&BudgetRow>) =
        summary.budgets.iter().partition(|row| row.scope == Scope::Fleet);
    fleet.into_iter().chain(nodes).map(line).collect()
}

#[expect(clippy::cast_precision_loss, reason = "latencies are below an hour")]
fn headroom(value_ns: u64, limit_ns: u64) -> f64 {
    1.0 - value_ns as f64 / limit_ns.max(1) as f64
}

fn node_lines(summary: &Summary, budgets: &[BudgetLine]) -> Vec<NodeLine> {
    let mut lowest: HashMap<&str, f64> = HashMap::new();
    // A node is judged by its jobs: a slow broker lowers
    // the headroom of our own operations on all nodes.
    for line in budgets.iter().filter(|line| !is_own_name(&line.operation)) {
        if let (Some(node), Some(headroom)) = (&line.node, line.headroom) {
            let lowest = lowest.entry(node).or_insert(headroom);
            *lowest = lowest.min(headroom);
        }
    }

    let line = |row: &NodeRow| {
        let node = safe(&row.node);
        NodeLine {
            headroom: lowest.get(node.as_str()).copied(),
            node,
            presence: row.presence,
            seen_seconds: (summary.at_seconds - row.last_seen_seconds).max(0.0),
            outbox_depth: row.outbox_depth,
            outbox_depth_max: row.outbox_depth_max,
            rerouted: row.rerouted,
            dropped: row.dropped,
            held: row.ledger.held,
            unaccounted: row.ledger.unaccounted,
            lost: sum(row.ledger.lost.values()),
        }
    };

    summary.nodes.iter().map(line).collect()
}

fn alert_line(row: &AlertRow, at_seconds: f64) -> AlertLine {
    AlertLine {
        state: row.state,
        severity: row.severity,
        rule: safe(row.key.rule.as_str()),
        operation: safe(row.key.operation.as_str()),
        node: node_of(&row.key.scope),
        since_seconds: (at_seconds - row.since_seconds).max(0.0),
        summary: safe(&row.summary),
        is_acknowledged: row.acknowledged.is_some(),
        is_silenced: !row.silenced_by.is_empty(),
    }
}

fn node_of(scope: &Scope) -> Option<String> {
    match scope {
        Scope::Fleet => None,
        Scope::Node(node) => Some(safe(node.as_str())),
    }
}
