//! Counts of samples that no ring keeps any more, for half an hour: enough to judge a slow
//! operation on a node, which keeps its samples for minutes. Each slot takes some 60 bytes, where
//! one with samples takes kilobytes.

use plimsoll_schemas::budget::Window;
use plimsoll_schemas::histogram::Over;
use plimsoll_schemas::time::Wall;
use serde::{Deserialize, Serialize};

use super::ring::{Shown, slot_ns};
use super::tally::{Limits, Overs, Tally};

/// Counts are kept for as long as this window, in slots as long as its own.
const KEPT_FOR: Window = Window::HalfHour;

/// How many samples one slot holds, and how many of them are over a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotCounts {
    pub begin: Wall,
    pub samples: u64,
    pub over: Over,
}

impl SlotCounts {
    /// Adds the counts of another slot of the same time.
    pub(super) fn add(&mut self, other: &Self) {
        self.samples = self.samples.saturating_add(other.samples);
        self.over.add(other.over);
    }
}

/// Counts by slot, oldest first; at most as many slots as the window has, and one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RecentCounts(Vec<(u64, u64, Tally)>);

impl RecentCounts {
    /// Whether it would keep samples of that time.
    pub(super) fn covers(now: Wall, begin: u64) -> bool {
        Shown::new(now, KEPT_FOR).covers(Self::begin(begin))
    }

    /// Adds samples that were taken in a slot that begins then.
    pub(super) fn add(&mut self, begin: u64, samples: u64, overs: &Overs) {
        let number = begin / slot_ns(KEPT_FOR);
        // Late samples come for any slot, and the order of arrival must leave no trace.
        let place = self.0.binary_search_by_key(&number, |(number, ..)| *number);
        let place = place.unwrap_or_else(|place| {
            self.0.insert(place, (number, 0, Tally::default()));
            place
        });
        let (_, count, tally) = &mut self.0[place];
        *count = count.saturating_add(samples);
        tally.add(overs);
    }

    /// Removes slots that the window has passed.
    pub(super) fn expire(&mut self, now: Wall) {
        let from = Shown::new(now, KEPT_FOR).from / slot_ns(KEPT_FOR);
        self.0.retain(|(number, ..)| *number >= from);
    }

    /// The clock was set back: removes slots that begin after `now`.
    pub(super) fn turn_back(&mut self, now: Wall) {
        let up_to = now.0 / slot_ns(KEPT_FOR);
        self.0.retain(|(number, ..)| *number <= up_to);
    }

    /// Sums what is over other limits. A limit that was not known before cannot be counted any
    /// more, so all slots are removed: without them there is less evidence, and no wrong one.
    pub(super) fn reckon(&mut self, before: &Limits, limits: &Limits) {
        if !before.hold(limits) {
            self.0.clear();
        }
        for (.., tally) in &mut self.0 {
            *tally = tally.under(before, limits, |_| Over::default());
        }
    }

    /// All slots, with what is over the limit at this place.
    pub(super) fn slots(&self, place: usize) -> impl Iterator<Item = SlotCounts> {
        self.0.iter().map(move |(number, samples, tally)| SlotCounts {
            begin: Wall(number * slot_ns(KEPT_FOR)),
            samples: *samples,
            over: tally.at(place),
        })
    }

    /// The begin of the slot that holds this time.
    pub(super) fn begin(time: u64) -> u64 {
        time / slot_ns(KEPT_FOR) * slot_ns(KEPT_FOR)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let tallies: usize = self.0.iter().map(|(.., tally)| tally.heap_bytes()).sum();
        tallies + self.0.capacity() * size_of::<(u64, u64, Tally)>()
    }
}
