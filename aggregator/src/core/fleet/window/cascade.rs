//! The samples of one operation in slots: a cascade of rings, and what has settled behind them.
//!
//! Each window has a ring of slots of its own length, and a sample is kept in one slot alone, by
//! the time at which it was taken, not at which it arrived. It starts in the first ring whose
//! window still shows its time; slots that a window has passed are merged into the next ring's
//! longer ones. So a window is what lies in the rings up to its own within its time, and the order
//! of arrival changes nothing. What is too old for every ring is settled at once.
//!
//! Owns the slots. Refuses to count what no ring keeps any more, and to know limits: who asks for
//! samples over one passes its place.

use std::sync::Arc;

use plimsoll_schemas::budget::Window;
use plimsoll_schemas::histogram::{ExactFigures, Histogram, Over};
use plimsoll_schemas::time::{Wall, nanos};

use super::merged::Merged;
use super::phase::Phase;
use super::recent::{RecentCounts, SlotCounts};
use super::ring::{Ring, Shown, slot_ns};
use super::slot::{Batch, Slot};
use super::tally::{LimitPlace, Limits};

/// What lies in this ring or behind it is in the settled samples too, so that the total need not be
/// put together from everything: 2 means that the rings of 10 s and 1 min are added to what
/// settled.
pub(super) const SETTLED_FROM: usize = 2;

#[derive(Clone, Debug)]
pub(super) struct Cascade {
    /// All that has left the first rings.
    pub(super) settled: Slot,
    /// Each is shared with read views and checkpoints; copied when it changes meanwhile.
    pub(super) rings: Vec<Arc<Ring>>,
}

/// What is known of a window's samples where one limit counts: all that it takes to judge them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    pub samples: u64,
    /// Of those, samples certainly over the limit.
    pub over: u64,
    /// Samples in the limit's own bucket: on which side of it they lie is uncertain.
    pub uncertain: u64,
}

/// The counts of a slot, and the ring in which its age puts it.
#[derive(Clone, Copy, Debug)]
pub(super) struct RingCounts {
    pub(super) ring: usize,
    pub(super) slot: SlotCounts,
}

impl Cascade {
    pub(super) fn new(rings: usize) -> Self {
        let mut cascade = Self { settled: Slot::default(), rings: Vec::new() };
        cascade.keep(rings);
        cascade
    }

    /// As it was stored.
    pub(super) fn restored(settled: Slot, mut rings: Vec<Arc<Ring>>) -> Self {
        rings.resize_with(rings.len().clamp(SETTLED_FROM, Window::ALL.len()), Arc::default);
        Self { settled, rings }
    }

    /// Changes the number of rings; a new one is empty at first.
    pub(super) fn keep(&mut self, rings: usize) {
        self.rings.resize_with(rings, Arc::default);
    }

    /// Sums anew what lies over limits that were not known before.
    pub(super) fn reckon(&mut self, before: &Limits, limits: &Limits) {
        self.rings.iter_mut().for_each(|ring| Arc::make_mut(ring).reckon(before, limits));
    }

    /// Puts back one ring as it was stored, if there is such a ring.
    pub(super) fn restore_ring(&mut self, number: usize, restored: Arc<Ring>) {
        if let Some(ring) = self.rings.get_mut(number) {
            *ring = restored;
        }
    }

    pub(super) fn keeps(&self, window: Window) -> bool {
        (window as usize) < self.rings.len()
    }

    pub(super) fn longest(&self) -> Window {
        Window::ALL[self.rings.len() - 1]
    }

    /// Adds samples; false if every ring has passed their time.
    pub(super) fn add(&mut self, now: Wall, taken: Wall, batch: &Batch) -> bool {
        // The shortest window that covers the samples and has room for them.
        let mut rings = Window::ALL.into_iter().zip(&mut self.rings).enumerate();

        let found = rings.find(|(_, (window, ring))| {
            let slot = slot_ns(*window);
            let number = taken.0 / slot;
            Shown::new(now, *window).covers(number * slot) && ring.has_room(number)
        });

        // The total is what has settled and the first rings:
        // what passes these by has to settle at once.
        if found.as_ref().is_none_or(|(number, _)| *number >= SETTLED_FROM) {
            self.settled.add(batch);
        }
        let Some((_, (window, ring))) = found else { return false };
        Arc::make_mut(ring).add(taken.0 / slot_ns(window), batch);
        true
    }

