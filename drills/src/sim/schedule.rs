//! What is to happen, in order of virtual time and then of being planned.

use std::collections::BTreeMap;

/// Nanoseconds since a run began.
pub type Time = u64;

/// One microsecond.
pub const MICROSECOND: Time = 1_000;
/// One millisecond.
pub const MILLISECOND: Time = 1_000_000;
pub const SECOND: Time = 1_000_000_000;

#[derive(Debug)]
pub struct Schedule<E> {
    now: Time,
    planned: u64,
    /// By time and by the order of being planned.
    events: BTreeMap<(Time, u64), E>,
}

impl<E> Default for Schedule<E> {
    fn default() -> Self {
        Self { now: 0, planned: 0, events: BTreeMap::new() }
    }
}

impl<E> Schedule<E> {
    /// The time of the event that happened last.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Plans an event; the past is taken as now.
    pub fn plan(&mut self, at: Time, event: E) {
        self.planned += 1;
        self.events.insert((at.max(self.now), self.planned), event);
    }

    /// Nothing more happens until then.
    pub fn pass(&mut self, until: Time) {
        self.now = self.now.max(until);
    }

    /// When the next event happens.
    pub fn next_at(&self) -> Option<Time> {
        self.events.first_key_value().map(|((at, _), _)| *at)
    }

    /// Lets the next event happen.
    pub fn take(&mut self) -> Option<E> {
        let ((at, _), event) = self.events.pop_first()?;
        self.now = at;
        Some(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_happen_in_order_of_time_and_then_of_planning() {
        let mut schedule = Schedule::default();
        for (at, event) in [(5, 'c'), (1, 'a'), (5, 'd'), (3, 'b')] {
            schedule.plan(at, event);
        }
        assert_eq!(schedule.take(), Some('a'));
        schedule.plan(0, 'x');
        let rest: String = std::iter::from_fn(|| schedule.take()).collect();
        assert_eq!((rest.as_str(), schedule.now()), ("xbcd", 5));
    }
}
