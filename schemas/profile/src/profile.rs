//! A profile: how often each stack was seen, with its labels, and how it was taken.
//!
//! It is bounded: what finds no room is counted in the stack `[truncated]` of its thread state, so
//! its total stays exact.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use plimsoll_schemas::time::Wall;

use crate::labels::{SampleLabels, ThreadState};
use crate::limits::{COMMENTS_MAX, FRAME_TABLE_MAX, STACKS_MAX};
use crate::name::Name;
use crate::stack::{Frame, Stack};

/// Highest total of a profile, in units: 292 years of one thread. A file cannot state more.
const VALUE_MAX: u64 = i64::MAX.unsigned_abs();

/// What is measured, and its unit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ValueType {
    /// Such as `wall` or `cpu`.
    pub kind: Name,
    /// Such as `nanoseconds`.
    pub unit: Name,
}

impl ValueType {
    /// Time on a processor, in nanoseconds.
    #[must_use]
    pub fn cpu() -> Self {
        Self { kind: "cpu".into(), unit: "nanoseconds".into() }
    }

    /// Time of each thread, whatever it did, in nanoseconds.
    #[must_use]
    pub fn wall() -> Self {
        Self { kind: "wall".into(), unit: "nanoseconds".into() }
    }
}

/// Stacks with counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    value_type: ValueType,
    period: u64,
    /// When sampling started, on the node's clock.
    pub started_at: Wall,
    /// For how long it was sampled; of a merged profile the sum of all.
    pub duration_ns: u64,
    comments: BTreeSet<Name>,
    samples: BTreeMap<SampleKey, u64>,
    /// Those without truncated ones, which always find room: else a full profile would not be the
    /// same once it is read from a file.
    stacks: usize,
    total: u64,
    /// The frames of all stacks, each once; found by hash, since many have long names alike.
    frames: HashSet<Arc<Frame>>,
}

/// A stack with labels, and how often it was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample<'a> {
    /// The stack.
    pub stack: &'a Stack,
    /// Its labels.
    pub labels: &'a SampleLabels,
    /// Periods; not 0.
    pub count: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct SampleKey {
    labels: SampleLabels,
    stack: Stack,
}

impl SampleKey {
    /// The key of stacks for which there is no room.
    fn truncated(state: Option<ThreadState>) -> Self {
        let labels = SampleLabels { state, ..SampleLabels::default() };
        Self { labels, stack: Stack::truncated() }
    }
}

impl Profile {
    /// An empty profile, in which one count stands for `period` units.
    #[must_use]
    pub fn new(value_type: ValueType, period: u64) -> Self {
        Self {
            value_type,
            period: period.clamp(1, VALUE_MAX),
            started_at: Wall::default(),
            duration_ns: 0,
            comments: BTreeSet::new(),
            samples: BTreeMap::new(),
            stacks: 0,
            total: 0,
            frames: HashSet::new(),
        }
    }

    /// Counts a stack. A count beyond the highest total of a profile is cut.
    pub fn add(&mut self, stack: Stack, labels: SampleLabels, count: u64) {
        let count = count.min(VALUE_MAX / self.period - self.total);
        let key = SampleKey { labels, stack };
        self.total += count;

        if let Some(known) = self.samples.get_mut(&key) {
            *known += count;
        } else if count > 0 {
            let kept = self.admit(key);
            *self.samples.entry(kept).or_default() += count;
        }
    }

    /// The key with frames that the profile shares. Without room for it, the key of truncated
    /// stacks.
    fn admit(&mut self, mut key: SampleKey) -> SampleKey {
        let truncated = SampleKey::truncated(key.labels.state);
        if key == truncated || self.stacks >= STACKS_MAX {
            return truncated;
        }
        let mut new = HashSet::new();
        let shared = key.stack.frames().iter().map(|frame| {
            if let Some(known) = self.frames.get(frame) {
                return known.clone();
            }
            new.insert(frame.clone());
            frame.clone()
        });
        let shared = Stack::new(shared.collect());
        if self.frames.len() + new.len() > FRAME_TABLE_MAX {
            return truncated;
        }

        self.frames.extend(new);
        key.stack = shared;
        self.stacks += 1;
        key
    }

    /// Keeps a remark, such as `plimsoll.rung=profiler`; of too many the first in alphabetical
    /// order.
    pub fn add_comment(&mut self, comment: Name) {
        self.comments.insert(comment);
        if self.comments.len() > COMMENTS_MAX {
            self.comments.pop_last();
        }
    }

    /// The same values in periods of `period` units, if each is a multiple of it.
    pub(crate) fn in_periods(mut self, period: u64) -> Self {
        if period > 1 && self.period == 1 && self.samples.values().all(|n| n.is_multiple_of(period))
        {
            self.samples.values_mut().for_each(|n| *n /= period);
            self.total /= period;
            self.period = period;
        }
        self
    }

    /// What is measured.
    #[must_use]
    pub fn value_type(&self) -> &ValueType {
        &self.value_type
    }

    /// Units that one count stands for: nanoseconds between two samples of a thread.
    #[must_use]
    pub fn period(&self) -> u64 {
        self.period
    }

    /// Remarks, and how it was taken.
    pub fn comments(&self) -> impl Iterator<Item = &Name> {
        self.comments.iter()
    }

