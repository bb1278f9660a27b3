//! How the excess of healthy peers varies, learned from all peers of a cohort and from their past.
//!
//! The level of a block is predicted from the level just before it: what is left, the residual,
//! depends on its past far less than the level does. Where it still does, sums of eight residuals
//! vary more than eight times as much as one, and by that factor more variance is allowed for (the
//! idea of A179 for counts over a limit). Wild residuals have a share of their own, and the mean of
//! each factor of evidence over the cohort's own past is held at one.

use crate::evidence::{Factors, factors};
use crate::limits::{
    BLOCK_BINS, CLIPPED_AT, FLOOR, GROUP_BLOCKS, LEARNED_BINS, LEARNED_BLOCKS, NOISE_KEPT,
    NOISE_MIN, RECENT_BLOCKS, WILD_FROM,
};
use crate::order::median;

/// The share of the level before a block that is left in the block, at most.
const CARRIED_MAX: f64 = 0.98;
/// The level before a block, in its standard deviations, at most.
const BEFORE_MAX: f64 = 5.0;
/// The noise of the moment counts if its deviation is higher by this factor: 2.5 standard errors.
const LOUDER: f64 = 1.25;
/// The median size of a standard normal value.
const MEDIAN_SIZE: f64 = 0.674_489_75;

/// Level of a block and the level before it, as excess over the median peer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Block {
    pub(crate) level: f64,
    pub(crate) before: f64,
}

/// A peer that is healthy: its mean excess, and its variance as a multiple of that of all peers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Healthy {
    pub(crate) mean: f64,
    pub(crate) variance: f64,
}

/// What was learned so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Noise {
    bins: f64,
    seen: Seen,
    /// The deviation of the moment, over the last [`RECENT_BLOCKS`].
    recent: f64,
    /// Of the bin that is being learned, the size of each residual.
    sizes: Vec<f64>,
}

/// Sums over peers' blocks, of which older ones weigh less.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    blocks: f64,
    before_squares: f64,
    before_level: f64,
    squares: f64,
    groups: f64,
    /// Of each group the square of its sum, divided by its blocks.
    group_squares: f64,
    wild: f64,
    factors: Factors,
}

/// What the noise is taken to be while one bin is judged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Model {
    carried: f64,
    before_max: f64,
    /// The standard deviation of a residual; infinite until there are two blocks.
    deviation: f64,
    /// The same with all that is allowed for, with which evidence is computed.
    allowed: f64,
    wild: f64,
    means: Factors,
    is_learned: bool,
}

impl Noise {
    pub(crate) fn model(&self) -> Model {
        let Seen { blocks, before_squares, before_level, squares, .. } = self.seen;
        let carried =
            (before_level / before_squares.max(f64::MIN_POSITIVE)).clamp(0.0, CARRIED_MAX);
        let learned = (squares / blocks.max(1.0)).sqrt().max(NOISE_MIN);
        let is_known = blocks >= 2.0;
        let deviation = if is_known { learned } else { f64::INFINITY };
        let before = (before_squares / blocks.max(1.0)).sqrt().max(NOISE_MIN);

        // An upper bound of the variance: blocks overlap, and each peer's own mean is estimated
        // too, over few bins at first.
        let independent = blocks / BLOCK_BINS as f64;
        let unsure = 2.0 * (2.0 / independent.max(1.0)).sqrt() + 20.0 / self.bins.max(1.0);
        let louder = if self.recent > LOUDER * deviation { self.recent } else { deviation };
        let allowed = louder * (self.beyond_blocks() * (1.0 + unsure)).sqrt();

        Model {
            carried,
            before_max: if is_known { BEFORE_MAX * before } else { f64::INFINITY },
            deviation,
            allowed,
            wild: (self.seen.wild + BLOCK_BINS as f64) / (blocks + BLOCK_BINS as f64),
            means: self.seen.factors.map(|sum| (sum / blocks.max(1.0)).max(1.0)),
            is_learned: independent >= LEARNED_BLOCKS && self.bins >= LEARNED_BINS,
        }
    }

    /// How many times the variance of independent residuals that of a sum of them is, at least 1.
    fn beyond_blocks(&self) -> f64 {
        let Seen { groups, group_squares, blocks, squares, .. } = self.seen;
        let single = squares / blocks.max(1.0);
        if groups > 0.0 && single > 0.0 { (group_squares / groups / single).max(1.0) } else { 1.0 }
    }

