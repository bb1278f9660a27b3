//! The page `/api/v1/headroom`: of every node the budget of jobs that is nearest to its limit, in
//! few bytes, so that a browser sorts and filters thousands of nodes. A slow broker is no fault of
//! a node: the system's own operations count for none.
//!
//! DESIGN A103.

use std::collections::BTreeMap;

use plimsoll_schemas::alert::AlertState;
use plimsoll_schemas::ids::NodeName;
use plimsoll_schemas::own_operations::{is_own, is_own_name};
use plimsoll_schemas::rule::Severity;
use plimsoll_schemas::summary::{BudgetRow, HeadroomPage, HeadroomRow, LeastHeadroom};
use plimsoll_schemas::time::seconds;

use super::alerts::severities;
use super::read_view::{ReadView, ShownScopes};
use super::rows::Rows;
use crate::core::fleet::Node;

impl ReadView {
    /// All nodes that are shown. Takes a while for many nodes.
    pub fn headroom_page(&self) -> HeadroomPage {
        let shown: Vec<_> = self.shown().collect();
        let scopes = ShownScopes::new(false, shown.iter().map(|(name, _)| *name));
        let mut rows = Rows::new(self, &scopes, false);
        let alerts = worst_alerts(self);

        let nodes = shown.iter().map(|(name, node)| {
            rows.budgets.clear();
            rows.add_budgets(name, node, |_| true);
            // A slow broker is no fault of a node (A36).
            let of_jobs = rows.budgets.iter().filter(|(_, row)| !is_own_name(&row.operation));
            let least = of_jobs.filter_map(|(_, row)| headroom(row));
            let least = least.min_by(|a, b| a.headroom.total_cmp(&b.headroom));
            row(self, name, node, alerts.get(name.as_str()).copied(), least)
        });

        HeadroomPage {
            mesh: self.mesh.to_string(),
            at_seconds: seconds(self.at.0),
            ready: self.ready,
            nodes: nodes.collect(),
        }
    }
}

fn row(
    view: &ReadView,
    name: &NodeName,
    node: &Node,
    alert: Option<WorstAlert>,
    least: Option<LeastHeadroom>,
) -> HeadroomRow {
    let bus = &node.bus.value;
    let troubles = node.troubles(view.at, view.gap_samples(name));

    HeadroomRow {
        node: name.to_string(),
        presence: node.presence(view.at),
        labels: node.labels.value.clone(),
        last_seen_seconds: seconds(node.last_seen.0),
        outbox_depth: bus.outbox_depth,
        rerouted: bus.rerouted,
        dropped: bus.dropped,
        troubles: troubles.map(|trouble| trouble.as_str().to_owned()).collect(),
        alert: alert.map(|of| of.state).unwrap_or_default(),
        alert_severity: alert.map(|of| of.severity),
        least,
    }
}

/// `None` without samples.
#[expect(clippy::cast_precision_loss, reason = "a share for people")]
fn headroom(row: &BudgetRow) -> Option<LeastHeadroom> {
    let value_ns = row.value_ns?;
    Some(LeastHeadroom {
        budget: row.budget.clone(),
        operation: row.operation.clone(),
        limit_ns: row.limit_ns,
        value_ns,
        headroom: 1.0 - value_ns as f64 / row.limit_ns as f64,
        samples: row.samples,
        verdict: row.verdict,
    })
}

/// The worst state of the alerts about a node, and the worst severity in that state.
#[derive(Clone, Copy)]
struct WorstAlert {
    state: AlertState,
    severity: Severity,
}

/// That of each node, but for alerts about the system's operations.
fn worst_alerts(view: &ReadView) -> BTreeMap<&str, WorstAlert> {
    let rank = |state: AlertState| match state {
        AlertState::Inactive | AlertState::Insufficient | AlertState::NoData => 0,
        AlertState::Resolved => 1,
        AlertState::Pending => 2,
        AlertState::Firing => 3,
    };

    let mut severity = severities(&view.rules);
    let mut worst = BTreeMap::new();

    for (key, state) in view.alerts.iter().filter(|(key, _)| !is_own(&key.operation)) {
        let found = WorstAlert { state: *state, severity: severity(key) };
        let of_node = worst.entry(key.scope.node()).or_insert(found);
        if (rank(found.state), found.severity) > (rank(of_node.state), of_node.severity) {
            *of_node = found;
        }
    }

    worst
}
