//! View: rows and pages worked out from a frozen copy of the other rooms.
//!
//! Owns no state: a [`ReadView`] shares nodes and windows by reference counts, and is taken while
//! the driver waits. Rows, quantiles and pages are computed from it on another thread. It decides
//! nothing and changes nothing.
//!
//! Interface: [`ReadView::of`] freezes; [`ReadView::view`], [`ReadView::statistics`],
//! [`ReadView::nodes_page`], [`ReadView::node_page`], [`ReadView::headroom_page`],
//! [`ReadView::backpressure_page`], [`ReadView::hardware_page`] and [`ReadView::ledger_page`]
//! compute.

mod alerts;
mod backpressure;
mod blame_page;
mod fleet_sums;
mod freshness;
mod hardware_page;
mod headroom;
mod ledger_page;
mod machine;
mod metrics;
mod nodes;
mod nodes_page;
mod own_counts;
mod read_view;
mod rollups;
mod rows;
mod statistics;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use plimsoll_schemas::ids::{NodeName, Operation, RuleName};
use plimsoll_schemas::own_operations::is_own_name;
use plimsoll_schemas::rule::Rules;
use plimsoll_schemas::summary::{BlamePage, Presence, RulesState, Summary};
use plimsoll_schemas::time::{Wall, seconds};

pub use alerts::AlertView;
pub(super) use alerts::severities;
pub(super) use blame_page::blame_page;
pub use freshness::answers;
pub(super) use freshness::of_mesh;
pub use hardware_page::HardwareQuery;
pub use nodes::{NodeView, Nodes};
pub use nodes_page::NodesQuery;
pub use own_counts::{AskCounts, CheckpointStats, ConfirmationStats, OwnCounts, RuleFileStats};
pub use read_view::{AlertCounts, ReadView, UnknownNode};
pub use rows::Total;
pub use statistics::{NoStatistics, StatisticsQuery};

use super::fleet::{Node, TablesUsed, Trouble};
use super::rules::ErrorBudget;
use fleet_sums::FleetSums;
use read_view::ShownScopes;
use rows::Rows;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ViewQuery {
    pub fleet: bool,
    pub nodes: Nodes,
    /// Whether native histograms are, which cost some more.
    pub native: bool,
}

/// Rows for the pages, and what the exposition shows beside them.
#[derive(Clone, Debug)]
pub struct View {
    /// The content of `/metrics/summary`.
    pub summary: Summary,
    /// All samples ever merged, in the order of the summary's roll-ups.
    pub rollups: Vec<Total>,
    /// Names of roll-ups that leave out samples without their labels.
    pub partial_rollups: BTreeSet<String>,
    /// What Prometheus is sent about each node beside latencies, in the order of the summary's
    /// nodes.
    pub nodes: Vec<NodeView>,
    /// All samples ever merged, in the order of the summary's operations.
    pub totals: Vec<Total>,
    /// The active alerts of the fleet, if the view has it, and of the nodes shown.
    pub alerts: Vec<AlertView>,
    /// How many there are, and what receivers did not get; of a view with the fleet.
    pub alert_counts: AlertCounts,
    /// How many nodes there are by their worst trouble, shown or not.
    pub troubles: BTreeMap<Trouble, u64>,
    /// How full tables of names are; of a view with the fleet.
    pub tables: TablesUsed,
    pub error_budgets: Vec<ErrorBudget>,
    /// Cohorts and what was refused; of a view with the fleet.
    pub blame: BlamePage,
    pub rules: Arc<Rules>,
    pub own: OwnCounts,
    /// Every budget, and whether no sample has matched it for minutes.
    pub unmatched: Vec<(RuleName, bool)>,
    /// Every budget, and whether it has had too few samples to judge for minutes, some of them over
    /// the limit.
    pub insufficient: Vec<(RuleName, bool)>,
    /// Operations with a budget that have samples, and whether they are absent.
    pub absence: Vec<(Operation, bool)>,
    /// The point in time.
    pub at: Wall,
}

