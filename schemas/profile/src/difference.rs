//! What a culprit does more than its peer, or less: per second of each, since their profiles may
//! differ in duration and period.
//!
//! DESIGN S88.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use thiserror::Error;

use crate::functions::{FunctionSums, by_function};
use crate::labels::ThreadState;
use crate::name::Name;
use crate::profile::{Profile, ValueType};
use crate::stack::{Frame, Stack};

/// Units per second of the culprit and of its peer.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sides {
    /// Of the culprit.
    pub culprit: f64,
    /// Of the peer; if it is a merged profile, the mean of its parts.
    pub peer: f64,
}

impl Sides {
    /// How much more the culprit has; below 0 if it has less.
    #[must_use]
    pub fn delta(self) -> f64 {
        self.culprit - self.peer
    }

    /// The mean of both.
    #[must_use]
    pub fn mean(self) -> f64 {
        self.culprit.midpoint(self.peer)
    }
}

impl AddAssign for Sides {
    fn add_assign(&mut self, other: Self) {
        self.culprit += other.culprit;
        self.peer += other.peer;
    }
}

/// Two profiles, stack by stack.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// What was measured; values are its units per second.
    pub value_type: ValueType,
    /// Each stack of either side.
    pub stacks: BTreeMap<Stack, Sides>,
}

/// A function, and how much of it either side has.
#[derive(Clone, Debug, PartialEq)]
pub struct FunctionDifference {
    /// At its line that differs most, itself or in what it calls; of equal ones the hottest.
    pub frame: Frame,
    /// While it was the leaf.
    pub own: Sides,
    /// While it was anywhere in the stack.
    pub total: Sides,
}

/// Why profiles were not subtracted or added.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MixError {
    /// They measure different things.
    #[error("{} beside {}: take profiles of one kind", .0.kind, .1.kind)]
    ValueTypes(ValueType, ValueType),
    /// A profile without a duration has no rates.
    #[error("the profile of the {0} states no duration")]
    NoDuration(&'static str),
    /// Their sum is more than one profile can state.
    #[error("the sum of the profiles exceeds 2^63 units")]
    Overflow,
}

/// Compares two profiles, of threads in one state or of all.
///
/// # Errors
/// When the profiles measure different things, or one has no duration.
pub fn subtract(
    culprit: &Profile,
    peer: &Profile,
    state: Option<ThreadState>,
) -> Result<Difference, MixError> {
    check_types(culprit, peer)?;
    for (side, profile) in [("culprit", culprit), ("peer", peer)] {
        if profile.duration_ns == 0 {
            return Err(MixError::NoDuration(side));
        }
    }

    let mut stacks: BTreeMap<Stack, Sides> = BTreeMap::new();
    for (stack, value) in culprit.values(state) {
        stacks.entry(stack.clone()).or_default().culprit = per_second(value, culprit);
    }
    for (stack, value) in peer.values(state) {
        stacks.entry(stack.clone()).or_default().peer = per_second(value, peer);
    }
    Ok(Difference { value_type: culprit.value_type().clone(), stacks })
}

pub(crate) fn check_types(a: &Profile, b: &Profile) -> Result<(), MixError> {
    let (a, b) = (a.value_type(), b.value_type());
    if a == b { Ok(()) } else { Err(MixError::ValueTypes(a.clone(), b.clone())) }
}

fn per_second(value: u64, of: &Profile) -> f64 {
    value as f64 / (of.duration_ns as f64 / 1e9)
}

impl Difference {
    /// All that was measured.
    #[must_use]
    pub fn total(&self) -> Sides {
        let mut total = Sides::default();
        self.stacks.values().for_each(|sides| total += *sides);
        total
    }

    /// The functions that differ most as leaves, then in total; at most `n`.
    #[must_use]
    pub fn rank(&self, n: usize) -> Vec<FunctionDifference> {
        let mut all = self.functions();
        let size = |f: &FunctionDifference| (f.own.delta().abs(), f.total.delta().abs());
        all.sort_by(|a, b| {
            let ((own_a, total_a), (own_b, total_b)) = (size(a), size(b));
            // Stable: equal ones stay in the order of their names.
            own_b.total_cmp(&own_a).then(total_b.total_cmp(&total_a))
        });
        all.retain(|function| size(function) != (0.0, 0.0));
        all.truncate(n);
        all
    }

    /// Every function of either side, in the order of names.
    fn functions(&self) -> Vec<FunctionDifference> {
        let sums = by_function(self.stacks.iter().map(|(stack, sides)| (stack, *sides)));
        sums.into_iter().map(function_difference).collect()
    }
}

