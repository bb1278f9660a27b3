//! A limit as people write it: a time, bytes or a number. The operation that it is for decides what
//! it may be, and may be in another file.
//!
//! DESIGN S91.

use std::time::Duration;

use crate::histogram::layout::{LOW_NS, MAX_NS};
use crate::time::nanos;
use crate::unit::Unit;

/// A limit as written, and what it is.
#[derive(Clone, Debug, PartialEq)]
pub struct WrittenLimit {
    text: String,
    amount: Amount,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Amount {
    Number(f64),
    Bytes(f64),
    Time(Duration),
    /// Nothing of these.
    Unknown,
}

/// Decimal and binary multiples of a byte, without the `B`.
const MULTIPLES: [(&str, f64); 11] = [
    ("", 1.0),
    ("k", 1e3),
    ("K", 1e3),
    ("M", 1e6),
    ("G", 1e9),
    ("T", 1e12),
    ("Ki", 1_024.0),
    ("Mi", 1_048_576.0),
    ("Gi", 1_073_741_824.0),
    ("Ti", 1_099_511_627_776.0),
    ("ki", 1_024.0),
];

impl WrittenLimit {
    /// A bare number.
    #[must_use]
    pub fn number(number: f64) -> Self {
        Self { text: plain(number), amount: Amount::Number(number) }
    }

    /// Reads text: `18ms`, `12 MB`, `1200`. What is wrong with any other is stated where the unit
    /// is known.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let amount = match (text.trim().parse(), bytes(text)) {
            (Ok(number), _) => return Self::number(number),
            (Err(_), Some(bytes)) => Amount::Bytes(bytes),
            (Err(_), None) => humantime::parse_duration(text).map_or(Amount::Unknown, Amount::Time),
        };
        Self { text: text.to_owned(), amount }
    }

    /// The whole number that it is for an operation of this unit.
    ///
    /// # Errors
    /// When it is no limit of such an operation, with what to write.
    pub fn raw(&self, unit: Unit) -> Result<u64, String> {
        let Self { text, amount } = self;

        match (unit, *amount) {
            (Unit::Nanoseconds, Amount::Time(time)) => of_latency(text, time),
            (Unit::Picoseconds, Amount::Time(time)) => {
                // Samples above the highest value count as it, so none could exceed it.
                let raw = nanos(time).saturating_mul(1_000);
                let fits = (1_000..MAX_NS).contains(&raw).then_some(raw);
                fits.ok_or_else(|| out_of_range(text, "\"1ns\" to less than \"3600ms\""))
            }
            (_, Amount::Unknown) => Err(unknown(text, unit)),
            (Unit::Nanoseconds, Amount::Number(n)) => Err(without_unit(n)),
            (Unit::Picoseconds, Amount::Number(n)) => {
                Err(format!("{} has no unit; write it as \"500ns\", from \"1ns\"", plain(n)))
            }
            (Unit::Nanoseconds | Unit::Picoseconds, Amount::Bytes(_)) => Err(format!(
                "{text:?} is bytes, and this operation's values are times; write it as \"18ms\", \
                 or name an operation that ends with :bytes"
            )),
            (Unit::Bytes, Amount::Number(n) | Amount::Bytes(n)) => {
                let fits = (1.0..shown_max(unit)).contains(&n).then(|| unit.raw(n));
                fits.ok_or_else(|| out_of_range(text, "1 to less than \"3.6 TB\""))
            }
            (Unit::Count, Amount::Number(n)) => {
                let fits = (0.001..shown_max(unit)).contains(&n).then(|| unit.raw(n));
                fits.ok_or_else(|| out_of_range(text, "0.001 to less than 3600000000"))
            }
            (Unit::Bytes, Amount::Time(_)) => Err(format!(
                "{text:?} is a time, and this operation's values are bytes; write it as \"12 MB\""
            )),
            (Unit::Count, Amount::Time(_) | Amount::Bytes(_)) => Err(format!(
                "{text:?} has a unit, and this operation's values are a count; write a number, \
                 such as 1200"
            )),
        }
    }
}

/// What to write for an operation of this unit.
fn unknown(text: &str, unit: Unit) -> String {
    let [what, example, range] = match unit {
        Unit::Nanoseconds => ["a duration", "\"18ms\"", "\"1us\" to \"1h\""],
        Unit::Picoseconds => {
            ["a duration", "\"500ns\", from \"1ns\"", "\"1ns\" to less than \"3600ms\""]
        }
        Unit::Bytes => ["a size", "\"12 MB\"", "1 to less than \"3.6 TB\""],
        Unit::Count => ["a number", "1200", "0.001 to less than 3600000000"],
    };
    if text.trim_start().starts_with('-') {
        return format!("{text:?} is negative; write it from {range}");
    }
    format!("{text:?} is not {what}; write it as {example}")
}

