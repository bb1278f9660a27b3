//! Event time: when a message's samples were taken, on the aggregator's clock.
//!
//! A node's clock may be arbitrarily wrong. Where the node stamps a message with the time at which
//! it sent it, only the span between its two readings is believed. That span is laid before the
//! time at which the broker stored the message, less the time that the message was under way. For
//! example: a node whose clock is an hour ahead ends an interval at 13:00:00 and sends it at
//! 13:00:02; the broker stores it at 12:00:02.010; it was taken at 12:00:00.010 at the latest.
//!
//! DESIGN A10.

use std::time::Duration;

use crate::limits::{CLOCK_AHEAD_MAX, MESSAGE_AGE_MAX, ON_ITS_WAY_MAX};
use plimsoll_schemas::budget::Window;
use plimsoll_schemas::time::{Wall, nanos};
use serde::{Deserialize, Serialize};

use plimsoll_schemas::transport::Delivered;

/// The times of one message.
#[derive(Clone, Copy, Debug)]
pub struct EventTime {
    /// Windows that end then, or later, are still to be judged.
    pub judged_up_to: Wall,
    pub arrived: Wall,
    /// When its node was last seen because of it; `None` for when its samples were taken.
    pub seen: Option<Wall>,
    /// When it was stored, by the aggregator's clock where that is known, and when it was sent,
    /// by the node's clock.
    travel: Option<(Wall, Wall)>,
    /// By how much the clocks of node and broker differ.
    pub skew: Option<Skew>,
    /// How long ago the broker stored it; `None` unless it is live and has both of its times. A
    /// broker whose clock is ahead stored it now.
    pub since_stored: Option<Duration>,
}

/// What is known of the streams when a message is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadingState {
    /// Whether all that the streams held at the start was read.
    pub(super) ready: bool,
    /// Whether the broker's clock agrees with ours.
    pub(super) clocks_agree: bool,
    /// Where catching up has come, if there is anything to catch up with.
    pub(super) judged_up_to: Option<Wall>,
}

/// How far a node's clock is ahead of the broker's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skew {
    /// When that was seen, by the broker's clock.
    pub at: Wall,
    /// Nanoseconds; negative for a clock that is behind, by the message's time under way at least.
    pub ahead_ns: i64,
}

/// Where a snapshot's time lies as seen from the aggregator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeliness {
    InTime,
    /// Too old for at least the shortest window: at 12:00:30, samples of 12:00:20 or earlier.
    Late,
    /// Further ahead than clocks may differ; taken as now.
    Ahead,
}

impl EventTime {
    pub(super) fn of(now: Wall, message: &Delivered, reading: ReadingState) -> Self {
        let ReadingState { ready, clocks_agree, judged_up_to } = reading;
        let Delivered { at, sent, pending, .. } = *message;
        // A broker whose clock is ahead stored it now at the latest.
        let stored = at.map_or(now, |at| at.min(now));
        let live = judged_up_to.is_none() && ready;

        // A message with nothing behind it came straight from the broker, if its clock is not ours.
        let arrived = if live && pending == 0 && !clocks_agree { now } else { stored };
        let travel = at.and(sent).map(|sent| (arrived, sent));
        let skew = at.zip(sent).map(|(at, sent)| Skew::new(at, sent));
        let since_stored = skew.filter(|_| live).map(|skew| now.since(skew.at));

        let (judged_up_to, arrived, seen) = match judged_up_to {
            // While catching up all happens at the time of
            // storage, as if this process had run then (A12).
            Some(judged) => (judged, stored, Some(stored)),
            None if ready => (now, now, Some(now)),
            // While the past is read again, a node was last seen when it sent, not now.
            None => (now, now, at.and(Some(stored))),
        };

        Self { judged_up_to, arrived, seen, travel, skew, since_stored }
    }

    /// When samples were taken of an interval that ended then by the node's clock. `known` is the
    /// best reading of that clock so far.
    pub fn taken(&self, ended: Wall, known: Option<Skew>) -> (Wall, Timeliness) {
        let Some((stored, sent)) = self.travel else { return bounded(self.arrived, ended) };
        let age = sent.since(ended);
        // No node keeps a message for longer: the clock was set between the two readings.
        let age = if age > MESSAGE_AGE_MAX { Duration::ZERO } else { age };
        let seen = self.skew.zip(known);
        let on_its_way = seen.and_then(|(skew, known)| skew.on_its_way(&known));
        bounded(self.arrived, stored.minus(on_its_way.unwrap_or_default()).minus(age))
    }
}

/// The time under which samples are merged that were taken at `taken`, and how timely they are.
fn bounded(now: Wall, taken: Wall) -> (Wall, Timeliness) {
    if taken > now.plus(CLOCK_AHEAD_MAX) {
        return (now, Timeliness::Ahead);
    }
    let late = now.since(taken) >= Window::TenSeconds.span();
    (taken.min(now), if late { Timeliness::Late } else { Timeliness::InTime })
}

impl Skew {
    /// How long the message had been under way: one that came faster showed the clock further
    /// ahead. `None` when the clock may have been set meanwhile.
    fn on_its_way(&self, known: &Self) -> Option<Duration> {
        let behind = u64::try_from(i128::from(known.ahead_ns) - i128::from(self.ahead_ns)).ok()?;
        let recent = self.at.since(known.at) <= ON_ITS_WAY_MAX;
        Some(Duration::from_nanos(behind)).filter(|behind| recent && *behind <= ON_ITS_WAY_MAX)
    }

    /// Whether it is nearer to the truth than `known`: a message is never stored before it was
    /// sent, so the greatest reading is the nearest, until it is old or the clock was set.
    pub fn is_better_than(&self, known: &Self) -> bool {
        self.at >= known.at && self.on_its_way(known).is_none_or(|way| way.is_zero())
    }

    fn new(at: Wall, sent: Wall) -> Self {
        let magnitude = nanos(sent.since(at).max(at.since(sent)));
        let magnitude = i64::try_from(magnitude).unwrap_or(i64::MAX);
        Self { at, ahead_ns: if sent < at { -magnitude } else { magnitude } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_ahead_is_taken_as_now() {
        let seconds = Duration::from_secs;
        let now = Wall(1_700_000_000_000_000_000);
        let far = now.plus(seconds(3_600));
        assert_eq!(bounded(now, far), (now, Timeliness::Ahead));
        assert_eq!(bounded(now, now.plus(seconds(1))), (now, Timeliness::InTime));
        let past = now.minus(seconds(10));
        assert_eq!(bounded(now, past), (past, Timeliness::Late));
        assert_eq!(bounded(now, Wall(0)), (Wall(0), Timeliness::Late));
    }
}
