//! Simultaneous confidence intervals of all shifts of an operation, and the noise floor: how far
//! resamples of one side are apart.
//!
//! All statistics of an operation share one critical value, the quantile of the largest |t| over
//! them in resamples (Romano and Wolf 2005). With few blocks it widens as Student's t does.
//!
//! DESIGN A77, A78.

use crate::normal::{student, upper_quantile, upper_tail};
use crate::resample::RESAMPLES;
use crate::statistic::{BEYOND_MIN, Estimate, Estimates, QUANTILES};

/// Of all intervals of a comparison together.
pub(crate) const CONFIDENCE: f64 = 0.95;
/// Of the noise floor: the share of comparisons of a side with itself in which no shift exceeds it.
/// Above that of intervals, since a gate that fails one of twenty unchanged builds is turned off.
pub(crate) const FLOOR_CONFIDENCE: f64 = 0.99;

/// One shift, as the difference of two estimates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Interval {
    pub(crate) shift: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) floor: f64,
}

/// The interval of each statistic that both sides have; `operations` are judged together.
///
/// `None` for what has too few samples.
pub(crate) fn intervals(a: &Estimates, b: &Estimates, operations: usize) -> Vec<Option<Interval>> {
    let both = (0..).zip(a.values.iter().zip(&b.values));
    let pairs: Vec<Pair> = both.map(|(at, (one, other))| Pair { at, one, other }).collect();
    let critical = critical(&pairs, Draw::Between, CONFIDENCE, operations);
    let (of_a, of_b) = (a.freedom, b.freedom);
    // The floor is about a side of A's size and one of B's, while both resamples are of one side:
    // the deviations of one of them are scaled to the other's size (A78). Where runs differ, their
    // number is a side's size, not that of samples.
    let ratio = match (of_a.runs, of_b.runs) {
        (Some(a), Some(b)) => a as f64 / b as f64,
        (None, None) => a.samples as f64 / b.samples.max(1) as f64,
        (Some(_), None) | (None, Some(_)) => 1.0,
    };
    let degrees = [of_a.degrees, of_b.degrees];
    // Runs of one side have as few degrees as two, and no shift would ever exceed their floor.
    // Those of both sides together have the sum: equal versions have equal variances.
    let are_runs = of_a.runs.is_some() && of_b.runs.is_some();
    let of_floor = if are_runs { [degrees.iter().sum(); 2] } else { degrees };
    let within = [Draw::WithinOne(ratio), Draw::WithinOther(1.0 / ratio)];
    let floors =
        within.map(|draw| (draw, self::critical(&pairs, draw, FLOOR_CONFIDENCE, operations)));

    let interval = |pair: &Pair| {
        let shift = pair.other.value - pair.one.value;
        let half = pair.bound(Draw::Between, critical, degrees);
        let floors = floors.map(|(draw, critical)| pair.bound(draw, critical, of_floor));
        let [one, other] = floors;
        let floor = if are_runs { one.hypot(other) / 2_f64.sqrt() } else { one.max(other) };
        Interval { shift, low: shift - half, high: shift + half, floor }
    };

    pairs.iter().map(|pair| pair.is_judged().then(|| interval(pair))).collect()
}

/// What resamples are compared with.
#[derive(Clone, Copy)]
enum Draw {
    /// Those of the other side.
    Between,
    /// Those of the same side, as many times larger as stated.
    WithinOne(f64),
    WithinOther(f64),
}

/// One statistic on both sides.
struct Pair<'a> {
    at: usize,
    one: &'a Estimate,
    other: &'a Estimate,
}