/// Of a number and `B`, `MB`, `MiB` and so on.
fn bytes(text: &str) -> Option<f64> {
    let rest = text.trim().strip_suffix('B')?;
    let digits = rest.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let (_, factor) = MULTIPLES.into_iter().find(|(word, _)| *word == &rest[digits.len()..])?;
    Some(digits.trim_end().parse::<f64>().ok()? * factor)
}

/// A number as people write it, however small or large.
pub(super) fn plain(number: f64) -> String {
    match number == 0.0 || !number.is_finite() || (1e-9..1e16).contains(&number.abs()) {
        true => number.to_string(),
        false => format!("{number:e}"),
    }
}

fn shown_max(unit: Unit) -> f64 {
    unit.shown(MAX_NS)
}

fn out_of_range(text: &str, range: &str) -> String {
    format!("{text:?} is out of range; it may be from {range}")
}

fn of_latency(text: &str, time: Duration) -> Result<u64, String> {
    let ns = nanos(time);
    if ns == MAX_NS {
        let why = "samples above an hour count as an hour, so none could exceed it";
        return Err(format!("{text:?} is out of range: {why}; write less than \"1h\""));
    }
    let fits = (LOW_NS..MAX_NS).contains(&ns).then_some(ns);
    fits.ok_or_else(|| out_of_range(text, "\"1us\" to \"1h\""))
}

/// Milliseconds are what is meant most often.
fn without_unit(number: f64) -> String {
    if number.is_nan() || number <= 0.0 || number > shown_max(Unit::Nanoseconds) * 1e3 {
        let number = plain(number);
        return format!("{number} is not a limit; write it with its unit, such as \"18ms\"");
    }
    if number.fract() == 0.0 {
        return format!("{number} has no unit; write \"{number}ms\"");
    }
    format!("{number} has no unit; write \"{}us\" if it is milliseconds", (number * 1e3).round())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_limit_is_written_in_the_unit_of_its_operation() {
        for (text, unit, expected) in [
            ("18ms", Unit::Nanoseconds, Ok(18_000_000)),
            ("500ns", Unit::Picoseconds, Ok(500_000)),
            ("1ns", Unit::Picoseconds, Ok(1_000)),
            ("12 MB", Unit::Bytes, Ok(12_000_000)),
            ("12000000", Unit::Bytes, Ok(12_000_000)),
            ("1.5GiB", Unit::Bytes, Ok(1_610_612_736)),
            ("512B", Unit::Bytes, Ok(512)),
            ("1200", Unit::Count, Ok(1_200_000)),
            ("2.5", Unit::Count, Ok(2_500)),
            ("500ns", Unit::Nanoseconds, Err("\"500ns\" is out of range")),
            ("4s", Unit::Picoseconds, Err("\"4s\" is out of range; it may be from \"1ns\"")),
            ("500", Unit::Picoseconds, Err("500 has no unit; write it as \"500ns\"")),
            (
                "0.5ns",
                Unit::Picoseconds,
                Err("is not a duration; write it as \"500ns\", from \"1ns\""),
            ),
            ("12 Mb", Unit::Bytes, Err("\"12 Mb\" is not a size; write it as \"12 MB\"")),
            ("1200 rows", Unit::Count, Err("\"1200 rows\" is not a number; write it as 1200")),
            ("- 5 MB", Unit::Bytes, Err("\"- 5 MB\" is negative; write it from 1 to")),
            ("-5ms", Unit::Nanoseconds, Err("is negative; write it from \"1us\" to \"1h\"")),
            ("12 MB", Unit::Nanoseconds, Err("is bytes, and this operation's values are times")),
            ("18ms", Unit::Bytes, Err("is a time, and this operation's values are bytes; write")),
            ("0.5", Unit::Bytes, Err("\"0.5\" is out of range; it may be from 1 to")),
            ("4 TB", Unit::Bytes, Err("\"4 TB\" is out of range")),
            ("18ms", Unit::Count, Err("write a number, such as 1200")),
            ("12 MB", Unit::Count, Err("write a number, such as 1200")),
            ("0", Unit::Count, Err("\"0\" is out of range; it may be from 0.001")),
            ("12 QB", Unit::Bytes, Err("\"12 QB\" is not a size")),
        ] {
            let read = WrittenLimit::of(text).raw(unit);
            match (&read, expected) {
                (Err(error), Err(words)) => assert!(error.contains(words), "{text}: {error}"),
                _ => assert_eq!(read.ok(), expected.ok(), "{text} {unit:?}"),
            }
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_a_limit_that_no_sample_can_exceed(text in "[-0-9.a-zA-Z ]{0,12}") {
            for unit in [Unit::Nanoseconds, Unit::Picoseconds, Unit::Bytes, Unit::Count] {
                if let Ok(raw) = WrittenLimit::of(&text).raw(unit) {
                    prop_assert!((1..MAX_NS).contains(&raw), "{text} {raw}");
                }
            }
        }
    }
}
