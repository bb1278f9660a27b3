//! Samples by bucket and nothing beside them, in a few bytes for each bucket in use: what the API
//! calls a distribution.

use std::sync::Arc;

use super::checked;
use super::error::CodecError;
use super::exact::ExactFigures;
use super::header::{self, HEADER_BYTES};
use super::layout::{self, MAX_NS};
use super::mutable::Histogram;
use super::over::Overs;
use super::packed::Packed;
use super::payload::Buckets;
use super::writer::{STORED_MAX, Writer};

/// How many samples fell into each bucket. Copies share their bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PackedCounts {
    /// As in a V2 payload, checked and canonical; none without samples.
    payload: Arc<[u8]>,
}

impl PackedCounts {
    /// Reads V2 bytes of sums over any time.
    ///
    /// # Errors
    /// On anything but an uncompressed V2 histogram of the mesh's layout that is complete, in
    /// range, and free of trailing bytes.
    pub fn from_v2(bytes: &[u8]) -> Result<Self, CodecError> {
        let checked = checked::check(header::split(bytes)?, STORED_MAX)?;
        Ok(Self { payload: checked.payload.as_ref().into() })
    }

    /// The V2 bytes, as every HdrHistogram library writes them.
    #[must_use]
    pub fn to_v2(&self) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_BYTES];
        // The reference library writes its first bucket even when nothing is in it.
        bytes.extend_from_slice(if self.payload.is_empty() { &[0] } else { &self.payload });
        header::write(&mut bytes).expect("a payload of all buckets is shorter than 4 GiB");
        bytes
    }

    /// Buckets with samples, in ascending order: (index, samples).
    pub fn buckets(&self) -> impl Iterator<Item = (usize, u64)> {
        Buckets::of(&self.payload)
    }

    /// A distribution of them. Nothing is known of a sample but its bucket, so the figures that
    /// are exact elsewhere are those of the buckets' upper ends.
    #[must_use]
    pub fn to_packed(&self) -> Packed {
        let mut exact = ExactFigures::default();
        for (index, count) in self.buckets() {
            let value_ns = layout::highest(index).min(MAX_NS);
            let sum_ns = u128::from(value_ns) * u128::from(count);
            exact.merge(&ExactFigures { count, sum_ns, min_ns: value_ns, max_ns: value_ns });
        }
        Packed::new(exact, Arc::clone(&self.payload), Overs::NONE, None)
    }
}

impl From<&Histogram> for PackedCounts {
    fn from(histogram: &Histogram) -> Self {
        let mut writer = Writer::default();
        histogram.counts().each(|index, n| writer.push(index, n));
        Self { payload: writer.written().into() }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::histogram::codec;

    fn recorded(values: &[(u64, u64)]) -> Histogram {
        let mut histogram = Histogram::default();
        values.iter().for_each(|(value_ns, n)| histogram.record_n(*value_ns, *n));
        histogram
    }

    proptest! {
        #[test]
        fn they_are_the_counts_of_a_histogram_in_each_form(
            values in prop::collection::vec((0..2 * MAX_NS, 1..1_000_000_u64), 0..60),
        ) {
            let histogram = recorded(&values);
            let counts = PackedCounts::from(&histogram);
            prop_assert!(counts.buckets().eq(histogram.counts().iter()));
            prop_assert_eq!(Some(counts.to_v2()), codec::encode(histogram.counts()));
            prop_assert_eq!(PackedCounts::from_v2(&counts.to_v2()), Ok(counts.clone()));
            let ends = values.iter().map(|(value_ns, n)| {
                (layout::highest(layout::index_of((*value_ns).min(MAX_NS))), *n)
            });
            let ends = recorded(&ends.collect::<Vec<_>>());
            prop_assert_eq!(counts.to_packed(), Packed::from(&ends));
        }

        #[test]
        fn damaged_bytes_never_panic_and_what_is_read_is_written_the_same(
            values in prop::collection::vec((0..MAX_NS, 1..1_000_000_u64), 0..20),
            at in any::<prop::sample::Index>(),
            byte in any::<u8>(),
            cut in prop::option::of(any::<prop::sample::Index>()),
        ) {
            let mut bytes = PackedCounts::from(&recorded(&values)).to_v2();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            bytes.truncate(cut.map_or(bytes.len(), |cut| cut.index(bytes.len())));
            if let Ok(read) = PackedCounts::from_v2(&bytes) {
                prop_assert_eq!(PackedCounts::from_v2(&read.to_v2()), Ok(read.clone()));
                let _packed = read.to_packed();
            }
        }
    }
}
