//! A message before it is sealed: it has no number, so it may be merged with another one. A merge
//! keeps all samples and counters exactly and loses only time resolution.
//!
//! Its body is kept encoded, as small as it will be sent, and decoded only to be merged or split.
//! Drafts of one interval are combined into one message when they are sealed.
//!
//! DESIGN N44.

mod events;
mod merge;
mod split;

use bytes::Bytes;
use plimsoll_schemas::ids::Labels;
use plimsoll_schemas::limits::wire::{
    INTERVAL_NS_MAX, LABEL_KEY_BYTES_MAX, LABEL_VALUE_BYTES_MAX, LABELS_MAX, SAMPLES_MAX,
};
use plimsoll_schemas::subject::SnapshotKind;
use plimsoll_schemas::time::{Mono, Wall};
use plimsoll_schemas::wire::{
    Body, EncodedBody, Events, apply_changes, combine_bodies, decode_body, encode_body,
};

use crate::limits::COALESCED_BYTES_MAX;

use events::{newest, parts};
use merge::merge;
pub(crate) use split::split;
use split::{LABEL_BYTES, labels_bytes};

/// Bytes of a message around its body, at most and without the node's labels.
pub(super) const HEADER_BYTES: usize = 1_024;
/// Bytes of the node's labels, at most.
pub(super) const NODE_LABELS_BYTES_MAX: usize =
    LABELS_MAX * (LABEL_KEY_BYTES_MAX + LABEL_VALUE_BYTES_MAX + LABEL_BYTES);

/// Identifies the content of a draft; a merged draft gets a new id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DraftId(pub u64);

/// Assigns each id once.
#[derive(Debug, Default)]
pub(super) struct DraftIds(u64);

impl DraftIds {
    pub(super) fn next_id(&mut self) -> DraftId {
        self.0 += 1;
        DraftId(self.0)
    }
}

/// How urgent a message is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// A reading without a change of state: the first to be dropped.
    Low,
    #[default]
    Normal,
    /// A warning, or what the rules declare high: overtakes a backlog by the emergency lane.
    High,
    /// A breach, a critical event, a lost device, the final message: overtakes a backlog by the
    /// emergency lane, with reserved tokens.
    Critical,
    /// What the rules declare critical: takes the emergency lane at once, with reserved tokens.
    Immediate,
}

/// One message before it is sealed.
#[derive(Clone, Debug)]
pub struct Draft {
    pub kind: SnapshotKind,
    pub body: Bytes,
    pub start: Wall,
    pub length_ns: u64,
    /// The node's labels when its samples were recorded: a later incarnation that sends it may
    /// have other labels.
    pub labels: Labels,
    pub priority: Priority,
    /// How many messages it stands for, as they were produced.
    pub produced: u64,
    /// True for the final message.
    pub last: bool,
    /// When its oldest part was enqueued.
    pub enqueued: Mono,
    /// When its newest part was enqueued.
    pub latest: Mono,
    /// Its id, once it is in the outbox.
    pub id: DraftId,
    samples: u64,
    own_samples: u64,
    events: u64,
    has_bus: bool,
}

impl Draft {
    /// A message about the interval that began at `start`; one message must hold `body`.
    pub fn new(body: &Body, start: Wall, length_ns: u64, enqueued: Mono) -> Self {
        Self {
            kind: body.kind(),
            body: Bytes::from(encode_body(body)),
            start,
            length_ns: length_ns.max(1),
            labels: Labels::default(),
            priority: Priority::default(),
            produced: 1,
            last: false,
            enqueued,
            latest: enqueued,
            id: DraftId::default(),
            samples: body.samples(),
            own_samples: body.own_samples(),
            events: events_of(body),
            has_bus: body.kind() == SnapshotKind::Bus,
        }
    }

    /// The same message with others of its interval, each of another kind.
    pub fn combined_with(self, others: &[Self]) -> Self {
        let all = || std::iter::once(&self).chain(others);
        let bodies: Vec<_> =
            all().map(|draft| EncodedBody { kind: draft.kind, bytes: &draft.body }).collect();

        // Only messages with samples state the node's labels (N16).
        let labelled = all().find(|draft| draft.is_latency());

        Self {
            kind: SnapshotKind::Interval,
            body: Bytes::from(combine_bodies(&bodies)),
            labels: labelled.map_or_else(Labels::default, |latency| latency.labels.clone()),
            priority: all().map(|draft| draft.priority).max().unwrap_or_default(),
            produced: all().map(|draft| draft.produced).sum(),
            enqueued: all().map(|draft| draft.enqueued).min().unwrap_or(self.enqueued),
            samples: all().map(|draft| draft.samples).sum(),
            own_samples: all().map(|draft| draft.own_samples).sum(),
            events: all().map(|draft| draft.events).sum(),
            has_bus: all().any(|draft| draft.has_bus),
            ..self
        }
    }

