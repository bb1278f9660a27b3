//! A histogram as serde writes it into a checkpoint: the exact figures beside V2 bytes.
//!
//! The wire has a form of its own, bounded to what one snapshot may hold; this one holds sums
//! over any time. Reading checks the figures against the counts, like the wire does.

use std::borrow::Cow;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::codec;
use super::decoded::Stated;
use super::exact::ExactFigures;
use super::mutable::Histogram;
use super::over::Overs;
use super::uncertainty::UncertaintySummary;
use super::writer::STORED_MAX;

#[derive(Default, Serialize, Deserialize)]
struct StoredHistogram<'a> {
    count: u64,
    sum_high: u64,
    sum_low: u64,
    min_ns: u64,
    max_ns: u64,
    #[serde(borrow, with = "serde_bytes")]
    hdr: Cow<'a, [u8]>,
    #[serde(default, skip_serializing_if = "Overs::is_empty")]
    over: Overs,
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    uncertainty: Option<UncertaintySummary<'a>>,
}

impl Serialize for Histogram {
    /// Sums above [`STORED_MAX`] can only be forged, and V2 has no form for them: such a
    /// histogram is stored as an empty one.
    #[expect(clippy::cast_possible_truncation, reason = "taking halves is the point")]
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let hdr = codec::encode(self.counts()).filter(|_| (1..=STORED_MAX).contains(&self.count()));
        let ExactFigures { count, sum_ns, min_ns, max_ns } = self.exact_as_counted();
        let stored = hdr.map_or_else(StoredHistogram::default, |hdr| StoredHistogram {
            count,
            sum_high: (sum_ns >> 64) as u64,
            sum_low: sum_ns as u64,
            min_ns,
            max_ns,
            hdr: hdr.into(),
            over: self.overs_as_counted(),
            uncertainty: self.uncertainty_summary(),
        });
        stored.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let stored = StoredHistogram::deserialize(deserializer)?;
        if stored.count == 0 && stored.hdr.is_empty() {
            return Ok(Self::default());
        }

        let exact = ExactFigures {
            count: stored.count,
            sum_ns: (u128::from(stored.sum_high) << 64) | u128::from(stored.sum_low),
            min_ns: stored.min_ns,
            max_ns: stored.max_ns,
        };

        Stated { exact, overs: stored.over, uncertainty: stored.uncertainty }
            .check_v2(&stored.hdr, STORED_MAX)
            .map(Self::from_decoded)
            .map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn there_and_back(histogram: &Histogram) -> Histogram {
        let bytes = rmp_serde::to_vec_named(histogram).unwrap();
        rmp_serde::from_slice(&bytes).unwrap()
    }

    #[test]
    fn sums_of_many_snapshots_fit_and_forged_ones_do_no_harm() {
        let mut large = Histogram::default();
        large.record_n(7, STORED_MAX);
        assert_eq!(there_and_back(&large), large);
        large.record_n(7, 1);
        assert_eq!(there_and_back(&large), Histogram::default());
    }

    #[test]
    fn figures_that_contradict_the_buckets_are_refused() {
        let mut one = Histogram::default();
        one.record(5_000);
        let bytes = rmp_serde::to_vec_named(&one).unwrap();
        let mut forged: StoredHistogram<'_> = rmp_serde::from_slice(&bytes).unwrap();
        forged.count = 2;
        let bytes = rmp_serde::to_vec_named(&forged).unwrap();
        let error = rmp_serde::from_slice::<Histogram>(&bytes).unwrap_err().to_string();
        assert!(error.contains("count contradicts"), "{error}");
    }

    proptest! {
        #[test]
        fn what_is_stored_reads_back(
            values in prop::collection::vec((0..4_000_000_000_000_u64, 1..1_000_000_u64), 1..60),
        ) {
            let mut histogram = Histogram::default();
            histogram.watch(&[1_000, 18_000_000]);
            values.iter().for_each(|(value, n)| histogram.record_n(*value, *n));
            prop_assert_eq!(there_and_back(&histogram), histogram);
        }
    }
}
