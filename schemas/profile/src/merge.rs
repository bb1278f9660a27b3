//! Adds profiles: exact, in any order, with the same result.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use crate::difference::{MixError, check_types};
use crate::profile::{Profile, ValueType};
use crate::stack::{Frame, Stack};

/// All samples of all profiles. Durations add up, so that rates are those of a mean profile.
/// Periods that differ become their highest common divisor. If there are more stacks than a profile
/// keeps, the heaviest are kept, so the order of the profiles still does not matter; the order of
/// several merges does then. Of no profiles it is an empty one.
///
/// # Errors
/// When the profiles measure different things, or too much.
pub fn merge(profiles: &[&Profile]) -> Result<Profile, MixError> {
    profiles.windows(2).try_for_each(|pair| check_types(pair[0], pair[1]))?;
    let value: u128 = profiles.iter().map(|profile| u128::from(profile.value())).sum();
    if value > i64::MAX.unsigned_abs().into() {
        return Err(MixError::Overflow);
    }

    let period = profiles.iter().fold(0, |common, profile| divisor(common, profile.period()));
    let mut frames = FrameNumbers::default();
    let mut counts: HashMap<_, (&Stack, u64)> = HashMap::new();
    for profile in profiles {
        for sample in profile.samples() {
            let count = sample.count * (profile.period() / period);
            let key = (sample.labels, frames.of_stack(sample.stack));
            counts.entry(key).or_insert((sample.stack, 0)).1 += count;
        }
    }

    let value_type = profiles.first().map_or_else(ValueType::wall, |p| p.value_type().clone());
    let mut merged = Profile::new(value_type, period);
    let counted = counts.into_iter();
    let counted = counted.map(|((labels, _), (stack, count))| (Reverse(count), labels, stack));
    let mut heaviest_first: Vec<_> = counted.collect();
    heaviest_first.sort_unstable();
    for (Reverse(count), labels, stack) in heaviest_first {
        merged.add(stack.clone(), labels.clone(), count);
    }

    merged.started_at = profiles.iter().map(|p| p.started_at).min().unwrap_or_default();
    for profile in profiles {
        merged.duration_ns = merged.duration_ns.saturating_add(profile.duration_ns);
        profile.comments().cloned().for_each(|comment| merged.add_comment(comment));
    }
    Ok(merged)
}

/// A number for each frame, whichever profile it is of: stacks of several profiles share no frames,
/// and comparing their names one by one would take most of the time of a merge.
#[derive(Default)]
struct FrameNumbers<'a> {
    numbers: HashMap<&'a Frame, u32>,
    /// Those of frames that were met before.
    by_address: HashMap<*const Frame, u32>,
}

impl<'a> FrameNumbers<'a> {
    fn of_stack(&mut self, stack: &'a Stack) -> Box<[u32]> {
        stack.frames().iter().map(|frame| self.of(frame)).collect()
    }

    fn of(&mut self, frame: &'a Arc<Frame>) -> u32 {
        *self.by_address.entry(Arc::as_ptr(frame)).or_insert_with(|| {
            let next = u32::try_from(self.numbers.len()).expect("profiles bound their frames");
            *self.numbers.entry(frame).or_insert(next)
        })
    }
}

/// The highest common divisor; of 0 and a number the number.
fn divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::labels::SampleLabels;
    use crate::limits::STACKS_MAX;
    use crate::stack::Frame;
    use crate::tests::{profile, profiles, stack};

    #[test]
    fn different_periods_are_merged_exactly() {
        let slow = profile(20_000_000, 3, &[(&["a"], 5), (&["a", "b"], 1)]);
        let fast = profile(9_990_000, 4, &[(&["a"], 7)]);
        let merged = merge(&[&slow, &fast]).unwrap();
        assert_eq!(merged.period(), 10_000);
        assert_eq!(merged.duration_ns, 7);
        assert_eq!(merged.values(None)[&stack(&["a"])], 5 * 20_000_000 + 7 * 9_990_000);
        assert_eq!(merged.value(), slow.value() + fast.value());
    }

    #[test]
    fn profiles_that_do_not_fit_are_refused() {
        let wall = profile(1 << 62, 1, &[(&["a"], 1)]);
        let cpu = Profile::new(ValueType::cpu(), 1);
        let types = MixError::ValueTypes(ValueType::wall(), ValueType::cpu());
        for (profiles, error) in [([&wall, &cpu], types), ([&wall, &wall], MixError::Overflow)] {
            assert_eq!(merge(&profiles), Err(error));
        }
        assert_eq!(merge(&[]).unwrap().value(), 0);
    }

    #[test]
    fn a_full_merge_keeps_the_heaviest_in_any_order() {
        let frames: Vec<_> = (0..300).map(|line| Frame::new("f", "a.py", line)).collect();
        let part = |outers: std::ops::Range<usize>| {
            let mut part = Profile::new(ValueType::wall(), 1);
            for (outer, inner) in outers.flat_map(|outer| (0..150).map(move |n| (outer, n))) {
                let stack = Stack::new(vec![frames[outer].clone(), frames[150 + inner].clone()]);
                part.add(stack, SampleLabels::default(), 1 + (outer * 7 + inner) as u64 % 100);
            }
            part
        };
        let (a, b) = (part(0..100), part(50..150));
        let merged = merge(&[&a, &b]).unwrap();
        assert_eq!(merged, merge(&[&b, &a]).unwrap());
        assert_eq!(merged.value(), a.value() + b.value());
        assert_eq!(merged.samples().count(), STACKS_MAX + 1);
        let kept = merged.samples().filter(|sample| !sample.stack.is_truncated());
        assert!(kept.map(|sample| sample.count).min().unwrap() > 20);
    }

    proptest! {
        #[test]
        fn merging_in_any_order_is_equal(
            parts in prop::collection::vec(profiles(), 1..5),
            turn in 0_usize..5,
            split in 0_usize..5,
        ) {
            let parts: Vec<&Profile> = parts.iter().collect();
            let merged = merge(&parts).unwrap();

            let mut turned = parts.clone();
            turned.rotate_left(turn % parts.len());
            turned.reverse();
            prop_assert_eq!(&merge(&turned).unwrap(), &merged);

            let (left, right) = parts.split_at(split % parts.len());
            if !left.is_empty() {
                let (left, right) = (merge(left).unwrap(), merge(right).unwrap());
                prop_assert_eq!(&merge(&[&left, &right]).unwrap(), &merged);
            }
        }

        #[test]
        fn every_sample_of_every_part_is_counted(
            parts in prop::collection::vec(profiles(), 1..5),
        ) {
            let mut naive: BTreeMap<(SampleLabels, Stack), u64> = BTreeMap::new();
            for part in &parts {
                for sample in part.samples() {
                    let key = (sample.labels.clone(), sample.stack.clone());
                    *naive.entry(key).or_default() += sample.count * part.period();
                }
            }
            let merged = merge(&parts.iter().collect::<Vec<_>>()).unwrap();
            let found = merged.samples().map(|sample| {
                let key = (sample.labels.clone(), sample.stack.clone());
                (key, sample.count * merged.period())
            });
            prop_assert_eq!(found.collect::<BTreeMap<_, _>>(), naive);
        }
    }
}
