//! Where the time of one step went: each moment counts for the innermost open phase alone.
//!
//! Pure: takes the time since the step began. The phases add up to the step by construction, since
//! each span between two events is added to exactly one phase. Allocates nothing.
//!
//! DESIGN N85.

use crate::limits::PHASES_MAX;

/// The time of one phase in one step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PhaseTime {
    /// The number of the phase's operation.
    pub(crate) operation: u32,
    pub(crate) ns: u64,
}

/// A phase by its number in the step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PhaseNumber(usize);

/// The times of all phases of one step.
#[derive(Debug)]
pub(crate) struct ExclusiveTimes {
    /// Those that were entered, in that order; the first is the rest, outside of all phases.
    times: [PhaseTime; PHASES_MAX],
    used: usize,
    /// The innermost open phase.
    current: PhaseNumber,
    /// Up to when time is counted, in nanoseconds since the step began.
    counted_ns: u64,
}

impl ExclusiveTimes {
    /// A step that begins outside of all phases.
    pub(crate) fn new(rest: u32) -> Self {
        let mut times = [PhaseTime::default(); PHASES_MAX];
        times[0].operation = rest;
        Self { times, used: 1, current: PhaseNumber(0), counted_ns: 0 }
    }

    /// Enters a phase, and returns the one around it; `None` without room for another phase, whose
    /// time then counts in the one around it.
    pub(crate) fn enter(&mut self, at_ns: u64, operation: u32) -> Option<PhaseNumber> {
        self.count(at_ns);
        let known = self.times[..self.used].iter().position(|time| time.operation == operation);

        let entered = known.unwrap_or(self.used);
        if entered == self.used {
            *self.times.get_mut(entered)? = PhaseTime { operation, ..PhaseTime::default() };
            self.used += 1;
        }

        Some(std::mem::replace(&mut self.current, PhaseNumber(entered)))
    }

    /// Leaves the innermost phase for the one around it.
    pub(crate) fn leave(&mut self, at_ns: u64, around: PhaseNumber) {
        self.count(at_ns);
        self.current = around;
    }

    /// The times of all phases, of a step that ends now.
    pub(crate) fn end(&mut self, at_ns: u64) -> &[PhaseTime] {
        self.count(at_ns);
        &self.times[..self.used]
    }

    fn count(&mut self, at_ns: u64) {
        self.times[self.current.0].ns += at_ns.saturating_sub(self.counted_ns);
        self.counted_ns = at_ns;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const REST: u32 = 7;

    fn time(operation: u32, ns: u64) -> PhaseTime {
        PhaseTime { operation, ns }
    }

    #[test]
    fn inner_time_is_not_in_the_outer_and_a_phase_adds_up() {
        let mut times = ExclusiveTimes::new(REST);
        let outer = times.enter(1, 20).unwrap();
        let inner = times.enter(3, 30).unwrap();
        times.leave(7, inner);
        times.leave(15, outer);
        let again = times.enter(31, 30).unwrap();
        times.leave(63, again);
        let expected = [time(REST, 1 + 16 + 64), time(20, 2 + 8), time(30, 4 + 32)];
        assert_eq!(times.end(127), expected);
    }

    #[test]
    fn the_rest_may_be_entered_as_a_phase() {
        let mut times = ExclusiveTimes::new(REST);
        let around = times.enter(5, REST).unwrap();
        times.leave(6, around);
        assert_eq!(times.end(9), [time(REST, 9)]);
    }

    #[test]
    fn a_phase_beyond_the_bound_counts_in_what_is_around_it() {
        let mut times = ExclusiveTimes::new(0);
        for operation in 1..PHASES_MAX {
            let at_ns = operation as u64;
            let around = times.enter(at_ns, u32::try_from(operation).unwrap()).unwrap();
            times.leave(at_ns + 1, around);
        }
        assert_eq!(times.enter(100, 1_000), None);
        assert_eq!(times.enter(200, 1), Some(PhaseNumber(0)), "a known phase has room");
        let ended = times.end(300);
        assert_eq!((ended.len(), ended[0].ns, ended[1].ns), (PHASES_MAX, 169, 101));
    }

    #[test]
    fn a_phase_that_is_never_left_counts_to_the_end() {
        let mut times = ExclusiveTimes::new(REST);
        assert!(times.enter(4, 1).is_some());
        assert_eq!(times.end(10), [time(REST, 4), time(1, 6)]);
    }

    proptest! {
        /// Each event is a pause and a phase to enter, or none to leave the innermost.
        #[test]
        fn phases_add_up_to_their_step_and_equal_a_naive_model(
            events in prop::collection::vec((0..1_000_u64, prop::option::of(0..5_u32)), 0..60),
        ) {
            let mut times = ExclusiveTimes::new(REST);
            let (mut now, mut open) = (0, vec![(REST, None)]);
            let mut model = std::collections::BTreeMap::from([(REST, 0)]);

            for (pause, entered) in events {
                now += pause;
                *model.entry(open.last().unwrap().0).or_default() += pause;
                if let Some(operation) = entered {
                    open.push((operation, times.enter(now, operation)));
                    model.entry(operation).or_default();
                } else if open.len() > 1 {
                    times.leave(now, open.pop().unwrap().1.unwrap());
                }
            }

            *model.entry(open.last().unwrap().0).or_default() += 5;
            let ended = times.end(now + 5);
            prop_assert_eq!(ended.iter().map(|time| time.ns).sum::<u64>(), now + 5);
            let found = ended.iter().map(|time| (time.operation, time.ns)).collect();
            prop_assert_eq!(model, found);
        }
    }
}
