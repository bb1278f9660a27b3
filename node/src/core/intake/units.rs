//! What a value's number means: which unit of time it stands in, or that it is no time at all.
//!
//! `ms` is milliseconds by protocol. `h` and `d` are whatever their sender measures, so the last
//! part of the name decides where it says a unit: `http.request_seconds` or `http.request.us`.

use std::collections::BTreeMap;
use std::str::FromStr;

use super::dogstatsd::Letter;
use super::reject::Reject;

/// What separates the parts of a name.
const SEPARATORS: [char; 5] = ['_', '.', '-', ':', '/'];

/// A unit of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeUnit {
    /// `s`.
    Seconds,
    /// `ms`.
    Milliseconds,
    /// `us`.
    Microseconds,
    /// `ns`.
    Nanoseconds,
}

impl TimeUnit {
    /// Decimal places down to a nanosecond.
    pub(super) const fn decimals(self) -> usize {
        match self {
            Self::Seconds => 9,
            Self::Milliseconds => 6,
            Self::Microseconds => 3,
            Self::Nanoseconds => 0,
        }
    }
}

/// A unit of time, or none: then the values are no latencies.
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
            _ => Err(format!("{text:?} is no unit; use s, ms, us, ns or none")),
        }
    }
}

/// The unit of every value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Units {
    /// Of `ms`.
    pub ms: Unit,
    /// Of `h`, where the name says nothing.
    pub h: Unit,
    /// Of `d`, where the name says nothing.
    pub d: Unit,
    /// What the last part of a name says about `h` and `d`.
    pub suffixes: BTreeMap<String, Unit>,
}

impl Default for Units {
    fn default() -> Self {
        let ms = Unit(Some(TimeUnit::Milliseconds));
        let suffixes = DEFAULT_SUFFIXES.into_iter().filter_map(|text| suffix(text).ok());
        Self { ms, h: ms, d: ms, suffixes: suffixes.collect() }
    }
}

/// Suffixes that hold when nothing is said.
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

/// Reads `seconds=s`.
///
/// # Errors
/// Says what is wrong and what would be right.
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
    /// The unit of the values of one line of latencies.
    ///
    /// # Errors
    /// When they are no latencies.
    pub(super) fn of(&self, letter: Letter, name: &str) -> Result<TimeUnit, Reject> {
        let unit = match letter {
            Letter::H => self.named(name).unwrap_or(self.h),
            Letter::D => self.named(name).unwrap_or(self.d),
            Letter::Ms | Letter::C | Letter::G => self.ms,
        };
        unit.0.ok_or(Reject::Unit)
    }

    /// What the last part of a name says, if anything.
    pub(super) fn named(&self, name: &str) -> Option<Unit> {
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
        for (letter, name, expected) in [
            (Letter::Ms, "a", Ok(Milliseconds)),
            (Letter::Ms, "a_bytes", Ok(Milliseconds)),
            (Letter::H, "a", Ok(Seconds)),
            (Letter::D, "a", Ok(Milliseconds)),
            (Letter::D, "a.b_sec", Ok(Seconds)),
            (Letter::H, "a/ns", Ok(Nanoseconds)),
            (Letter::H, "a-us", Ok(Microseconds)),
            (Letter::D, "us", Ok(Microseconds)),
            (Letter::D, "bonus", Ok(Milliseconds)),
            (Letter::D, "us.a", Ok(Milliseconds)),
            (Letter::H, "read:bytes", Err(Reject::Unit)),
        ] {
            assert_eq!(units.of(letter, name), expected, "{letter:?} {name}");
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
