//! The unit of a value: of time, bytes, a count, or none if it is no distribution of these.
//!
//! Type `ms` is milliseconds by protocol, and `ps`, `bytes` and `count` are units themselves. Types
//! `h` and `d` are in the unit of their sender, so the last part of the name decides if it is a
//! unit: `http.request_seconds` or `http.request.us`. A pattern that matches the name wins over
//! both.
//!
//! DESIGN N52, S91.

use std::collections::BTreeMap;
use std::str::FromStr;

use super::line::MetricType;
use super::time_unit::TimeUnit;
use super::value_unit::{SEPARATORS, ValueUnit};
use crate::core::intake::glob::Glob;
use crate::core::intake::reject::Reject;

/// A unit, or none if the values are not recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit(pub Option<ValueUnit>);

impl FromStr for Unit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(unit) => Ok(Self(Some(unit))),
            Err(()) if text == "none" => Ok(Self(None)),
            Err(()) => {
                Err(format!("{text:?} is not a unit; use s, ms, us, ns, ps, bytes, count or none"))
            }
        }
    }
}

/// The unit of every value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Units {
    pub ms: Unit,
    /// Of `h`, if the name has no unit.
    pub h: Unit,
    /// Of `d`, if the name has no unit.
    pub d: Unit,
    /// Units of `h` and `d` by the last part of the name, beside those that a unit is spelled with.
    pub suffixes: BTreeMap<String, Unit>,
    /// Units by pattern of the whole name, for all types; the first match applies.
    pub patterns: Vec<(Glob, Unit)>,
    /// Names of operations whose times are recorded in picoseconds.
    pub sub_microsecond: Vec<Glob>,
}

impl Default for Units {
    fn default() -> Self {
        let ms = Unit(Some(ValueUnit::Time(TimeUnit::Milliseconds)));
        let suffixes = DEFAULT_SUFFIXES.into_iter().filter_map(|text| suffix(text).ok());
        let (patterns, sub_microsecond) = (Vec::new(), Vec::new());
        Self { ms, h: ms, d: ms, suffixes: suffixes.collect(), patterns, sub_microsecond }
    }
}

pub const DEFAULT_SUFFIXES: [&str; 1] = ["bytes=bytes"];

/// Parses `seconds=s`.
pub fn suffix(text: &str) -> Result<(String, Unit), String> {
    let (part, unit) = text.split_once('=').unwrap_or((text, ""));
    if part.is_empty() || !part.chars().all(|c| c.is_ascii_alphanumeric()) || unit.is_empty() {
        return Err(format!(
            "{text:?} must be letters or digits, `=` and a unit, as \"seconds=s\""
        ));
    }
    Ok((part.to_owned(), unit.parse()?))
}

/// Parses `train.*=s`.
pub fn pattern(text: &str) -> Result<(Glob, Unit), String> {
    let (pattern, unit) = text.rsplit_once('=').unwrap_or((text, ""));
    let Some(pattern) = name_pattern(pattern).filter(|_| !unit.is_empty()) else {
        return Err(format!(
            "{text:?} must be a name in which `*` matches any text, `=` and a unit, as \
             \"train.*=s\""
        ));
    };
    let unit = unit.parse().map_err(|error| format!("{text:?}: {error}"))?;
    Ok((pattern, unit))
}

/// Parses `train.*`.
pub fn name_pattern(text: &str) -> Option<Glob> {
    let is_valid = |c: char| c.is_ascii_alphanumeric() || c == '*' || SEPARATORS.contains(&c);
    (!text.is_empty() && text.chars().all(is_valid)).then(|| Glob::new(text))
}

