//! Whether the broker answers and messages are read as they come. An aggregator that is cut off
//! reads of no node, which is no silence of the nodes; nodes that were cut off too get some time
//! to reconnect before they count as silent.
//!
//! DESIGN A9.

use std::time::Duration;

use crate::limits::{NODE_RETURN_WITHIN, NODE_SILENT_AFTER};
use plimsoll_schemas::time::Mono;
use plimsoll_schemas::transport::BusEvent;

/// The broker's health at one evaluation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BrokerHealth {
    /// For how long the broker has not answered; `None` while catching up, when nothing is known
    /// of it.
    pub unreachable_for: Option<Duration>,
    /// Messages still to be read; `None` while catching up.
    pub pending: Option<u64>,
    /// For how long messages have been read as they came; `None` while they are not.
    reading_for: Option<Duration>,
}

impl BrokerHealth {
    /// Whether a node that was last seen so long ago is silent rather than cut off with the
    /// aggregator.
    #[must_use]
    pub fn is_silence_certain(&self, silent_seconds: f64) -> bool {
        let certain = |reading: Duration| {
            reading >= NODE_RETURN_WITHIN || reading.as_secs_f64() >= silent_seconds
        };
        self.reading_for.is_some_and(certain)
    }
}

/// What is known of the way to the broker; a restart begins anew.
#[derive(Debug, Default)]
pub(super) struct BrokerWatch {
    /// Whether a connected broker does not answer.
    stalled: bool,
    /// Since when the broker has not answered.
    unreachable_since: Option<Mono>,
    /// Since when all that was stored has been read as it came.
    reading_since: Option<Mono>,
    /// How long each had lasted when last watched.
    unreachable_for: Duration,
    reading_for: Option<Duration>,
}

impl BrokerWatch {
    pub(super) fn on_event(&mut self, event: &BusEvent, now: Mono) {
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
    pub(super) fn watch(&mut self, now: Mono, read_up_to: Option<Mono>) {
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
        BrokerHealth { unreachable_for, pending, reading_for: self.reading_for }
    }
}
