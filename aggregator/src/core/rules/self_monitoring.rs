//! Self-monitoring: metrics of the aggregator itself that rules may watch under the fleet's scope.
//!
//! DESIGN A7.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::limits::{
    ABSENT_AFTER, ABSENT_AFTER_PAUSES, ABSENT_WITHIN, COUNTED_WITHIN, LOSSES_WITHIN,
    RESTARTS_WITHIN,
};
use plimsoll_schemas::budget::Budget;
use plimsoll_schemas::ids::{Labels, Operation};
use plimsoll_schemas::metric::AggregatorMetric;
use plimsoll_schemas::summary::Presence;
use plimsoll_schemas::time::{Wall, nanos};

use super::inputs::Inputs;
use super::value::Value;
use crate::core::fleet::{CounterIncrease, Fleet, Node, Windows};

/// What is remembered from one evaluation to the next; a restart begins anew.
#[derive(Debug, Default)]
pub(super) struct SelfMonitoring {
    /// `None` before the first evaluation: what was counted by then has not grown since.
    undecodable: Option<CounterIncrease>,
    undeliverable: Option<CounterIncrease>,
    task_restarts: Option<CounterIncrease>,
    /// When the latest checkpoint that is stored was taken, or when there was nothing to store.
    stored_at: Option<Wall>,
    /// True from when a checkpoint was taken until one is stored.
    is_storing: bool,
    pauses: BTreeMap<Operation, Pauses>,
}

/// What the other rooms count of the aggregator itself.
#[derive(Clone, Copy, Debug)]
pub struct SelfCounts {
    /// Messages that could not be decoded.
    pub undecodable: u64,
    /// Undeliverable notifications.
    pub undeliverable: u64,
    /// Tasks and threads that had to be started again.
    pub task_restarts: u64,
    /// Whether anything has changed since the latest checkpoint.
    pub has_unsaved: bool,
}

/// When samples of an operation came, and how long they did not.
#[derive(Clone, Copy, Debug, Default)]
struct Pauses {
    newest: Wall,
    /// Number of a span as long as half of [`ABSENT_WITHIN`].
    half: u64,
    /// The longest pauses that ended in this half and in the one before.
    longest: [Duration; 2],
}

impl SelfMonitoring {
    /// Takes what is counted and which operations report, once for each evaluation.
    pub(super) fn observe(&mut self, at: Wall, fleet: &Fleet, budgets: &[Budget], own: SelfCounts) {
        for (counted, stand, span) in [
            (&mut self.undecodable, own.undecodable, COUNTED_WITHIN),
            (&mut self.undeliverable, own.undeliverable, LOSSES_WITHIN),
            (&mut self.task_restarts, own.task_restarts, RESTARTS_WITHIN),
        ] {
            counted.get_or_insert_with(|| CounterIncrease::constant(stand)).count(at, span, stand);
        }
        if !own.has_unsaved && !self.is_storing {
            self.stored_at = self.stored_at.map(|stored| stored.max(at));
        }
        let operations = budgets.iter().map(|budget| &budget.operation);
        self.pauses.retain(|known, _| operations.clone().any(|of| of == known));
        for operation in operations {
            let newest = fleet.operations().get(operation).map(Windows::newest);
            let Some(newest) = newest else { continue };
            self.pauses.entry(operation.clone()).or_default().see(at, newest);
        }
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
            AggregatorMetric::OperationsAbsent => return Some(self.absent(at, inputs.fleet)),
        };
        value.map(|value| Value { value, labels: Labels::default() })
    }

    /// How many operations are absent, and which is the first of them.
    #[expect(clippy::cast_precision_loss, reason = "there are not that many budgets")]
    fn absent(&self, at: Wall, fleet: &Fleet) -> Value {
        let pauses = self.pauses.iter().filter(|(_, pauses)| pauses.are_too_long(at));
        let absent = pauses.map(|(operation, _)| operation).filter(|of| may_come(at, of, fleet));
        let absent: Vec<&Operation> = absent.collect();
        let first = absent.first().map(|operation| ("operation", operation.as_str()));
        let labels = Labels::new(first).expect("an operation's name is a label's value");
        Value { value: absent.len() as f64, labels }
    }

    /// The state to be stored was taken; that happens only if a store is configured.
    pub(super) fn on_taken(&mut self, now: Wall) {
        self.stored_at.get_or_insert(now);
        self.is_storing = true;
    }

    pub(super) fn on_stored(&mut self, taken_at: Wall) {
        self.stored_at = Some(taken_at);
        self.is_storing = false;
    }
}

impl Pauses {
    fn see(&mut self, at: Wall, newest: Wall) {
        let half = at.0 / (nanos(ABSENT_WITHIN) / 2);
        if half != self.half {
            let before = if half == self.half + 1 { self.longest[0] } else { Duration::ZERO };
            (self.half, self.longest) = (half, [Duration::ZERO, before]);
        }
        if newest > self.newest && self.newest > Wall(0) {
            self.longest[0] = self.longest[0].max(newest.since(self.newest));
        }
        self.newest = newest;
    }

    fn are_too_long(&self, at: Wall) -> bool {
        let longest = self.longest[0].max(self.longest[1]);
        let usual = longest * ABSENT_AFTER_PAUSES;
        let borne = if longest.is_zero() { ABSENT_WITHIN / 2 } else { usual.max(ABSENT_AFTER) };
        let pause = at.since(self.newest);
        pause > borne && pause <= ABSENT_WITHIN
    }
}

/// Whether a node reports that brought samples of this operation.
fn may_come(at: Wall, operation: &Operation, fleet: &Fleet) -> bool {
    let brought = |node: &Node| {
        let newest = node.operations.get(operation).map(Windows::newest);
        newest.is_some_and(|newest| at.since(newest) <= ABSENT_WITHIN)
    };
    fleet.shown().any(|(_, node)| node.presence(at) == Presence::Up && brought(node))
}
