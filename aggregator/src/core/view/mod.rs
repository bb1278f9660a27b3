//! Rows worked out from a [`Still`]: for the fleet, and for all nodes or the worst of them.

mod alerts;
pub mod ledger_page;
pub mod read_view;
mod rollups;
mod rows;
mod rules;
mod worst;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use plimsoll_schemas::alert::{AlertState, LEDGER_GAP};
use plimsoll_schemas::histogram::ExactFigures;
use plimsoll_schemas::ids::{NodeName, RuleName};
use plimsoll_schemas::rule::Rules;
use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::summary::{Ledger, NodeRow, Presence, RulesState, Summary};
use plimsoll_schemas::time::{Wall, seconds};

use crate::core::alerting::delivery::ReceiverFigures;
use crate::core::alerting::notifications::NoticeCounts;
use crate::core::durable::CheckpointFigures;
use crate::core::durable::confirm::ConfirmationFigures;
use crate::core::fleet::buckets::Buckets;
use crate::core::fleet::node::{Node, Trouble};
use crate::core::ingest::progress::Recoveries;
use crate::core::rules::burn_rate::ErrorBudget;
use crate::core::rules::reload::RuleFigures;
use crate::core::view::read_view::Still;
use crate::core::{Core, Counts};
pub use alerts::{AlertCounts, AlertView};
use rows::Rows;

/// What a view is to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Whether the fleet is shown.
    pub fleet: bool,
    /// Which nodes are.
    pub nodes: Nodes,
    /// Whether native histograms are, which cost some more.
    pub native: bool,
}

/// Which nodes are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Nodes {
    /// All of them, by name.
    All,
    /// At most so many, worst first: those with a [`Trouble`], the worst kind first, then whose
    /// alerts fire, then pend, then the silent ones, then the greatest share of samples over a
    /// limit, then by name.
    Worst(usize),
}

/// Everything worth showing.
#[derive(Clone, Debug)]
pub struct View {
    /// The part that `/metrics/summary` tells.
    pub summary: Summary,
    /// All samples ever merged, in the order of the summary's roll-ups.
    pub rollups: Vec<Total>,
    /// What else Prometheus is told about each node, in the order of the summary's nodes.
    pub nodes: Vec<NodeView>,
    /// All samples ever merged, in the order of the summary's operations.
    pub totals: Vec<Total>,
    /// The alerts that stand, of the fleet and of the nodes shown, where each is shown.
    pub alerts: Vec<AlertView>,
    /// How many stand, and what was not told of them; of a view with the fleet.
    pub alert_counts: AlertCounts,
    /// How many nodes there are by their worst trouble, shown or not.
    pub troubles: BTreeMap<Trouble, u64>,
    /// What is left of error budgets.
    pub error_budgets: Vec<ErrorBudget>,
    /// What is judged.
    pub rules: Arc<Rules>,
    /// Counts of what was read.
    pub counts: Counts,
    /// What became of notices.
    pub notices: NoticeCounts,
    /// What became of events beside them.
    pub notice_events: NoticeCounts,
    /// What those who are told of alerts have heard, and what not yet.
    pub receivers: Vec<ReceiverFigures>,
    /// Messages still to be read, by lane.
    pub pending: Vec<(Lane, u64)>,
    /// How long backlogs lasted, by lane.
    pub recoveries: Vec<(Lane, Recoveries)>,
    /// What became of checkpoints.
    pub checkpoints: CheckpointFigures,
    /// What became of confirmations.
    pub confirmations: ConfirmationFigures,
    /// What became of the files that rules come from.
    pub rule_files: RuleFigures,
    /// Every budget, and whether no sample has matched it for minutes.
    pub unmatched: Vec<(RuleName, bool)>,
    /// The moment.
    pub at: Wall,
}

/// All samples of one operation in one scope.
#[derive(Clone, Debug)]
pub struct Total {
    /// What is known exactly.
    pub exact: ExactFigures,
    /// By bucket; fewer than there were, where a node's bound left no room for some.
    pub buckets: Buckets,
}

/// What Prometheus is told about one node beside its latencies.
#[derive(Clone)]
pub struct NodeView {
    /// Its name.
    pub name: NodeName,
    /// All that is kept about it.
    pub node: Arc<Node>,
    /// True while it speaks: what it last measured is shown only then, since afterwards it is not
    /// so any more.
    pub speaks: bool,
}

