//! The newest events and service checks of the fleet, to be shown beside the figures of their
//! time. Nothing is judged by them.
//!
//! They stand in the order in which their messages were merged, each once, since the ledger has
//! decided before. They are in no checkpoint: an aggregator that restarts knows those of the
//! messages that it reads from then on. Their counts and the checks' statuses are the nodes' own
//! and do outlive it.

use std::collections::VecDeque;

use crate::limits::EVENTS_KEPT_MAX;
use plimsoll_schemas::ids::NodeName;
use plimsoll_schemas::summary::{EventRow, EventsPage};
use plimsoll_schemas::time::{Wall, seconds};
use plimsoll_schemas::wire::{AlertType, Event, EventSource};

use crate::core::Core;

/// The newest events, at most [`EVENTS_KEPT_MAX`].
#[derive(Debug, Default)]
pub(crate) struct Newest(VecDeque<Merged>);

#[derive(Debug)]
struct Merged {
    node: NodeName,
    at: Wall,
    event: Event,
}

/// Which events someone asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// So many of the newest.
    pub limit: usize,
    /// Of this node.
    pub node: Option<NodeName>,
    /// Of this source.
    pub source: Option<EventSource>,
    /// Only so bad ones.
    pub alert_type: Option<AlertType>,
}

impl Default for Wanted {
    fn default() -> Self {
        Self { limit: EVENTS_KEPT_MAX, node: None, source: None, alert_type: None }
    }
}

impl Wanted {
    fn fits(&self, Merged { node, event, .. }: &Merged) -> bool {
        self.node.as_ref().is_none_or(|wanted| wanted == node)
            && self.source.is_none_or(|wanted| wanted == event.source)
            && self.alert_type.is_none_or(|wanted| wanted == event.alert_type)
    }
}

impl Newest {
    /// Takes the events of one message, which was merged at `at`.
    pub(crate) fn push(&mut self, node: &NodeName, at: Wall, events: Vec<Event>) {
        self.0.extend(events.into_iter().map(|event| Merged { node: node.clone(), at, event }));
        let too_many = self.0.len().saturating_sub(EVENTS_KEPT_MAX);
        self.0.drain(..too_many);
    }
}

impl Core {
    /// The newest events that are wanted, newest first.
    #[must_use]
    pub fn events(&self, now: Wall, wanted: &Wanted) -> EventsPage {
        let newest_first = self.events.0.iter().rev();
        let fitting = newest_first.filter(|merged| wanted.fits(merged)).take(wanted.limit);
        EventsPage {
            mesh: self.mesh.to_string(),
            at_seconds: seconds(now.0),
            ready: self.ready,
            events: fitting.map(row).collect(),
        }
    }
}

fn row(Merged { node, at, event }: &Merged) -> EventRow {
    let event = event.clone();
    EventRow {
        node: node.to_string(),
        merged_at_seconds: seconds(at.0),
        at_seconds: seconds(event.at.0),
        source: event.source,
        title: event.title,
        text: event.text,
        alert_type: event.alert_type,
        low_priority: event.low_priority,
        host: event.host,
        aggregation_key: event.aggregation_key,
        labels: event.labels,
    }
}

#[cfg(test)]
pub(crate) mod tests;