fn function_difference(
    ((function, file), sums): ((&Name, &Name), FunctionSums<Sides>),
) -> FunctionDifference {
    let size = |sides: &Sides| (sides.delta().abs(), sides.mean());
    let hottest = sums.lines.iter().rev().max_by(|(_, a), (_, b)| {
        let ((delta_a, mean_a), (delta_b, mean_b)) = (size(a), size(b));
        delta_a.total_cmp(&delta_b).then(mean_a.total_cmp(&mean_b))
    });
    let line = hottest.map_or(0, |(line, _)| *line);
    let frame = Frame { function: function.clone(), file: file.clone(), line };
    FunctionDifference { frame, own: sums.own, total: sums.total }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::labels::SampleLabels;
    use crate::merge::merge;
    use crate::tests::{profile, profiles, stack};

    const SECOND: u64 = 1_000_000_000;

    /// 10 s at 100 Hz: `augment` has 40 % at line 8 and 10 % at line 9.
    fn culprit() -> Profile {
        let counts: [(&[&str], u64); 3] = [
            (&["main:3", "load:5", "augment:8"], 400),
            (&["main:3", "load:5", "augment:9"], 100),
            (&["main:4", "train:7"], 500),
        ];
        profile(10_000_000, 10 * SECOND, &counts)
    }

    /// 5 s at 50 Hz: `augment` has 10 % at line 9.
    fn peer() -> Profile {
        let counts: [(&[&str], u64); 3] = [
            (&["main:3", "load:5", "augment:9"], 25),
            (&["main:4", "train:7"], 200),
            (&["main:4", "train:7", "main:4"], 25),
        ];
        profile(20_000_000, 5 * SECOND, &counts)
    }

    #[test]
    fn rates_do_not_depend_on_duration_and_period() {
        let difference = subtract(&culprit(), &peer(), None).unwrap();
        let rates: Vec<(f64, f64)> =
            difference.stacks.values().map(|sides| (sides.culprit, sides.peer)).collect();
        assert_eq!(rates, [(0.4e9, 0.0), (0.1e9, 0.1e9), (0.5e9, 0.8e9), (0.0, 0.1e9)]);
        assert_eq!(difference.total(), Sides { culprit: 1e9, peer: 1e9 });

        let both = merge(&[&peer(), &peer()]).unwrap();
        let beside_two = subtract(&culprit(), &both, None).unwrap();
        assert_eq!(beside_two, difference);
    }

    #[test]
    fn functions_are_ranked_by_what_they_do_themselves() {
        let difference = subtract(&culprit(), &peer(), None).unwrap();
        let ranked = difference.rank(3);
        let found: Vec<(String, f64, f64)> =
            ranked.iter().map(|f| (f.frame.to_string(), f.own.delta(), f.total.delta())).collect();
        let wanted = [
            ("augment (a.py:8)".to_owned(), 0.4e9, 0.4e9),
            ("train (a.py:7)".to_owned(), -0.3e9, -0.4e9),
            ("main (a.py:4)".to_owned(), -0.1e9, 0.0),
        ];
        assert_eq!(found, wanted);
        assert_eq!(difference.rank(9).len(), 4);
    }

    #[test]
    fn a_recursion_counts_once_at_its_deepest_line() {
        let deep = profile(1, SECOND, &[(&["f:1", "g:2", "f:3", "f:4", "h:5"], 8)]);
        let none = profile(1, SECOND, &[]);
        let functions = subtract(&deep, &none, None).unwrap().functions();
        let found: Vec<_> =
            functions.iter().map(|f| (f.frame.to_string(), f.total.culprit)).collect();
        let wanted = ["f (a.py:4)", "g (a.py:2)", "h (a.py:5)"];
        assert_eq!(found, wanted.map(|location| (location.to_owned(), 8.0)));
    }

    #[test]
    fn one_state_is_compared_alone() {
        let mut waits = profile(1, SECOND, &[(&["a"], 5)]);
        let labels = SampleLabels { state: Some(ThreadState::Gil), ..SampleLabels::default() };
        waits.add(stack(&["b"]), labels, 3);
        let runs = profile(1, SECOND, &[(&["a"], 5)]);
        let total = |state| subtract(&waits, &runs, state).unwrap().total();
        assert_eq!(total(None), Sides { culprit: 8.0, peer: 5.0 });
        assert_eq!(total(Some(ThreadState::Gil)), Sides { culprit: 3.0, peer: 0.0 });
        assert_eq!(total(Some(ThreadState::Running)), Sides::default());
    }

    #[test]
    fn profiles_without_a_common_measure_are_refused() {
        let (wall, short) = (profile(1, SECOND, &[]), profile(1, 0, &[]));
        let mut cpu = Profile::new(ValueType::cpu(), 1);
        cpu.duration_ns = SECOND;
        let table = [
            (&wall, &cpu, "wall beside cpu: take profiles of one kind"),
            (&short, &wall, "the profile of the culprit states no duration"),
            (&wall, &short, "the profile of the peer states no duration"),
        ];
        for (culprit, peer, text) in table {
            assert_eq!(subtract(culprit, peer, None).unwrap_err().to_string(), text);
        }
    }

    proptest! {
        #[test]
        fn a_profile_does_not_differ_from_itself(profile in profiles()) {
            let difference = subtract(&profile, &profile, None).unwrap();
            prop_assert!(difference.stacks.values().all(|sides| sides.delta() == 0.0));
            prop_assert_eq!(difference.rank(100), []);
        }

        #[test]
        fn sides_that_swap_change_the_sign(a in profiles(), b in profiles()) {
            let (there, back) = (subtract(&a, &b, None).unwrap(), subtract(&b, &a, None).unwrap());
            for ((stack, forth), (_, back)) in there.stacks.iter().zip(&back.stacks) {
                prop_assert_eq!(forth.delta(), -back.delta(), "{:?}", stack);
            }
            let names = |of: &Difference| {
                of.rank(100).into_iter().map(|f| f.frame.to_string()).collect::<Vec<_>>()
            };
            prop_assert_eq!(names(&there), names(&back));
        }
    }
}
