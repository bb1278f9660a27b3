//! What the aggregator knows at one moment, copied out for whoever asks.

use std::collections::BTreeMap;
use std::sync::Arc;

use plimsoll_schemas::alert::{AlertKey, AlertState, Scope};
use plimsoll_schemas::budget::Window;
use plimsoll_schemas::hardware::Reading;
use plimsoll_schemas::histogram::Histogram;
use plimsoll_schemas::ids::{NodeName, Operation, Series};
use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::summary::{
    BudgetRow, NodeRow, OperationRow, Presence, Quantiles, Summary, WindowRow,
};
use plimsoll_schemas::time::{Wall, seconds};
use plimsoll_schemas::wire::{AlertType, Bus, EventSource};

use super::checkpoint::CheckpointFigures;
use super::completeness::Completeness;
use super::confirm::ConfirmationFigures;
use super::node::Node;
use super::notices::NoticeCounts;
use super::progress::Recoveries;
use super::window::Windows;
use super::{Core, Counts};

/// A copy of everything worth showing.
#[derive(Clone, Debug)]
pub struct View {
    /// The part that `/metrics/summary` tells.
    pub summary: Summary,
    /// What else Prometheus is told about each node, in the order of the summary's nodes.
    pub nodes: Vec<NodeView>,
    /// Total sums in nanoseconds, in the order of the summary's operations.
    pub sums_ns: Vec<u128>,
    /// Counts of what was read.
    pub counts: Counts,
    /// What became of notices.
    pub notices: NoticeCounts,
    /// Messages still to be read, by lane.
    pub pending: Vec<(Lane, u64)>,
    /// How long backlogs lasted, by lane.
    pub recoveries: Vec<(Lane, Recoveries)>,
    /// What became of checkpoints.
    pub checkpoints: CheckpointFigures,
    /// What became of confirmations.
    pub confirmations: ConfirmationFigures,
}

/// What Prometheus is told about one node beside its latencies.
#[derive(Clone, Debug)]
pub struct NodeView {
    /// Its name.
    pub node: String,
    /// Its counters.
    pub counters: BTreeMap<Series, f64>,
    /// Its gauges.
    pub gauges: BTreeMap<Series, f64>,
    /// Its sensors.
    pub readings: Vec<Reading>,
    /// Its way to the broker.
    pub bus: Bus,
    /// Its events and service checks, by source and how bad they were.
    pub events: BTreeMap<(EventSource, AlertType), u64>,
    /// The latest status of each of its service checks.
    pub checks: BTreeMap<String, AlertType>,
    /// Sequence numbers missing below the highest one heard.
    pub holes: u64,
    /// Messages that two nodes of its name must have sent.
    pub name_conflicts: u64,
    /// Where the alert about gaps in its account stands.
    pub gap_alert: AlertState,
}

impl Core {
    /// What is known of one node.
    #[must_use]
    pub fn node(&self, name: &NodeName) -> Option<&Node> {
        self.nodes.get(name).map(Arc::as_ref)
    }

    /// Where the alert about gaps in a node's account stands.
    #[must_use]
    pub fn gap_alert(&self, name: &NodeName) -> AlertState {
        self.gap(name).1
    }

