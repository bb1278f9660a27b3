//! The exact sum of floating-point numbers, so that their order never changes it.
//!
//! Shewchuk, "Adaptive precision floating-point arithmetic" (1997): the sum is kept as numbers none
//! of whose bits overlap. Whole numbers below 2^53, as counters have them, take one.

use serde::{Deserialize, Serialize};

/// Numbers beyond it are cut to it: sums of up to 2^64 of them stay finite.
const MAGNITUDE_MAX: f64 = 1e280;

/// A sum, rounded only when it is read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ExactSum(
    /// Of ascending magnitude.
    Vec<f64>,
);

/// What two numbers add up to, and what rounding leaves out of it.
struct Rounded {
    sum: f64,
    rest: f64,
}

impl ExactSum {
    pub fn of(number: f64) -> Self {
        let mut sum = Self::default();
        sum.push(number);
        sum
    }

    pub fn add(&mut self, other: &Self) {
        other.0.iter().for_each(|part| self.push(*part));
    }

    /// Adds a number; NaN adds nothing.
    pub fn push(&mut self, number: f64) {
        if number.is_nan() {
            return;
        }
        let mut carried = number.clamp(-MAGNITUDE_MAX, MAGNITUDE_MAX);
        self.0.retain_mut(|part| {
            let Rounded { sum, rest } = rounded(carried, *part);
            (carried, *part) = (sum, rest);
            rest != 0.0
        });
        if carried != 0.0 {
            self.0.push(carried);
        }
    }

    /// The nearest number, of two that are equally near the even one.
    pub fn value(&self) -> f64 {
        let mut parts = self.0.iter().rev();
        let mut value = parts.next().copied().unwrap_or_default();
        while let Some(part) = parts.next() {
            let Rounded { sum, rest } = rounded(value, *part);
            value = sum;
            if rest != 0.0 {
                // Half-way cases: the next part decides to which side the sum is rounded.
                let is_beyond = parts.next().is_some_and(|next| next.signum() == rest.signum());
                let doubled = value + 2.0 * rest;
                #[expect(clippy::float_cmp, reason = "whether the addition was exact")]
                let is_half = doubled - value == 2.0 * rest;
                return if is_beyond && is_half { doubled } else { value };
            }
        }
        value
    }
}

fn rounded(one: f64, other: f64) -> Rounded {
    let (large, small) = if one.abs() < other.abs() { (other, one) } else { (one, other) };
    let sum = large + small;
    Rounded { sum, rest: small - (sum - large) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sum(numbers: &[f64]) -> ExactSum {
        let mut sum = ExactSum::default();
        numbers.iter().for_each(|number| sum.push(*number));
        sum
    }

    #[test]
    fn what_rounding_loses_one_by_one_is_there() {
        for (numbers, expected) in [
            (vec![1e16, 1.0, 1.0, -1e16], 2.0),
            (vec![0.1; 10], 1.0),
            (vec![1e280, 1.0, -1e280], 1.0),
            (vec![f64::MAX, -1e280], 0.0),
            (vec![1.0, f64::NAN, 2.0], 3.0),
            // Half-way between two numbers, and a little more.
            (vec![1.0, 2f64.powi(-53), 2f64.powi(-106)], 1.0 + 2f64.powi(-52)),
            (vec![1.0, 2f64.powi(-53)], 1.0),
            (vec![], 0.0),
        ] {
            assert_eq!(sum(&numbers).value().to_bits(), expected.to_bits(), "{numbers:?}");
        }
        assert_eq!(sum(&[3.0; 1_000]).0.len(), 1, "whole numbers take one");
    }

    proptest! {
        #[test]
        fn a_sum_is_that_of_whole_numbers_at_any_scale(
            numbers in prop::collection::vec((-1_000_000_i64..1_000_000, 0_i32..60), 0..50),
        ) {
            let exact: i128 = numbers.iter().map(|(n, scale)| i128::from(*n) << scale).sum();
            let numbers = numbers.iter().map(|(n, scale)| *n as f64 * 2f64.powi(*scale));
            // The conversion rounds once, to the nearest.
            prop_assert_eq!(sum(&numbers.collect::<Vec<_>>()).value(), exact as f64);
        }
    }
}