    /// Adds all samples of an operation that is evicted, each in the slot of its time.
    pub(super) fn absorb(&mut self, other: &Self, limits: &Limits) {
        let batch_of = |slot: &Slot| Batch::new(&slot.packed(), limits);
        self.settled.add(&batch_of(&other.settled));

        for (number, ring) in other.rings.iter().enumerate() {
            for slot in &ring.slots {
                let batch = batch_of(slot);
                match self.rings.get_mut(number).filter(|into| into.has_room(slot.number)) {
                    Some(into) => Arc::make_mut(into).add(slot.number, &batch),
                    // Later rings' samples have settled already.
                    None if number < SETTLED_FROM => self.settled.add(&batch),
                    None => {}
                }
            }
        }
    }

    /// Rolls slots that are older than their window over to longer ones. Those that the last ring
    /// passes are reported with the time at which they begin.
    pub(super) fn expire(&mut self, now: Wall, phase: Phase, mut passed: impl FnMut(u64, &Slot)) {
        for (number, window) in Window::ALL.into_iter().enumerate().take(self.rings.len()) {
            // Behind the last ring there is no longer slot: what
            // it passes is reported in slots of its own length.
            let next = Window::ALL[(number + 1).min(self.rings.len() - 1)];
            let coarse = slot_ns(next);
            // Each node waits for another share of the longer slot, so that
            // ten thousand of them do not merge in the same second (A74).
            let waited = Wall(now.0.saturating_sub(phase.wait_ns(coarse)));
            let from = Shown::new(waited, window).from;

            while self.rings[number].has_passed(window, coarse, from) {
                let given = Arc::make_mut(&mut self.rings[number]).give(window, coarse);
                let Some(slot) = given else { break };

                if number + 1 == SETTLED_FROM {
                    // Packing also counts its merges anew. Otherwise the eighth would open it for
                    // good, at up to 48 KiB for each operation of each node.
                    self.settled.pack();
                    self.settled.absorb(&slot);
                }

                match self.rings.get_mut(number + 1) {
                    Some(next) => Arc::make_mut(next).take(slot),
                    None => passed(slot.number * coarse, &slot),
                }
            }
        }
    }

    /// The clock was set back: what lies in the future now leaves the rings.
    pub(super) fn turn_back(&mut self, now: Wall) {
        for (number, window) in Window::ALL.into_iter().enumerate().take(self.rings.len()) {
            for slot in Arc::make_mut(&mut self.rings[number]).give_after(window, now) {
                // Later rings' samples have settled already.
                if number < SETTLED_FROM {
                    self.settled.absorb(&slot);
                }
            }
        }
    }

    /// The slots of one window that ends now; none of one that is not kept.
    pub(super) fn shown(&self, now: Wall, window: Window) -> impl Iterator<Item = &Slot> {
        let shown = Shown::new(now, window);
        let slots = slots(self.rings_up_to(window));
        slots.filter(move |(begin, _)| shown.covers(*begin)).map(|(_, slot)| slot)
    }

    /// The rings that a window is made of; none of one that is not kept.
    fn rings_up_to(&self, window: Window) -> &[Arc<Ring>] {
        let kept = if self.keeps(window) { window as usize + 1 } else { 0 };
        &self.rings[..kept]
    }

    /// As `Windows::each_window`.
    pub(super) fn each_window(
        &self,
        now: Wall,
        merged: &mut Merged,
        total: &mut Merged,
        mut show: impl FnMut(Window, &Merged),
    ) {
        merged.clear();
        total.clear();
        self.settled.add_to(total);
        let unsettled = &self.rings[..SETTLED_FROM.min(self.rings.len())];
        // What `merged` holds: the slots of all rings up to this one that this window covers. A
        // longer window covers all of them, so only slots that are new to it are added.
        let mut previous: Option<(usize, Shown)> = None;

        for (number, window) in Window::ALL.into_iter().enumerate().take(self.rings.len()) {
            let shown = Shown::new(now, window);
            for (ring_number, (ring, of)) in self.rings.iter().zip(Window::ALL).enumerate() {
                let is_new = |begin| match previous {
                    Some((last, previous)) if ring_number <= last => !previous.covers(begin),
                    _ => ring_number <= number,
                };

                let slot_ns = slot_ns(of);
                for slot in &ring.slots {
                    let begin = slot.number * slot_ns;
                    if is_new(begin) && shown.covers(begin) {
                        slot.add_to(merged);
                    }
                }
            }

            // The last window of unsettled samples holds most of them; the others are added singly.
            if number + 1 == unsettled.len() {
                total.add_merged(merged);
                let others = slots(unsettled).filter(|(begin, _)| !shown.covers(*begin));
                others.for_each(|(_, slot)| slot.add_to(total));
            }

            previous = Some((number, shown));
            show(window, merged);
        }
    }

