//! Which of a node's incarnations is the latest. Each has a number in their order; the newest is
//! the one with the greatest number for which no successor has sent a final message.
//!
//! An incarnation's name is the time at which it began, by its own clock. That clock may have been
//! set back, and a former incarnation may be delayed, in a spool or in another lane. So:
//!
//! 1. An incarnation that is received for the first time is the newest, as is right after a clock
//!    was set back, unless the newest so far has a greater name and has not sent its final message.
//!    Then the incarnation is a former one that was delayed. The answer is the same as if it
//!    came in time.
//! 2. A successor is later than the incarnation whose final message it sends.
//! 3. An incarnation that reports what it found noted of another is later than that one.
//! 4. An incarnation that goes on sending, while the newest sends nothing, is the newest after all:
//!    at once if its name is the greater one, soon if the newest has sent its final message, and
//!    otherwise after a while, since the newest may have crashed before a clock was set back.
//!
//! DESIGN A13, A73, A168.

use crate::limits::{STEADY_MESSAGES_MIN, STEADY_WITHIN};
use litemap::LiteMap;
use plimsoll_schemas::ids::Incarnation;
use plimsoll_schemas::time::Wall;
use plimsoll_schemas::wire::Header;
use serde::{Deserialize, Serialize};

use super::incarnation::IncarnationEntry;

/// New messages of an incarnation after the newest has sent its final message that mean nothing
/// yet: what another lane brings a little delayed.
const AFTER_FINAL_BORNE: u32 = 3;
/// How many new messages of an incarnation have no effect while the newest, of a greater name,
/// sends nothing: a spool may send as many between two messages of a living incarnation.
pub(super) const IN_SILENCE_BORNE: u32 = 64;

/// The incarnations of one node that have an entry of their own.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Incarnations {
    /// Mostly one, or a few: no larger than what it holds, since copies of it are made.
    by_name: LiteMap<Incarnation, IncarnationEntry>,
    /// The greatest number of an incarnation in their order.
    pub(super) begun: u64,
    /// The incarnation that went on sending when another was held to be the newest, and how often.
    sent_on: Option<(Incarnation, u32)>,
}

impl Incarnations {
    /// The incarnation of that name, which may be received for the first time.
    pub(super) fn entry_of(&mut self, incarnation: Incarnation) -> &mut IncarnationEntry {
        let newest = self.newest().filter(|(_, entry)| !entry.left_in_order).map(|(name, _)| name);
        let begun = &mut self.begun;
        let mut is_new = false;
        self.by_name.entry(incarnation).or_insert_with(|| {
            is_new = true;
            *begun += 1;
            IncarnationEntry::new(*begun)
        });
        // Rule 1: one that was delayed takes its place
        // before the newest, as if it had come in time.
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
        let (Some((newest, last)), Some(entry)) =
            (self.newest(), self.by_name.get(&header.incarnation))
        else {
            return false;
        };

        // An older number proves nothing: a spool or another lane may have delayed it.
        let continues =
            header.seq == entry.newest && !entry.left_in_order && entry.successor.is_none();

        // The newest sends as well, so nothing speaks against it any more.
        if newest == header.incarnation {
            self.sent_on = None;
            return false;
        }

        // By its name it started later, so one message is enough (rule 4).
        if !continues || header.incarnation > newest {
            return continues;
        }

        // While the newest is silent, messages of another incarnation count against it.
        let borne = if last.left_in_order { AFTER_FINAL_BORNE } else { IN_SILENCE_BORNE };
        let before = self.sent_on.filter(|(of, _)| *of == header.incarnation);
        let times = before.map_or(0, |(_, times)| times).saturating_add(1);
        self.sent_on = Some((header.incarnation, times));
        times > borne
    }

    /// The newest incarnation goes on.
    pub(super) fn reopen_newest(&mut self) {
        let newest = self.newest().map(|(name, _)| name);
        if let Some(entry) = newest.and_then(|name| self.by_name.get_mut(&name)) {
            entry.reopen();
        }
    }

    /// When the incarnation after this one began, by the node's clock.
    pub(super) fn began_after(&self, incarnation: Incarnation) -> Option<Wall> {
        let order = self.order(incarnation)?;
        let later = self.by_name.iter().filter(|(_, entry)| entry.order > order);
        later.min_by_key(|(_, entry)| entry.order).map(|(name, _)| Wall(name.0))
    }

