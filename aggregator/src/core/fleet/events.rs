//! The newest events and service checks of the fleet, shown beside the metrics of their time. No
//! rule judges them.
//!
//! They are kept in the order in which their messages were merged, each once. When there are too
//! many, the node with most of them gives up its oldest. No checkpoint holds them: after a restart
//! the list begins empty. Their counts and the checks' statuses belong to the nodes and do survive
//! a restart.
//!
//! DESIGN A15, A175.

use std::collections::VecDeque;

use super::bounded::shorten;
use crate::limits::EVENTS_KEPT_MAX;
use plimsoll_schemas::ids::NodeName;
use plimsoll_schemas::summary::EventRow;
use plimsoll_schemas::time::{Wall, seconds};
use plimsoll_schemas::wire::{AlertType, Event, EventSource};

/// The newest events, at most [`EVENTS_KEPT_MAX`].
#[derive(Debug, Default)]
pub(in crate::core) struct RecentEvents(VecDeque<MergedEvent>);

#[derive(Debug)]
struct MergedEvent {
    node: NodeName,
    at: Wall,
    event: Event,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventsQuery {
    /// This many of the newest.
    pub limit: usize,
    pub node: Option<NodeName>,
    pub source: Option<EventSource>,
    /// Only so bad ones.
    pub alert_type: Option<AlertType>,
}

impl Default for EventsQuery {
    fn default() -> Self {
        Self { limit: EVENTS_KEPT_MAX, node: None, source: None, alert_type: None }
    }
}

impl EventsQuery {
    fn fits(&self, MergedEvent { node, event, .. }: &MergedEvent) -> bool {
        self.node.as_ref().is_none_or(|wanted| wanted == node)
            && self.source.is_none_or(|wanted| wanted == event.source)
            && self.alert_type.is_none_or(|wanted| wanted == event.alert_type)
    }
}

impl RecentEvents {
    /// Takes the events of one message, which was merged at `at`.
    pub(super) fn push(&mut self, node: &NodeName, at: Wall, events: Vec<Event>) {
        let merged = |event| MergedEvent { node: node.clone(), at, event };
        self.0.extend(events.into_iter().map(merged));
        shorten(&mut self.0, EVENTS_KEPT_MAX, |merged| merged.node.as_str());
    }

    pub(in crate::core) fn rows(&self, query: &EventsQuery) -> Vec<EventRow> {
        let newest_first = self.0.iter().rev();
        newest_first.filter(|merged| query.fits(merged)).take(query.limit).map(row).collect()
    }
}

fn row(MergedEvent { node, at, event }: &MergedEvent) -> EventRow {
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
