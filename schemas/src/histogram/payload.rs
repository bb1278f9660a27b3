//! Reads a V2 payload: counts of buckets in ascending order, and runs of empty buckets.
//!
//! A positive number is a count; `-k` represents `k` empty buckets, and a single 0 represents one.
//! The payload was checked by [`checked`](super::checked) or written by a
//! [`Writer`](super::writer::Writer), so reading it has no errors.

use super::numbers::{Eight, empty, read_number, split_eight, split_short, sum, used};

/// Reads any payload, short numbers eight at a time.
#[derive(Clone, Copy)]
pub(super) struct PayloadReader<'a> {
    pub(super) rest: &'a [u8],
    /// The bucket of the next count.
    pub(super) index: usize,
    /// Samples so far.
    pub(super) total: u64,
}

impl<'a> PayloadReader<'a> {
    pub(super) fn of(payload: &'a [u8]) -> Self {
        Self { rest: payload, index: 0, total: 0 }
    }

    /// The next eight numbers if all are short, and the bucket that the first is about.
    #[inline]
    pub(super) fn eight(&mut self) -> Option<(usize, Eight)> {
        let (word, rest) = split_eight(self.rest)?;
        self.rest = rest;
        Some(self.pass(Eight::of(word, u64::MAX)))
    }

    /// The next numbers as long as they are short, fewer than eight.
    #[inline]
    pub(super) fn few(&mut self) -> Option<(usize, Eight)> {
        let (word, len) = split_short(self.rest);
        self.rest = self.rest.get(len..).filter(|_| len > 0)?;
        Some(self.pass(Eight::of(word, used(len))))
    }

    #[inline]
    fn pass(&mut self, eight: Eight) -> (usize, Eight) {
        let index = self.index;
        self.index += eight.span();
        self.total = self.total.saturating_add(sum(eight.ns));
        (index, eight)
    }

    /// The next number, of any length: its bucket and its samples, 0 for a run.
    #[inline]
    pub(super) fn any(&mut self) -> Option<(usize, u64)> {
        let (mut rest, index) = (self.rest, self.index);
        let number = read_number(&mut rest).ok()?;
        let n = u64::try_from(number).unwrap_or(0);
        self.rest = rest;
        self.index += if n > 0 { 1 } else { empty(number) };
        self.total = self.total.saturating_add(n);
        Some((index, n))
    }
}

/// Visits the buckets of a checked payload in ascending order, and some empty ones with 0 samples:
/// to skip these would take a branch, which no CPU can predict.
#[inline]
pub(super) fn each(payload: &[u8], mut visit: impl FnMut(usize, u64)) {
    let mut reader = PayloadReader::of(payload);
    loop {
        while let Some((index, eight)) = reader.eight() {
            eight.each(index, |index, n| visit(index, n.into()));
        }
        if let Some((index, few)) = reader.few() {
            few.each(index, |index, n| visit(index, n.into()));
        }
        let Some((index, n)) = reader.any() else { return };
        visit(index, n);
    }
}

/// Samples in one bucket, and in all above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SamplesBeside {
    pub(super) within: u64,
    pub(super) above: u64,
}

/// Samples beside one bucket of a checked payload.
pub(super) fn beside(payload: &[u8], own: usize) -> SamplesBeside {
    let (mut within, mut above) = (0_u64, 0_u64);
    each(payload, |index, n| {
        within = within.saturating_add(if index == own { n } else { 0 });
        above = above.saturating_add(if index > own { n } else { 0 });
    });
    SamplesBeside { within, above }
}

/// Buckets with samples of any payload without errors, in ascending order: (index, samples).
#[derive(Clone)]
pub(super) struct Buckets<'a> {
    payload: &'a [u8],
    index: usize,
}

impl<'a> Buckets<'a> {
    pub(super) fn of(payload: &'a [u8]) -> Self {
        Self { payload, index: 0 }
    }
}

impl Iterator for Buckets<'_> {
    type Item = (usize, u64);

    #[inline]
    fn next(&mut self) -> Option<(usize, u64)> {
        loop {
            let number = read_number(&mut self.payload).ok()?;
            if number > 0 {
                self.index += 1;
                return Some((self.index - 1, number.cast_unsigned()));
            }
            self.index += empty(number);
        }
    }
}
