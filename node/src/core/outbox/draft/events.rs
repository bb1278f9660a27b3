//! How many events one message holds, and events as several messages.

use crate::limits::COALESCED_BYTES_MAX;
use plimsoll_schemas::limits::wire::EVENTS_MAX;
use plimsoll_schemas::wire::{Event, Events};

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

/// Events in parts whose bodies are at most `bytes` long, save that of an event which is longer by
/// itself.
pub(super) fn parts(events: Events, bytes: usize) -> impl Iterator<Item = Events> {
    let mut events = events.events.into_iter().peekable();
    std::iter::from_fn(move || {
        let first = events.next()?;
        let mut room = bytes.saturating_sub(event_bytes(&first));
        let mut part = vec![first];
        while let Some(event) = events.next_if(|event| event_bytes(event) <= room) {
            room -= event_bytes(&event);
            part.push(event);
        }
        Some(Events { events: part })
    })
}

/// Upper bound of the bytes of one event.
pub(super) fn event_bytes(event: &Event) -> usize {
    let texts = [&event.title, &event.text, &event.host, &event.aggregation_key];
    let texts: usize = texts.into_iter().map(String::len).sum();
    labels_bytes(&event.labels) + texts + SERIES_BYTES
}
