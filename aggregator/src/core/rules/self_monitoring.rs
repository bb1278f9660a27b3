//! Self-monitoring: metrics of the aggregator itself that rules may watch under the fleet's scope,
//! and what it has found out about regressions.
//!
//! DESIGN A7, A177.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::limits::alerts::SILENT_NODES_NAMED_MAX;
use crate::limits::{
    COUNTED_WITHIN, LOSSES_WITHIN, NODE_SILENT_AFTER, REGRESSION_STALE_AFTER, RESTARTS_WITHIN,
};
use plimsoll_schemas::ids::{Labels, NodeName, Operation, RuleName};
use plimsoll_schemas::limits::wire::LABEL_VALUE_BYTES_MAX;
use plimsoll_schemas::metric::AggregatorMetric;
use plimsoll_schemas::summary::Presence;
use plimsoll_schemas::time::Wall;

use super::finding::{Inputs, Value};
use crate::core::fleet::CounterIncrease;

/// What is remembered from one evaluation to the next; a restart begins anew, and then some figures
/// are only known to be at least so great.
#[derive(Clone, Debug, Default)]
pub(in crate::core) struct SelfMonitoring {
    /// When this was first observed.
    begun_at: Option<Wall>,
    /// `None` before the first evaluation: what was counted by then has not grown since.
    undecodable: Option<CounterIncrease>,
    undeliverable: Option<CounterIncrease>,
    task_restarts: Option<CounterIncrease>,
    /// When the latest checkpoint that is stored was taken, or when there was nothing to store.
    stored_at: Option<Wall>,
    /// True from when a checkpoint was taken until one is stored.
    is_storing: bool,
    /// Whether any was stored since the start.
    has_stored: bool,
    absent: Vec<Operation>,
    quiet: Arc<BTreeSet<NodeName>>,
    /// By how much operations have regressed, by rule, and when that was found.
    regressions: (Wall, Arc<BTreeMap<RuleName, Option<Value>>>),
}

/// What the other rooms count of the aggregator itself.
#[derive(Clone, Debug)]
pub struct SelfCounts {
    /// Messages that could not be decoded.
    pub undecodable: u64,
    pub undeliverable: u64,
    /// Tasks and threads that had to be started again.
    pub task_restarts: u64,
    /// Whether anything has changed since the latest checkpoint.
    pub has_unsaved: bool,
    /// Silent nodes of which receivers are not to be notified.
    pub quiet: BTreeSet<NodeName>,
}

impl SelfMonitoring {
    /// Takes what is counted and which operations are absent, once for each evaluation.
    pub(super) fn observe(&mut self, at: Wall, absent: Vec<Operation>, own: SelfCounts) {
        self.begun_at.get_or_insert(at);
        for (counted, stand, span) in [
            (&mut self.undecodable, own.undecodable, COUNTED_WITHIN),
            (&mut self.undeliverable, own.undeliverable, LOSSES_WITHIN),
            (&mut self.task_restarts, own.task_restarts, RESTARTS_WITHIN),
        ] {
            counted.get_or_insert_with(|| CounterIncrease::constant(stand)).count(at, span, stand);
        }
        // With nothing to store, what is on the disk is as good as if it was stored now.
        if !own.has_unsaved && !self.is_storing {
            self.stored_at = self.stored_at.map(|stored| stored.max(at));
        }
        (self.absent, self.quiet) = (absent, Arc::new(own.quiet));
    }

    /// By how much operations had regressed at `at`, by rule; `None` of one that could not be
    /// judged.
    pub(in crate::core) fn on_regressions(
        &mut self,
        at: Wall,
        found: BTreeMap<RuleName, Option<Value>>,
    ) {
        self.regressions = (at, Arc::new(found));
    }

    /// By how much the operation of a rule has regressed, if that was compared lately; the inner
    /// option is `None` if there was not enough to judge.
    pub(super) fn regression(&self, at: Wall, rule: &RuleName) -> Option<Option<Value>> {
        let (found_at, found) = &self.regressions;
        let is_fresh = at.since(*found_at) < REGRESSION_STALE_AFTER;
        found.get(rule).filter(|_| is_fresh).cloned()
    }

