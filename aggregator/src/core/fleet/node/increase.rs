//! What a counter grew by lately. A counter counts since its start, and a rule compares the growth
//! of a span: amounts are kept in six slots, so that none is dropped early, and each at most a
//! fifth of the span late.

use std::time::Duration;

use plimsoll_schemas::time::{Wall, nanos};
use serde::{Deserialize, Serialize};

const SLOTS: usize = 6;
/// The same, to reckon with.
const ALL: u64 = SLOTS as u64;

/// Amounts of one span, which is the caller's to keep the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Increase {
    /// By number of the slot, modulo how many there are.
    slots: [f64; SLOTS],
    newest: u64,
}

/// A counter, and what it grew by within a span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct CounterIncrease {
    stood: u64,
    grown: Increase,
    /// When it last did.
    last: Option<Wall>,
}

fn number(at: Wall, span: Duration) -> u64 {
    at.0 / (nanos(span) / (ALL - 1)).max(1)
}

impl Increase {
    /// It grew by `amount`, which is finite.
    pub(crate) fn add(&mut self, at: Wall, span: Duration, amount: f64) {
        let number = number(at, span);
        if number + ALL < self.newest {
            // The clock was set back: times that lie ahead now are unknown.
            *self = Self { newest: number, ..Self::default() };
        }
        let passed = number.saturating_sub(self.newest).min(ALL);
        // The slots in between still hold amounts of a round ago.
        (0..passed).for_each(|n| self.slots[place(number - n)] = 0.0);
        self.newest = self.newest.max(number);
        let slot = &mut self.slots[place(self.newest)];
        // Two finite numbers may add up to infinity.
        *slot = (*slot + amount).clamp(f64::MIN, f64::MAX);
    }

    pub(crate) fn within(&self, at: Wall, span: Duration) -> f64 {
        let number = number(at, span);
        if number + ALL < self.newest {
            return 0.0;
        }
        let passed = number.saturating_sub(self.newest).min(ALL);
        let left = (0..ALL - passed).map(|n| self.slots[place(self.newest.wrapping_sub(n))]);
        left.sum::<f64>().clamp(f64::MIN, f64::MAX)
    }

    /// What it grew by a second over the latest span of whole slots; `None` unless it grew in the
    /// first and the last of them: what has just begun or has ended is not slow.
    pub(crate) fn rate(&self, at: Wall, span: Duration) -> Option<f64> {
        let number = number(at, span);
        let slot = |back: u64| {
            let of = number.saturating_sub(back);
            let is_there = of <= self.newest && of + ALL > self.newest;
            if is_there { self.slots[place(of)] } else { 0.0 }
        };
        let grown: f64 = (1..ALL).map(slot).sum();
        (slot(1) > 0.0 && slot(ALL - 1) > 0.0).then(|| grown / span.as_secs_f64())
    }

    /// So much of it was none.
    fn take_back(&mut self, mut amount: f64) {
        for n in 0..ALL {
            let slot = &mut self.slots[place(self.newest.wrapping_sub(n))];
            let taken = slot.min(amount).max(0.0);
            *slot -= taken;
            amount -= taken;
        }
    }
}

fn place(number: u64) -> usize {
    (number % ALL) as usize
}

#[expect(clippy::cast_precision_loss, reason = "to be compared with a threshold, no account")]
impl CounterIncrease {
    pub(crate) fn constant(stand: u64) -> Self {
        Self { stood: stand, ..Self::default() }
    }

    /// The counter is at `stand`. One that fell was reset with its incarnation, as Prometheus
    /// assumes.
    pub(crate) fn count(&mut self, at: Wall, span: Duration, stand: u64) {
        let stood = std::mem::replace(&mut self.stood, stand);
        let grew = if stand < stood { stand } else { stand - stood };
        self.grow(at, span, grew);
    }

    /// The counter is at `stand`. One that fell was too great before.
    pub(crate) fn settle(&mut self, at: Wall, span: Duration, stand: u64) {
        let stood = std::mem::replace(&mut self.stood, stand);
        self.grown.take_back(stood.saturating_sub(stand) as f64);
        self.grow(at, span, stand.saturating_sub(stood));
    }

    fn grow(&mut self, at: Wall, span: Duration, grew: u64) {
        if grew > 0 {
            self.grown.add(at, span, grew as f64);
            self.last = self.last.max(Some(at));
        }
    }

    pub(crate) fn within(&self, at: Wall, span: Duration) -> f64 {
        self.grown.within(at, span)
    }

    pub(crate) fn last(&self) -> Option<Wall> {
        self.last
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn second(n: u64) -> Wall {
        Wall((1_000_000 + n) * 1_000_000_000)
    }

    #[test]
    fn what_grew_counts_for_a_minute_and_is_gone_a_slot_later() {
        let mut grown = Increase::default();
        grown.add(second(0), MINUTE, 2.0);
        grown.add(second(30), MINUTE, 3.0);
        let at = |n| grown.within(second(n), MINUTE);
        assert_eq!([at(30), at(60), at(72), at(102)], [5.0, 5.0, 3.0, 0.0]);
        assert_eq!(at(1_000_000), 0.0);
    }

    #[test]
    fn a_counter_that_fell_began_anew_and_one_that_is_settled_was_too_great() {
        let mut counted = CounterIncrease::default();
        for stand in [9, 9, 4, 5] {
            counted.count(second(0), MINUTE, stand);
        }
        assert_eq!((counted.within(second(1), MINUTE), counted.last()), (14.0, Some(second(0))));
        let mut settled = CounterIncrease::default();
        for stand in [9, 4, 5, 0] {
            settled.settle(second(0), MINUTE, stand);
        }
        assert_eq!(settled.within(second(1), MINUTE), 0.0);
    }

    #[test]
    fn a_clock_that_is_set_back_leaves_nothing_that_never_ends() {
        let mut grown = Increase::default();
        grown.add(second(9_000), MINUTE, 2.0);
        assert_eq!(grown.within(second(0), MINUTE), 0.0);
        grown.add(second(0), MINUTE, 3.0);
        assert_eq!([0, 80].map(|n| grown.within(second(n), MINUTE)), [3.0, 0.0]);
    }

    proptest! {
        /// Against a list of everything: nothing of the last minute is missing, and nothing counts
        /// that is older than a slot more.
        #[test]
        fn it_is_between_what_a_minute_and_what_a_minute_and_a_slot_hold(
            steps in prop::collection::vec((0_u64..40, 0_u32..9), 1..60),
        ) {
            let (mut grown, mut all, mut now) = (Increase::default(), Vec::new(), 0);
            for (pause, amount) in steps {
                now += pause;
                grown.add(second(now), MINUTE, f64::from(amount));
                all.push((now, f64::from(amount)));
                let of = |span: u64| {
                    all.iter().filter(|(at, _)| at + span > now).map(|(_, n)| n).sum::<f64>()
                };
                let found = grown.within(second(now), MINUTE);
                prop_assert!(of(60) <= found && found <= of(72), "{} {found} {}", of(60), of(72));
            }
        }
    }
}
