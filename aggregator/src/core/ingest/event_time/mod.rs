//! From which moments a message is looked at: when it arrived, when its node was thereby heard,
//! and when its samples were taken. A node's clock may say anything. Where the node says by that
//! clock when it sent the message, only the span between its two readings is believed, and laid
//! before the time at which the broker stored it, less what the message had been on its way.

use std::time::Duration;

use crate::limits::{MESSAGE_AGE_MAX, ON_ITS_WAY_MAX};
use plimsoll_schemas::time::{Wall, nanos};
use serde::{Deserialize, Serialize};

use crate::core::fleet::window::{Timeliness, place};
use crate::core::{Core, Delivered};

/// From where a message is looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// Windows that end then, or later, are still to be judged.
    pub(crate) shown: Wall,
    /// When it arrived.
    pub(crate) now: Wall,
    /// When the node was thereby heard; `None` for when it spoke.
    pub(crate) heard: Option<Wall>,
    /// When it was stored, by the aggregator's clock where that is known, and when it was sent,
    /// by the node's clock.
    travel: Option<(Wall, Wall)>,
    /// By how much the clocks of node and broker differ.
    pub(crate) skew: Option<Skew>,
}

/// How far a node's clock is ahead of the broker's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skew {
    /// When that was seen, by the broker's clock.
    pub at: Wall,
    /// Nanoseconds; negative for a clock that is behind, by the message's way at least.
    pub ahead_ns: i64,
}

impl Core {
    /// The moments from which a message is looked at that arrives now.
    pub(crate) fn moment(&self, now: Wall, message: &Delivered<'_>) -> Moment {
        let Delivered { at, sent, pending, .. } = *message;
        let stored = at.map_or(now, |at| at.min(now));
        let live = self.past.is_none() && self.ready;
        // What nothing waits behind came straight from the broker, whose clock need not be ours.
        let arrived = if live && pending == 0 { now } else { stored };
        let travel = at.and(sent).map(|sent| (arrived, sent));
        let skew = at.zip(sent).map(|(at, sent)| Skew::new(at, sent));
        let (shown, now, heard) = match &self.past {
            Some(past) => (past.judged(), stored, Some(stored)),
            None if self.ready => (now, now, Some(now)),
            // While the past is read again, a node was heard when it spoke, not now.
            None => (now, now, at.and(Some(stored))),
        };
        Moment { shown, now, heard, travel, skew }
    }
}

impl Moment {
    /// When samples had been taken of an interval that ended then by the node's clock.
    /// `known` is the best reading of that clock so far.
    pub(crate) fn place(&self, ended: Wall, known: Option<Skew>) -> (Wall, Timeliness) {
        let Some((stored, sent)) = self.travel else { return place(self.now, ended) };
        let age = sent.since(ended);
        // Nobody keeps a message for longer: the clock was set between the two readings.
        let age = if age > MESSAGE_AGE_MAX { Duration::ZERO } else { age };
        let seen = self.skew.zip(known);
        let on_its_way = seen.and_then(|(skew, known)| skew.on_its_way(&known));
        place(self.now, stored.minus(on_its_way.unwrap_or_default()).minus(age))
    }
}

impl Skew {
    /// How long the message had been on its way: one that came faster showed the clock further
    /// ahead. `None` when the clock may have been set meanwhile.
    fn on_its_way(&self, known: &Self) -> Option<Duration> {
        let behind = u64::try_from(i128::from(known.ahead_ns) - i128::from(self.ahead_ns)).ok()?;
        let recent = self.at.since(known.at) <= ON_ITS_WAY_MAX;
        Some(Duration::from_nanos(behind)).filter(|behind| recent && *behind <= ON_ITS_WAY_MAX)
    }

    /// Whether it tells more than `known`: a message is never stored before it was sent, so the
    /// greatest reading is the nearest to the truth, until it is old or the clock was set.
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
mod tests;
