//! What the samples of a window say about a budget, and how sure that is.
//!
//! A quantile of few samples is mostly luck. A breach is therefore claimed only when the lower
//! confidence bound of the true quantile is above the limit. The bound is an order statistic:
//! the number of samples below the true q-quantile is binomial(n, q) whatever the distribution,
//! so the sample of rank r lies at or below that quantile with probability P(Bin(n, q) >= r).
//! (Conover, Practical Nonparametric Statistics, section 3.2.)

use plimsoll_schemas::budget::Budget;
use plimsoll_schemas::histogram::{Histogram, Quantile, rank};
use plimsoll_schemas::summary::Verdict;

use super::alert::Finding;
use super::window::Sums;

/// Above this variance the normal approximation of the binomial is good to well under a rank
/// in a hundred; below it the sum is exact, and short.
const EXACT_VARIANCE_MAX: f64 = 100.0;

/// The evidence about one budget.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judgement {
    /// What it amounts to.
    pub verdict: Verdict,
    /// Samples in the window.
    pub samples: u64,
    /// The quantile, when there are samples.
    pub value: Option<Quantile>,
    /// Its lower confidence bound in nanoseconds, when there are enough samples for one.
    pub lower_ns: Option<u64>,
}

/// Judges one window's samples.
#[must_use]
pub fn judge(budget: &Budget, samples: &Histogram) -> Judgement {
    judge_ranks(budget, samples.count(), |rank| samples.at_rank(rank))
}

/// Judges `n` samples, which are asked for by rank.
#[must_use]
pub fn judge_ranks(
    budget: &Budget,
    n: u64,
    mut at_rank: impl FnMut(u64) -> Option<Quantile>,
) -> Judgement {
    let lower = lower_rank(n, budget.quantile, budget.confidence);
    let lower_ns = if lower > 0 { at_rank(lower) } else { None }.map(|found| found.lower_ns);
    let value = at_rank(rank(budget.quantile, n));
    let verdict = if n < budget.min_samples {
        Verdict::Insufficient
    } else if lower_ns.is_some_and(|lower| lower > budget.limit_ns) {
        Verdict::Breach
    } else {
        Verdict::Within
    };
    Judgement { verdict, samples: n, value, lower_ns }
}

/// The verdict of [`judge`] about the samples of which these are the sums.
#[must_use]
pub fn verdict(budget: &Budget, sums: &Sums) -> Verdict {
    let Sums { samples, over, min_ns } = *sums;
    if samples < budget.min_samples {
        return Verdict::Insufficient;
    }
    let within = samples.saturating_sub(over);
    let is_over = |rank: u64| rank > 0 && (rank > within || min_ns > budget.limit_ns);
    // The lower bound is never above the quantile itself, whose rank is had for nothing.
    let breach = is_over(rank(budget.quantile, samples))
        && is_over(lower_rank(samples, budget.quantile, budget.confidence));
    if breach { Verdict::Breach } else { Verdict::Within }
}

/// What the samples of which these are the sums say about an alert.
#[must_use]
pub fn finding(budget: &Budget, sums: &Sums) -> Finding {
    if sums.samples == 0 {
        return Finding::NoData;
    }
    match verdict(budget, sums) {
        Verdict::NoData | Verdict::Insufficient => Finding::Insufficient,
        Verdict::Within => Finding::Clear,
        Verdict::Breach => Finding::Breach,
    }
}

/// The highest rank whose sample lies at or below the true quantile with at least the given
/// confidence; 0 when there is none.
#[must_use]
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts stay below 2^53 and the result is clamped to 0..=n"
)]
pub fn lower_rank(n: u64, quantile: f64, confidence: f64) -> u64 {
    let (count, above) = (n as f64, 1.0 - quantile);
    let variance = count * quantile * above;
    // How many samples may lie above the quantile before that gets as unlikely as 1 - confidence.
    let tail = if variance <= EXACT_VARIANCE_MAX {
        binomial_quantile(n, above.min(quantile), confidence, above > quantile)
    } else {
        count * above + normal_quantile(confidence) * variance.sqrt() + 0.5
    };
    (count - tail.ceil()).max(0.0) as u64
}