impl Units {
    /// The unit of the values of one line.
    pub(crate) fn of(&self, metric_type: MetricType, name: &str) -> Result<ValueUnit, Reject> {
        let unit = match metric_type {
            MetricType::Picoseconds => Unit(Some(ValueUnit::Picoseconds)),
            MetricType::Bytes => Unit(Some(ValueUnit::Bytes)),
            MetricType::Count => Unit(Some(ValueUnit::Count)),
            // A pattern also corrects `ms`, which some clients send in seconds (N52).
            _ if let Some(unit) = self.matched(name) => unit,
            MetricType::Histogram => self.named(name).unwrap_or(self.h),
            MetricType::Distribution => self.named(name).unwrap_or(self.d),
            MetricType::Timing | MetricType::Counter | MetricType::Gauge => self.ms,
        };
        self.recorded(name, unit)
    }

    /// The unit of values that are sent under a name, with times as they are recorded.
    pub(crate) fn recorded(&self, name: &str, unit: Unit) -> Result<ValueUnit, Reject> {
        match unit.0.ok_or(Reject::Unit)? {
            ValueUnit::Time(unit) if self.sub_microsecond.iter().any(|of| of.matches(name)) => {
                Ok(ValueUnit::SubMicrosecond(unit))
            }
            unit => Ok(unit),
        }
    }

    /// Whether a line is in milliseconds by the protocol and not by a setting.
    pub(crate) fn is_assumed(&self, metric_type: MetricType, name: &str) -> bool {
        metric_type == MetricType::Timing
            && self.ms.0 == Some(ValueUnit::Time(TimeUnit::Milliseconds))
            && self.matched(name).is_none()
    }

    /// The unit of the first pattern that matches a name.
    fn matched(&self, name: &str) -> Option<Unit> {
        self.patterns.iter().find(|(pattern, _)| pattern.matches(name)).map(|(_, unit)| *unit)
    }

