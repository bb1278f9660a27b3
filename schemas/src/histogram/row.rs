//! Samples in few buckets: a sorted list, where a row of cells would be mostly empty.

use crate::histogram::exact::BucketSpan;
use crate::histogram::payload::{Buckets, SamplesBeside};
use crate::histogram::writer::Writer;

/// Samples in few buckets, in ascending order: (bucket, samples).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Row(Vec<(usize, u64)>);

impl Row {
    /// An empty one with room for this many buckets.
    pub(super) fn with_room(buckets: usize) -> Self {
        Self(Vec::with_capacity(buckets))
    }

    /// Reads a checked payload.
    pub(super) fn of(payload: &[u8]) -> Self {
        Self(Buckets::of(payload).collect())
    }

    /// The canonical payload.
    pub(super) fn payload(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        self.iter().for_each(|(index, n)| writer.push(index, n));
        writer.into_bytes()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, u64)> {
        self.0.iter().copied()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// All samples.
    pub(super) fn total(&self) -> u64 {
        self.iter().fold(0, |sum, (_, n)| sum.saturating_add(n))
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.0.capacity() * size_of::<(usize, u64)>()
    }

    /// Adds samples to one bucket. Most are added in ascending order.
    #[inline]
    pub(super) fn add(&mut self, index: usize, n: u64) {
        match self.0.last_mut() {
            Some((last, sum)) if *last == index => *sum = sum.saturating_add(n),
            Some((last, _)) if *last > index => self.add_between(index, n),
            _ => self.0.push((index, n)),
        }
    }

    #[cold]
    fn add_between(&mut self, index: usize, n: u64) {
        match self.0.binary_search_by_key(&index, |(at, _)| *at) {
            Ok(at) => self.0[at].1 = self.0[at].1.saturating_add(n),
            Err(at) => self.0.insert(at, (index, n)),
        }
    }

    /// Samples in buckets that the row already has cost no memory; most repeated samples are such.
    pub(super) fn merge(&mut self, other: &Self) {
        let (mut at, mut new) = (0, Vec::new());

        for (index, n) in other.iter() {
            while self.0.get(at).is_some_and(|(known, _)| *known < index) {
                at += 1;
            }
            match self.0.get_mut(at) {
                Some((known, sum)) if *known == index => *sum = sum.saturating_add(n),
                _ => new.push((index, n)),
            }
        }

        // Sorted in once: to insert each would move all that follow it each time.
        if !new.is_empty() {
            self.0.append(&mut new);
            self.0.sort_by_key(|(index, _)| *index);
        }
    }

    /// The first and the last bucket.
    pub(super) fn edges(&self) -> Option<BucketSpan> {
        Some(BucketSpan { first: self.0.first()?.0, last: self.0.last()?.0 })
    }

    pub(super) fn as_slice(&self) -> &[(usize, u64)] {
        &self.0
    }

    /// Samples in one bucket, and in all above it.
    pub(super) fn beside(&self, index: usize) -> SamplesBeside {
        let sum = |sum: u64, (_, n): &(usize, u64)| sum.saturating_add(*n);
        let from = self.0.partition_point(|(at, _)| *at < index);
        let after = self.0.partition_point(|(at, _)| *at <= index);
        SamplesBeside {
            within: self.0[from..after].iter().fold(0, sum),
            above: self.0[after..].iter().fold(0, sum),
        }
    }

    /// Whether the samples of the other could be these, each in the same bucket or a greater one.
    pub(super) fn precedes(&self, other: &Self) -> bool {
        let ahead = |ahead: &mut i128, (_, n)| {
            *ahead += n;
            Some(*ahead)
        };
        let mut last = 0;
        let none = std::iter::empty();
        let never_behind =
            difference(self.iter(), other.iter(), none).scan(0, ahead).all(|ahead| {
                last = ahead;
                ahead >= 0
            });
        never_behind && last == 0
    }
}

/// The buckets of three rows in ascending order: the samples of the first, less those of the
/// second, and those of the third.
pub(super) fn difference(
    first: impl Iterator<Item = (usize, u64)>,
    less: impl Iterator<Item = (usize, u64)>,
    third: impl Iterator<Item = (usize, u64)>,
) -> impl Iterator<Item = (usize, i128)> {
    let (mut first, mut less, mut third) = (first.peekable(), less.peekable(), third.peekable());
    std::iter::from_fn(move || {
        let next = [first.peek(), less.peek(), third.peek()];
        let index = next.into_iter().flatten().map(|(index, _)| *index).min()?;
        let is_next = |(at, _): &(usize, u64)| *at == index;
        let buckets = [first.next_if(is_next), less.next_if(is_next), third.next_if(is_next)];
        let [first, less, third] = buckets.map(|bucket| bucket.map_or(0, |(_, n)| i128::from(n)));
        Some((index, first - less + third))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn rows_merge_like_sorted_maps(
            one in prop::collection::btree_map(0..40_usize, 1..9_u64, 0..30),
            two in prop::collection::btree_map(0..40_usize, 1..=u64::MAX, 0..30),
        ) {
            let row = |from: &BTreeMap<usize, u64>| {
                Row(from.iter().map(|(index, n)| (*index, *n)).collect())
            };
            let mut merged = row(&one);
            merged.merge(&row(&two));
            let mut expected = one;
            for (index, n) in two {
                let sum = expected.entry(index).or_insert(0);
                *sum = sum.saturating_add(n);
            }
            prop_assert_eq!(merged, row(&expected));
        }
    }
}