    /// Copies out what is known. `broker` is what the connection says of itself.
    #[must_use]
    pub fn view(&self, now: Wall, broker: &str) -> View {
        let (operations, sums_ns) = self.operation_rows(now).into_iter().unzip();
        View {
            summary: Summary {
                mesh: self.mesh.to_string(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                at_seconds: seconds(now.0),
                ready: self.ready,
                broker: broker.to_owned(),
                nodes: self.shown().map(|(name, node)| self.node_row(now, name, node)).collect(),
                operations,
                budgets: self.budget_rows(now),
                changes: self.changes.clone(),
            },
            nodes: self.shown().map(|(name, node)| self.node_view(now, name, node)).collect(),
            sums_ns,
            counts: self.counts.clone(),
            notices: self.notices.counts(),
            pending: self.pending(),
            recoveries: self.recoveries(),
            checkpoints: CheckpointFigures::default(),
            confirmations: ConfirmationFigures::default(),
        }
    }

    fn node_row(&self, now: Wall, name: &NodeName, node: &Node) -> NodeRow {
        NodeRow {
            node: name.to_string(),
            presence: node.presence(now),
            last_heard_seconds: seconds(node.last_heard.0),
            ledger: node.account.ledger(),
            gap_samples: self.gap(name).0,
            outbox_messages: node.bus.value.outbox_messages,
            outbox_messages_max: node.bus.value.outbox_messages_max,
            rerouted: node.bus.value.rerouted,
            dropped: node.bus.value.dropped,
        }
    }

    /// What a node last measured is shown only while it speaks: afterwards it is not so any
    /// more.
    fn node_view(&self, now: Wall, name: &NodeName, node: &Node) -> NodeView {
        let speaks = node.presence(now) == Presence::Heard;
        NodeView {
            node: name.to_string(),
            counters: (*node.counters).clone(),
            gauges: if speaks { gauges_of(node) } else { BTreeMap::new() },
            readings: if speaks { (*node.readings.value).clone() } else { Vec::new() },
            bus: (*node.bus.value).clone(),
            events: (*node.events).clone(),
            checks: if speaks { node.check_statuses() } else { BTreeMap::new() },
            holes: node.account.holes(),
            name_conflicts: node.account.conflicts(),
            gap_alert: self.gap(name).1,
        }
    }

    fn operation_rows(&self, now: Wall) -> Vec<(OperationRow, u128)> {
        let mut rows = Vec::new();
        for (operation, windows) in self.fleet.iter() {
            let mut completeness = Completeness::default();
            for (_, node) in self.shown() {
                if let Some(windows) = node.operations.get(operation) {
                    completeness.add(now, node, windows);
                }
            }
            rows.push(row(now, Scope::Fleet, operation, windows, &completeness));
        }
        for (name, node) in &self.nodes {
            for (operation, windows) in node.operations.iter() {
                let mut completeness = Completeness::default();
                completeness.add(now, node, windows);
                let scope = Scope::Node(name.clone());
                rows.push(row(now, scope, operation, windows, &completeness));
            }
        }
        rows
    }

    fn budget_rows(&self, now: Wall) -> Vec<BudgetRow> {
        let judged = self.judgements(now).into_iter();
        judged
            .map(|(budget, scope, judgement)| {
                let key = AlertKey {
                    rule: budget.name.clone(),
                    scope: scope.clone(),
                    operation: budget.operation.clone(),
                };
                BudgetRow {
                    budget: budget.name.to_string(),
                    operation: budget.operation.to_string(),
                    scope,
                    quantile: budget.quantile,
                    limit_ns: budget.limit_ns,
                    window: budget.window,
                    samples: judgement.samples,
                    value_ns: judgement.value.map(|value| value.value_ns),
                    lower_ns: judgement.lower_ns,
                    verdict: judgement.verdict,
                    alert: self.alerts.state(&key),
                }
            })
            .collect()
    }
}

fn gauges_of(node: &Node) -> BTreeMap<Series, f64> {
    node.gauges.iter().map(|(series, gauge)| (series.clone(), gauge.value)).collect()
}

fn row(
    now: Wall,
    scope: Scope,
    operation: &Operation,
    windows: &Windows,
    completeness: &Completeness,
) -> (OperationRow, u128) {
    let window_row = |window: Window| WindowRow {
        quantiles: quantiles(&windows.merged(now, window)),
        nodes: completeness.nodes[window as usize],
        nodes_expected: completeness.expected,
        nodes_late: completeness.late[window as usize],
    };
    let kept = Window::ALL.into_iter().filter(|window| windows.keeps(*window));
    let row = OperationRow {
        scope,
        operation: operation.to_string(),
        total: quantiles(&windows.total()),
        windows: kept.map(|window| (window, window_row(window))).collect(),
    };
    (row, windows.total_exact().sum_ns)
}

fn quantiles(histogram: &Histogram) -> Quantiles {
    let at = |quantile| histogram.quantile(quantile).map(|found| found.value_ns);
    let mean = histogram.sum_ns().checked_div(u128::from(histogram.count())).unwrap_or(0);
    Quantiles {
        count: histogram.count(),
        mean_ns: u64::try_from(mean).unwrap_or(u64::MAX),
        min_ns: histogram.min_ns(),
        max_ns: histogram.max_ns(),
        p50_ns: at(0.5),
        p99_ns: at(0.99),
    }
}