    /// As `Windows::before`.
    pub(super) fn before(&self, now: Wall, window: Window, limit: LimitPlace) -> (Histogram, Over) {
        let (mut samples, mut over) = (Histogram::default(), Over::default());
        let next = window as usize + 1;
        let Some(longer) = Window::ALL.get(next).filter(|longer| self.keeps(**longer)) else {
            return (samples, over);
        };

        let to = Shown::new(now, window).from;
        let slot = slot_ns(*longer);
        let from = to.saturating_sub(nanos(window.span())) / slot * slot;
        let before = slots(&self.rings[..=next]).filter(|(begin, _)| (from..to).contains(begin));

        before.for_each(|(_, slot)| {
            slot.merge_into(&mut samples);
            over.add(slot.over(limit));
        });

        (samples, over)
    }

    /// What it takes to judge the samples of a window; cheap, since it merges nothing.
    pub(super) fn sums(&self, now: Wall, window: Window, limit: LimitPlace) -> Sums {
        let shown = Shown::new(now, window);
        let (mut samples, mut sum) = (0_u64, Over::default());
        for (ring, of) in self.rings_up_to(window).iter().zip(Window::ALL) {
            let numbers = shown.numbers(of);
            for slot in ring.slots.iter().filter(|slot| numbers.contains(&slot.number)) {
                samples = samples.saturating_add(slot.count());
                sum.add(slot.over(limit));
            }
        }
        Sums { samples, over: sum.over, uncertain: sum.uncertain }
    }

    /// The counts of the slots of a span, which may be longer than what is kept. A slot is as long
    /// as its age asks for, whenever it was rolled over; so one may come in several parts.
    pub(super) fn counts(
        &self,
        now: Wall,
        span: Window,
        limit: LimitPlace,
    ) -> impl Iterator<Item = RingCounts> {
        let kept = self.rings.iter().zip(Window::ALL).enumerate().take(span as usize + 1);
        kept.flat_map(move |(ring, (slots, of))| {
            slots.slots.iter().map(move |slot| {
                let (ring, begin) = self.rolled_over(now, ring, slot.number * slot_ns(of));
                let (samples, over) = (slot.exact().count, slot.over(limit));
                RingCounts { ring, slot: SlotCounts { begin: Wall(begin), samples, over } }
            })
        })
    }

    /// The ring to which a slot that begins then is rolled over by now, and the begin of its slot
    /// there; behind the last ring, that of the counts.
    fn rolled_over(&self, now: Wall, mut ring: usize, mut begin: u64) -> (usize, u64) {
        while let Some(window) = Window::ALL.get(ring).filter(|_| ring < self.rings.len()) {
            let is_last = ring + 1 == self.rings.len();
            let next = Window::ALL[if is_last { ring } else { ring + 1 }];
            let coarse = slot_ns(next);
            // As in `expire` without the phase, so that a node's
            // counts do not depend on when it rolls over.
            if (begin / coarse + 1) * coarse > Shown::new(now, *window).from {
                break;
            }
            ring += 1;
            begin = if is_last { RecentCounts::begin(begin) } else { begin / coarse * coarse };
        }
        (ring, begin)
    }

    /// What is known exactly of one window that ends now.
    pub(super) fn exact(&self, now: Wall, window: Window) -> ExactFigures {
        let mut exact = ExactFigures::default();
        self.shown(now, window).for_each(|slot| exact.merge(&slot.exact()));
        exact
    }

    /// All samples ever added.
    pub(super) fn total(&self) -> Histogram {
        let mut total = Histogram::default();
        self.settled.merge_into(&mut total);
        let unsettled = self.rings.iter().take(SETTLED_FROM).flat_map(|ring| &ring.slots);
        unsettled.for_each(|slot| slot.merge_into(&mut total));
        total
    }

    pub(super) fn oldest(&self) -> Option<Wall> {
        slots(&self.rings).map(|(begin, _)| Wall(begin)).min()
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let rings: usize = self.rings.iter().map(|ring| ring.heap_bytes()).sum();
        rings + self.settled.heap_bytes()
    }
}

/// The slots of the first rings, each with the time at which it begins.
fn slots(rings: &[Arc<Ring>]) -> impl Iterator<Item = (u64, &Slot)> {
    rings.iter().zip(Window::ALL).flat_map(|(ring, window)| {
        let slot_ns = slot_ns(window);
        ring.slots.iter().map(move |slot| (slot.number * slot_ns, slot))
    })
}
