//! Where the buckets of a producer end, in nanoseconds. An end that is no whole nanosecond is
//! rounded outward, so that what a bucket is said to span is never less than what it spans.
//!
//! An end that was written as a decimal stays what was meant: 0.018 s are 18 000 000 ns, though no
//! float is 0.018, because the float nearest to 18 000 000 / 10^9 is the one that was told.

use plimsoll_schemas::histogram::layout::MAX_NS;

use crate::core::intake::units::TimeUnit;

/// Nanoseconds above which nothing is told apart, and integers of a float are exact.
const EXACT_MAX: f64 = (1_u64 << 53) as f64;
/// How far the power below and its product may be off, and more: 20 roots, each off by a unit in
/// the last place and by half a one more where it is multiplied.
const SLACK: f64 = 32.0 * f64::EPSILON;

/// One end between two buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Edge {
    /// What is over it is over so many nanoseconds.
    pub(super) over_ns: u64,
    /// What is not over it is at most so many.
    pub(super) upto_ns: u64,
}

impl Edge {
    /// Below which no latency is.
    pub(super) const FIRST: Self = Self { over_ns: 0, upto_ns: 0 };
    /// Over which none is told apart.
    pub(super) const LAST: Self = Self { over_ns: MAX_NS, upto_ns: u64::MAX };

    /// A finite value.
    pub(super) fn of(value: f64, unit: TimeUnit) -> Self {
        let product = value * per(unit);
        let whole = product.round();
        match whole / per(unit) == value && whole < EXACT_MAX {
            true => Self::between(whole, whole),
            false => Self::between(product.next_down(), product.next_up()),
        }
    }

    /// The power `index` of `2^(2^-scale)`.
    pub(super) fn power(scale: i32, index: i64, unit: TimeUnit) -> Self {
        let (doublings, rest) = match u32::try_from(scale) {
            Ok(scale) => (index >> scale, index & ((1 << scale) - 1)),
            Err(_) => (index << scale.unsigned_abs(), 0),
        };
        // An exact power of two times what has 30 bits.
        let product = power_of_two(doublings) * per(unit);
        if rest == 0 {
            return Self::between(product, product);
        }
        let product = product * part_of_doubling(rest, scale);
        Self::between(product * (1.0 - SLACK), product * (1.0 + SLACK))
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "what is below zero becomes zero, and what is too large the largest"
    )]
    fn between(least: f64, most: f64) -> Self {
        Self { over_ns: least.floor() as u64, upto_ns: most.ceil() as u64 }
    }
}

/// What samples sum up to, in nanoseconds; what is below zero is zero.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "what is below zero becomes zero, and what is too large the largest"
)]
pub(super) fn sum_ns(sum: f64, unit: TimeUnit) -> u128 {
    (sum * per(unit)).round() as u128
}

/// Nanoseconds.
const fn per(unit: TimeUnit) -> f64 {
    match unit {
        TimeUnit::Seconds => 1e9,
        TimeUnit::Milliseconds => 1e6,
        TimeUnit::Microseconds => 1e3,
        TimeUnit::Nanoseconds => 1.0,
    }
}

/// Two to the power of `rest / 2^scale`, from square roots: these are instructions, where `exp2`
/// would be the only use of a library.
fn part_of_doubling(rest: i64, scale: i32) -> f64 {
    let mut root = 2.0_f64;
    (0..scale).rev().fold(1.0, |product, bit| {
        root = root.sqrt();
        if rest >> bit & 1 == 1 { product * root } else { product }
    })
}

/// Exact where it is a normal number; what is below them is the least, and above them infinite.
fn power_of_two(exponent: i64) -> f64 {
    match exponent {
        ..-1_022 => f64::MIN_POSITIVE,
        -1_022..=1_023 => f64::from_bits((exponent + 1_023).unsigned_abs() << 52),
        1_024.. => f64::INFINITY,
    }
}

#[cfg(test)]
mod tests;