    /// All samples, in the order of their labels and stacks.
    pub fn samples(&self) -> impl Iterator<Item = Sample<'_>> {
        let all = self.samples.iter();
        all.map(|(key, count)| Sample { stack: &key.stack, labels: &key.labels, count: *count })
    }

    /// The units of each stack, whatever its labels; of threads in one state, or of all.
    #[must_use]
    pub fn values(&self, state: Option<ThreadState>) -> BTreeMap<&Stack, u64> {
        let mut values = BTreeMap::new();
        let chosen = self.samples().filter(|s| state.is_none() || s.labels.state == state);
        for sample in chosen {
            *values.entry(sample.stack).or_default() += sample.count * self.period;
        }
        values
    }

    /// The units of all stacks.
    #[must_use]
    pub fn value(&self) -> u64 {
        self.total * self.period
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::tests::{profiles, stack, stacks};

    /// The units of stacks that a bound has shortened or replaced.
    fn truncated(profile: &Profile) -> u64 {
        let truncated = profile.samples().filter(|sample| sample.stack.is_truncated());
        truncated.map(|sample| sample.count * profile.period()).sum()
    }

    fn labels(state: ThreadState) -> SampleLabels {
        SampleLabels { thread: "main".into(), state: Some(state), ..SampleLabels::default() }
    }

    #[test]
    fn equal_stacks_are_one_sample() {
        let mut profile = Profile::new(ValueType::wall(), 10);
        for (line, state, count) in [
            ("load:3", ThreadState::Running, 2),
            ("load:3", ThreadState::Waiting, 3),
            ("load:3", ThreadState::Running, 4),
            ("load:4", ThreadState::Running, 5),
            ("load:5", ThreadState::Running, 0),
        ] {
            profile.add(stack(&["main", line]), labels(state), count);
        }

        let counts: Vec<u64> = profile.samples().map(|sample| sample.count).collect();
        assert_eq!(counts, [6, 5, 3]);
        assert_eq!(profile.value(), 140);
        let load = stack(&["main", "load:3"]);
        let values =
            [(None, 90), (Some(ThreadState::Running), 60), (Some(ThreadState::Waiting), 30)];
        for (state, value) in values {
            assert_eq!(profile.values(state)[&load], value, "{state:?}");
        }
        assert_eq!(profile.values(Some(ThreadState::Gil)), BTreeMap::new());
    }

    #[test]
    fn stacks_beyond_the_bound_are_counted_as_truncated() {
        let mut profile = Profile::new(ValueType::wall(), 10);
        let frames: Vec<_> = (0..200).map(|line| Frame::new("f", "a.py", line)).collect();
        for (outer, inner) in (0..STACKS_MAX + 100).map(|n| (n / 200, n % 200)) {
            let stack = Stack::new(vec![frames[outer].clone(), frames[inner].clone()]);
            profile.add(stack, labels(ThreadState::Gil), 2);
        }
        assert_eq!(profile.samples().count(), STACKS_MAX + 1);
        assert_eq!(profile.value(), 20 * (STACKS_MAX as u64 + 100));
        assert_eq!(truncated(&profile), 2_000);

        // What is known finds room still.
        let known = Stack::new(vec![frames[0].clone(), frames[1].clone()]);
        profile.add(known.clone(), labels(ThreadState::Gil), 1);
        assert_eq!(profile.values(None)[&known], 30);
        let truncated = profile.samples().find(|sample| sample.stack.is_truncated()).unwrap();
        assert_eq!(truncated.labels.state, Some(ThreadState::Gil));
    }

    #[test]
    fn frames_beyond_the_bound_are_counted_as_truncated() {
        let mut profile = Profile::new(ValueType::wall(), 1);
        for n in 0..173_u32 {
            let frames = (0..100).map(|line| Frame::new("f", "a.py", 100 * n + line));
            profile.add(Stack::new(frames.collect()), SampleLabels::default(), 1);
        }
        assert_eq!(profile.frames.len(), 16_300);
        assert_eq!((profile.value(), truncated(&profile)), (173, 10));

        // 84 frames still find room: a recursion has one.
        let repeated = vec![Frame::new("g", "a.py", 1); 90];
        profile.add(Stack::new(repeated), SampleLabels::default(), 1);
        assert_eq!((profile.value(), truncated(&profile)), (174, 10));
    }

    #[test]
    fn a_total_stays_below_what_a_file_can_state() {
        let mut profile = Profile::new(ValueType::wall(), 1 << 62);
        profile.add(stack(&["a"]), SampleLabels::default(), u64::MAX);
        profile.add(stack(&["b"]), SampleLabels::default(), 1);
        assert_eq!(profile.value(), 1 << 62);
        assert_eq!(Profile::new(ValueType::cpu(), 0).period(), 1);
    }

    proptest! {
        #[test]
        fn the_total_is_the_sum_of_all_stacks(
            mut profile in profiles(),
            more in prop::collection::vec((stacks(), 0_u64..1_000), 0..10),
        ) {
            let before = profile.value();
            let added: u64 = more.iter().map(|(_, count)| count * profile.period()).sum();
            for (stack, count) in more {
                profile.add(stack, labels(ThreadState::Running), count);
            }
            prop_assert_eq!(profile.value(), before + added);
            prop_assert_eq!(profile.values(None).values().sum::<u64>(), profile.value());
            let states = [None].into_iter().chain(ThreadState::ALL.map(Some));
            let of = |state| profile.samples().filter(move |s| s.labels.state == state);
            let counts: u64 = states.flat_map(of).map(|sample| sample.count).sum();
            prop_assert_eq!(counts * profile.period(), profile.value());
        }
    }
}
