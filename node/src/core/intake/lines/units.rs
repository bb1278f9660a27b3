//! The unit of a value: a unit of time, or none if the value is not a latency.
//!
//! Type `ms` is milliseconds by protocol. Types `h` and `d` are in the unit of their sender, so the
//! last part of the name decides if it is a unit: `http.request_seconds` or `http.request.us`.

use std::collections::BTreeMap;
use std::str::FromStr;

use super::line::MetricType;
use super::time_unit::TimeUnit;
use crate::core::intake::reject::Reject;

/// What separates the parts of a name.
const SEPARATORS: [char; 5] = ['_', '.', '-', ':', '/'];

/// A unit of time, or none if the values are not latencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit(pub Option<TimeUnit>);

impl FromStr for Unit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "s" => Ok(Self(Some(TimeUnit::Seconds))),
            "ms" => Ok(Self(Some(TimeUnit::Milliseconds))),
            "us" => Ok(Self(Some(TimeUnit::Microseconds))),
            "ns" => Ok(Self(Some(TimeUnit::Nanoseconds))),
            "none" => Ok(Self(None)),
            _ => Err(format!("{text:?} is not a unit; use s, ms, us, ns or none")),
        }
    }
}

/// The unit of every value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Units {
    /// Of `ms`.
    pub ms: Unit,
    /// Of `h`, if the name has no unit.
    pub h: Unit,
    /// Of `d`, if the name has no unit.
    pub d: Unit,
    /// Units of `h` and `d` by the last part of the name.
    pub suffixes: BTreeMap<String, Unit>,
}

impl Default for Units {
    fn default() -> Self {
        let ms = Unit(Some(TimeUnit::Milliseconds));
        let suffixes = DEFAULT_SUFFIXES.into_iter().filter_map(|text| suffix(text).ok());
        Self { ms, h: ms, d: ms, suffixes: suffixes.collect() }
    }
}

/// The default suffixes.
pub const DEFAULT_SUFFIXES: [&str; 8] = [
    "seconds=s",
    "milliseconds=ms",
    "ms=ms",
    "microseconds=us",
    "us=us",
    "nanoseconds=ns",
    "ns=ns",
    "bytes=none",
];

/// Parses `seconds=s`.
///
/// # Errors
/// What is wrong, and the right form.
pub fn suffix(text: &str) -> Result<(String, Unit), String> {
    let (part, unit) = text.split_once('=').unwrap_or((text, ""));
    if part.is_empty() || !part.chars().all(|c| c.is_ascii_alphanumeric()) || unit.is_empty() {
        return Err(format!(
            "{text:?} must be letters or digits, `=` and a unit, as \"seconds=s\""
        ));
    }
    Ok((part.to_owned(), unit.parse()?))
}

impl Units {
    /// The unit of the latencies of one line.
    ///
    /// # Errors
    /// When they are not latencies.
    pub(crate) fn of(&self, metric_type: MetricType, name: &str) -> Result<TimeUnit, Reject> {
        let unit = match metric_type {
            MetricType::Histogram => self.named(name).unwrap_or(self.h),
            MetricType::Distribution => self.named(name).unwrap_or(self.d),
            MetricType::Timing | MetricType::Counter | MetricType::Gauge => self.ms,
        };
        unit.0.ok_or(Reject::Unit)
    }

    /// The unit in the last part of a name.
    pub(crate) fn named(&self, name: &str) -> Option<Unit> {
        let last = name.rsplit(SEPARATORS).next()?;
        self.suffixes.get(last).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_type_and_the_last_part_of_a_name_decide() {
        use TimeUnit::{Microseconds, Milliseconds, Nanoseconds, Seconds};
        let units = Units {
            h: Unit(Some(Seconds)),
            suffixes: ["sec=s", "ns=ns", "us=us", "bytes=none"].map(|s| suffix(s).unwrap()).into(),
            ..Units::default()
        };
        for (metric_type, name, expected) in [
            (MetricType::Timing, "a", Ok(Milliseconds)),
            (MetricType::Timing, "a_bytes", Ok(Milliseconds)),
            (MetricType::Histogram, "a", Ok(Seconds)),
            (MetricType::Distribution, "a", Ok(Milliseconds)),
            (MetricType::Distribution, "a.b_sec", Ok(Seconds)),
            (MetricType::Histogram, "a/ns", Ok(Nanoseconds)),
            (MetricType::Histogram, "a-us", Ok(Microseconds)),
            (MetricType::Distribution, "us", Ok(Microseconds)),
            (MetricType::Distribution, "bonus", Ok(Milliseconds)),
            (MetricType::Distribution, "us.a", Ok(Milliseconds)),
            (MetricType::Histogram, "read:bytes", Err(Reject::Unit)),
        ] {
            assert_eq!(units.of(metric_type, name), expected, "{metric_type:?} {name}");
        }
    }

    #[test]
    fn every_default_suffix_is_one() {
        assert_eq!(Units::default().suffixes.len(), DEFAULT_SUFFIXES.len());
        for wrong in ["", "s", "=s", "a=", "a=x", "a_b=s", "é=s"] {
            assert!(suffix(wrong).is_err(), "{wrong:?}");
        }
    }
}