impl ReadView {
    /// Works out the rows of the fleet and of the nodes that are asked for.
    pub fn view(&self, query: ViewQuery) -> View {
        let mut sums = if query.fleet { FleetSums::of(self) } else { FleetSums::default() };
        let nodes: Vec<_> = match query.nodes {
            Nodes::All => self.shown().collect(),
            Nodes::Part(from, len) => self.shown_from(from, len).collect(),
            Nodes::Worst(nodes_max) => std::mem::take(&mut sums.worst).take(nodes_max),
        };

        let scopes = ShownScopes::new(query.fleet, nodes.iter().map(|(name, _)| *name));
        let mut rows = Rows::new(self, &scopes, query.native);
        if query.fleet {
            rows.add_fleet(&self.fleet, &sums);
        }
        // Only with the fleet: a page that is rendered in parts would repeat them in each (A65).
        let rollups = query.fleet.then(|| rollups::rollup_rows(self, query.native));
        let (rollups, rollup_totals) = rollups.into_iter().flatten().unzip();
        nodes.iter().for_each(|(name, node)| rows.add_node(name, node));

        let Rows { operations, totals, mut budgets, .. } = rows;
        // One budget after the other, each for the fleet and then for nodes; jobs come first.
        budgets.sort_by_key(|(budget, row)| (is_own_name(&row.operation), *budget));
        let error_budgets = query.fleet.then(|| rows::error_budgets(self));
        let error_budgets = error_budgets.unwrap_or_default();
        rows::fill_error_budgets(budgets.iter_mut().map(|(_, row)| row), &error_budgets);

        let node_view = |(name, node): &(&NodeName, &Arc<Node>)| NodeView {
            name: (*name).clone(),
            node: Arc::clone(node),
            is_up: node.presence(self.at) == Presence::Up,
        };

        View {
            summary: Summary {
                mesh: self.mesh.to_string(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                at_seconds: seconds(self.at.0),
                ready: self.ready,
                broker: self.broker.clone(),
                freshness: self.freshness,
                presence: sums.presence,
                ledger: sums.ledger,
                samples: query.fleet.then(|| self.fleet.sample_totals()),
                nodes: nodes.iter().map(|(name, node)| self.node_row(name, node)).collect(),
                operations,
                rollups,
                budgets: budgets.into_iter().map(|(_, row)| row).collect(),
                changes: if query.fleet { self.changes.clone() } else { Default::default() },
                rules: self.rules_state(),
            },
            nodes: nodes.iter().map(node_view).collect(),
            totals,
            rollups: rollup_totals,
            partial_rollups: rollups::partial(self),
            alerts: alerts::alert_views(self, &scopes),
            alert_counts: if query.fleet { alerts::alert_counts(self) } else { Default::default() },
            troubles: sums.troubles,
            tables: if query.fleet { self.tables.clone() } else { Default::default() },
            error_budgets,
            blame: if query.fleet { self.blame.clone() } else { Default::default() },
            rules: Arc::clone(&self.rules),
            own: self.own.clone(),
            unmatched: self.budgets_of(&self.unmatched),
            insufficient: self.budgets_of(&self.insufficient),
            absence: self.absence.clone(),
            at: self.at,
        }
    }

    fn rules_state(&self) -> RulesState {
        let names = |of: &BTreeSet<RuleName>| of.iter().map(RuleName::to_string).collect();
        RulesState {
            rules_error: self.own.rule_files.error.clone(),
            unmatched: names(&self.unmatched),
            insufficient: names(&self.insufficient),
        }
    }

    /// Every budget, and whether it is one of these.
    fn budgets_of(&self, some: &BTreeSet<RuleName>) -> Vec<(RuleName, bool)> {
        let names = self.rules.budgets.iter().map(|budget| &budget.name);
        names.map(|name| (name.clone(), some.contains(name))).collect()
    }
}
