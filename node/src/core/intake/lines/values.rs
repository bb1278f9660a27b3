//! Reads the values of a line. All values are read before any is recorded, so that a line with a
//! bad value is rejected as a whole.

use super::line::{Line, MetricType};
use super::number::{take_amount, take_latency};
use super::value_unit::ValueUnit;
use crate::core::intake::reject::Reject;

#[derive(Clone, Copy, Debug)]
pub(crate) struct LineValues<'a> {
    pub(crate) count: u64,
    pub(crate) values: Values<'a>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Values<'a> {
    /// Latencies in nanoseconds, or whole numbers of another unit, each of which represents
    /// `weight` samples.
    Latencies { latencies_ns: &'a [u64], weight: f64 },
    /// What a counter grows by.
    Amount(f64),
    /// The last value of a gauge, and its timestamp in seconds since 1970.
    Level { value: f64, at: Option<u64> },
}

/// Reads values into a buffer that is reused.
#[derive(Default)]
pub(crate) struct ValueReader {
    latencies_ns: Vec<u64>,
}

impl ValueReader {
    /// Reads all values of a line; those of a distribution are in `unit`.
    pub(crate) fn read(
        &mut self,
        line: &Line<'_>,
        unit: ValueUnit,
    ) -> Result<LineValues<'_>, Reject> {
        let (mut count, mut number, mut rest) = (0, 0.0, line.values);
        self.latencies_ns.clear();

        loop {
            match line.metric_type {
                // The sum of two finite numbers may be infinite, which the wire rejects.
                MetricType::Counter => {
                    let amount = take_amount(&mut rest)? * line.weight;
                    number = (number + amount).clamp(f64::MIN, f64::MAX);
                }
                MetricType::Gauge => number = take_amount(&mut rest)?,
                MetricType::Timing
                | MetricType::Histogram
                | MetricType::Distribution
                | MetricType::Picoseconds
                | MetricType::Bytes
                | MetricType::Count => self.latencies_ns.push(take_latency(&mut rest, unit)?),
            }

            count += 1;

            match rest {
                [_, after @ ..] => rest = after,
                [] => break,
            }
        }

        let values = match line.metric_type {
            MetricType::Counter => Values::Amount(number),
            MetricType::Gauge => Values::Level { value: number, at: line.at },
            MetricType::Timing
            | MetricType::Histogram
            | MetricType::Distribution
            | MetricType::Picoseconds
            | MetricType::Bytes
            | MetricType::Count => {
                Values::Latencies { latencies_ns: &self.latencies_ns, weight: line.weight }
            }
        };

        Ok(LineValues { count, values })
    }
}
