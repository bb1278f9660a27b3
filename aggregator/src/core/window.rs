//! Samples of one operation in one scope: all of them, and those of the last 10 s, 1 m, 5 m.
//!
//! Each window is a ring of slots keyed by the time the samples were taken, not by when they
//! arrived. What is too old for a window still counts in the total, so lateness costs time
//! resolution and never a sample.

use std::collections::BTreeMap;
use std::time::Duration;

use plimsoll_schemas::budget::Window;
use plimsoll_schemas::histogram::Histogram;
use plimsoll_schemas::limits::aggregator::{CATCH_UP_STEPS_MAX, CLOCK_AHEAD_MAX};
use plimsoll_schemas::time::{Wall, nanos};
use serde::{Deserialize, Serialize};

/// Slots of one ring: a window moves on in tenths of its span.
const SLOTS: u32 = 10;
/// Slots of one ring while the past is caught up with, and one lane may be ahead of the other.
const RING_SLOTS_MAX: usize = CATCH_UP_STEPS_MAX as usize + SLOTS as usize + 1;

/// Everything known about one operation in one scope.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Windows {
    total: Histogram,
    rings: [Ring; Window::ALL.len()],
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Ring {
    window: Window,
    /// Slot number (time divided by the slot's length) to its samples.
    slots: BTreeMap<u64, Histogram>,
}

/// Where a snapshot's time lies as seen from the aggregator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeliness {
    /// Within every window.
    InTime,
    /// Too old for at least the shortest window.
    Late,
    /// Further ahead than clocks may differ; taken as now.
    Ahead,
}

/// When samples were taken, and from where they are looked at.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// Windows that end before this are never shown again; the present, or, while the past is
    /// caught up with, what has been judged of it.
    pub shown: Wall,
    /// When the samples arrived.
    pub now: Wall,
    /// When they were taken, no later than `now`.
    pub taken: Wall,
}

/// Judges a snapshot's time, and gives the time under which it is booked.
#[must_use]
pub fn place(now: Wall, taken: Wall) -> (Wall, Timeliness) {
    if taken > now.plus(CLOCK_AHEAD_MAX) {
        return (now, Timeliness::Ahead);
    }
    let late = now.since(taken) >= Window::TenSeconds.span();
    (taken.min(now), if late { Timeliness::Late } else { Timeliness::InTime })
}

impl Default for Windows {
    fn default() -> Self {
        let ring = |window| Ring { window, slots: BTreeMap::new() };
        Self { total: Histogram::default(), rings: Window::ALL.map(ring) }
    }
}

impl Windows {
    /// Adds samples; a window that they are too old for stays as it is.
    pub fn add(&mut self, times: Times, samples: &Histogram) {
        self.total.merge(samples);
        for ring in &mut self.rings {
            ring.expire(times.shown);
            let slot = ring.slot(times.taken);
            let room = ring.slots.len() < RING_SLOTS_MAX || ring.slots.contains_key(&slot);
            if ring.covers(times.now, slot) && room {
                ring.slots.entry(slot).or_default().merge(samples);
            }
        }
    }

    /// All samples ever added.
    #[must_use]
    pub fn total(&self) -> &Histogram {
        &self.total
    }

    /// The samples of one window that ends now.
    #[must_use]
    pub fn merged(&self, now: Wall, window: Window) -> Histogram {
        let mut merged = Histogram::default();
        for ring in self.rings.iter().filter(|ring| ring.window == window) {
            let covered = ring.slots.iter().filter(|(slot, _)| ring.covers(now, **slot));
            covered.for_each(|(_, samples)| merged.merge(samples));
        }
        merged
    }

    /// Whether one window that ends now holds a sample; cheap, since it merges nothing.
    #[must_use]
    pub fn speaks(&self, now: Wall, window: Window) -> bool {
        let rings = self.rings.iter().filter(|ring| ring.window == window);
        rings.flat_map(|ring| ring.slots.keys().map(move |slot| ring.covers(now, *slot))).any(|c| c)
    }

    /// Lets go of slots that no window will show again.
    pub fn expire(&mut self, now: Wall) {
        self.rings.iter_mut().for_each(|ring| ring.expire(now));
    }
}

impl Ring {
    fn slot_length(&self) -> Duration {
        self.window.span() / SLOTS
    }

    fn slot(&self, at: Wall) -> u64 {
        at.0 / nanos(self.slot_length())
    }