    #[expect(clippy::cast_precision_loss, reason = "to be compared with a threshold, no account")]
    pub(super) fn figure(
        &self,
        at: Wall,
        figure: AggregatorMetric,
        inputs: Inputs<'_>,
    ) -> Option<Value> {
        let grown = |counted: Option<CounterIncrease>, span| counted.map(|of| of.within(at, span));
        let value = match figure {
            AggregatorMetric::PendingMessages => {
                inputs.broker.pending.map(|pending| pending as f64)
            }
            AggregatorMetric::Undecodable => grown(self.undecodable, COUNTED_WITHIN),
            AggregatorMetric::Undeliverable => grown(self.undeliverable, LOSSES_WITHIN),
            AggregatorMetric::TaskRestarts => grown(self.task_restarts, RESTARTS_WITHIN),
            AggregatorMetric::CheckpointAgeSeconds => {
                self.stored_at.map(|stored| at.since(stored).as_secs_f64())
            }
            AggregatorMetric::BrokerUnreachableSeconds => {
                inputs.broker.unreachable_for.map(|away| away.as_secs_f64())
            }
            AggregatorMetric::BrokerRoundTripSeconds => {
                inputs.broker.round_trip.map(|round_trip| round_trip.as_secs_f64())
            }
            AggregatorMetric::StreamUsedRatio => inputs.broker.stream_used,
            AggregatorMetric::TableUsedRatio => return fullest_table(inputs),
            AggregatorMetric::SilentNodes => return silent_nodes(at, inputs, &self.quiet),
            AggregatorMetric::OperationsAbsent => return Some(self.absent()),
        };

        value.map(|value| Value { value, labels: Labels::default() })
    }

    /// Whether the figure may be greater than this process knows: what was counted before it began,
    /// and a disk on which it has stored nothing yet. Such a figure can breach a rule and clear
    /// none: a restart mends no disk.
    pub(super) fn is_lower_bound(&self, at: Wall, figure: AggregatorMetric) -> bool {
        let known_for = |span| self.begun_at.is_some_and(|begun| at.since(begun) >= span);
        match figure {
            AggregatorMetric::CheckpointAgeSeconds => !self.has_stored,
            AggregatorMetric::Undecodable => !known_for(COUNTED_WITHIN),
            AggregatorMetric::Undeliverable => !known_for(LOSSES_WITHIN),
            AggregatorMetric::TaskRestarts => !known_for(RESTARTS_WITHIN),
            _ => false,
        }
    }

    /// How many operations are absent, and which is the first of them.
    #[expect(clippy::cast_precision_loss, reason = "there are not that many budgets")]
    fn absent(&self) -> Value {
        let first = self.absent.first().map(|operation| ("operation", operation.as_str()));
        let labels = Labels::new(first).expect("an operation's name is a label's value");
        Value { value: self.absent.len() as f64, labels }
    }

    /// The state to be stored was taken; that happens only if a store is configured.
    pub(in crate::core) fn on_taken(&mut self, now: Wall) {
        self.stored_at.get_or_insert(now);
        self.is_storing = true;
    }

    pub(in crate::core) fn on_stored(&mut self, taken_at: Wall) {
        self.stored_at = Some(taken_at);
        (self.is_storing, self.has_stored) = (false, true);
    }
}

/// How full the fullest table is, and which one it is.
fn fullest_table(inputs: Inputs<'_>) -> Option<Value> {
    let (table, value) = inputs.fleet.tables.fullest()?;
    let labels = Labels::new([("table", table)]).expect("a table's name is a label's value");
    Some(Value { value, labels })
}

/// How many nodes are silent, but for the quiet ones, and which are the first of them; `None` while
/// they may be cut off together with the aggregator.
fn silent_nodes(at: Wall, inputs: Inputs<'_>, quiet: &BTreeSet<NodeName>) -> Option<Value> {
    let (mut nodes, mut names) = (0_u32, Vec::new());

    for (name, node) in inputs.fleet.shown() {
        if node.presence(at) != Presence::Silent || quiet.contains(name) {
            continue;
        }
        // While one of them may be cut off together with the aggregator the number is unknown: a
        // dead broker must not fire this alert too (A9).
        let silence = inputs.broker.silence(at.since(node.last_seen).as_secs_f64())?;
        if silence < NODE_SILENT_AFTER.as_secs_f64() {
            continue;
        }
        nodes += 1;
        if names.len() < SILENT_NODES_NAMED_MAX {
            names.push(name.as_str());
        }
    }

    let fits = |names: &[&str]| names.join(",").len() <= LABEL_VALUE_BYTES_MAX;
    // Names have any length, and a label's value has not.
    while !fits(&names) {
        names.pop();
    }
    let named = (!names.is_empty()).then(|| ("nodes", names.join(",")));
    let labels = Labels::new(named).expect("names of nodes and commas are a label's value");
    Some(Value { value: f64::from(nodes), labels })
}
