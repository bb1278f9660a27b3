//! How the aggregator itself is: figures that rules may watch under the fleet's scope.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::limits::{
    ABSENT_AFTER, ABSENT_AFTER_PAUSES, ABSENT_WITHIN, COUNTED_WITHIN, LOSSES_WITHIN,
};
use plimsoll_schemas::ids::{Labels, Operation};
use plimsoll_schemas::metric::FleetFigure;
use plimsoll_schemas::summary::Presence;
use plimsoll_schemas::time::{Wall, nanos};

use crate::core::Core;
use crate::core::fleet::node::{Counted, Node};
use crate::core::fleet::window::Windows;
use crate::core::rules::thresholds::Value;

/// What is remembered from one look to the next; a restart begins anew.
#[derive(Debug, Default)]
pub(crate) struct Itself {
    /// None before the first look: what was counted by then is no news.
    undecodable: Option<Counted>,
    undelivered: Option<Counted>,
    /// When the latest checkpoint that is stored was taken, or when there was nothing to store.
    stored_at: Option<Wall>,
    /// True from when a checkpoint was taken until one is stored.
    is_storing: bool,
    pauses: BTreeMap<Operation, Pauses>,
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

impl Itself {
    /// What is to be stored was taken; which happens only where it is to be.
    pub(crate) fn on_taken(&mut self, now: Wall) {
        self.stored_at.get_or_insert(now);
        self.is_storing = true;
    }

    pub(crate) fn on_stored(&mut self, taken_at: Wall) {
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

impl Core {
    /// Looks at what is counted and at which operations speak, once for each evaluation.
    pub(crate) fn watch_itself(&mut self, at: Wall) {
        let undecodable = self.counts.undecodable.values().sum::<u64>();
        let undelivered = self.notices.counts().undelivered + self.deliveries.given_up();
        let has_unsaved = self.has_unsaved();
        let itself = &mut self.itself;
        for (counted, stand, span) in [
            (&mut itself.undecodable, undecodable, COUNTED_WITHIN),
            (&mut itself.undelivered, undelivered, LOSSES_WITHIN),
        ] {
            counted.get_or_insert_with(|| Counted::standing(stand)).count(at, span, stand);
        }
        if !has_unsaved && !itself.is_storing {
            itself.stored_at =
                itself.stored_at.max(Some(at)).filter(|_| itself.stored_at.is_some());
        }
        let rules = Arc::clone(&self.rules);
        let operations = rules.budgets.iter().map(|budget| &budget.operation);
        self.itself.pauses.retain(|known, _| operations.clone().any(|of| of == known));
        for operation in operations {
            let Some(newest) = self.fleet.get(operation).map(Windows::newest) else { continue };
            self.itself.pauses.entry(operation.clone()).or_default().see(at, newest);
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "to be compared with a threshold, no account")]
    pub(crate) fn fleet_figure(&self, at: Wall, figure: FleetFigure) -> Option<Value> {
        let grown = |counted: Option<Counted>, span| counted.map(|of| of.within(at, span));
        let value = match figure {
            // How it was then nobody knows.
            FleetFigure::PendingMessages | FleetFigure::BrokerAwaySeconds
                if self.past.is_some() =>
            {
                None
            }
            FleetFigure::PendingMessages => {
                Some(self.lanes.values().fold(0, |n: u64, of| n.saturating_add(of.pending)) as f64)
            }
            FleetFigure::Undecodable => grown(self.itself.undecodable, COUNTED_WITHIN),
            FleetFigure::Undelivered => grown(self.itself.undelivered, LOSSES_WITHIN),
            FleetFigure::CheckpointAgeSeconds => {
                self.itself.stored_at.map(|stored| at.since(stored).as_secs_f64())
            }
            FleetFigure::BrokerAwaySeconds => Some(self.broker_away().as_secs_f64()),
            FleetFigure::OperationsAbsent => return Some(self.absent(at)),
        };
        value.map(|value| Value { value, labels: Labels::default() })
    }

    /// How many operations are absent, and which is the first of them.
    #[expect(clippy::cast_precision_loss, reason = "there are not that many budgets")]
    fn absent(&self, at: Wall) -> Value {
        let pauses = self.itself.pauses.iter().filter(|(_, pauses)| pauses.are_too_long(at));
        let absent = pauses.map(|(operation, _)| operation).filter(|of| self.may_come(at, of));
        let absent: Vec<&Operation> = absent.collect();
        let first = absent.first().map(|operation| ("operation", operation.as_str()));
        let labels = Labels::new(first).expect("an operation's name is a label's value");
        Value { value: absent.len() as f64, labels }
    }

    /// Whether a node speaks that brought samples of this operation.
    fn may_come(&self, at: Wall, operation: &Operation) -> bool {
        let brought = |node: &Node| {
            let newest = node.operations.get(operation).map(Windows::newest);
            newest.is_some_and(|newest| at.since(newest) <= ABSENT_WITHIN)
        };
        let mut shown = self.nodes.values().filter(|node| !node.hidden);
        shown.any(|node| node.presence(at) == Presence::Heard && brought(node))
    }
}

#[cfg(test)]
mod tests;
