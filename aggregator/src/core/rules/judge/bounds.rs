//! Confidence bounds of a quantile, which are shown beside it.
//!
//! The bounds are order statistics. Of `n` samples those below the true q-quantile are
//! `Bin(n, q)`, whatever the distribution. So the sample of rank `r`
//!
//! - lies at or below that quantile with probability `P(Bin(n, q) >= r)`: [`lower_rank`] is the
//!   largest `r` where that is at least the confidence;
//! - lies at or above it with probability `P(Bin(n, q) <= r - 1)`: [`upper_rank`] is the smallest
//!   such `r`.
//!
//! (Conover, Practical Nonparametric Statistics, section 3.2.) Counts that vary `f` times as much
//! as those of independent samples have the bounds of `n / f` samples, with ranks stretched to `n`.

/// `n q (1 - q)`, the variance of the binomial, up to which its sum is exact, and short. Above it
/// the normal approximation holds the confidence, with the skewness in the first term of Cornish
/// and Fisher's expansion (Revue de l'Institut International de Statistique 5, 1938): without, far
/// tails are missed twenty times too often.
const EXACT_VARIANCE_MAX: f64 = 100.0;

/// Samples, of which some count as one: the bounds are those of the effective ones.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    samples: u64,
    effective: u64,
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts stay below 2^53 and the results are clamped to 0..=n"
)]
impl Bounds {
    /// Of samples whose counts vary by this factor more than those of independent ones: `n / f`
    /// effective ones.
    pub(super) fn new(samples: u64, factor: f64) -> Self {
        Self { samples, effective: (samples as f64 / factor).floor() as u64 }
    }

    /// As [`upper_rank`].
    pub(super) fn upper_rank(self, quantile: f64, confidence: f64) -> Option<u64> {
        let of_effective = upper_rank(self.effective, quantile, confidence)?;
        Some(((of_effective as f64 * self.each()).ceil() as u64).min(self.samples))
    }

    /// As [`lower_rank`].
    pub(super) fn lower_rank(self, quantile: f64, confidence: f64) -> u64 {
        (lower_rank(self.effective, quantile, confidence) as f64 * self.each()) as u64
    }

    /// Samples for each effective one.
    fn each(self) -> f64 {
        self.samples as f64 / self.effective.max(1) as f64
    }
}

/// The lowest rank whose sample lies at or above the true quantile with at least the given
/// confidence; `None` if there are too few samples for one.
pub fn upper_rank(n: u64, quantile: f64, confidence: f64) -> Option<u64> {
    // Counted down from the largest sample it is the lower bound of the (1 - q)-quantile.
    match lower_rank(n, 1.0 - quantile, confidence) {
        0 => None,
        from_above => Some(n + 1 - from_above),
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

    // The smallest m with P(Bin(n, 1 - q) <= m) >= confidence: up to m samples may lie above the
    // quantile, and the sample of rank n - m lies at or below it.
    let tail = if variance <= EXACT_VARIANCE_MAX {
        binomial_quantile(n, above.min(quantile), confidence, above > quantile)
    } else {
        // n p + z sd + (z^2 - 1) (1 - 2p) / 6 + 1/2 for p = 1 - q: mean, spread, the skewness
        // (1 - 2p) / sd, and half a step, since the binomial has whole numbers only.
        let z = normal_quantile(confidence);
        count * above + z * variance.sqrt() + (z * z - 1.0) * (1.0 - 2.0 * above) / 6.0 + 0.5
    };

    (count - tail.ceil()).max(0.0) as u64
}

/// The smallest m with P(Bin(n, p) <= m) >= confidence, where p <= 0.5 is the rarer side; when
/// `mirrored`, for Bin(n, 1 - p) instead.
#[expect(clippy::cast_precision_loss, reason = "counts stay below 2^53")]
fn binomial_quantile(n: u64, rare: f64, confidence: f64, mirrored: bool) -> f64 {
    // Bin(n, 1 - p) <= m is the same as Bin(n, p) >= n - m.
    let goal = if mirrored { 1.0 - confidence } else { confidence };

    // P(0) = (1 - p)^n
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
        // P(m + 1) = P(m) (n - m)/(m + 1) p/(1 - p)
        probability *= (n - m) as f64 / (m + 1) as f64 * rare / (1.0 - rare);
    }

    n as f64
}

/// Standard normal quantile for 0.5 <= p < 1, by rational functions whose relative error is below
/// 1.2e-9 (P. J. Acklam, "An algorithm for computing the inverse normal cumulative distribution
/// function"): in the centre `q A(q^2) / B(q^2)` with `q = p - 1/2`, and in the tail `-C(q) / D(q)`
/// with `q = sqrt(-2 ln(1 - p))`.
pub(super) fn normal_quantile(p: f64) -> f64 {
    /// 1 - 0.02425, up to which the centre reaches.
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
