//! A latency distribution in a few bytes for each bucket in use: exact figures beside the payload
//! of its V2 bytes. What is kept for long and merged seldom is kept so; what takes samples one by
//! one is a [`Histogram`].

use std::sync::Arc;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::codec::{self, STORED_MAX, read_zigzag, write_zigzag};
use super::{Distribution, ExactFigures, Histogram, Refused, layout};

/// All samples of one series over some time, packed. Copies share their bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packed {
    exact: ExactFigures,
    /// Runs of empty buckets and counts in turn, as in a V2 payload, checked and canonical:
    /// equal distributions have equal bytes.
    payload: Arc<[u8]>,
}

impl Packed {
    /// What is known exactly.
    #[must_use]
    pub fn exact(&self) -> ExactFigures {
        self.exact
    }

    /// True without a sample.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.exact.count == 0
    }

    /// Buckets with samples, in ascending order: (index, samples).
    pub fn buckets(&self) -> impl Iterator<Item = (usize, u64)> {
        Buckets { payload: &self.payload, index: 0 }
    }

    /// Adds all samples of `other`.
    pub fn merge(&mut self, other: &Self) {
        if other.is_empty() {
            return;
        }
        let mut ours = self.buckets().peekable();
        let mut theirs = other.buckets().peekable();
        let mut merged = Packer::default();
        loop {
            let (index, n) = match (ours.peek(), theirs.peek()) {
                (None, None) => break,
                (Some(our), Some(their)) if our.0 == their.0 => {
                    (our.0, our.1.saturating_add(their.1))
                }
                (Some(our), Some(their)) => *our.min(their),
                (Some(bucket), None) | (None, Some(bucket)) => *bucket,
            };
            ours.next_if(|bucket| bucket.0 == index);
            theirs.next_if(|bucket| bucket.0 == index);
            merged.push(index, n);
        }
        let payload = merged.payload.into();
        drop((ours, theirs));
        self.exact.merge(&other.exact);
        self.payload = payload;
    }

    /// Samples in the buckets that lie above `limit_ns` as a whole.
    #[must_use]
    pub fn over(&self, limit_ns: u64) -> u64 {
        if self.exact.max_ns <= limit_ns {
            return 0;
        }
        let first = layout::index_of(limit_ns.min(layout::MAX_NS)) + 1;
        let over = self.buckets().filter(|(index, _)| *index >= first);
        over.fold(0, |sum, (_, n)| sum.saturating_add(n))
    }

    /// Heap bytes in use.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.payload.len() + 2 * size_of::<usize>()
    }
}

impl Distribution for Packed {
    fn try_from_v2(exact: ExactFigures, bytes: &[u8]) -> Result<Self, Refused> {
        let (counts, total) = codec::decode(bytes)?;
        let histogram = Histogram::try_from_parts(exact, counts, total);
        histogram.map(|histogram| Self::from(&histogram)).map_err(Refused::Contradiction)
    }

    fn count(&self) -> u64 {
        self.exact.count
    }
}

impl From<&Histogram> for Packed {
    fn from(histogram: &Histogram) -> Self {
        let mut packer = Packer::default();
        histogram.counts().iter().for_each(|(index, n)| packer.push(index, n));
        Self { exact: histogram.exact(), payload: packer.payload.into() }
    }
}

/// Writes buckets in ascending order.
#[derive(Default)]
struct Packer {
    payload: Vec<u8>,
    next: usize,
}

impl Packer {
    fn push(&mut self, index: usize, n: u64) {
        match index - self.next {
            0 => {}
            1 => write_zigzag(&mut self.payload, 0),
            zeros => write_zigzag(&mut self.payload, -(zeros as u64).cast_signed()),
        }
        write_zigzag(&mut self.payload, n.min(STORED_MAX).cast_signed());
        self.next = index + 1;
    }
}

/// Reads them again.
struct Buckets<'a> {
    payload: &'a [u8],
    index: usize,
}

impl Iterator for Buckets<'_> {
    type Item = (usize, u64);

    #[expect(clippy::cast_possible_truncation, reason = "runs were checked against the layout")]
    fn next(&mut self) -> Option<(usize, u64)> {
        loop {
            let number = read_zigzag(&mut self.payload).ok()?;
            if number > 0 {
                self.index += 1;
                return Some((self.index - 1, number.cast_unsigned()));
            }
            self.index += number.unsigned_abs().max(1) as usize;
        }
    }
}

/// As [`super::stored`], without the V2 header.
#[derive(Serialize, Deserialize)]
struct Stored<'a> {
    count: u64,
    sum_high: u64,
    sum_low: u64,
    min_ns: u64,
    max_ns: u64,
    #[serde(with = "serde_bytes", borrow)]
    payload: &'a [u8],
}

impl Serialize for Packed {
    #[expect(clippy::cast_possible_truncation, reason = "taking halves is the point")]
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let ExactFigures { count, sum_ns, min_ns, max_ns } = self.exact;
        let (sum_high, sum_low) = ((sum_ns >> 64) as u64, sum_ns as u64);
        Stored { count, sum_high, sum_low, min_ns, max_ns, payload: &self.payload }
            .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Packed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let stored = Stored::deserialize(deserializer)?;
        let mut rest = stored.payload;
        let mut index = 0_usize;
        while !rest.is_empty() {
            let number = read_zigzag(&mut rest).map_err(D::Error::custom)?;
            let step = if number > 0 { 1 } else { number.unsigned_abs().max(1) };
            index = usize::try_from(step).map_or(usize::MAX, |step| index.saturating_add(step));
        }
        if index > layout::LEN {
            return Err(D::Error::custom("counts run past the last bucket"));
        }
        let sum_ns = (u128::from(stored.sum_high) << 64) | u128::from(stored.sum_low);
        let (count, min_ns, max_ns) = (stored.count, stored.min_ns, stored.max_ns);
        let exact = ExactFigures { count, sum_ns, min_ns, max_ns };
        Ok(Self { exact, payload: stored.payload.into() })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn histogram(values: &[u64]) -> Histogram {
        let mut histogram = Histogram::default();
        values.iter().for_each(|value| histogram.record(*value));
        histogram
    }

    proptest! {
        #[test]
        fn packed_distributions_merge_as_histograms_do(
            one in prop::collection::vec(0..=layout::MAX_NS, 0..100),
            two in prop::collection::vec(1_000_000..40_000_000_u64, 0..100),
            limit in 0..50_000_000_u64,
        ) {
            let mut both = Packed::from(&histogram(&one));
            both.merge(&Packed::from(&histogram(&two)));
            let expected = histogram(&[one, two].concat());
            prop_assert_eq!(&both, &Packed::from(&expected));
            let mut again = Histogram::default();
            again.merge_packed(&both);
            prop_assert_eq!(&again, &expected);
            let over = expected.counts().iter().filter(|(i, _)| layout::lowest(*i) > limit);
            prop_assert_eq!(both.over(limit), over.map(|(_, n)| n).sum::<u64>());
            let bytes = rmp_serde::to_vec_named(&both).unwrap();
            prop_assert_eq!(rmp_serde::from_slice::<Packed>(&bytes).unwrap(), both);
        }
    }
}
