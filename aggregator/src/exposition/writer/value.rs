//! The value of a series, and how text formats write it: counts and times without a detour over
//! floats.

use std::time::Duration;

use plimsoll_schemas::unit::Unit;

const SECOND: u64 = 1_000_000_000;
/// Integers up to here are exact in a float.
const INTEGER_MAX: f64 = 9_007_199_254_740_992.0;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    Count(u64),
    /// A time in nanoseconds, written in seconds.
    Nanos(u128),
    Float(f64),
}

impl Value {
    /// A time in nanoseconds, written in seconds.
    pub fn nanos(ns: u64) -> Self {
        Self::Nanos(u128::from(ns))
    }

    /// A whole number of an operation's unit, written as it is shown.
    #[expect(clippy::cast_precision_loss, reason = "as a reader of the text has it")]
    pub fn of(unit: Unit, raw: u128) -> Self {
        match unit {
            Unit::Nanoseconds => Self::Nanos(raw),
            _ => Self::Float(raw as f64 / unit.raw_per_shown()),
        }
    }
}

impl From<u64> for Value {
    fn from(n: u64) -> Self {
        Self::Count(n)
    }
}

/// 1 or 0.
impl From<bool> for Value {
    fn from(is_so: bool) -> Self {
        Self::Count(u64::from(is_so))
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

impl From<Duration> for Value {
    fn from(span: Duration) -> Self {
        Self::Nanos(span.as_nanos())
    }
}

pub(super) fn push_value(out: &mut Vec<u8>, value: Value) {
    match value {
        Value::Count(n) => push_integer(out, n),
        Value::Nanos(ns) => push_seconds(out, ns),
        Value::Float(value) => push_float(out, value),
    }
}

fn push_integer(out: &mut Vec<u8>, n: impl itoa::Integer) {
    out.extend_from_slice(itoa::Buffer::new().format(n).as_bytes());
}

/// Nanoseconds as seconds: exact, and as short as that allows.
pub(super) fn push_seconds(out: &mut Vec<u8>, ns: u128) {
    let rest = match u64::try_from(ns) {
        Ok(ns) => {
            push_integer(out, ns / SECOND);
            ns % SECOND
        }
        Err(_) => {
            push_integer(out, ns / u128::from(SECOND));
            u64::try_from(ns % u128::from(SECOND)).expect("a remainder is below its divisor")
        }
    };

    if rest == 0 {
        return;
    }
    // The leading 1 keeps the zeros that follow it.
    let mut buffer = itoa::Buffer::new();
    let digits = buffer.format(rest + SECOND).as_bytes();
    let end = digits.iter().rposition(|digit| *digit != b'0').unwrap_or(0);
    out.push(b'.');
    out.extend_from_slice(&digits[1..=end]);
}

fn push_float(out: &mut Vec<u8>, value: f64) {
    #[expect(clippy::cast_possible_truncation, reason = "below 2^53 and without a fraction")]
    if value.fract() == 0.0 && value.abs() <= INTEGER_MAX {
        return push_integer(out, value as i64);
    }
    if value.is_finite() {
        return out.extend_from_slice(ryu::Buffer::new().format_finite(value).as_bytes());
    }
    let text: &[u8] = match value {
        value if value.is_nan() => b"NaN",
        value if value > 0.0 => b"+Inf",
        _ => b"-Inf",
    };
    out.extend_from_slice(text);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(value: Value) -> String {
        let mut out = Vec::new();
        push_value(&mut out, value);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn numbers_are_short_and_exact() {
        let table = [
            (Value::Count(u64::MAX), "18446744073709551615"),
            (Value::Nanos(0), "0"),
            (Value::Nanos(1), "0.000000001"),
            (Value::Nanos(18_000_000), "0.018"),
            (Value::Nanos(2_000_000_000), "2"),
            (Value::Nanos(12_345_678_900), "12.3456789"),
            (Value::Nanos(u128::from(u64::MAX) * 10), "184467440737.09551615"),
            (Value::Float(2.0), "2"),
            (Value::Float(-0.5), "-0.5"),
            (Value::Float(1e300), "1e300"),
            (Value::Float(f64::NAN), "NaN"),
            (Value::Float(f64::INFINITY), "+Inf"),
            (Value::Float(f64::NEG_INFINITY), "-Inf"),
        ];
        for (value, text) in table {
            assert_eq!(written(value), text, "{value:?}");
        }
    }

    proptest! {
        #[test]
        #[expect(clippy::cast_precision_loss, reason = "the value that a parser computes")]
        fn a_time_reads_as_the_float_nearest_to_it(ns in 0..1_u64 << 53) {
            let read: f64 = written(Value::nanos(ns)).parse().unwrap();
            prop_assert_eq!(read, ns as f64 / 1e9);
        }

        #[test]
        fn a_float_reads_as_itself(value in any::<f64>().prop_filter("finite", |v| v.is_finite())) {
            let read: f64 = written(Value::Float(value)).parse().unwrap();
            prop_assert_eq!(read, value);
        }
    }
}
