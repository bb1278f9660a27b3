//! Parses numbers: latencies to whole nanoseconds, exactly if the text is plain decimal, and other
//! values as floats. Rejects what is not finite.

use super::value_unit::ValueUnit;
use crate::core::intake::reject::Reject;
use crate::core::intake::scan::find;

/// Bytes of plain text that are read exactly: 19 digits fit into 64 bits.
const PLAIN_BYTES_MAX: usize = 19;
/// Whole numbers up to here are exact as floats.
const EXACT_MAX: u64 = 1 << 53;

const POWERS: [u64; 20] = {
    let mut powers = [1; 20];
    let mut n = 1;
    while n < powers.len() {
        powers[n] = powers[n - 1] * 10;
        n += 1;
    }
    powers
};

/// `mantissa / 10^decimals`.
#[derive(Clone, Copy)]
struct Decimal {
    mantissa: u64,
    decimals: usize,
}

/// Takes a number off the front of `rest`, up to a colon or the end, if it is of digits with at
/// most one point among them; `None` for any other form of a number, which is left where it is.
#[inline]
fn take_plain(rest: &mut &[u8]) -> Option<Decimal> {
    let (mut mantissa, mut point, mut len) = (0_u64, None, 0);

    // One byte more than fits, which shows that a number is longer.
    for byte in rest.iter().take(PLAIN_BYTES_MAX + 1) {
        let digit = byte.wrapping_sub(b'0');
        if digit <= 9 {
            // Wraps only in a number that is too long, which is then read as a float.
            mantissa = mantissa.wrapping_mul(10).wrapping_add(u64::from(digit));
        } else if *byte == b'.' && point.is_none() {
            point = Some(len);
        } else if *byte == b':' {
            break;
        } else {
            return None;
        }

        len += 1;
    }

    let decimals = point.map_or(0, |point| len - point - 1);
    let digits = len - usize::from(point.is_some());
    if digits == 0 || len > PLAIN_BYTES_MAX {
        return None;
    }
    *rest = &rest[len..];
    Some(Decimal { mantissa, decimals })
}

/// Takes a number in any form.
fn take_float(rest: &mut &[u8]) -> Result<f64, Reject> {
    let (text, after) = rest.split_at(find(b':', rest).unwrap_or(rest.len()));
    *rest = after;
    let text = str::from_utf8(text).map_err(|_| Reject::Number)?;
    text.parse().ok().filter(|value: &f64| value.is_finite()).ok_or(Reject::Number)
}

impl Decimal {
    /// Times `10^scale`, rounded half up, at most the greatest integer.
    fn scaled(self, scale: usize) -> u64 {
        if self.decimals <= scale {
            return self.mantissa.saturating_mul(POWERS[scale - self.decimals]);
        }
        let divisor = POWERS[self.decimals - scale];
        let (whole, rest) = (self.mantissa / divisor, self.mantissa % divisor);
        // Twice the rest might not fit into 64 bits.
        whole + u64::from(rest >= divisor - rest)
    }
}

/// Takes an amount off the front of `rest`, up to a colon or the end.
pub(crate) fn take_amount(rest: &mut &[u8]) -> Result<f64, Reject> {
    let begin = *rest;
    match take_plain(rest) {
        // Both are exact as floats, so that the quotient is rounded once, as a parser of floats
        // rounds.
        Some(Decimal { mantissa, decimals }) if mantissa <= EXACT_MAX => {
            Ok(mantissa as f64 / POWERS[decimals] as f64)
        }
        _ => {
            *rest = begin;
            take_float(rest)
        }
    }
}

/// Takes a value off the front of `rest`, up to a colon or the end, as the nearest whole number of
/// what is recorded, at most what 64 bits hold.
pub(crate) fn take_latency(rest: &mut &[u8], unit: ValueUnit) -> Result<u64, Reject> {
    if let Some(decimal) = take_plain(rest) {
        return Ok(decimal.scaled(unit.decimals()));
    }
    let value = take_float(rest)?;
    if value < 0.0 {
        return Err(Reject::Negative);
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not negative, and a float above the integer's range saturates"
    )]
    Ok((value * POWERS[unit.decimals()] as f64).round() as u64)
}

