//! The evidence that a peer is slower than allowed: a test martingale for each block at which that
//! may have started, summed over blocks (Shiryaev 1963, Roberts 1966; as e-detector Shin, Ramdas
//! and Rinaldo, "E-detectors", 2024).
//!
//! A block's residual `z` is standard normal while the peer is healthy, but for a share of wild
//! ones that are anywhere. Its factors are likelihood ratios against that: of three shifts, and of
//! all residuals from 3 to 12 alike, which is what a large shift or its first block shows. A factor
//! has the mean one (at most) while the peer is healthy. So the expected sum grows by the seconds
//! that pass and no faster, and in `s` seconds it exceeds `s / p` with a chance of at most `p`
//! (Doob): an onset after weeks needs no more evidence than one after a minute.

use crate::limits::{BLOCK_BINS, EVIDENCE_MAX};

/// Shifts of the residual that are looked for, in its standard deviations. A shift half as large or
/// twice as large as one of them still has three quarters of its evidence.
const SHIFTS: [f64; 3] = [0.75, 1.5, 2.25];
/// Shifts, and last what is wide.
pub(crate) const ALTERNATIVES: usize = SHIFTS.len() + 1;
const WIDE: usize = SHIFTS.len();
/// Their shares of each start.
const SHARES: [f64; ALTERNATIVES] = [0.2, 0.3, 0.3, 0.2];
/// How much of each start expects that its first block stands out; the rest, a slow onset.
const ONSET: f64 = 0.7;
/// Residuals of the wide alternative.
const WIDE_FROM: f64 = 3.0;
/// Residuals that count as such. A peer far within the floor has one below these in every block: it
/// must go on to lose evidence, and one block must not take all of it.
const RESIDUAL_MIN: f64 = -4.0;
const RESIDUAL_MAX: f64 = 12.0;
const NORMAL_PEAK: f64 = 0.398_942_280_401_432_7;

/// By what one residual changes the evidence for each alternative.
pub(crate) type Factors = [f64; ALTERNATIVES];

/// The factors of a residual where this share of residuals is wild.
pub(crate) fn factors(residual: f64, wild: f64) -> Factors {
    let z = residual.clamp(RESIDUAL_MIN, RESIDUAL_MAX);
    let spread = wild / (2.0 * RESIDUAL_MAX);
    let normal = (1.0 - wild) * NORMAL_PEAK * (-0.5 * z * z).exp();
    let null = normal + spread;

    // The shifts are multiples of the first, so one exponential serves all three.
    let least = (SHIFTS[0] * z).exp();
    let tilts = [least, least * least, least * least * least];
    let wide = if z > WIDE_FROM { (1.0 - wild) / (RESIDUAL_MAX - WIDE_FROM) } else { 0.0 };

    // A slow peer has wild residuals too, but those that are fast say that it is not slow.
    let also_wild = if z > 0.0 { spread } else { 0.0 };
    let mut found = [(wide + also_wild) / null; ALTERNATIVES];
    for ((factor, tilt), norm) in found.iter_mut().zip(tilts).zip(NORMS) {
        *factor = (normal * tilt * norm + also_wild) / null;
    }
    found
}

/// `exp(-shift^2 / 2)` of each shift.
const NORMS: [f64; SHIFTS.len()] =
    [0.754_839_601_989_007_3, 0.324_652_467_358_349_73, 0.079_559_508_718_227_69];

/// One peer's evidence. Blocks start at every bin, so they overlap; those of one phase do not.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Evidence {
    by_phase: [[f64; ALTERNATIVES]; BLOCK_BINS],
}

impl Evidence {
    /// Adds a block of this phase, whose last bin took this many seconds.
    pub(crate) fn add(&mut self, phase: usize, factors: &Factors, seconds: f64) {
        // In its first block a shift stands out against the level before it, more than later.
        let onset = ONSET * factors[WIDE];
        for ((sum, factor), share) in self.by_phase[phase].iter_mut().zip(factors).zip(SHARES) {
            let started = seconds * share * (onset + (1.0 - ONSET) * factor);
            *sum = (*sum * factor + started).min(EVIDENCE_MAX);
        }
    }

    /// In seconds: the expectation of a healthy peer is the seconds that it was judged for.
    pub(crate) fn seconds(&self) -> f64 {
        self.by_phase.iter().flatten().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The mean of each factor over residuals of this density, by the midpoint rule.
    fn means(wild: f64, density: impl Fn(f64) -> f64) -> Factors {
        let step = 1e-3;
        let mut sums = [0.0; ALTERNATIVES];
        for at in -12_000..12_000 {
            let z = (f64::from(at) + 0.5) * step;
            let found = factors(z, wild);
            sums.iter_mut().zip(found).for_each(|(sum, factor)| *sum += density(z) * factor * step);
        }
        sums
    }

    fn normal(z: f64) -> f64 {
        NORMAL_PEAK * (-0.5 * z * z).exp()
    }

    #[test]
    fn factors_of_healthy_residuals_have_mean_one() {
        for wild in [1e-6, 1e-4, 1e-2] {
            let density = |z: f64| (1.0 - wild) * normal(z) + wild / 24.0;
            for mean in means(wild, density) {
                assert!((mean - 1.0).abs() < 1e-3 + wild, "{wild}: {mean}");
            }
        }
    }

    #[test]
    fn factors_of_slower_residuals_grow() {
        for (shift, least) in [(0.75, 1.7), (1.5, 9.0), (3.0, 1_000.0)] {
            let grown = means(1e-4, |z| normal(z - shift));
            let best = grown.into_iter().fold(0.0, f64::max);
            assert!(best > least, "{shift}: {grown:?}");
        }
    }

    #[test]
    fn one_residual_counts_as_much_as_wild_ones_are_rare() {
        for (wild, most) in [(1e-2, 300.0), (1e-4, 3e4), (1e-6, 3e6)] {
            let huge = factors(1e6, wild)[WIDE];
            assert!(huge < most && huge > 0.8 * most, "{wild}: {huge}");
        }
    }

    #[test]
    fn a_peer_far_within_the_floor_keeps_no_evidence() {
        let mut evidence = Evidence::default();
        evidence.add(0, &factors(9.0, 1e-4), 1.0);
        assert!(evidence.seconds() > 1e3);
        (0..200).for_each(|_| evidence.add(0, &factors(-60.0, 1e-4), 1.0));
        assert!(evidence.seconds() < 0.1, "{}", evidence.seconds());
    }

    #[test]
    fn evidence_of_shares_is_a_whole() {
        assert!((SHARES.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        let norms = SHIFTS.map(|shift: f64| (-0.5 * shift * shift).exp());
        norms.iter().zip(NORMS).for_each(|(norm, is)| assert!((norm - is).abs() < 1e-15));
        let mut evidence = Evidence::default();
        (0..10).for_each(|_| evidence.add(0, &[1.0; ALTERNATIVES], 2.0));
        assert!((evidence.seconds() - 20.0).abs() < 1e-9);
    }
}