    /// Whether a slot belongs to the window that ends now: the running slot and the ten before.
    fn covers(&self, now: Wall, slot: u64) -> bool {
        slot + u64::from(SLOTS) >= self.slot(now) && slot <= self.slot(now)
    }

    fn expire(&mut self, now: Wall) {
        while let Some(oldest) = self.slots.first_entry() {
            if *oldest.key() + u64::from(SLOTS) >= now.0 / nanos(self.window.span() / SLOTS) {
                return;
            }
            oldest.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const START: u64 = 1_700_000_000 * SECOND;

    fn one(value_ns: u64) -> Histogram {
        let mut histogram = Histogram::default();
        histogram.record(value_ns);
        histogram
    }

    fn times(now: Wall, taken: Wall) -> Times {
        Times { shown: now, now, taken }
    }

    #[test]
    fn what_arrives_ahead_of_what_is_shown_waits_for_its_time_in_bounded_room() {
        let mut windows = Windows::default();
        let at = |seconds: u64| Wall(START + seconds * SECOND);
        for seconds in 0..5_000 {
            let times = Times { shown: at(0), now: at(seconds), taken: at(seconds) };
            windows.add(times, &one(5));
        }
        let count = |seconds| windows.merged(at(seconds), Window::TenSeconds).count();
        assert_eq!((count(0), count(10), count(300)), (1, 11, 11));
        assert!(windows.rings.iter().all(|ring| ring.slots.len() <= RING_SLOTS_MAX));
        assert_eq!(windows.total().count(), 5_000);
    }

    #[test]
    fn a_sample_leaves_each_window_in_its_time_and_the_total_never() {
        let mut windows = Windows::default();
        windows.add(times(Wall(START), Wall(START)), &one(5));
        for (seconds, expected) in [(0, 1), (10, 1), (11, 0)] {
            let now = Wall(START + seconds * SECOND);
            let counts = Window::ALL.map(|window| windows.merged(now, window).count());
            assert_eq!((counts[0], counts[1]), (expected, 1), "after {seconds} s");
            let speaks = Window::ALL.map(|window| windows.speaks(now, window));
            assert_eq!((speaks[0], speaks[1]), (expected > 0, true));
        }
        let much_later = Wall(START + 3_600 * SECOND);
        windows.expire(much_later);
        assert!(windows.rings.iter().all(|ring| ring.slots.is_empty()));
        assert_eq!(windows.total().count(), 1);
    }

    #[test]
    fn a_late_sample_does_not_reopen_a_window_and_still_counts() {
        let mut windows = Windows::default();
        let now = Wall(START + 100 * SECOND);
        windows.add(times(now, Wall(START)), &one(5));
        assert_eq!(windows.merged(now, Window::OneMinute).count(), 0);
        assert_eq!(windows.merged(now, Window::FiveMinutes).count(), 1);
        assert_eq!(windows.total().count(), 1);
    }

    #[test]
    fn a_clock_ahead_is_taken_as_now_and_said_so() {
        let now = Wall(START);
        let far = Wall(START + 3_600 * SECOND);
        assert_eq!(place(now, far), (now, Timeliness::Ahead));
        assert_eq!(place(now, Wall(START + SECOND)), (now, Timeliness::InTime));
        let past = Wall(START - 10 * SECOND);
        assert_eq!(place(now, past), (past, Timeliness::Late));
        assert_eq!(place(now, Wall(0)), (Wall(0), Timeliness::Late));
    }

    proptest! {
        /// Invariants 3 and 7: a window equals the naive one, whatever the order of arrival.
        #[test]
        fn windows_equal_a_naive_oracle_in_any_order(
            mut samples in prop::collection::vec((0..400_u64, 1..100_000_000_u64), 0..60),
            seed in any::<u64>(),
        ) {
            let now = Wall(START + 400 * SECOND);
            let mut windows = Windows::default();
            let pivot = usize::try_from(seed % 61).unwrap().min(samples.len());
            samples.rotate_left(pivot);
            for (second, value) in &samples {
                windows.add(times(now, Wall(START + second * SECOND)), &one(*value));
            }
            for window in Window::ALL {
                let slot = nanos(window.span()) / 10;
                let mut naive = Histogram::default();
                for (second, value) in &samples {
                    let taken = START + second * SECOND;
                    if taken / slot + 10 >= now.0 / slot {
                        naive.record(*value);
                    }
                }
                prop_assert_eq!(windows.merged(now, window), naive);
            }
        }
    }
}
