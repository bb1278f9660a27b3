//! Judges the time in which no aggregator ran, as the messages of that time are read.
//!
//! After a restart from a checkpoint the streams tell what happened meanwhile, and when: the
//! broker stamps each message. Budgets are judged at those times, as a core would have that had
//! never been away, so that a breach which nobody watched is still told, with how late that is.
//! Without a checkpoint yesterday is read, counted, and not judged.

use crate::limits::{CATCH_UP_STEPS_MAX, EVALUATE_EVERY};
use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::time::{Now, Wall};

use crate::core::{Core, Progress};

/// A span that is being caught up with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Past {
    /// When the last core that ran last judged.
    from: Wall,
    /// Up to when it has been judged by now.
    judged: Wall,
}

impl Past {
    pub(crate) fn since(from: Wall) -> Self {
        Self { from, judged: from }
    }

    pub(crate) fn judged(&self) -> Wall {
        self.judged
    }

    /// The moment that is to be judged next. Steps grow with the span, so that a long one costs
    /// no more than [`CATCH_UP_STEPS_MAX`] judgements of everything.
    fn next(&self, now: Wall) -> Wall {
        let step = now.since(self.from) / CATCH_UP_STEPS_MAX;
        self.judged.plus(step.max(EVALUATE_EVERY))
    }
}

impl Core {
    /// Hears when the broker stored the message that `lane` brings next. All that was stored
    /// before that time has been booked, so the time before it can be judged.
    pub(crate) fn on_stored_at(&mut self, now: Now, lane: Lane, at: Option<Wall>) {
        let Some(past) = self.past else { return };
        let Some(at) = at else {
            // Nobody knows what belongs to which time: the present alone is judged, as ever.
            self.past = None;
            return;
        };
        let progress = self.lanes.entry(lane).or_default();
        progress.at = progress.at.max(Some(at));
        let behind = self.lanes.values().filter(|lane| !lane.has_read_the_past());
        let reached = |lane: &Progress| lane.at.unwrap_or(past.from).min(now.wall);
        if let Some(reached) = behind.map(reached).min() {
            self.judge_past(now, |due| due < reached);
        }
    }

    /// Everything has been read: judges what is left up to the present, which begins now.
    pub(crate) fn end_past(&mut self, now: Now) {
        if self.past.is_none() {
            return;
        }
        self.judge_past(now, |due| due <= now.wall);
        self.past = None;
        self.evaluates_at = now.mono.plus(EVALUATE_EVERY);
    }

    fn judge_past(&mut self, now: Now, may_judge: impl Fn(Wall) -> bool) {
        while let Some(past) = &mut self.past {
            let due = past.next(now.wall);
            if !may_judge(due) {
                return;
            }
            past.judged = due;
            self.expire_windows(due);
            self.evaluate(due, now.wall.since(due));
        }
    }

    /// The lane that is further back in time while the past is caught up with; to be read first
    /// then, so that the other one need not be held in memory.
    #[must_use]
    pub fn lags(&self) -> Option<Lane> {
        self.past?;
        let behind = self.lanes.iter().filter(|(_, lane)| !lane.has_read_the_past());
        behind.min_by_key(|(_, lane)| lane.at).map(|(lane, _)| *lane)
    }
}

#[cfg(test)]
mod tests;