    /// Adds a healthy peer's block; returns its residual in standard deviations.
    pub(crate) fn learn(&mut self, model: &Model, block: Block, peer: Healthy) -> f64 {
        let residual = model.residual(block, peer);
        let before = model.before(block, peer);
        // Limited as the level before it: the onset of an excess is no correlation.
        let level = model.limited(block.level, peer);
        let most = CLIPPED_AT * model.deviation;
        let clipped = residual.clamp(-most, most);
        self.sizes.push(residual.abs());

        let seen = &mut self.seen;
        seen.blocks += 1.0;
        seen.before_squares += before * before;
        seen.before_level += before * level;
        seen.squares += clipped * clipped;
        if model.allowed.is_finite() {
            let z = model.judged(residual, peer);
            seen.wild += f64::from(u8::from(z.abs() > WILD_FROM));
            let found = factors(z, model.wild);
            seen.factors.iter_mut().zip(found).for_each(|(sum, factor)| *sum += factor);
        }
        model.standard(block, peer)
    }

    /// Adds a group of a peer's blocks in a row by the sum of their residuals, in standard
    /// deviations.
    pub(crate) fn learn_group(&mut self, model: &Model, sum: f64) {
        let sum = sum * model.deviation;
        self.seen.groups += 1.0;
        self.seen.group_squares += sum * sum / f64::from(GROUP_BLOCKS);
    }

    /// Ends a bin of all peers.
    pub(crate) fn end_bin(&mut self) {
        self.bins = self.bins * NOISE_KEPT + 1.0;
        self.seen.fade();
        let gain = (self.sizes.len() as f64 / RECENT_BLOCKS).min(1.0);
        if let Some(size) = median(&mut self.sizes) {
            self.recent += gain * (size / MEDIAN_SIZE - self.recent);
        }
        self.sizes.clear();
    }
}

impl Seen {
    fn fade(&mut self) {
        let Self {
            blocks,
            before_squares,
            before_level,
            squares,
            groups,
            group_squares,
            wild,
            factors,
        } = self;
        let sums = [blocks, before_squares, before_level, squares, groups, group_squares, wild];
        sums.into_iter().chain(factors).for_each(|sum| *sum *= NOISE_KEPT);
    }
}

impl Model {
    /// What is left of a block's level beyond what such a peer shows.
    fn residual(&self, block: Block, peer: Healthy) -> f64 {
        (block.level - peer.mean) - self.carried * self.before(block, peer)
    }

    /// The level before a block, limited: two wild bins of three would predict anything.
    fn before(&self, block: Block, peer: Healthy) -> f64 {
        self.limited(block.before, peer)
    }

    fn limited(&self, level: f64, peer: Healthy) -> f64 {
        let most = self.before_max * peer.variance.sqrt();
        (level - peer.mean).clamp(-most, most)
    }

    /// The factors of evidence against the peer, whose variance is this many times that of all;
    /// `None` until the noise is known.
    pub(crate) fn evidence(&self, block: Block, variance: f64) -> Option<Factors> {
        if !self.is_learned {
            return None;
        }
        let peer = Healthy { mean: FLOOR, variance };
        let mut found = factors(self.judged(self.residual(block, peer), peer), self.wild);
        found.iter_mut().zip(self.means).for_each(|(factor, mean)| *factor /= mean);
        Some(found)
    }

    /// A residual in standard deviations of all peers.
    pub(crate) fn standard(&self, block: Block, peer: Healthy) -> f64 {
        self.residual(block, peer) / self.deviation
    }

    /// A residual in the standard deviations with which evidence is computed.
    fn judged(&self, residual: f64, peer: Healthy) -> f64 {
        residual / (self.allowed * peer.variance.sqrt())
    }

    /// Whether an excess is this far from what it is compared with by accident.
    pub(crate) fn is_wild(&self, difference: f64) -> bool {
        difference.abs() > WILD_FROM * self.deviation
    }

    /// The standard error of the mean excess over this many bins of a peer.
    pub(crate) fn error(&self, bins: f64, variance: f64) -> f64 {
        let of_level = self.allowed / (1.0 - self.carried);
        of_level * (variance * BLOCK_BINS as f64 / bins.max(1.0)).sqrt()
    }

