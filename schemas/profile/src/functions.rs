//! Functions, and how much of all stacks each has: itself, and with what it calls. A function that
//! is recursive counts once, at its deepest line.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::AddAssign;

use crate::labels::ThreadState;
use crate::name::Name;
use crate::profile::Profile;
use crate::stack::{Frame, Stack};

/// A function of a profile, and how many units it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionTotal {
    /// At its line that has most.
    pub frame: Frame,
    /// While it was the leaf.
    pub own: u64,
    /// While it was anywhere in the stack.
    pub total: u64,
}

/// The functions of threads in one state, or of all: those that have most in total first, of equal
/// ones those that have most themselves, then in the order of names.
#[must_use]
pub fn functions(profile: &Profile, state: Option<ThreadState>) -> Vec<FunctionTotal> {
    let values = profile.values(state);
    let sums = by_function(values.iter().map(|(stack, value)| (*stack, *value)));
    let mut all: Vec<FunctionTotal> = sums.into_iter().map(total).collect();
    all.sort_by_key(|of| Reverse((of.total, of.own)));
    all
}

fn total(((function, file), sums): ((&Name, &Name), FunctionSums<u64>)) -> FunctionTotal {
    let hottest = sums.lines.iter().rev().max_by_key(|(_, value)| **value);
    let line = hottest.map_or(0, |(line, _)| *line);
    let frame = Frame { function: function.clone(), file: file.clone(), line };
    FunctionTotal { frame, own: sums.own, total: sums.total }
}

/// The sums of one function.
#[derive(Default)]
pub(crate) struct FunctionSums<V> {
    pub(crate) own: V,
    pub(crate) total: V,
    pub(crate) lines: BTreeMap<u32, V>,
}

/// Every function by its name and file.
pub(crate) fn by_function<'a, V: Copy + Default + AddAssign>(
    stacks: impl Iterator<Item = (&'a Stack, V)>,
) -> BTreeMap<(&'a Name, &'a Name), FunctionSums<V>> {
    let mut functions: BTreeMap<_, FunctionSums<V>> = BTreeMap::new();
    for (stack, value) in stacks {
        let mut seen = BTreeSet::new();
        for (above_leaf, frame) in stack.frames().iter().rev().enumerate() {
            let name = (&frame.function, &frame.file);
            if !seen.insert(name) {
                continue;
            }
            let function = functions.entry(name).or_default();
            function.total += value;
            *function.lines.entry(frame.line).or_default() += value;
            if above_leaf == 0 {
                function.own += value;
            }
        }
    }
    functions
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::tests::{profile, profiles};

    #[test]
    fn a_recursive_function_counts_once() {
        let counts: [(&[&str], u64); 3] =
            [(&["main:3", "f:4", "f:5"], 4), (&["main:3", "f:4"], 1), (&["main:6"], 2)];
        let found: Vec<_> = functions(&profile(10, 1, &counts), None)
            .into_iter()
            .map(|of| (of.frame.to_string(), of.own, of.total))
            .collect();
        let wanted = [("main (a.py:3)".to_owned(), 20, 70), ("f (a.py:5)".to_owned(), 50, 50)];
        assert_eq!(found, wanted);
    }

    proptest! {
        #[test]
        fn what_functions_do_themselves_is_the_whole(profile in profiles()) {
            let all = functions(&profile, None);
            prop_assert_eq!(all.iter().map(|of| of.own).sum::<u64>(), profile.value());
            prop_assert!(all.iter().all(|of| of.own <= of.total && of.total <= profile.value()));
            prop_assert!(all.is_sorted_by(|a, b| a.total >= b.total));
        }
    }
}