/// The smallest m with P(Bin(n, p) <= m) >= confidence, where p <= 0.5 is the rarer side; when
/// `mirrored`, for Bin(n, 1 - p) instead.
#[expect(clippy::cast_precision_loss, reason = "counts stay below 2^53")]
fn binomial_quantile(n: u64, rare: f64, confidence: f64, mirrored: bool) -> f64 {
    // Bin(n, 1 - p) <= m is the same as Bin(n, p) >= n - m.
    let goal = if mirrored { 1.0 - confidence } else { confidence };
    let mut probability = (n as f64 * (-rare).ln_1p()).exp();
    let mut sum = 0.0;
    for m in 0..=n {
        if mirrored && sum + probability > goal {
            return (n - m) as f64;
        }
        sum += probability;
        if !mirrored && sum >= goal {
            return m as f64;
        }
        probability *= (n - m) as f64 / (m + 1) as f64 * rare / (1.0 - rare);
    }
    n as f64
}

/// Standard normal quantile for 0.5 <= p < 1, by Acklam's rational approximation (relative
/// error below 1.2e-9).
fn normal_quantile(p: f64) -> f64 {
    const CENTRE: f64 = 0.975_75;
    if p <= CENTRE {
        let q = p - 0.5;
        let r = q * q;
        let numerator = polynomial(
            r,
            &[
                -3.969_683_028_665_376e1,
                2.209_460_984_245_205e2,
                -2.759_285_104_469_687e2,
                1.383_577_518_672_69e2,
                -3.066_479_806_614_716e1,
                2.506_628_277_459_239,
            ],
        );
        let denominator = polynomial(
            r,
            &[
                -5.447_609_879_822_406e1,
                1.615_858_368_580_409e2,
                -1.556_989_798_598_866e2,
                6.680_131_188_771_972e1,
                -1.328_068_155_288_572e1,
                1.0,
            ],
        );
        return q * numerator / denominator;
    }
    let q = (-2.0 * (1.0 - p).ln()).sqrt();
    let numerator = polynomial(
        q,
        &[
            -7.784_894_002_430_293e-3,
            -3.223_964_580_411_365e-1,
            -2.400_758_277_161_838,
            -2.549_732_539_343_734,
            4.374_664_141_464_968,
            2.938_163_982_698_783,
        ],
    );
    let denominator = polynomial(
        q,
        &[
            7.784_695_709_041_462e-3,
            3.224_671_290_700_398e-1,
            2.445_134_137_142_996,
            3.754_408_661_907_416,
            1.0,
        ],
    );
    -numerator / denominator
}