    fn put_successors_last(&mut self, mut incarnation: Incarnation) {
        // As many steps as there are incarnations: forged successors may form a ring.
        for _ in 0..self.by_name.len() {
            let Some(entry) = self.by_name.get(&incarnation) else { return };
            let (order, Some(successor)) = (entry.order, entry.successor) else { return };
            if self.order(successor).is_none_or(|later| later >= order) {
                return;
            }
            self.put_last(successor);
            incarnation = successor;
        }
    }

    /// An incarnation has reported what it found of an earlier one: the order is that of these two.
    pub(super) fn put_before(&mut self, earlier: Incarnation, later: Incarnation) {
        let (Some(before), Some(order)) = (self.order(earlier), self.order(later)) else { return };
        if before < order {
            return;
        }
        // All from the later one on move behind the earlier one in the
        // order that they had, so that only these two change places.
        let not_before =
            self.by_name.iter().filter(|(name, entry)| **name != earlier && entry.order >= order);
        let mut after: Vec<_> = not_before.map(|(name, entry)| (entry.order, *name)).collect();
        after.sort_unstable();
        after.into_iter().for_each(|(_, name)| self.put_last(name));
    }

    fn put_last(&mut self, incarnation: Incarnation) {
        if let Some(entry) = self.by_name.get_mut(&incarnation) {
            self.begun += 1;
            entry.order = self.begun;
        }
    }

    /// The position of an incarnation in their order; `None` if it was folded or is unknown.
    pub(super) fn order(&self, incarnation: Incarnation) -> Option<u64> {
        self.by_name.get(&incarnation).map(|entry| entry.order)
    }

    /// The latest incarnation without a successor.
    pub(super) fn newest(&self) -> Option<(Incarnation, &IncarnationEntry)> {
        let has_no_successor =
            |(_, entry): &(&Incarnation, &IncarnationEntry)| entry.successor.is_none();
        let newest = match self.by_name.len() {
            // Most nodes have one incarnation, and each page asks thousands of them.
            1 => self.by_name.first().filter(has_no_successor),
            _ => self.by_name.iter().filter(has_no_successor).max_by_key(|(_, entry)| entry.order),
        };
        newest.map(|(name, entry)| (*name, entry))
    }

    /// True when the newest incarnation has sent its final message.
    pub(super) fn has_left(&self) -> bool {
        self.newest().is_some_and(|(_, entry)| entry.left_in_order)
    }

    pub(super) fn get(&self, incarnation: Incarnation) -> Option<&IncarnationEntry> {
        self.by_name.get(&incarnation)
    }

    pub(super) fn get_mut(&mut self, incarnation: Incarnation) -> Option<&mut IncarnationEntry> {
        self.by_name.get_mut(&incarnation)
    }

    pub(super) fn contains(&self, incarnation: Incarnation) -> bool {
        self.by_name.contains_key(&incarnation)
    }

    /// All of them in order of their names.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Incarnation, &IncarnationEntry)> {
        self.by_name.iter().map(|(name, entry)| (*name, entry))
    }

    /// When a message of any of them last arrived; `None` if that is unknown.
    pub(super) fn latest_arrival(&self) -> Option<Wall> {
        self.by_name.values().map(|entry| entry.arrived).max().filter(|arrived| arrived.0 > 0)
    }

    /// The incarnation that most messages were merged of, if it has sent recently: forged
    /// incarnations of one message each make no living incarnation an old one.
    fn steady(&self) -> Option<Incarnation> {
        let recent = self.latest_arrival()?.minus(STEADY_WITHIN);
        let steady = self.by_name.iter().filter(|(_, entry)| {
            entry.seqs.count() >= STEADY_MESSAGES_MIN
                && entry.arrived >= recent
                && !entry.left_in_order
                && entry.successor.is_none()
        });
        steady.max_by_key(|(_, entry)| entry.seqs.count()).map(|(name, _)| *name)
    }

    /// Takes the oldest that is not the steady one out where there are more than `max`; with when
    /// the next one began.
    pub(super) fn take_oldest(
        &mut self,
        max: usize,
    ) -> Option<(Incarnation, IncarnationEntry, Option<Wall>)> {
        if self.by_name.len() <= max {
            return None;
        }
        let steady = self.steady();
        let others = self.by_name.iter().filter(|(name, _)| Some(**name) != steady);
        let oldest = others.min_by_key(|(_, entry)| entry.order).map(|(name, _)| *name)?;
        // While it is still among them: the next one is found by its order.
        let next_began = self.began_after(oldest);
        self.by_name.remove(&oldest).map(|entry| (oldest, entry, next_began))
    }
}
