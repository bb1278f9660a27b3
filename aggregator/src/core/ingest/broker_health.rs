//! Whether the broker can be heard at all. Who is cut off hears nobody, which is no silence of
//! anybody else; nodes that were cut off too get some time to come back before they are blamed.

use std::time::Duration;

use crate::limits::{NODE_RETURN_WITHIN, NODE_SILENT_AFTER};
use plimsoll_schemas::metric::Figure;
use plimsoll_schemas::time::{Mono, Now};

use crate::core::Core;
use crate::core::fleet::node::NodeAt;

/// What is known of the way to the broker; a restart begins anew.
#[derive(Debug, Default)]
pub(crate) struct Hearing {
    /// Since when the broker has not answered.
    away_since: Option<Mono>,
    /// Since when all that was stored has been read as it came.
    reads_since: Option<Mono>,
    /// How long each had lasted at the last look.
    away: Duration,
    reads: Option<Duration>,
}

impl Core {
    /// Hears that the broker answers, or that it does no more.
    pub fn on_broker(&mut self, answers: bool, now: Mono) {
        let hearing = &mut self.hearing;
        match answers {
            true => hearing.away_since = None,
            false => {
                hearing.away_since.get_or_insert(now);
                (hearing.reads_since, hearing.reads) = (None, None);
            }
        }
    }

    /// Looks once a second.
    pub(crate) fn watch_hearing(&mut self, Now { mono: now, .. }: Now) {
        let read = self.read_up_to().as_of(now);
        let reads = read.is_some_and(|read| now.since(read) < NODE_SILENT_AFTER);
        let hearing = &mut self.hearing;
        hearing.away = hearing.away_since.map_or(Duration::ZERO, |since| now.since(since));
        hearing.reads_since = match hearing.away_since {
            None if reads => hearing.reads_since.or(Some(now)),
            _ => None,
        };
        hearing.reads = hearing.reads_since.map(|since| now.since(since));
    }

    /// How long the broker has been away.
    pub(crate) fn broker_away(&self) -> Duration {
        self.hearing.away
    }

    /// How long a node has been silent; `None` while nobody could hear it, and for a while after.
    pub(crate) fn silence(&self, node: &NodeAt<'_>) -> Option<f64> {
        let reads = self.hearing.reads?;
        let silent = node.figure(Figure::SilentSeconds)?;
        (reads >= NODE_RETURN_WITHIN || reads.as_secs_f64() >= silent).then_some(silent)
    }
}