/// Reads digits alone; `None` for anything else, and above `max`.
pub(crate) fn whole(text: &[u8], max: u64) -> Option<u64> {
    let mut rest = text;
    let decimal = take_plain(&mut rest).filter(|_| !text.contains(&b'.') && rest.is_empty())?;
    (decimal.mantissa <= max).then_some(decimal.mantissa)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::core::intake::lines::TimeUnit::{
        self, Microseconds, Milliseconds, Nanoseconds, Seconds,
    };

    fn latency_ns(mut text: &[u8], unit: TimeUnit) -> Result<u64, Reject> {
        let read = take_latency(&mut text, ValueUnit::Time(unit));
        assert!(text.is_empty() || read.is_err());
        read
    }

    #[test]
    fn numbers_are_taken_one_after_the_other() {
        let mut rest = &b"1.5:+2:12345678901234567890:7"[..];
        let mut taken = Vec::new();
        while !rest.is_empty() {
            taken.push(take_latency(&mut rest, ValueUnit::Time(Microseconds)).unwrap());
            rest = rest.strip_prefix(b":").unwrap_or(rest);
        }
        assert_eq!(taken, [1_500, 2_000, u64::MAX, 7_000]);
        let mut rest = &b"0.5:1e2"[..];
        assert_eq!((take_amount(&mut rest), rest), (Ok(0.5), &b":1e2"[..]));
    }

    #[test]
    fn latencies_are_exact_to_the_nanosecond_or_refused_by_reason() {
        for (text, unit, expected) in [
            ("1.5", Milliseconds, Ok(1_500_000)),
            ("0", Milliseconds, Ok(0)),
            ("+2.", Milliseconds, Ok(2_000_000)),
            (".5", Microseconds, Ok(500)),
            ("0.000001", Milliseconds, Ok(1)),
            ("0.0000005", Milliseconds, Ok(1)),
            ("0.0000004999", Milliseconds, Ok(0)),
            ("0.123456789", Seconds, Ok(123_456_789)),
            ("9007199254.740993", Seconds, Ok(9_007_199_254_740_993_000)),
            ("123456789012345678", Nanoseconds, Ok(123_456_789_012_345_678)),
            ("9999999999999999999", Milliseconds, Ok(u64::MAX)),
            ("1e300", Milliseconds, Ok(u64::MAX)),
            ("1e308", Seconds, Ok(u64::MAX)),
            ("1.5e1", Milliseconds, Ok(15_000_000)),
            ("5e-324", Seconds, Ok(0)),
            ("2.2e-310", Nanoseconds, Ok(0)),
            ("-0", Milliseconds, Ok(0)),
            ("-1", Milliseconds, Err(Reject::Negative)),
            ("-1e308", Milliseconds, Err(Reject::Negative)),
            ("NaN", Milliseconds, Err(Reject::Number)),
            ("inf", Milliseconds, Err(Reject::Number)),
            ("-inf", Milliseconds, Err(Reject::Number)),
            ("1e309", Milliseconds, Err(Reject::Number)),
            ("", Milliseconds, Err(Reject::Number)),
            (".", Milliseconds, Err(Reject::Number)),
            ("1.2.3", Milliseconds, Err(Reject::Number)),
            ("1ms", Milliseconds, Err(Reject::Number)),
            (" 1", Milliseconds, Err(Reject::Number)),
            ("0x10", Milliseconds, Err(Reject::Number)),
            ("١", Milliseconds, Err(Reject::Number)),
        ] {
            assert_eq!(latency_ns(text.as_bytes(), unit), expected, "{text:?} {unit:?}");
        }
    }

    #[test]
    fn whole_numbers_are_digits_alone() {
        for (text, expected) in [
            ("0", Some(0)),
            ("007", Some(7)),
            ("10", Some(10)),
            ("11", None),
            ("+1", None),
            ("-1", None),
            ("1.", None),
            ("", None),
            ("99999999999999999999", None),
        ] {
            assert_eq!(whole(text.as_bytes(), 10), expected, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn whole_nanoseconds_survive_the_text(ns in 0..3_600_000_000_000_u64) {
            let ms = format!("{}.{:06}", ns / 1_000_000, ns % 1_000_000);
            prop_assert_eq!(latency_ns(ms.as_bytes(), Milliseconds), Ok(ns));
            let s = format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
            prop_assert_eq!(latency_ns(s.as_bytes(), Seconds), Ok(ns));
        }

        #[test]
        fn amounts_are_those_of_the_standard_library(
            text in "[-+]?[0-9]{0,20}\\.?[0-9]{0,9}(e-?[0-9]{1,3})?",
        ) {
            let expected = text.parse().ok().filter(|value: &f64| value.is_finite());
            prop_assert_eq!(take_amount(&mut text.as_bytes()).ok(), expected);
        }

        #[test]
        fn a_latency_is_the_float_to_within_its_precision(text in "[0-9]{1,6}(\\.[0-9]{0,12})?") {
            let exact: f64 = text.parse().unwrap();
            let read = latency_ns(text.as_bytes(), Milliseconds).unwrap() as f64;
            prop_assert!((read - exact * 1e6).abs() <= 0.5 + exact * 1e-9, "{} of {}", read, text);
        }
    }
}