/// Horner's scheme, highest coefficient first.
fn polynomial(x: f64, coefficients: &[f64]) -> f64 {
    coefficients.iter().fold(0.0, |sum, coefficient| sum * x + coefficient)
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::budget::effective;
    use plimsoll_schemas::histogram::Packed;
    use proptest::prelude::*;

    use super::*;

    fn epoch_hook() -> Budget {
        effective(&[]).unwrap().remove(0)
    }

    fn samples(values: &[(u64, u64)]) -> Histogram {
        let mut histogram = Histogram::default();
        values.iter().for_each(|(ms, n)| histogram.record_n(ms * 1_000_000, *n));
        histogram
    }

    /// P(Bin(n, q) >= r), summed in logarithms: slow and obviously right.
    fn at_or_below(n: u64, quantile: f64, rank: u64) -> f64 {
        let ln_factorial =
            |n: u64| (1..=n).map(|i| f64::from(u32::try_from(i).unwrap()).ln()).sum::<f64>();
        (rank..=n)
            .map(|k| {
                let (below, above) = (u32::try_from(k).unwrap(), u32::try_from(n - k).unwrap());
                (ln_factorial(n) - ln_factorial(k) - ln_factorial(n - k)
                    + f64::from(below) * quantile.ln()
                    + f64::from(above) * (1.0 - quantile).ln())
                .exp()
            })
            .sum()
    }

    #[test]
    fn the_bound_holds_and_no_higher_rank_does() {
        for n in [1, 5, 59, 100, 299, 400] {
            for quantile in [0.3, 0.5, 0.9, 0.99] {
                for confidence in [0.5, 0.95, 0.99] {
                    let rank = lower_rank(n, quantile, confidence);
                    if rank > 0 {
                        let sure = at_or_below(n, quantile, rank);
                        assert!(sure >= confidence - 1e-9, "{n} {quantile} {confidence}: {sure}");
                    }
                    let next = at_or_below(n, quantile, rank + 1);
                    assert!(next < confidence + 1e-9, "{n} {quantile} {confidence}: {next}");
                }
            }
        }
    }

    #[test]
    fn exact_and_normal_ranks_meet() {
        for (quantile, n) in [(0.5, 400_u64), (0.99, 10_101)] {
            let exact = lower_rank(n, quantile, 0.95);
            let normal = lower_rank(n + 3, quantile, 0.95);
            assert!(normal.abs_diff(exact) <= 4, "{quantile}: {exact} and {normal}");
        }
    }

    #[test]
    fn the_normal_quantile_has_its_textbook_values() {
        for (p, z) in [(0.5, 0.0), (0.95, 1.644_853_627), (0.99, 2.326_347_874)] {
            assert!((normal_quantile(p) - z).abs() < 1e-6, "{p}");
        }
    }

    #[test]
    fn too_few_samples_are_no_evidence_however_bad() {
        let judgement = judge(&epoch_hook(), &samples(&[(500, 99)]));
        assert_eq!((judgement.verdict, judgement.samples), (Verdict::Insufficient, 99));
        assert_eq!(judge(&epoch_hook(), &Histogram::default()).verdict, Verdict::Insufficient);
    }

    #[test]
    fn all_samples_over_the_limit_are_a_breach() {
        let judgement = judge(&epoch_hook(), &samples(&[(30, 100)]));
        assert_eq!(judgement.verdict, Verdict::Breach);
        assert!(judgement.lower_ns.unwrap() > 18_000_000);
    }

    #[test]
    fn two_slow_samples_in_a_hundred_are_noise_but_thirty_in_a_thousand_are_not() {
        let noise = judge(&epoch_hook(), &samples(&[(5, 98), (30, 2)]));
        assert!(noise.value.unwrap().value_ns > 18_000_000, "the plain p99 is over the limit");
        assert_eq!(noise.verdict, Verdict::Within);
        let signal = judge(&epoch_hook(), &samples(&[(5, 970), (30, 30)]));
        assert_eq!(signal.verdict, Verdict::Breach);
    }

    #[test]
    fn a_value_exactly_at_the_limit_is_within() {
        let budget = Budget { min_samples: 1, ..epoch_hook() };
        let mut at = Histogram::default();
        at.record_n(budget.limit_ns, 1_000);
        assert_eq!(judge(&budget, &at).verdict, Verdict::Within);
        let mut over = Histogram::default();
        over.record_n(budget.limit_ns + 1, 1_000);
        assert_eq!(judge(&budget, &over).verdict, Verdict::Breach, "all samples are 1 ns over");
    }

    proptest! {
        #[test]
        fn the_lower_bound_is_never_above_the_quantile(
            n in 1..5_000_u64, permille in 1..1_000_u32, confidence in 0.5..0.999,
        ) {
            let quantile = f64::from(permille) / 1000.0;
            prop_assert!(lower_rank(n, quantile, confidence) <= rank(quantile, n));
        }

        #[test]
        fn sums_turn_the_verdict_at_the_very_sample_at_which_all_samples_do(
            n in 1..5_000_u64, quantile in 0.01..0.999, confidence in 0.5..0.999, more in 0..5_u64,
        ) {
            let budget = Budget { quantile, confidence, min_samples: 1, ..epoch_hook() };
            let rank = lower_rank(n, quantile, confidence);
            let over = (n - rank + more).saturating_sub(2).min(n);
            let samples = samples(&[(5, n - over), (30, over)]);
            let sums = Sums { samples: n, over, min_ns: samples.min_ns() };
            prop_assert_eq!(verdict(&budget, &sums), judge(&budget, &samples).verdict);
        }

        #[test]
        fn sums_give_the_verdict_that_all_samples_give(
            values in prop::collection::vec((0..40_000_000_u64, 1..500_u64), 0..40),
            quantile in 0.01..0.999, limit_ns in 1_000..40_000_000_u64,
            confidence in 0.5..0.999, min_samples in 1..2_000_u64,
        ) {
            let budget =
                Budget { quantile, limit_ns, confidence, min_samples, ..epoch_hook() };
            let mut samples = Histogram::default();
            values.iter().for_each(|(value, n)| samples.record_n(*value, *n));
            let over = Packed::from(&samples).over(limit_ns).over;
            let sums = Sums { samples: samples.count(), over, min_ns: samples.min_ns() };
            prop_assert_eq!(verdict(&budget, &sums), judge(&budget, &samples).verdict);
        }
    }
}
