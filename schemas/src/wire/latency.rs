//! Distributions and numbers in their MessagePack form, as snapshots and frames carry them.
//!
//! Turns them into maps with named fields and back, and checks everything that it reads.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::error::WireError;
use super::snapshot::{Latency, is_zero};
use crate::histogram::{
    Distribution, DistributionError, ExactFigures, Histogram, Overs, UncertaintySummary, codec,
};
use crate::ids::{Labels, Operation, Series};
use crate::limits::wire::SERIES_MAX;

#[derive(Serialize, Deserialize)]
pub(super) struct LatencyBody<'a> {
    #[serde(default, borrow)]
    histograms: Vec<HistogramEntry<'a>>,
    #[serde(default, borrow)]
    counters: Vec<NumberEntry<'a>>,
    #[serde(default, borrow)]
    gauges: Vec<NumberEntry<'a>>,
}

#[derive(Serialize, Deserialize)]
struct HistogramEntry<'a> {
    #[serde(borrow)]
    operation: Cow<'a, str>,
    #[serde(default)]
    labels: Labels,
    #[serde(borrow)]
    unit: Cow<'a, str>,
    count: u64,
    sum_ns: u64,
    /// Multiples of 2^64 in the sum; zero short of 214 days of latency in one interval.
    #[serde(default, skip_serializing_if = "is_zero")]
    sum_carry: u64,
    min_ns: u64,
    max_ns: u64,
    #[serde(borrow, with = "serde_bytes")]
    hdr: Cow<'a, [u8]>,
    #[serde(default, skip_serializing_if = "Overs::is_empty")]
    over: Overs,
    /// Of samples that may lie elsewhere than they are counted; a reader without support for it
    /// assumes that they lie where they are counted.
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    uncertainty: Option<UncertaintySummary<'a>>,
}

#[derive(Serialize, Deserialize)]
struct NumberEntry<'a> {
    #[serde(borrow)]
    operation: Cow<'a, str>,
    #[serde(default)]
    labels: Labels,
    value: f64,
}

/// The upper and the lower 64 bits.
#[expect(clippy::cast_possible_truncation, reason = "taking halves is the point")]
fn halves(sum: u128) -> (u64, u64) {
    ((sum >> 64) as u64, sum as u64)
}

const UNIT: &str = "ns";

impl<'a> LatencyBody<'a> {
    pub(super) fn of(latency: &'a Latency) -> Self {
        let histogram = |(series, histogram): &'a (Series, Histogram)| {
            let ExactFigures { count, sum_ns, min_ns, max_ns } = histogram.exact_as_counted();
            let (sum_carry, sum_ns) = halves(sum_ns);

            HistogramEntry {
                operation: series.operation.as_str().into(),
                labels: series.labels.clone(),
                unit: UNIT.into(),
                count,
                sum_ns,
                sum_carry,
                min_ns,
                max_ns,
                hdr: codec::encode(histogram.counts())
                    // Cannot fail: counts are bounded when they are recorded.
                    .expect("a histogram on its way out counts far fewer than can be stored")
                    .into(),
                over: histogram.overs_as_counted(),
                uncertainty: histogram.uncertainty_summary(),
            }
        };

        let number = |(series, value): &'a (Series, f64)| NumberEntry {
            operation: series.operation.as_str().into(),
            labels: series.labels.clone(),
            value: *value,
        };

        Self {
            histograms: latency.histograms.iter().map(histogram).collect(),
            counters: latency.counters.iter().map(number).collect(),
            gauges: latency.gauges.iter().map(number).collect(),
        }
    }

    pub(super) fn check<H: Distribution>(self) -> Result<Latency<H>, WireError> {
        let series = self.histograms.len() + self.counters.len() + self.gauges.len();
        if series > SERIES_MAX {
            return Err(WireError::Bounds { field: "series" });
        }

        let latency = Latency {
            histograms: self
                .histograms
                .into_iter()
                .map(check_histogram)
                .collect::<Result<_, _>>()?,
            counters: check_numbers(self.counters, "counter")?,
            gauges: check_numbers(self.gauges, "gauge")?,
        };

        // A series that is there twice would be merged by one reader and replaced by another.
        check_distinct(latency.histograms.iter().map(|(series, _)| series))?;
        check_distinct(latency.counters.iter().map(|(series, _)| series))?;
        check_distinct(latency.gauges.iter().map(|(series, _)| series))?;
        Ok(latency)
    }
}

fn check_distinct<'a>(series: impl Iterator<Item = &'a Series>) -> Result<(), WireError> {
    let mut sorted: Vec<&Series> = series.collect();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(WireError::DuplicateSeries(pair[0].to_string())),
        None => Ok(()),
    }
}

fn check_histogram<H: Distribution>(entry: HistogramEntry<'_>) -> Result<(Series, H), WireError> {
    let series = Series { operation: Operation::new(entry.operation)?, labels: entry.labels };
    // A later version may have another unit, whose numbers must not be read as nanoseconds.
    if entry.unit != UNIT {
        return Err(WireError::Bounds { field: "unit" });
    }
    if !entry.over.is_sound() {
        return Err(WireError::Bounds { field: "over" });
    }

    let exact = ExactFigures {
        count: entry.count,
        sum_ns: (u128::from(entry.sum_carry) << 64) | u128::from(entry.sum_ns),
        min_ns: entry.min_ns,
        max_ns: entry.max_ns,
    };

    match H::try_from_v2(exact, &entry.hdr, entry.over, entry.uncertainty) {
        Ok(histogram) => Ok((series, histogram)),
        Err(DistributionError::Bytes(source)) => {
            Err(WireError::Histogram { series: series.to_string(), source })
        }
        Err(DistributionError::Contradiction(figure)) => {
            Err(WireError::Contradiction { series: series.to_string(), figure })
        }
    }
}

fn check_numbers(
    entries: Vec<NumberEntry<'_>>,
    field: &'static str,
) -> Result<Vec<(Series, f64)>, WireError> {
    let check = |entry: NumberEntry<'_>| {
        if !entry.value.is_finite() {
            return Err(WireError::NotFinite { field });
        }
        let operation = Operation::new(entry.operation)?;
        Ok((Series { operation, labels: entry.labels }, entry.value))
    };
    entries.into_iter().map(check).collect()
}
