//! What a report is made of: the answers of an aggregator and the reports of drills, as they came.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_compare::history::SecondsRange;
use plimsoll_schemas::alert::{AlertState, AlertsPage, Scope};
use plimsoll_schemas::ids::Operation;
use plimsoll_schemas::summary::{
    BottlenecksPage, EventsPage, HeatmapPage, HistoryPage, HistoryPoint, LedgerPage,
    MetricHistoryPage, Summary,
};

use super::document::{Beside, DrillResult, NodeMachine, Subject};
use super::machines::HardwarePage;
use crate::run_results::RecordedEpochs;

/// Everything that a report is made of.
pub(super) struct Material {
    /// When it was asked for, in seconds since 1970.
    pub(super) asked_at: f64,
    /// What it is of.
    pub(super) subject: Subject,
    /// Whether a run's samples are those of the fleet between its begin and its end, since none has
    /// its label.
    pub(super) is_of_fleet: bool,
    /// The requested range.
    pub(super) range: SecondsRange,
    /// Each operation with samples.
    pub(super) operations: Vec<OperationPages>,
    /// What else the history answered, for the range of an empty report.
    pub(super) empty: Option<HistoryPage>,
    /// Operations beyond the bound.
    pub(super) operations_left_out: usize,
    /// Why there are no slots for comparisons, if there are none.
    pub(super) slots_left_out: Option<String>,
    /// What nodes answered of their own past; empty if none keeps it.
    pub(super) nodes: Vec<NodePoint>,
    /// Nodes that did not answer, by name, and why.
    pub(super) nodes_silent: BTreeMap<String, String>,
    /// `/metrics/summary`.
    pub(super) summary: Summary,
    /// `/api/v1/alerts`.
    pub(super) alerts: AlertsPage,
    /// `/api/v1/events`.
    pub(super) events: EventsPage,
    /// `/api/v1/ledger`.
    pub(super) ledger: LedgerPage,
    /// `/api/v1/hardware`, if the aggregator has it.
    pub(super) hardware: Option<HardwarePage>,
    /// What machines nodes run on, by node, from `/api/v1/nodes`; empty from an aggregator without.
    pub(super) machines: BTreeMap<String, NodeMachine>,
    /// `/api/v1/bottlenecks`, or why there is none.
    pub(super) bottlenecks: Result<BottlenecksPage, String>,
    /// `/api/v1/query?metric=` over the whole range; empty from an aggregator without metrics.
    pub(super) metrics: Vec<MetricHistoryPage>,
    pub(super) drills: Vec<DrillResult>,
    /// The comparison with another run, if one is beside it.
    pub(super) beside: Option<Beside>,
    /// What `plimsoll run` recorded of the run, if its results were given.
    pub(super) recorded: Option<RecordedEpochs>,
}

impl Material {
    /// The limit of each operation: that of the budget that is named like it, or of the first.
    pub(super) fn limits(&self) -> BTreeMap<Operation, u64> {
        let budgets = self.summary.budgets.iter();
        let mut limits = BTreeMap::new();
        for of in budgets.filter_map(|of| Some((of, Operation::new(&of.operation).ok()?))) {
            let (budget, operation) = of;
            if budget.budget == budget.operation || !limits.contains_key(&operation) {
                limits.insert(operation, budget.limit_ns);
            }
        }
        limits
    }

    /// Nodes for which an alert about one of the operations fires.
    pub(super) fn firing_nodes(&self) -> BTreeSet<&str> {
        let is_of = |name: &str| self.operations.iter().any(|of| of.whole.operation == name);
        let firing = self.alerts.alerts.iter().filter(|row| row.state == AlertState::Firing);
        let firing = firing.filter(|row| is_of(row.key.operation.as_str()));
        let node = firing.filter_map(|row| match &row.key.scope {
            Scope::Node(node) => Some(node.as_str()),
            Scope::Fleet => None,
        });
        node.collect()
    }
}

/// The range of one operation on one node.
pub(super) struct NodePoint {
    pub(super) node: String,
    pub(super) operation: String,
    pub(super) point: HistoryPoint,
}

/// The answers about one operation.
pub(super) struct OperationPages {
    /// One point, with its distribution.
    pub(super) whole: HistoryPage,
    /// A point for each column.
    pub(super) columns: HistoryPage,
    /// The same columns by band of latencies.
    pub(super) heatmap: HeatmapPage,
    /// The finest slots with their distributions, if they were asked for.
    pub(super) slots: Vec<HistoryPoint>,
}

impl OperationPages {
    /// The whole range as one point.
    pub(super) fn point(&self) -> Option<&HistoryPoint> {
        self.whole.points.first()
    }
}
