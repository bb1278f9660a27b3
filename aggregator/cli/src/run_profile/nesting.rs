//! What each call of one thread does itself: its time less that of the calls within it.
//!
//! Traces list calls by their start or by their end, so a bounded number waits for those that
//! started earlier.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Calls that wait for earlier ones: a call may be listed after as many that it holds, 2 495 in a
/// trace of a step of ResNet-50.
const WAITING_MAX: usize = 4_096;
/// Calls within each other: operators of one layer of autograd have some ten.
const DEPTH_MAX: usize = 256;

/// A call, in nanoseconds of its trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Call {
    pub(super) start: i64,
    /// Of two that start together the longer one holds the other.
    pub(super) end: Reverse<i64>,
    /// The row of its operator.
    pub(super) operator: usize,
}

impl Call {
    /// As one that is within no other.
    pub(super) fn misplaced(&self) -> Finished {
        let ns = self.end.0 - self.start;
        let operator = self.operator;
        Finished { operator, ns, own_ns: ns, is_within_itself: false, is_misplaced: true }
    }
}

/// A call that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Finished {
    pub(super) operator: usize,
    pub(super) ns: i64,
    pub(super) own_ns: i64,
    /// Another call of the same operator holds it.
    pub(super) is_within_itself: bool,
    /// It was listed too late, or lies too deep, to be within others.
    pub(super) is_misplaced: bool,
}

/// The calls of one thread.
#[derive(Debug, Default)]
pub(super) struct Nesting {
    waiting: BinaryHeap<Reverse<Call>>,
    open: Vec<Open>,
    /// Start of the last call that was placed.
    placed: i64,
}

#[derive(Debug)]
struct Open {
    call: Call,
    within_ns: i64,
    is_within_itself: bool,
}

impl Nesting {
    pub(super) fn add(&mut self, call: Call, finished: &mut impl FnMut(Finished)) {
        self.waiting.push(Reverse(call));
        if self.waiting.len() > WAITING_MAX {
            self.place_first(finished);
        }
    }

    /// No call follows.
    pub(super) fn end(mut self, finished: &mut impl FnMut(Finished)) {
        while !self.waiting.is_empty() {
            self.place_first(finished);
        }
        self.close_until(i64::MAX, finished);
    }

    fn place_first(&mut self, finished: &mut impl FnMut(Finished)) {
        let Some(Reverse(call)) = self.waiting.pop() else { return };
        let Call { start, end: Reverse(end), operator } = call;
        self.close_until(start, finished);
        if start < self.placed || self.open.len() >= DEPTH_MAX {
            return finished(call.misplaced());
        }

        self.placed = start;
        let is_within_itself = self.open.iter().any(|of| of.call.operator == operator);
        if let Some(caller) = self.open.last_mut() {
            // Rounding may end it after its caller.
            caller.within_ns += end.min(caller.call.end.0) - start;
        }
        self.open.push(Open { call, within_ns: 0, is_within_itself });
    }

    fn close_until(&mut self, now: i64, finished: &mut impl FnMut(Finished)) {
        while let Some(of) = self.open.pop_if(|of| of.call.end.0 <= now) {
            let ns = of.call.end.0 - of.call.start;
            finished(Finished {
                operator: of.call.operator,
                ns,
                own_ns: (ns - of.within_ns).max(0),
                is_within_itself: of.is_within_itself,
                is_misplaced: false,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn run(calls: &[(i64, i64, usize)]) -> Vec<(usize, i64, i64, bool)> {
        let mut found = Vec::new();
        let mut finished =
            |of: Finished| found.push((of.operator, of.ns, of.own_ns, of.is_within_itself));
        let mut nesting = Nesting::default();
        for (start, end, operator) in calls {
            let call = Call { start: *start, end: Reverse(*end), operator: *operator };
            nesting.add(call, &mut finished);
        }
        nesting.end(&mut finished);
        found.sort_unstable();
        found
    }

    #[test]
    fn a_call_has_its_time_less_that_of_calls_within() {
        let wanted = [(0, 10, 3, false), (1, 2, 2, true), (1, 7, 5, false), (2, 5, 5, false)];
        let in_order = [(0, 10, 0), (1, 8, 1), (3, 5, 1), (10, 15, 2)];
        let by_end = [(3, 5, 1), (1, 8, 1), (0, 10, 0), (10, 15, 2)];
        for calls in [in_order, by_end] {
            assert_eq!(run(&calls), wanted, "{calls:?}");
        }
    }

    #[test]
    fn calls_that_overlap_by_rounding_stay_within() {
        assert_eq!(run(&[(0, 10, 0), (4, 11, 1)]), [(0, 10, 4, false), (1, 7, 7, false)]);
    }

    #[test]
    fn a_call_that_comes_too_late_counts_alone() {
        let many = i64::try_from(WAITING_MAX).unwrap() + 9;
        let mut nesting = Nesting::default();
        let (mut misplaced, mut own) = (0, 0);
        let mut finished = |of: Finished| {
            misplaced += i64::from(of.is_misplaced);
            own += of.own_ns;
        };
        for at in 1..many {
            nesting.add(Call { start: at, end: Reverse(at + 1), operator: 0 }, &mut finished);
        }
        nesting.add(Call { start: 0, end: Reverse(many), operator: 1 }, &mut finished);
        nesting.end(&mut finished);
        assert_eq!((misplaced, own), (1, many + many - 1));
    }

    proptest! {
        #[test]
        fn any_calls_finish_once_and_own_no_more_than_they_take(
            calls in prop::collection::vec((0..50_i64, 0..50_i64, 0..4_usize), 0..300),
        ) {
            let calls: Vec<_> =
                calls.into_iter().map(|(start, length, of)| (start, start + length, of)).collect();
            let found = run(&calls);
            prop_assert_eq!(found.len(), calls.len());
            prop_assert!(found.iter().all(|(_, ns, own, _)| (0..=*ns).contains(own)));
        }
    }
}
