//! A message before it is sealed: it has no number and no bytes, so it may be merged with another
//! one. A merge keeps all samples and counters exactly and loses only time resolution.

mod size;
mod split;

use std::collections::BTreeMap;

use crate::limits::COALESCED_BYTES_MAX;
use plimsoll_schemas::ids::{Labels, Series};
use plimsoll_schemas::limits::wire::{EVENTS_MAX, INTERVAL_NS_MAX, SAMPLES_MAX};
use plimsoll_schemas::time::{Mono, Wall};
use plimsoll_schemas::wire::{Body, Latency};

use size::{Size, event_bytes};
pub(crate) use split::split;

/// Identifies the content of a draft; a merged draft gets a new id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DraftId(pub u64);

/// Assigns each id once.
#[derive(Debug, Default)]
pub(super) struct DraftIds(u64);

impl DraftIds {
    /// A new id.
    pub(super) fn next_id(&mut self) -> DraftId {
        self.0 += 1;
        DraftId(self.0)
    }
}

/// One message before it is sealed.
#[derive(Clone, Debug)]
pub struct Draft {
    /// What it will carry.
    pub body: Body,
    /// Start of its interval.
    pub start: Wall,
    /// Length of its interval.
    pub length_ns: u64,
    /// The node's labels when its samples were recorded: a later incarnation that sends it may
    /// have other labels.
    pub labels: Labels,
    /// True for the final message.
    pub last: bool,
    /// When its oldest part was enqueued.
    pub enqueued: Mono,
    /// When its newest part was enqueued.
    pub latest: Mono,
    /// Its id, once it is in the outbox.
    pub id: DraftId,
    size: Size,
}

impl Draft {
    /// A message about the interval that began at `start`.
    #[must_use]
    pub fn new(body: Body, start: Wall, length_ns: u64, enqueued: Mono) -> Self {
        let size = Size::of(&body);
        Self {
            body,
            start,
            length_ns: length_ns.max(1),
            labels: Labels::default(),
            last: false,
            enqueued,
            latest: enqueued,
            id: DraftId::default(),
            size,
        }
    }

    /// The same message with these labels of the node.
    #[must_use]
    pub fn labelled(self, labels: Labels) -> Self {
        Self { labels, ..self }
    }

    /// The same message, marked as the final one.
    #[must_use]
    pub fn into_final(self) -> Self {
        Self { last: true, ..self }
    }

    /// Samples that it carries.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.size.samples
    }

    /// Upper bound of its bytes, in memory or on the wire.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.size.message_bytes(&self.labels)
    }

    /// Whether it may take reserved tokens.
    #[must_use]
    pub fn is_critical(&self) -> bool {
        self.last
    }

    /// True when it carries samples, counters or gauges, which no newer message supersedes.
    #[must_use]
    pub fn is_latency(&self) -> bool {
        matches!(self.body, Body::Latency(_))
    }

    /// True when a newer message of its kind supersedes it.
    #[must_use]
    pub fn is_state(&self) -> bool {
        matches!(self.body, Body::Hardware(_) | Body::Bus(_))
    }

    /// Merges `newer` into it, unless one message cannot hold both or their labels differ.
    ///
    /// # Errors
    /// Returns `newer` when it does not fit; then no larger one fits either.
    pub fn try_join(&mut self, newer: Self) -> Result<(), Box<Self>> {
        let ((start, length_ns), latest) = (self.span(&newer), newer.latest);
        let both = self.size.plus(newer.size);
        let other = self.labels != newer.labels;
        if other || length_ns > INTERVAL_NS_MAX || both.samples > SAMPLES_MAX {
            return Err(Box::new(newer));
        }
        let (Body::Latency(ours), Body::Latency(theirs)) = (&mut self.body, &newer.body) else {
            return Err(Box::new(newer));
        };
        if both.fits() {
            let Body::Latency(theirs) = newer.body else { return Err(Box::new(newer)) };
            join(ours, theirs);
        } else {
            // Series in common count once, so only the merged size is exact.
            let mut joined = ours.clone();
            join(&mut joined, theirs.clone());
            if !Size::of_latency(&joined).fits() {
                return Err(Box::new(newer));
            }
            *ours = joined;
        }
        self.size = Size::of(&self.body);
        self.latest = self.latest.max(latest);
        (self.start, self.length_ns) = (start, length_ns);
        Ok(())
    }

    /// From the earlier start to the later end.
    fn span(&self, newer: &Self) -> (Wall, u64) {
        let start = self.start.min(newer.start);
        let end = |draft: &Self| draft.start.0.saturating_add(draft.length_ns);
        (start, end(self).max(end(newer)) - start.0)
    }

    /// Events and service checks that it carries.
    #[must_use]
    pub fn events(&self) -> u64 {
        match &self.body {
            Body::Event(events) => events.events.len() as u64,
            Body::Latency(_) | Body::Hardware(_) | Body::Bus(_) => 0,
        }
    }

    /// Puts the events of an older draft before its own; returns how many of the oldest were
    /// dropped because one message does not hold them.
    pub fn prepend_events(&mut self, older: Self) -> u64 {
        let (start, length_ns) = older.span(self);
        let (Body::Event(mut both), Body::Event(ours)) = (older.body, &mut self.body) else {
            return 0;
        };
        both.events.append(&mut ours.events);
        *ours = both;
        // A reader rejects a longer interval; each event has its own time anyway.
        self.length_ns = length_ns.min(INTERVAL_NS_MAX);
        self.start = Wall(start.0 + (length_ns - self.length_ns));
        self.enqueued = self.enqueued.min(older.enqueued);
        self.keep_newest_events()
    }

    /// Drops the oldest events until one message holds the rest; returns how many.
    pub fn keep_newest_events(&mut self) -> u64 {
        let Body::Event(body) = &mut self.body else { return 0 };
        let mut room = COALESCED_BYTES_MAX;
        let newest = body.events.iter().rev().take(EVENTS_MAX);
        let kept = newest.map_while(|event| {
            room = room.checked_sub(event_bytes(event))?;
            Some(())
        });
        let dropped = body.events.len() - kept.count();
        body.events.drain(..dropped);
        self.size = Size::of(&self.body);
        dropped as u64
    }
}

/// Merges what is newer: samples and amounts are added, the newer gauge wins.
fn join(older: &mut Latency, newer: Latency) {
    join_series(&mut older.histograms, newer.histograms, |ours, theirs| ours.merge(&theirs));
    // The sum of two finite numbers may be infinite, which the wire rejects.
    join_series(&mut older.counters, newer.counters, |ours, theirs| {
        *ours = (*ours + theirs).clamp(f64::MIN, f64::MAX);
    });
    join_series(&mut older.gauges, newer.gauges, |ours, theirs| *ours = theirs);
}

fn join_series<V>(older: &mut Vec<(Series, V)>, newer: Vec<(Series, V)>, add: impl Fn(&mut V, V)) {
    let mut joined: BTreeMap<Series, V> = std::mem::take(older).into_iter().collect();
    for (series, theirs) in newer {
        match joined.get_mut(&series) {
            Some(ours) => add(ours, theirs),
            None => drop(joined.insert(series, theirs)),
        }
    }
    *older = joined.into_iter().collect();
}

#[cfg(test)]
pub(crate) mod tests;
