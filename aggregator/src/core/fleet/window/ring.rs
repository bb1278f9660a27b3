//! One ring of the cascade: slots of one length, in order of their times. It determines which of
//! them a window covers, and hands over those that are older than its own window.

use std::ops::RangeInclusive;

use crate::limits::{SLOTS_MAX, SLOTS_OPEN_MAX};
use plimsoll_schemas::budget::Window;
use plimsoll_schemas::time::{Wall, nanos};

use super::slot::{Batch, Slot};
use super::tally::Limits;

/// The slots of one window's length.
#[derive(Clone, Debug, Default)]
pub(super) struct Ring {
    pub(super) slots: Vec<Slot>,
}

/// The times that a window shows which ends now: from, and up to, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shown {
    pub(super) from: u64,
    pub(super) to: u64,
}

impl Shown {
    pub(super) fn new(now: Wall, window: Window) -> Self {
        let slot = slot_ns(window);
        let slots = nanos(window.span()) / slot;
        // Whole slots, so that none has to be divided: a
        // window shows up to a slot more than its span.
        Self { from: (now.0 / slot).saturating_sub(slots) * slot, to: now.0 }
    }

    /// The numbers of the slots that it shows, of a ring with such slots.
    pub(super) fn numbers(&self, of: Window) -> RangeInclusive<u64> {
        let slot_ns = slot_ns(of);
        self.from.div_ceil(slot_ns)..=self.to / slot_ns
    }

    /// Whether it shows a slot that begins then; such a slot lies in it as a whole or not at all.
    pub(super) fn covers(&self, begin: u64) -> bool {
        self.from <= begin && begin <= self.to
    }
}

pub(super) fn slot_ns(window: Window) -> u64 {
    nanos(window.slot())
}

impl Ring {
    pub(super) fn restored(mut slots: Vec<Slot>) -> Self {
        slots.sort_by_key(|slot| slot.number);
        Self { slots }
    }

    pub(super) fn has_room(&self, number: u64) -> bool {
        self.slots.len() < SLOTS_MAX || self.place(number).is_ok()
    }

    fn place(&self, number: u64) -> Result<usize, usize> {
        // The running slot is the usual one.
        match self.slots.last() {
            Some(last) if last.number == number => Ok(self.slots.len() - 1),
            Some(last) if last.number > number => {
                self.slots.binary_search_by_key(&number, |slot| slot.number)
            }
            _ => Err(self.slots.len()),
        }
    }

    fn slot(&mut self, number: u64) -> &mut Slot {
        let place = self.place(number).unwrap_or_else(|place| {
            // By as many as are needed: there are tens of thousands of rings.
            self.slots.reserve_exact(1);
            self.slots.insert(place, Slot::new(number));
            // Many samples come for the newest slots alone.
            // An older one would stay an open row for few.
            let settled = self.slots.len().saturating_sub(SLOTS_OPEN_MAX);
            self.slots[..settled].iter_mut().filter(|slot| slot.is_open()).for_each(Slot::pack);
            place
        });
        &mut self.slots[place]
    }

    pub(super) fn add(&mut self, number: u64, batch: &Batch) {
        self.slot(number).add(batch);
    }

    /// Takes a slot that another ring hands over.
    pub(super) fn take(&mut self, slot: Slot) {
        match self.place(slot.number) {
            Ok(place) => self.slots[place].absorb(&slot),
            Err(_) => {
                let number = slot.number;
                *self.slot(number) = slot;
            }
        }
    }

    /// Whether its oldest slots may be rolled over as one: all of the next ring's slot that they
    /// lie in has passed.
    pub(super) fn has_passed(&self, window: Window, coarse: u64, from: u64) -> bool {
        let oldest = self.slots.first().map(|slot| slot.number * slot_ns(window));
        oldest.is_some_and(|begin| (begin / coarse + 1) * coarse <= from)
    }

    /// Removes its oldest slots, those that lie within one of `coarse` nanoseconds, and returns
    /// them as one.
    pub(super) fn give(&mut self, window: Window, coarse: u64) -> Option<Slot> {
        let number = |slot: &Slot| slot.number * slot_ns(window) / coarse;
        let first = number(self.slots.first()?);
        let n = self.slots.iter().take_while(|slot| number(slot) == first).count();
        let united = Slot::united(first, &self.slots[..n]);
        self.slots.drain(..n);
        Some(united)
    }

    /// Removes and returns all slots that begin after `now`.
    pub(super) fn give_after(&mut self, window: Window, now: Wall) -> Vec<Slot> {
        let up_to = now.0 / slot_ns(window);
        self.slots.split_off(self.slots.partition_point(|slot| slot.number <= up_to))
    }

    pub(super) fn reckon(&mut self, before: &Limits, limits: &Limits) {
        self.slots.iter_mut().for_each(|slot| slot.reckon(before, limits));
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let samples: usize = self.slots.iter().map(Slot::heap_bytes).sum();
        samples + self.slots.capacity() * size_of::<Slot>()
    }
}