impl Pair<'_> {
    /// Whether there are enough samples: beyond a quantile on both sides, over a limit on either.
    fn is_judged(&self) -> bool {
        let (one, other) = (self.one.beyond, self.other.beyond);
        // With few samples beyond it a quantile is little more than the maximum, so both sides need
        // enough. A share of zero on one side is a finding if the other has one.
        let enough = if self.at < QUANTILES.len() { one.min(other) } else { one + other };
        enough >= BEYOND_MIN
    }

    /// The difference in resample `n`. Of one side, two resamples half of all apart are compared.
    fn difference(&self, draw: Draw, n: usize) -> f64 {
        let far = (n + RESAMPLES / 2) % RESAMPLES;
        let (one, other) = (&self.one.deviations, &self.other.deviations);
        match draw {
            Draw::Between => other[n] - one[n],
            Draw::WithinOne(ratio) => one[n] - ratio.sqrt() * one[far],
            Draw::WithinOther(ratio) => other[n] - ratio.sqrt() * other[far],
        }
    }

    /// The standard error of the difference. Buckets are the least: within one, resamples agree.
    fn error(&self, draw: Draw) -> f64 {
        let (one, other) = (self.one.spread, self.other.spread);
        let error = match draw {
            Draw::Between => one.hypot(other),
            Draw::WithinOne(ratio) => one * (1.0 + ratio).sqrt(),
            Draw::WithinOther(ratio) => other * (1.0 + ratio).sqrt(),
        };
        error.max(self.open(draw)).max(f64::MIN_POSITIVE)
    }

    /// What buckets leave open.
    fn open(&self, draw: Draw) -> f64 {
        let (one, other) = (self.one.uncertainty, self.other.uncertainty);
        match draw {
            Draw::Between => one + other,
            Draw::WithinOne(_) => one + one,
            Draw::WithinOther(_) => other + other,
        }
    }

    fn bound(&self, draw: Draw, critical: f64, [one, other]: [f64; 2]) -> f64 {
        let degrees = match draw {
            Draw::Between => self.degrees(one, other),
            Draw::WithinOne(_) => one,
            Draw::WithinOther(_) => other,
        };
        // No spread at all, as of a share that is zero on
        // both sides: 0 standard errors, not 0 divided by 0.
        if self.error(draw) <= f64::MIN_POSITIVE {
            return 0.0;
        }
        student(critical, degrees) * self.error(draw) + self.open(draw)
    }

    /// Degrees of freedom of the difference (Welch and Satterthwaite).
    fn degrees(&self, one: f64, other: f64) -> f64 {
        let (first, second) = (self.one.spread.powi(2), self.other.spread.powi(2));
        let sum = first * first / one + second * second / other;
        if sum > 0.0 { (first + second).powi(2) / sum } else { one.min(other) }
    }
}

/// How many standard errors the largest of all deviations exceeds in `1 - confidence` of resamples.
fn critical(pairs: &[Pair], draw: Draw, confidence: f64, operations: usize) -> f64 {
    let judged: Vec<(&Pair, f64)> =
        pairs.iter().filter(|pair| pair.is_judged()).map(|pair| (pair, pair.error(draw))).collect();
    let largest = |n| {
        let each = judged.iter().map(|(pair, error)| pair.difference(draw, n).abs() / error);
        each.fold(0.0, f64::max)
    };
    let mut all: Vec<f64> = (0..RESAMPLES).map(largest).collect();
    all.sort_unstable_by(f64::total_cmp);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of 2 000")]
    let at = (confidence * RESAMPLES as f64) as usize;
    of_several(all[at.min(RESAMPLES - 1)].max(single(confidence)), operations)
}

/// The critical value of one statistic alone: the least, for resamples that hardly differ.
fn single(confidence: f64) -> f64 {
    upper_quantile((1.0 - confidence) / 2.0)
}

/// A critical value for several operations (Bonferroni): resamples are too few to read it off.
fn of_several(critical: f64, operations: usize) -> f64 {
    if operations <= 1 {
        return critical;
    }
    upper_quantile(upper_tail(critical) / operations as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_operations_need_more_evidence() {
        assert_eq!(of_several(1.96, 1), 1.96);
        // 0.025 / 5 = 0.005.
        assert!((of_several(1.959_964, 5) - 2.575_8).abs() < 1e-3);
    }
}