    pub(crate) fn is_learned(&self) -> bool {
        self.is_learned
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::random::SplitMix64;

    use super::*;
    use crate::evidence::Evidence;
    use crate::limits::BEFORE_BINS;

    const PEERS: usize = 50;
    const BINS: usize = 4_000;

    /// Of each peer the excess by bin: AR(1) of deviation 0.05 round this mean.
    fn peers(correlation: f64, mean: f64, seed: u64) -> Vec<Vec<f64>> {
        let mut random = SplitMix64(seed);
        let mut normal = move || (0..12).map(|_| random.unit()).sum::<f64>() - 6.0;
        let fresh = (1.0 - correlation * correlation).sqrt();
        let mut peer = || {
            let mut state = normal();
            let mut next = || {
                state = correlation * state + fresh * normal();
                mean + 0.05 * state
            };
            (0..BINS).map(|_| next()).collect()
        };
        (0..PEERS).map(|_| peer()).collect()
    }

    fn block(peer: &[f64], bin: usize) -> Block {
        let start = bin + 1 - BLOCK_BINS;
        let of = |from: usize, to: usize| median(&mut peer[from..to].to_vec()).unwrap();
        Block { level: of(start, bin + 1), before: of(start - BEFORE_BINS, start) }
    }

    fn learned(correlation: f64) -> Noise {
        let mut noise = Noise::default();
        let healthy = Healthy { mean: 0.0, variance: 1.0 };
        let peers = peers(correlation, 0.0, 1);
        let mut groups = [0.0; PEERS];
        for bin in BLOCK_BINS + BEFORE_BINS..BINS {
            let model = noise.model();
            let number = bin / BLOCK_BINS;
            for (peer, group) in peers.iter().zip(&mut groups) {
                let residual = noise.learn(&model, block(peer, bin), healthy);
                if bin.is_multiple_of(BLOCK_BINS) {
                    *group += residual;
                    if number.is_multiple_of(usize::from(GROUP_BLOCKS)) {
                        noise.learn_group(&model, std::mem::take(group));
                    }
                }
            }
            noise.end_bin();
        }
        noise
    }

    #[test]
    fn noise_is_that_of_the_process() {
        // The median of five independent ones has a deviation of 0.54 of theirs.
        for (correlation, carried, deviation) in
            [(0.0, 0.0..0.03, 0.026..0.028), (0.8, 0.42..0.55, 0.034..0.038)]
        {
            let noise = learned(correlation);
            let model = noise.model();
            assert!(carried.contains(&model.carried), "{correlation}: {model:?}");
            assert!(deviation.contains(&model.deviation), "{correlation}: {model:?}");
            assert!(noise.beyond_blocks() < 1.2, "{correlation}: {}", noise.beyond_blocks());
            assert!(model.wild < 1e-3 && model.is_learned, "{correlation}: {model:?}");
        }
    }

    /// How many peers at the floor have a hundred times the evidence that is expected at most.
    fn beyond_expectation(model: &Model, correlation: f64) -> usize {
        let count = |peer: &Vec<f64>| {
            let mut evidence = Evidence::default();
            let mut most: f64 = 0.0;
            for bin in BLOCK_BINS + BEFORE_BINS..BINS {
                let factors = model.evidence(block(peer, bin), 1.0).unwrap();
                evidence.add(bin % BLOCK_BINS, &factors, 1.0);
                most = most.max(evidence.seconds());
            }
            most > 100.0 * BINS as f64
        };
        let all = (2..6).flat_map(|seed| peers(correlation, FLOOR, seed));
        all.filter(count).count()
    }

    #[test]
    fn evidence_keeps_its_bound_only_with_the_allowance_for_dependence() {
        let of = 4 * PEERS;
        let model = learned(0.95).model();
        let with = beyond_expectation(&model, 0.95);
        // At most one in a hundred is expected: two.
        assert!(with <= 5, "{with} of {of}");
        let without = Model { carried: 0.0, ..model };
        let without = beyond_expectation(&without, 0.95);
        assert!(without > of / 4, "{without} of {of}");
    }

    #[test]
    fn noise_of_the_moment_counts_when_it_is_louder() {
        let mut noise = learned(0.0);
        let before = noise.model().allowed;
        noise.sizes = vec![0.1; 400];
        noise.end_bin();
        let ratio = noise.model().allowed / before;
        assert!((0.1 / MEDIAN_SIZE / 0.027 - ratio).abs() < 0.4, "{ratio}");
    }
}
