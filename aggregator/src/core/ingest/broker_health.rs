//! Whether the broker answers and messages are read as they come. An aggregator that is cut off
//! reads of no node, which is no silence of the nodes; nodes that were cut off too get some time
//! to reconnect before they count as silent.
//!
//! DESIGN A9.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::limits::{
    NODE_RECONNECTS_SOON, NODE_RETURN_MARGIN, NODE_RETURN_WITHIN, NODE_SILENT_AFTER,
    ROUND_TRIP_STALE_AFTER,
};
use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::time::Mono;
use plimsoll_schemas::transport::{BusEvent, reconnect_span};

/// The broker's health at one evaluation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BrokerHealth {
    /// For how long the broker has not answered; `None` while catching up, when nothing is known
    /// of it.
    pub unreachable_for: Option<Duration>,
    /// Messages still to be read; `None` while catching up.
    pub pending: Option<u64>,
    /// For how long messages have been read as they came; `None` while they are not.
    reading_for: Option<Duration>,
    /// Time over which nodes spread their attempts to reconnect, if that is more than a moment.
    pub reconnects_within: Duration,
    /// The median of the round trips of the aggregator and all nodes, the smaller of two; `None`
    /// while the broker does not answer.
    pub round_trip: Option<Duration>,
    /// Used share of the fullest stream that refuses messages when it is full; `None` before any
    /// was looked up.
    pub stream_used: Option<f64>,
}

impl BrokerHealth {
    /// Whether a node that was last seen so long ago is silent rather than cut off with the
    /// aggregator.
    pub fn is_silence_certain(&self, silent_seconds: f64) -> bool {
        let return_within = NODE_RETURN_WITHIN.max(self.reconnects_within + NODE_RETURN_MARGIN);
        // Or all messages have been read since the node was last seen: then it is silent by itself.
        let certain =
            |reading: Duration| reading >= return_within || reading.as_secs_f64() >= silent_seconds;
        self.reading_for.is_some_and(certain)
    }

    /// For how long a node that was last seen so long ago is silent beyond the time that it may
    /// take to reconnect, in seconds: any node of a large mesh that loses its connection, alone or
    /// with others, waits for its place. `None` while it may be cut off with the aggregator.
    pub fn silence(&self, silent_seconds: f64) -> Option<f64> {
        let beyond = (silent_seconds - self.reconnects_within.as_secs_f64()).max(0.0);
        self.is_silence_certain(silent_seconds).then_some(beyond)
    }

    /// By how much a node's way to the broker takes longer than that of half of the mesh; `None`
    /// while that is not known.
    pub fn link_delay(&self, way: Duration) -> Option<Duration> {
        self.round_trip.map(|usual| way.saturating_sub(usual))
    }
}

/// What nodes report of their way to the broker.
#[derive(Debug, Default)]
pub struct MeshLinks {
    pub nodes: u32,
    /// Their latest round trips, of those that report one.
    pub round_trips: Vec<Duration>,
}

/// What is known of the way to the broker; a restart begins anew.
#[derive(Debug, Default)]
pub(super) struct BrokerWatch {
    /// Whether a connected broker does not answer.
    stalled: bool,
    unreachable_since: Option<Mono>,
    /// Since when all that was stored has been read as it came.
    reading_since: Option<Mono>,
    /// How long each had lasted when last watched.
    unreachable_for: Duration,
    reading_for: Option<Duration>,
    pub(super) reconnects_within: Duration,
    /// The aggregator's own latest round trip, and when it ended.
    own_round_trip: Option<(Mono, Duration)>,
    round_trip: Option<Duration>,
    /// Used shares of lanes' streams; 0 of one that is never full.
    pub(super) streams_used: BTreeMap<Lane, f64>,
}

impl BrokerWatch {
    pub(super) fn on_event(&mut self, event: &BusEvent, now: Mono) {
        if let BusEvent::RoundTrip(span) = event {
            self.own_round_trip = Some((now, *span));
        }
        let answers = match event {
            BusEvent::Connected { .. } => true,
            BusEvent::Disconnected | BusEvent::Stalled => false,
            // Only a stall is ended by a round trip, not the loss of a connection.
            BusEvent::RoundTrip(_) if self.stalled => true,
            _ => return,
        };
        self.stalled = *event == BusEvent::Stalled;
        self.set_answers(answers, now);
    }

    fn set_answers(&mut self, answers: bool, now: Mono) {
        if answers {
            self.unreachable_since = None;
        } else {
            self.unreachable_since.get_or_insert(now);
            (self.reading_since, self.reading_for) = (None, None);
        }
    }

    /// To be called once a second with the time up to which all lanes have been read.
    pub(super) fn watch(&mut self, now: Mono, read_up_to: Option<Mono>, mesh: MeshLinks) {
        let MeshLinks { nodes, round_trips: of_nodes } = mesh;
        self.reconnects_within = reconnect_span(nodes).saturating_sub(NODE_RECONNECTS_SOON);
        let own = self.own_round_trip.filter(|_| self.unreachable_since.is_none());
        let own = own.filter(|(at, _)| now.since(*at) < ROUND_TRIP_STALE_AFTER);
        self.round_trip = own.map(|(_, own)| median(own, of_nodes));
        let reads = read_up_to.is_some_and(|read| now.since(read) < NODE_SILENT_AFTER);
        let since = self.unreachable_since;
        self.unreachable_for = since.map_or(Duration::ZERO, |since| now.since(since));
        self.reading_since = match since {
            None if reads => self.reading_since.or(Some(now)),
            _ => None,
        };
        self.reading_for = self.reading_since.map(|since| now.since(since));
    }

    /// `pending` is `None` while catching up.
    pub(super) fn health(&self, pending: Option<u64>) -> BrokerHealth {
        let unreachable_for = pending.map(|_| self.unreachable_for);
        let stream_used = self.streams_used.values().copied().reduce(f64::max);
        BrokerHealth {
            unreachable_for,
            pending,
            reading_for: self.reading_for,
            reconnects_within: self.reconnects_within,
            round_trip: self.round_trip,
            stream_used,
        }
    }
}

/// The median of all, of an even number the smaller of both: half of them at least are as slow.
fn median(own: Duration, mut others: Vec<Duration>) -> Duration {
    others.push(own);
    // With the smaller of two, one slow link of two is that link's and not the broker's (A49).
    let middle = (others.len() - 1) / 2;
    *others.select_nth_unstable(middle).1
}
