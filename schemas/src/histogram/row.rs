//! Samples in few buckets: a sorted list, where a row of cells would be mostly empty.

use crate::histogram::payload::Buckets;
use crate::histogram::writer::Writer;

/// Samples in few buckets, in ascending order: (bucket, samples).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Row(Vec<(usize, u64)>);

impl Row {
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

    pub(super) fn add(&mut self, index: usize, n: u64) {
        if self.0.last().is_none_or(|(last, _)| *last < index) {
            return self.0.push((index, n));
        }
        match self.0.binary_search_by_key(&index, |(at, _)| *at) {
            Ok(at) => self.0[at].1 = self.0[at].1.saturating_add(n),
            Err(at) => self.0.insert(at, (index, n)),
        }
    }

    /// Samples in buckets that the row already has cost no memory; most repeated samples are such.
    pub(super) fn merge(&mut self, other: &Self) {
        let (mut at, mut new) = (0, Vec::new());
        for (index, n) in other.iter() {
            at += self.0[at..].iter().take_while(|(known, _)| *known < index).count();
            match self.0.get_mut(at) {
                Some((known, sum)) if *known == index => *sum = sum.saturating_add(n),
                _ => new.push((index, n)),
            }
        }
        if !new.is_empty() {
            self.0.append(&mut new);
            self.0.sort_by_key(|(index, _)| *index);
        }
    }

    /// The first and the last bucket.
    pub(super) fn edges(&self) -> Option<(usize, usize)> {
        Some((self.0.first()?.0, self.0.last()?.0))
    }

    pub(super) fn as_slice(&self) -> &[(usize, u64)] {
        &self.0
    }

    /// Samples in one bucket, and in all above it.
    pub(super) fn beside(&self, index: usize) -> (u64, u64) {
        let sum = |sum: u64, (_, n): &(usize, u64)| sum.saturating_add(*n);
        let from = self.0.partition_point(|(at, _)| *at < index);
        let above = self.0.partition_point(|(at, _)| *at <= index);
        (self.0[from..above].iter().fold(0, sum), self.0[above..].iter().fold(0, sum))
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
