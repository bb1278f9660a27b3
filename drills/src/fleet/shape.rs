//! Latencies of one operation of one node: a lognormal distribution with its own median and spread,
//! a tail, and for some nodes a second mode.
//!
//! Drawing one costs a table look-up and a few integer operations, because a fleet of ten
//! thousand draws a million and a half of them a second beside the broker that it measures.

use crate::sim::rng::Rng;

/// Steps of an inverse distribution function.
const STEPS: usize = 4_096;
/// Spreads to choose from: standard deviations of the logarithm.
const SPREADS: [f64; 4] = [0.03, 0.06, 0.10, 0.16];
/// One, in the fixed point of factors.
const ONE: u64 = 1 << 16;
/// Spread of the nodes' medians: standard deviation of the logarithm.
const PLACE_SPREAD: f64 = 0.12;

/// Factors to a median, ascending, by spread.
pub struct Tables([Vec<u64>; SPREADS.len()]);

impl Tables {
    /// Computes them once for a whole fleet.
    pub fn new() -> Self {
        Self(SPREADS.map(|spread| (0..=STEPS).map(|step| factor(spread, step)).collect()))
    }
}

impl Default for Tables {
    fn default() -> Self {
        Self::new()
    }
}

/// The factor at one step of a lognormal distribution with median 1.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a few thousand steps, and factors between 0.3 and 3"
)]
fn factor(spread: f64, step: usize) -> u64 {
    let share = (step as f64 + 0.5) / (STEPS as f64 + 1.0);
    ((spread * normal(share)).exp() * ONE as f64).round() as u64
}

/// The standard normal quantile of `share`, within 0.0005 (Abramowitz and Stegun 26.2.23).
fn normal(share: f64) -> f64 {
    let tail = share.min(1.0 - share);
    let t = (-2.0 * tail.ln()).sqrt();
    let above = 2.515_517 + t * (0.802_853 + t * 0.010_328);
    let below = 1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308));
    let z = t - above / below;
    if share < 0.5 { -z } else { z }
}

/// What kind of machine a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Temper {
    Usual,
    /// Everything takes two and a half times as long.
    Slow,
    /// Three samples in ten take 1.7 times as long.
    Bimodal,
}

impl Temper {
    /// One node in 400 is slow, one in 100 bimodal.
    pub fn draw(rng: &mut Rng) -> Self {
        match rng.below(400) {
            0 => Self::Slow,
            1..=4 => Self::Bimodal,
            _ => Self::Usual,
        }
    }
}

/// One operation's latencies on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    median_ns: u64,
    spread: usize,
    /// Samples in [`ONE`] that are in the tail, and how much longer those take.
    tail: (u64, u64),
    /// Samples in [`ONE`] that are in the second hump, and how much longer those take.
    hump: (u64, u64),
}

impl Shape {
    /// A shape around `median_ns`, drawn for one node.
    pub fn draw(rng: &mut Rng, tables: &Tables, median_ns: u64, temper: Temper) -> Self {
        let wide = SPREADS.len() - 1;
        let place = tables.0[0][rng.index(STEPS + 1)];

        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "nanoseconds of milliseconds, scaled by factors near 1"
        )]
        let scaled = {
            let exponent = PLACE_SPREAD / SPREADS[0];
            (median_ns as f64 * (place as f64 / ONE as f64).powf(exponent)) as u64
        };

        let (slower, hump) = match temper {
            Temper::Usual => (ONE, (0, ONE)),
            Temper::Slow => (ONE * 5 / 2, (0, ONE)),
            Temper::Bimodal => (ONE, (ONE * 3 / 10, ONE * 17 / 10)),
        };

        Self {
            median_ns: scaled * slower / ONE,
            spread: rng.index(wide + 1),
            tail: (rng.within(60..=400), ONE * rng.within(15..=35) / 10),
            hump,
        }
    }

    /// One latency in nanoseconds.
    pub fn sample(&self, rng: &mut Rng, tables: &Tables) -> u64 {
        let word = rng.bits();
        let table = &tables.0[self.spread];
        let step = usize::try_from(word >> 52).unwrap_or(0);
        let between = (word >> 36) & (ONE - 1);
        let factor = table[step] + (((table[step + 1] - table[step]) * between) >> 16);
        let mut ns = (self.median_ns * factor) >> 16;
        if word & (ONE - 1) < self.tail.0 {
            ns = (ns * self.tail.1) >> 16;
        }
        if (word >> 16) & (ONE - 1) < self.hump.0 {
            ns = (ns * self.hump.1) >> 16;
        }
        ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(seed: u64, temper: Temper) -> Vec<u64> {
        let (tables, mut rng) = (Tables::new(), Rng::new(seed, 0));
        let shape = Shape::draw(&mut rng, &tables, 6_000_000, temper);
        let mut samples: Vec<u64> = (0..20_000).map(|_| shape.sample(&mut rng, &tables)).collect();
        samples.sort_unstable();
        samples
    }

    #[test]
    fn the_normal_quantile_is_that_of_the_tables() {
        for (share, z) in [(0.5, 0.0), (0.9, 1.2816), (0.99, 2.3263), (0.001, -3.0902)] {
            assert!((normal(share) - z).abs() < 5e-4, "{share}: {}", normal(share));
        }
    }

    #[test]
    fn every_seed_has_a_place_of_its_own_and_the_same_one_each_time() {
        let medians: Vec<u64> = (0..20).map(|seed| drawn(seed, Temper::Usual)[10_000]).collect();
        let (low, high) = (medians.iter().min().unwrap(), medians.iter().max().unwrap());
        assert!(*low > 4_000_000 && *high < 9_000_000 && high - low > 500_000, "{medians:?}");
        assert_eq!(drawn(3, Temper::Usual), drawn(3, Temper::Usual));
    }

    #[test]
    fn a_slow_node_is_slow_and_a_bimodal_one_has_two_humps() {
        let usual = drawn(7, Temper::Usual)[10_000];
        let slow = drawn(7, Temper::Slow)[10_000];
        assert!(slow.abs_diff(usual * 5 / 2) < usual / 20, "{slow} {usual}");
        let above = |samples: &[u64]| samples.iter().filter(|ns| **ns > usual * 14 / 10).count();
        assert!(above(&drawn(7, Temper::Bimodal)) > above(&drawn(7, Temper::Usual)) + 3_000);
    }

    #[test]
    fn a_tail_reaches_further_than_the_hump_and_is_rare() {
        let samples = drawn(11, Temper::Usual);
        assert!(samples[19_999] > samples[10_000] * 14 / 10, "{}", samples[19_999]);
        assert!(samples[19_600] < samples[10_000] * 2, "{}", samples[19_600]);
    }
}
