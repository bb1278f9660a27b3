//! The ends of a producer's buckets as whole numbers of what is recorded, mostly nanoseconds. An
//! end between two of them is rounded outward, so that the span of a bucket is never too small.
//!
//! An end written as a decimal stays exact: 0.018 s is 18 000 000 ns, although no float equals
//! 0.018, because the float nearest to 18 000 000 / 10^9 is the one that was sent.

use plimsoll_schemas::histogram::layout::MAX_NS;

use crate::core::intake::lines::ValueUnit;

/// Up to here integers of a float are exact.
const EXACT_MAX: f64 = (1_u64 << 53) as f64;
/// An upper bound of the relative error of a power: 20 roots, each with an error of one unit in the
/// last place plus half a unit for its multiplication.
const SLACK: f64 = 32.0 * f64::EPSILON;

/// The edge between two buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Edge {
    /// A sample above the edge is above this.
    pub(super) over_ns: u64,
    /// A sample at or below the edge is at most this.
    pub(super) upto_ns: u64,
}

impl Edge {
    pub(super) const FIRST: Self = Self { over_ns: 0, upto_ns: 0 };
    /// The edge above which samples are not distinguished.
    pub(super) const LAST: Self = Self { over_ns: MAX_NS, upto_ns: u64::MAX };

    /// The edge at a finite value.
    pub(super) fn of(value: f64, unit: ValueUnit) -> Self {
        let product = value * per(unit);
        // Bounds are mostly decimal: 0.005 s means 5 ms, though no float is exactly that.
        let whole = product.round();
        match whole / per(unit) == value && whole < EXACT_MAX {
            true => Self::between(whole, whole),
            false => Self::between(product.next_down(), product.next_up()),
        }
    }

    /// The edge at power `index` of `2^(2^-scale)`.
    pub(super) fn power(scale: i32, index: i64, unit: ValueUnit) -> Self {
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
        reason = "saturates: below zero to zero, above the range to the maximum"
    )]
    fn between(least: f64, most: f64) -> Self {
        Self { over_ns: least.floor() as u64, upto_ns: most.ceil() as u64 }
    }
}

/// A sum in nanoseconds; a negative one is zero.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturates: below zero to zero, above the range to the maximum"
)]
pub(super) fn sum_ns(sum: f64, unit: ValueUnit) -> u128 {
    (sum * per(unit)).round() as u128
}

const fn per(unit: ValueUnit) -> f64 {
    match unit.decimals() {
        0 => 1.0,
        3 => 1e3,
        6 => 1e6,
        9 => 1e9,
        _ => 1e12,
    }
}

/// Two to the power of `rest / 2^scale`, by square roots: those are single instructions, while
/// `exp2` would be the only use of a library.
fn part_of_doubling(rest: i64, scale: i32) -> f64 {
    let mut root = 2.0_f64;
    (0..scale).rev().fold(1.0, |product, bit| {
        root = root.sqrt();
        if rest >> bit & 1 == 1 { product * root } else { product }
    })
}

/// Exact for normal numbers; saturates to the least one and to infinity.
fn power_of_two(exponent: i64) -> f64 {
    match exponent {
        ..-1_022 => f64::MIN_POSITIVE,
        -1_022..=1_023 => f64::from_bits((exponent + 1_023).unsigned_abs() << 52),
        1_024.. => f64::INFINITY,
    }
}

#[cfg(test)]
mod tests;
