//! Which of a node's incarnations is the latest. Each has a number in their order; the newest is
//! the one with the greatest number for which no successor has sent a final message.
//!
//! An incarnation's name is the time at which it began, by its own clock. That clock may have been
//! set back, and a former run may be received late, out of a spool or another lane. So:
//!
//! 1. A run that is received for the first time is the newest, as is right after a clock was set
//!    back, unless the newest so far has a greater name and has not sent its final message. Then
//!    the run is a former one that is received late. The answer is the same as if it came in time.
//! 2. A successor is later than the run whose final message it sends.
//! 3. A run that reports what it found noted of another is later than that one.
//! 4. A run that goes on sending, while the newest sends nothing, is the newest after all: at once
//!    if its name is the greater one, soon if the newest has sent its final message, and otherwise
//!    after a while, since the newest may have crashed before a clock was set back.
//!
//! DESIGN A13, A73, A168.

use crate::limits::{STEADY_MESSAGES_MIN, STEADY_WITHIN};
use litemap::LiteMap;
use plimsoll_schemas::ids::Incarnation;
use plimsoll_schemas::time::Wall;
use plimsoll_schemas::wire::Header;
use serde::{Deserialize, Serialize};

use super::run::Run;

/// New messages of a run after the newest has sent its final message that mean nothing yet: what
/// another lane brings a little late.
const AFTER_FINAL_BORNE: u32 = 3;
/// How many new messages of a run have no effect while the newest, of a greater name, sends
/// nothing: a spool may send as many between two messages of a living run.
pub(super) const IN_SILENCE_BORNE: u32 = 64;

/// The incarnations of one node that have a run of their own.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Runs {
    /// Mostly one, or a few: no larger than what it holds, since copies of it are made.
    by_name: LiteMap<Incarnation, Run>,
    /// The greatest number of an incarnation in their order.
    pub(super) begun: u64,
    /// The run that went on sending when another was held to be the newest, and how often.
    sent_on: Option<(Incarnation, u32)>,
}

impl Runs {
    /// The run of that name, which may be received for the first time.
    pub(super) fn run_of(&mut self, incarnation: Incarnation) -> &mut Run {
        let newest = self.newest().filter(|(_, run)| !run.left_in_order).map(|(name, _)| name);
        let begun = &mut self.begun;
        let mut is_new = false;
        self.by_name.entry(incarnation).or_insert_with(|| {
            is_new = true;
            *begun += 1;
            Run::new(*begun)
        });
        if let Some(newest) = newest.filter(|newest| is_new && *newest > incarnation) {
            self.put_last(newest);
        }
        self.by_name.get_mut(&incarnation).expect("it was there or was made above")
    }

    /// Updates the order after `header` was booked.
    pub(super) fn put_in_order(&mut self, header: &Header) {
        if header.successor.is_some() {
            self.put_successors_last(header.incarnation);
        }
        if self.is_the_newest_after_all(header) {
            self.put_last(header.incarnation);
            self.sent_on = None;
        }
    }

    fn is_the_newest_after_all(&mut self, header: &Header) -> bool {
        let (Some((newest, last)), Some(run)) =
            (self.newest(), self.by_name.get(&header.incarnation))
        else {
            return false;
        };

        let continues = header.seq == run.newest && !run.left_in_order && run.successor.is_none();
        if newest == header.incarnation {
            self.sent_on = None;
            return false;
        }
        if !continues || header.incarnation > newest {
            return continues;
        }

        // While the newest is silent, messages of another run count against it.
        let borne = if last.left_in_order { AFTER_FINAL_BORNE } else { IN_SILENCE_BORNE };
        let before = self.sent_on.filter(|(of, _)| *of == header.incarnation);
        let times = before.map_or(0, |(_, times)| times).saturating_add(1);
        self.sent_on = Some((header.incarnation, times));
        times > borne
    }

    /// The newest run goes on.
    pub(super) fn reopen_newest(&mut self) {
        let newest = self.newest().map(|(name, _)| name);
        if let Some(run) = newest.and_then(|name| self.by_name.get_mut(&name)) {
            run.reopen();
        }
    }

    /// When the run after this one began, by the node's clock.
    pub(super) fn began_after(&self, incarnation: Incarnation) -> Option<Wall> {
        let order = self.order(incarnation)?;
        let later = self.by_name.iter().filter(|(_, run)| run.order > order);
        later.min_by_key(|(_, run)| run.order).map(|(name, _)| Wall(name.0))
    }