    /// The unit in the last part of a name.
    pub(crate) fn named(&self, name: &str) -> Option<Unit> {
        let last = name.rsplit(SEPARATORS).next()?;
        let set = self.suffixes.get(last).copied();
        // Not `count`: requests.count may be anything.
        let spelled = || last.parse().ok().filter(|unit| *unit != ValueUnit::Count);
        set.or_else(|| spelled().map(|unit| Unit(Some(unit))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_type_and_the_last_part_of_a_name_decide() {
        use TimeUnit::{Microseconds, Milliseconds, Nanoseconds, Seconds};
        let units = Units {
            h: Unit(Some(ValueUnit::Time(Seconds))),
            suffixes: ["took=s", "second=ms", "rows=count"].map(|s| suffix(s).unwrap()).into(),
            ..Units::default()
        };
        for (metric_type, name, expected) in [
            (MetricType::Timing, "a", Ok(Milliseconds)),
            (MetricType::Timing, "a_bytes", Ok(Milliseconds)),
            (MetricType::Histogram, "a", Ok(Seconds)),
            (MetricType::Distribution, "a", Ok(Milliseconds)),
            (MetricType::Distribution, "a.b_sec", Ok(Seconds)),
            (MetricType::Histogram, "a_s", Ok(Seconds)),
            (MetricType::Histogram, "a.took", Ok(Seconds)),
            (MetricType::Histogram, "a.second", Ok(Milliseconds)),
            (MetricType::Histogram, "a/ns", Ok(Nanoseconds)),
            (MetricType::Histogram, "a-us", Ok(Microseconds)),
            (MetricType::Distribution, "us", Ok(Microseconds)),
            (MetricType::Distribution, "bonus", Ok(Milliseconds)),
            (MetricType::Distribution, "us.a", Ok(Milliseconds)),
            (MetricType::Histogram, "read_none", Ok(Seconds)),
        ] {
            assert_eq!(
                units.of(metric_type, name),
                expected.map(ValueUnit::Time),
                "{metric_type:?} {name}"
            );
        }
    }

    #[test]
    fn the_first_pattern_that_matches_wins_over_type_and_suffix() {
        use TimeUnit::{Microseconds, Milliseconds, Nanoseconds, Seconds};
        let patterns = ["train.*=s", "*.us=ns", "*_bytes=none", "train.load=us"];
        let patterns = patterns.map(|text| pattern(text).unwrap()).into();
        let units = Units { patterns, ..Units::default() };
        for (metric_type, name, expected) in [
            (MetricType::Timing, "train.step", Ok(Seconds)),
            (MetricType::Histogram, "train.step_ns", Ok(Seconds)),
            (MetricType::Distribution, "train.us", Ok(Seconds)),
            (MetricType::Timing, "train.load", Ok(Seconds)),
            (MetricType::Distribution, "load.us", Ok(Nanoseconds)),
            (MetricType::Timing, "read_bytes", Err(Reject::Unit)),
            (MetricType::Timing, "train", Ok(Milliseconds)),
            (MetricType::Histogram, "wait_us", Ok(Microseconds)),
        ] {
            assert_eq!(
                units.of(metric_type, name),
                expected.map(ValueUnit::Time),
                "{metric_type:?} {name}"
            );
            let is_assumed = metric_type == MetricType::Timing && name == "train";
            assert_eq!(units.is_assumed(metric_type, name), is_assumed, "{metric_type:?} {name}");
        }
        let units = Units { ms: Unit(Some(ValueUnit::Time(Seconds))), ..units };
        assert!(!units.is_assumed(MetricType::Timing, "train"));
    }

    #[test]
    fn what_is_no_time_is_recorded_in_its_own_unit() {
        use ValueUnit::{Bytes, Count, Picoseconds, SubMicrosecond, Time};
        let units = Units {
            suffixes: ["bytes=bytes", "rows=count"].map(|text| suffix(text).unwrap()).into(),
            patterns: vec![pattern("batch.*=count").unwrap()],
            sub_microsecond: vec![name_pattern("tokenizer.*").unwrap()],
            ..Units::default()
        };
        let milliseconds = Time(TimeUnit::Milliseconds);
        for (metric_type, name, expected) in [
            (MetricType::Histogram, "read_bytes", Bytes),
            (MetricType::Timing, "read_bytes", milliseconds),
            (MetricType::Distribution, "shard.rows", Count),
            (MetricType::Distribution, "requests.count", milliseconds),
            (MetricType::Timing, "batch.size", Count),
            (MetricType::Histogram, "lookup_ps", Picoseconds),
            (MetricType::Timing, "tokenizer.lookup", SubMicrosecond(TimeUnit::Milliseconds)),
            (MetricType::Histogram, "tokenizer.lookup_ns", SubMicrosecond(TimeUnit::Nanoseconds)),
            (MetricType::Histogram, "tokenizer.bytes", Bytes),
            (MetricType::Picoseconds, "lookup", Picoseconds),
            (MetricType::Bytes, "batch.size", Bytes),
            (MetricType::Count, "read_bytes", Count),
        ] {
            assert_eq!(units.of(metric_type, name), Ok(expected), "{metric_type:?} {name}");
        }
    }

    #[test]
    fn a_wrong_pattern_is_quoted_with_the_right_form() {
        for wrong in ["", "train.*", "=s", "train.*=", "train step=s", "größe=s", "a=b=s"] {
            let error = pattern(wrong).unwrap_err();
            assert!(error.starts_with(&format!("{wrong:?} must be a name")), "{error}");
        }
        let error = pattern("train.*=min").unwrap_err();
        assert_eq!(
            error,
            "\"train.*=min\": \"min\" is not a unit; use s, ms, us, ns, ps, bytes, count or none"
        );
    }

    #[test]
    fn every_default_suffix_is_one() {
        assert_eq!(Units::default().suffixes.len(), DEFAULT_SUFFIXES.len());
        for wrong in ["", "s", "=s", "a=", "a=x", "a_b=s", "é=s"] {
            assert!(suffix(wrong).is_err(), "{wrong:?}");
        }
    }
}
