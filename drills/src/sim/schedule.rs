//! What is to happen, in order of virtual time and then of being planned.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

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
    heap: BinaryHeap<Reverse<Entry<E>>>,
}

#[derive(Debug)]
struct Entry<E> {
    at: Time,
    number: u64,
    event: E,
}

impl<E> Default for Schedule<E> {
    fn default() -> Self {
        Self { now: 0, planned: 0, heap: BinaryHeap::new() }
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
        let entry = Entry { at: at.max(self.now), number: self.planned, event };
        self.heap.push(Reverse(entry));
    }

    /// Nothing more happens until then.
    pub fn pass(&mut self, until: Time) {
        self.now = self.now.max(until);
    }

    /// When the next event happens.
    pub fn next_at(&self) -> Option<Time> {
        self.heap.peek().map(|Reverse(entry)| entry.at)
    }

    /// Lets the next event happen.
    pub fn take(&mut self) -> Option<E> {
        let Reverse(entry) = self.heap.pop()?;
        self.now = entry.at;
        Some(entry.event)
    }
}

impl<E> Entry<E> {
    fn key(&self) -> (Time, u64) {
        (self.at, self.number)
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
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
