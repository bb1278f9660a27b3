//! Events and service checks: parses their lines, and collects those of the open interval up to
//! what one message holds.

mod line;

use plimsoll_schemas::ids::Labels;
use plimsoll_schemas::limits::wire::{EVENTS_MAX, MESSAGE_BYTES_SPLIT};
use plimsoll_schemas::wire::{Event, Events};

use super::reject::Reject;
pub(super) use line::{is_event, parse};

/// An upper bound of the bytes around an event's texts and labels: field names and numbers.
const EVENT_BYTES: usize = 128;
/// An upper bound of the bytes around a label.
const LABEL_BYTES: usize = 6;

/// The events of the open interval, which fit into one message.
#[derive(Default)]
pub(super) struct OpenEvents {
    events: Vec<Event>,
    bytes: usize,
}

impl OpenEvents {
    pub(super) fn push(&mut self, event: Event) -> Result<(), Reject> {
        let bytes = self.bytes + bytes(&event);
        if self.events.len() == EVENTS_MAX || bytes > MESSAGE_BYTES_SPLIT {
            return Err(Reject::EventsCap);
        }
        self.bytes = bytes;
        self.events.push(event);
        Ok(())
    }

    /// Removes all events at the end of the interval.
    pub(super) fn take(&mut self) -> Events {
        Events { events: std::mem::take(self).events }
    }
}

/// An upper bound of the bytes of an event in a message.
fn bytes(event: &Event) -> usize {
    let texts = [&event.title, &event.text, &event.host, &event.aggregation_key];
    let texts: usize = texts.into_iter().map(String::len).sum();
    texts + label_bytes(&event.labels) + EVENT_BYTES
}

fn label_bytes(labels: &Labels) -> usize {
    labels.iter().map(|(key, value)| key.len() + value.len() + LABEL_BYTES).sum()
}

#[cfg(test)]
mod tests;