    /// Whether both are about the same interval.
    pub fn is_of_interval(&self, other: &Self) -> bool {
        let of = |draft: &Self| (draft.start, draft.length_ns, draft.latest);
        of(self) == of(other)
    }

    /// Whether it reports the node's outbox and connection.
    pub fn has_bus(&self) -> bool {
        self.has_bus
    }

    pub fn labelled(self, labels: Labels) -> Self {
        Self { labels, ..self }
    }

    pub fn prioritized(self, priority: Priority) -> Self {
        Self { priority, ..self }
    }

    /// The same message, which stands for this many as they were produced.
    pub fn standing_for(self, produced: u64) -> Self {
        Self { produced, ..self }
    }

    pub fn into_final(self) -> Self {
        Self { last: true, priority: Priority::Critical, ..self }
    }

    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// Those of them that the node took of itself.
    pub fn own_samples(&self) -> u64 {
        self.own_samples
    }

    pub fn events(&self) -> u64 {
        self.events
    }

    /// Upper bound of its bytes, in memory or on the wire.
    pub fn bytes(&self) -> usize {
        HEADER_BYTES + labels_bytes(&self.labels) + self.body.len()
    }

    /// Whether it may overtake a backlog.
    pub fn is_urgent(&self) -> bool {
        self.priority >= Priority::High
    }

    /// Whether it may take reserved tokens as well.
    pub fn is_critical(&self) -> bool {
        self.priority >= Priority::Critical
    }

    /// True when it carries samples, counters or gauges, which no newer message supersedes.
    pub fn is_latency(&self) -> bool {
        self.kind == SnapshotKind::Latency
    }

    /// True when a newer message of its kind supersedes it.
    pub fn is_state(&self) -> bool {
        matches!(self.kind, SnapshotKind::Hardware | SnapshotKind::Bus)
    }

    /// What it carries; `None` when no reader could read it, and then it is not merged either.
    pub fn decode(&self) -> Option<Body> {
        decode_body(self.kind, &self.body).ok()
    }

    fn set_body(&mut self, body: &Body) {
        self.body = Bytes::from(encode_body(body));
        (self.samples, self.own_samples) = (body.samples(), body.own_samples());
        self.events = events_of(body);
    }

    /// Takes over from an older draft what it supersedes or merges: its age, its urgency and the
    /// messages that it stands for.
    fn succeed(&mut self, older: &Self) {
        self.enqueued = self.enqueued.min(older.enqueued);
        self.priority = self.priority.max(older.priority);
        self.produced += older.produced;
    }

    /// Takes the place of an older reading of its kind. The greater depth of two bus messages is
    /// kept: it is the only value that the next one does not repeat. Changes of the older one's
    /// readings become these readings.
    pub fn supersede(&mut self, older: &Self) {
        self.succeed(older);
        match (older.decode(), self.decode()) {
            // Changes name readings by their place in a set, so they mean nothing beside another
            // one. Two changes of one set both stand for themselves: the newer is enough.
            (Some(Body::Hardware(mut older)), Some(Body::Hardware(newer)))
                if newer.is_change() && newer.set == older.set && !older.is_change() =>
            {
                apply_changes(&mut older.readings, &newer.changed);
                self.set_body(&Body::Hardware(older));
            }
            (Some(Body::Bus(older)), Some(Body::Bus(mut bus))) => {
                bus.outbox_depth_max = bus.outbox_depth_max.max(older.outbox_depth_max);
                self.set_body(&Body::Bus(bus));
            }
            _ => {}
        }
    }

    /// Puts the events of an older draft before its own; returns how many of the oldest were
    /// dropped because one message does not hold them.
    pub fn prepend_events(&mut self, older: &Self) -> u64 {
        let bodies = (older.decode(), self.decode());
        let (Some(Body::Event(theirs)), Some(Body::Event(ours))) = bodies else { return 0 };
        self.succeed(older);

        let (start, length_ns) = span([older, self]);
        // A reader rejects a longer interval; each event has its own time anyway.
        self.length_ns = length_ns.min(INTERVAL_NS_MAX);
        self.start = Wall(start.0 + (length_ns - self.length_ns));
        let (events, dropped) = newest([theirs.events, ours.events].concat());
        self.set_body(&Body::Event(Events { events }));
        dropped
    }