    fn put_successors_last(&mut self, mut incarnation: Incarnation) {
        // As many steps as there are runs: forged successors may form a ring.
        for _ in 0..self.by_name.len() {
            let Some(run) = self.by_name.get(&incarnation) else { return };
            let (order, Some(successor)) = (run.order, run.successor) else { return };
            if self.order(successor).is_none_or(|later| later >= order) {
                return;
            }
            self.put_last(successor);
            incarnation = successor;
        }
    }

    /// A run has reported what it found of an earlier one: the order is that of these two.
    pub(super) fn put_before(&mut self, earlier: Incarnation, later: Incarnation) {
        let (Some(before), Some(order)) = (self.order(earlier), self.order(later)) else { return };
        if before < order {
            return;
        }
        let not_before =
            self.by_name.iter().filter(|(name, run)| **name != earlier && run.order >= order);
        let mut after: Vec<_> = not_before.map(|(name, run)| (run.order, *name)).collect();
        after.sort_unstable();
        after.into_iter().for_each(|(_, name)| self.put_last(name));
    }

    fn put_last(&mut self, incarnation: Incarnation) {
        if let Some(run) = self.by_name.get_mut(&incarnation) {
            self.begun += 1;
            run.order = self.begun;
        }
    }

    /// The position of a run in their order; `None` if it was folded or is unknown.
    pub(super) fn order(&self, incarnation: Incarnation) -> Option<u64> {
        self.by_name.get(&incarnation).map(|run| run.order)
    }

    /// The latest run without a successor.
    pub(super) fn newest(&self) -> Option<(Incarnation, &Run)> {
        let has_no_successor = |(_, run): &(&Incarnation, &Run)| run.successor.is_none();
        let newest = match self.by_name.len() {
            // Most nodes have one run, and each page asks thousands of them.
            1 => self.by_name.first().filter(has_no_successor),
            _ => self.by_name.iter().filter(has_no_successor).max_by_key(|(_, run)| run.order),
        };
        newest.map(|(name, run)| (*name, run))
    }

    /// True when the newest incarnation has sent its final message.
    pub(super) fn has_left(&self) -> bool {
        self.newest().is_some_and(|(_, run)| run.left_in_order)
    }

    pub(super) fn get(&self, incarnation: Incarnation) -> Option<&Run> {
        self.by_name.get(&incarnation)
    }

    pub(super) fn get_mut(&mut self, incarnation: Incarnation) -> Option<&mut Run> {
        self.by_name.get_mut(&incarnation)
    }

    pub(super) fn contains(&self, incarnation: Incarnation) -> bool {
        self.by_name.contains_key(&incarnation)
    }

    /// All of them in order of their names.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Incarnation, &Run)> {
        self.by_name.iter().map(|(name, run)| (*name, run))
    }

    /// When a message of any of them last arrived; `None` if that is unknown.
    pub(super) fn latest_arrival(&self) -> Option<Wall> {
        self.by_name.values().map(|run| run.arrived).max().filter(|arrived| arrived.0 > 0)
    }

    /// The run that most messages were merged of, if it has sent lately: forged incarnations of one
    /// message each make no living run an old one.
    fn steady(&self) -> Option<Incarnation> {
        let lately = self.latest_arrival()?.minus(STEADY_WITHIN);
        let steady = self.by_name.iter().filter(|(_, run)| {
            run.seqs.count() >= STEADY_MESSAGES_MIN
                && run.arrived >= lately
                && !run.left_in_order
                && run.successor.is_none()
        });
        steady.max_by_key(|(_, run)| run.seqs.count()).map(|(name, _)| *name)
    }

    /// Takes the oldest that is not the steady one out where there are more than `max`; with when
    /// the next one began.
    pub(super) fn take_oldest(&mut self, max: usize) -> Option<(Incarnation, Run, Option<Wall>)> {
        if self.by_name.len() <= max {
            return None;
        }
        let steady = self.steady();
        let others = self.by_name.iter().filter(|(name, _)| Some(**name) != steady);
        let oldest = others.min_by_key(|(_, run)| run.order).map(|(name, _)| *name)?;
        let next_began = self.began_after(oldest);
        self.by_name.remove(&oldest).map(|run| (oldest, run, next_began))
    }
}
