//! How many events one message holds.

use crate::limits::COALESCED_BYTES_MAX;
use plimsoll_schemas::limits::wire::EVENTS_MAX;
use plimsoll_schemas::wire::Event;

use super::split::{SERIES_BYTES, labels_bytes};

/// The newest events that one message holds, and how many of the oldest it does not.
pub(super) fn newest(mut events: Vec<Event>) -> (Vec<Event>, u64) {
    let mut room = COALESCED_BYTES_MAX;
    let kept = events.iter().rev().take(EVENTS_MAX).map_while(|event| {
        room = room.checked_sub(event_bytes(event))?;
        Some(())
    });
    let dropped = events.len() - kept.count();
    events.drain(..dropped);
    (events, dropped as u64)
}

/// Upper bound of the bytes of one event.
pub(super) fn event_bytes(event: &Event) -> usize {
    let texts = [&event.title, &event.text, &event.host, &event.aggregation_key];
    let texts: usize = texts.into_iter().map(String::len).sum();
    labels_bytes(&event.labels) + texts + SERIES_BYTES
}