    /// Splits latencies and events whose body is longer than `bytes` into messages that are as
    /// short, if each series and event is. The last of them stands for what it was produced of:
    /// until it is acknowledged, so is not all of it.
    pub fn split_at(self, bytes: usize) -> Vec<Self> {
        // Decoding is what costs, and most messages are short enough.
        let body = if self.body.len() > bytes { self.decode() } else { None };
        let bodies: Vec<Body> = match body {
            Some(Body::Latency(latency)) => {
                split(latency, bytes).into_iter().map(Body::Latency).collect()
            }
            Some(Body::Event(events)) => parts(events, bytes).map(Body::Event).collect(),
            _ => return vec![self],
        };

        let part = |body| {
            let draft = Self::new(&body, self.start, self.length_ns, self.enqueued);
            let Self { labels, latest, priority, .. } = self.clone();
            Self { labels, latest, priority, produced: 0, ..draft }
        };

        let mut parts: Vec<Self> = bodies.into_iter().map(part).collect();
        if let Some(last) = parts.last_mut() {
            last.produced = self.produced;
        }
        parts
    }

    /// Merges the latencies of neighbouring intervals, each of which may be several messages, into
    /// as few messages as hold them: series that are in several cost their names once. `None` when
    /// that is impossible or makes them neither fewer nor a tenth smaller.
    pub fn join(drafts: &[&Self]) -> Option<Vec<Self>> {
        let first = drafts.first()?;
        let (start, length_ns) = span(drafts.iter().copied());
        let samples = drafts.iter().fold(0_u64, |sum, of| sum.saturating_add(of.samples));
        let is_mixed = drafts.iter().any(|draft| draft.labels != first.labels);
        // A message states one set of labels, and a reader refuses longer ones or more samples.
        if is_mixed || length_ns > INTERVAL_NS_MAX || samples > SAMPLES_MAX {
            return None;
        }

        let latency = |draft: &&Self| match draft.decode()? {
            Body::Latency(latency) => Some(latency),
            _ => None,
        };

        let bodies = drafts.iter().map(latency).collect::<Option<Vec<_>>>()?;
        let parts = split(merge(bodies), COALESCED_BYTES_MAX);
        // Together the parts stand for as many messages as before, or the depth would change.
        let number = parts.len().max(1) as u64;
        let produced: u64 = drafts.iter().map(|draft| draft.produced).sum();

        let part = |(index, latency): (u64, _)| {
            let mut joined = Self::new(&Body::Latency(latency), start, length_ns, first.enqueued)
                .labelled(first.labels.clone());
            drafts.iter().for_each(|draft| joined.succeed(draft));
            joined.latest = drafts.iter().map(|draft| draft.latest).max().unwrap_or(first.latest);
            let rest = if index == 0 { produced % number } else { 0 };
            joined.produced = produced / number + rest;
            joined
        };

        let joined: Vec<Self> = (0..).zip(parts).map(part).collect();

        // As many drafts as before are worth their work only where they are a tenth smaller.
        let bytes = |sum: usize, draft: &Self| sum + draft.bytes();
        let before = drafts.iter().copied().fold(0, bytes);
        let is_smaller = joined.iter().fold(0, bytes) <= before - before / 10;
        let is_fewer = joined.len() < drafts.len();
        (is_fewer || joined.len() == drafts.len() && is_smaller).then_some(joined)
    }
}

/// From the earliest start to the latest end.
fn span<'a>(drafts: impl IntoIterator<Item = &'a Draft>) -> (Wall, u64) {
    let ends = |draft: &Draft| (draft.start, draft.start.0.saturating_add(draft.length_ns));
    let both = drafts.into_iter().map(ends);
    let (start, end) = both
        .fold((Wall(u64::MAX), 0), |(start, end), (from, until)| (start.min(from), end.max(until)));
    (start, end.saturating_sub(start.0))
}

fn events_of(body: &Body) -> u64 {
    match body {
        Body::Event(events) => events.events.len() as u64,
        _ => 0,
    }
}

#[cfg(test)]
pub(crate) mod tests;