/// What is shown of it and no more: two nodes that print the same look the same.
impl fmt::Debug for NodeView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, node, speaks } = self;
        let shown = (&node.counters, &node.events, &node.bus.value, node.account.holes());
        let gauges: Vec<_> =
            node.gauges.iter().map(|(name, latest)| (name, latest.value)).collect();
        let measured = speaks.then_some((gauges, &node.readings.value, node.check_statuses()));
        f.debug_tuple("NodeView").field(name).field(&shown).field(&measured).finish()
    }
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
        let alerts = self.alerts.standing();
        let mut about_gaps = alerts.filter(|(key, _)| key.rule.as_str() == LEDGER_GAP);
        let found = about_gaps.find(|(key, _)| key.scope.node() == name.as_str());
        found.map_or(AlertState::Inactive, |(_, state)| state)
    }

    /// All rows at once. `broker` is what the connection says of itself.
    #[must_use]
    pub fn view(&self, now: Wall, broker: &str) -> View {
        self.still(now, broker).view(Wanted { fleet: true, nodes: Nodes::All, native: true })
    }
}

impl Still {
    /// Works out the rows of the fleet and of the nodes that are wanted.
    #[must_use]
    pub fn view(&self, wanted: Wanted) -> View {
        let nodes = self.wanted(wanted.nodes);
        let mut rows = Rows::new(self, wanted.native);
        if wanted.fleet {
            rows.add_fleet(&self.fleet);
        }
        let rollups = if wanted.fleet { self.rollup_rows(wanted.native) } else { Vec::new() };
        let (rollups, rollup_totals) = rollups.into_iter().unzip();
        nodes.iter().for_each(|(name, node)| rows.add_node(name, node));
        let Rows { operations, totals, mut budgets, .. } = rows;
        // One budget after the other, each for the fleet and then for nodes.
        budgets.sort_by_key(|(budget, _)| *budget);
        let error_budgets = if wanted.fleet { self.error_budgets() } else { Vec::new() };
        rules::fill(&mut budgets, &error_budgets);
        let node_view = |(name, node): &(&NodeName, &Arc<Node>)| NodeView {
            name: (*name).clone(),
            node: Arc::clone(node),
            speaks: node.presence(self.at) == Presence::Heard,
        };
        View {
            summary: Summary {
                mesh: self.mesh.to_string(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                at_seconds: seconds(self.at.0),
                ready: self.ready,
                broker: self.broker.clone(),
                presence: self.presence(),
                ledger: self.ledger(),
                nodes: nodes.iter().map(|(name, node)| self.node_row(name, node)).collect(),
                operations,
                rollups,
                budgets: budgets.into_iter().map(|(_, row)| row).collect(),
                changes: self.changes.clone(),
                rules: self.rules_state(),
            },
            nodes: nodes.iter().map(node_view).collect(),
            totals,
            rollups: rollup_totals,
            alerts: self.alert_views(wanted.fleet, &nodes),
            alert_counts: if wanted.fleet { self.alert_counts() } else { AlertCounts::default() },
            troubles: if wanted.fleet { self.troubles() } else { BTreeMap::new() },
            error_budgets,
            rules: Arc::clone(&self.rules),
            counts: self.counts.clone(),
            notices: self.notices,
            notice_events: self.notice_events,
            receivers: self.receivers.clone(),
            pending: self.pending.clone(),
            recoveries: self.recoveries.clone(),
            checkpoints: self.checkpoints.clone(),
            confirmations: self.confirmations,
            rule_files: self.rule_files.clone(),
            unmatched: self.matched(),
            at: self.at,
        }
    }

    fn rules_state(&self) -> RulesState {
        let unmatched = self.unmatched.iter().map(RuleName::to_string).collect();
        RulesState { rules_error: self.rule_files.error.clone(), unmatched }
    }

    fn matched(&self) -> Vec<(RuleName, bool)> {
        let names = self.rules.budgets.iter().map(|budget| &budget.name);
        names.map(|name| (name.clone(), self.unmatched.contains(name))).collect()
    }

    fn presence(&self) -> BTreeMap<Presence, u64> {
        let mut counts = BTreeMap::from(Presence::ALL.map(|presence| (presence, 0)));
        for (_, node) in self.shown() {
            *counts.entry(node.presence(self.at)).or_default() += 1;
        }
        counts
    }

    fn ledger(&self) -> Ledger {
        let mut sum = self.counts.gone.clone();
        self.nodes.iter().for_each(|(_, node)| sum.add(&node.account.ledger()));
        sum
    }

    fn node_row(&self, name: &NodeName, node: &Node) -> NodeRow {
        let bus = &node.bus.value;
        NodeRow {
            node: name.to_string(),
            presence: node.presence(self.at),
            last_heard_seconds: seconds(node.last_heard.0),
            ledger: node.account.ledger(),
            gap_samples: self.gap_samples(name),
            outbox_messages: bus.outbox_messages,
            outbox_messages_max: bus.outbox_messages_max,
            rerouted: bus.rerouted,
            dropped: bus.dropped,
        }
    }
}
