//! One peer of a cohort: its open intervals, its last bins, its own noise and its evidence.

use crate::evidence::Evidence;
use crate::limits::{
    BEFORE_BINS, BLOCK_BINS, BLOCK_BINS_MIN, CLIPPED_AT, GROUP_BLOCKS, MEAN_BINS, TEACHES_BELOW,
};
use crate::noise::{Block, Healthy, Model, Noise};
use crate::order::median;
use crate::report::{Interval, Peer, StepTimes};
use crate::ring::Ring;
use crate::suspicion::Suspicion;

/// Bins that a peer needs before it teaches: its own mean must be known.
const TEACHES_FROM_BINS: u32 = 15;
/// How fast the variance of a peer's own noise is learned: slowly and exactly, or at once if it has
/// become much higher. Both are ratios to the variance of all peers.
const SLOW_GAIN: f64 = 1.0 / 1_200.0;
const FAST_GAIN: f64 = 1.0 / 120.0;
/// A fast ratio up to this is chance, or the onset of a culprit: four standard errors.
const FAST_FROM: f64 = 2.0;
/// Residuals beyond as many standard deviations of all peers count as these.
const RESIDUAL_MAX: f64 = 4.5;

/// A peer and all that is kept of it.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) peer: Peer,
    pub(crate) last_report: Interval,
    open: Ring<Option<StepTimes>>,
    /// The bin that is being filled.
    pub(crate) bin: StepTimes,
    bins: Ring<Option<Observed>>,
    own: OwnNoise,
    pub(crate) evidence: Evidence,
    pub(crate) suspicion: Suspicion,
}

const _: () = assert!(size_of::<Member>() <= 1_280, "limits.rs states it");

/// A peer in one bin.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Observed {
    excess: f64,
    steps: f64,
}

/// What a peer's own past shows. It is used to learn, and to allow for a peer that varies more than
/// others, never to shift what it is compared with.
#[derive(Clone, Copy, Debug)]
struct OwnNoise {
    mean: f64,
    bins: u32,
    last_residuals: [Option<f64>; BLOCK_BINS],
    slow: f64,
    fast: f64,
    group_sum: f64,
    group_blocks: u8,
}

impl Member {
    pub(crate) fn new(peer: Peer, at: Interval) -> Self {
        Self {
            peer,
            last_report: at,
            open: Ring::filled(None),
            bin: StepTimes::default(),
            bins: Ring::filled(None),
            own: OwnNoise::NONE,
            evidence: Evidence::default(),
            suspicion: Suspicion::Healthy,
        }
    }

    /// Adds a report of an interval that is open.
    pub(crate) fn report(&mut self, at: Interval, times: &StepTimes) {
        self.open.at_mut(at.0).get_or_insert_default().merge(times);
        self.last_report = self.last_report.max(at);
    }

    pub(crate) fn has_reported(&self, at: Interval) -> bool {
        self.open.at(at.0).is_some()
    }

    /// Moves an interval into the bin that is being filled.
    pub(crate) fn close_interval(&mut self, at: Interval) {
        if let Some(times) = self.open.at_mut(at.0).take() {
            self.bin.merge(&times);
        }
    }

    /// Ends the bin of this number with the excess that it showed, if it showed any.
    pub(crate) fn close_bin(&mut self, number: u64, excess: Option<f64>) {
        let steps = self.bin.steps() as f64;
        *self.bins.at_mut(number) = excess.map(|excess| Observed { excess, steps });
        self.bin = StepTimes::default();
    }

    /// Steps within the block that ends with this bin.
    pub(crate) fn block_steps(&self, number: u64) -> f64 {
        self.last(number, 0, BLOCK_BINS).map(|observed| observed.steps).sum()
    }

    /// The level of that block and the level before it, unless too many bins are missing.
    pub(crate) fn block(&self, number: u64) -> Option<Block> {
        let mut buffer = [0.0; BLOCK_BINS];
        let values = filled(&mut buffer, self.last(number, 0, BLOCK_BINS));
        let level = median(values).filter(|_| values.len() >= BLOCK_BINS_MIN)?;
        let before = median(filled(&mut buffer, self.last(number, BLOCK_BINS, BEFORE_BINS)))?;
        Some(Block { level, before })
    }

    /// What is known of the last bins before the one of this number, newest first.
    fn last(&self, number: u64, skip: usize, bins: usize) -> impl Iterator<Item = &Observed> {
        let numbers = (skip..skip + bins).filter_map(move |back| number.checked_sub(back as u64));
        numbers.filter_map(|number| self.bins.at(number).as_ref())
    }

    /// The variance of its noise as a multiple of that of all peers, at least 1.
    pub(crate) fn own_variance(&self) -> f64 {
        let fast = if self.own.fast > FAST_FROM { self.own.fast } else { 1.0 };
        self.own.slow.max(fast)
    }

    /// Learns the peer's own noise from a block, and that of all unless the peer may be a culprit.
    pub(crate) fn teach(&mut self, model: &Model, phase: usize, block: Block, noise: &mut Noise) {
        // The excess of a culprit is no noise of its own: learned as such it would hide the next
        // incident, and widen the interval until this one could not be shown to be over.
        if self.suspicion.name().is_some() {
            self.own.last_residuals = [None; BLOCK_BINS];
            return;
        }
        let is_known = self.own.bins >= TEACHES_FROM_BINS;
        self.own.observe(block.level);
        if !is_known {
            return;
        }
        let healthy = Healthy { mean: self.own.mean, variance: self.own_variance() };
        if self.evidence.seconds() >= TEACHES_BELOW {
            self.own.on_residual(phase, model.standard(block, healthy));
            return;
        }
        let standard = noise.learn(model, block, healthy);
        if let Some(sum) = self.own.on_residual(phase, standard) {
            noise.learn_group(model, sum);
        }
    }

    /// Starts anew after a pause of the whole cohort: blocks do not reach over it.
    pub(crate) fn clear_bins(&mut self) {
        self.bins = Ring::filled(None);
        self.own.last_residuals = [None; BLOCK_BINS];
        self.bin = StepTimes::default();
    }
}

impl OwnNoise {
    const NONE: Self = Self {
        mean: 0.0,
        bins: 0,
        last_residuals: [None; BLOCK_BINS],
        slow: 1.0,
        fast: 1.0,
        group_sum: 0.0,
        group_blocks: 0,
    };

    fn observe(&mut self, level: f64) {
        self.bins = self.bins.saturating_add(1);
        let gain = (1.0 / f64::from(self.bins)).max(1.0 / MEAN_BINS);
        self.mean += gain * (level - self.mean);
    }

    /// Learns from a residual in standard deviations; returns the sum of a group that is full.
    fn on_residual(&mut self, phase: usize, standard: f64) -> Option<f64> {
        // Differences, so that a peer that has become slower does not look like one that varies.
        let standard = standard.clamp(-RESIDUAL_MAX, RESIDUAL_MAX);
        if let Some(last) = self.last_residuals[phase].replace(standard) {
            let square = 0.5 * (standard - last) * (standard - last);
            self.slow += SLOW_GAIN * (square - self.slow);
            self.fast += FAST_GAIN * (square - self.fast);
        }

        if phase != 0 {
            return None;
        }
        self.group_sum += standard.clamp(-CLIPPED_AT, CLIPPED_AT);
        self.group_blocks += 1;
        let is_full = self.group_blocks == GROUP_BLOCKS;
        is_full.then(|| {
            self.group_blocks = 0;
            std::mem::take(&mut self.group_sum)
        })
    }
}

/// The values at the front of a buffer.
fn filled<'b>(
    buffer: &'b mut [f64; BLOCK_BINS],
    observed: impl Iterator<Item = &'b Observed>,
) -> &'b mut [f64] {
    let mut count = 0;
    for (place, observed) in buffer.iter_mut().zip(observed) {
        *place = observed.excess;
        count += 1;
    }
    &mut buffer[..count]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::OPEN_INTERVALS_MAX;

    fn after(excess: &[Option<f64>]) -> Member {
        let mut member = Member::new(Peer(1), Interval(0));
        for (number, excess) in (0..).zip(excess) {
            member.report(Interval(number), &StepTimes::new(2));
            member.close_interval(Interval(number));
            member.close_bin(number, *excess);
        }
        member
    }

    #[test]
    fn a_block_is_the_median_of_five_bins_after_that_of_three() {
        let some = |values: &[f64]| values.iter().copied().map(Some).collect::<Vec<_>>();
        let gaps = |values: &[f64], missing: &[usize]| {
            let of = |(at, value): (usize, &f64)| (!missing.contains(&at)).then_some(*value);
            values.iter().enumerate().map(of).collect::<Vec<_>>()
        };
        let values = [0.25, 0.75, 9.0, 1.0, 2.0, 9.0, 4.0, 0.0];
        for (excess, expected) in [
            (some(&values), Some((2.0, 0.75))),
            (some(&values[..7]), Some((4.0, 0.5))),
            (some(&values[..5]), None),
            (gaps(&values, &[5, 6]), Some((1.0, 0.75))),
            (gaps(&values, &[3, 5, 6]), None),
            (gaps(&values, &[0, 1]), Some((2.0, 9.0))),
            (gaps(&values, &[0, 1, 2]), None),
        ] {
            let number = excess.len() as u64 - 1;
            let found = after(&excess).block(number).map(|block| (block.level, block.before));
            assert_eq!(found, expected, "{excess:?}");
        }
    }

    #[test]
    fn steps_of_a_block_are_those_of_its_bins() {
        let member = after(&[Some(0.0); 8]);
        assert_eq!(member.block_steps(7), 10.0);
        assert_eq!(after(&[None; 8]).block_steps(7), 0.0);
    }

    #[test]
    fn a_peer_that_varies_twice_as_much_has_four_times_the_variance() {
        for (times, expected) in [(1.0, 1.0..1.2), (2.0, 3.2..4.5)] {
            let mut own = OwnNoise::NONE;
            let mut random = plimsoll_schemas::random::SplitMix64(7);
            for number in 0..3_000 {
                // Twelve uniform ones: a deviation of one.
                let normal = (0..12).map(|_| random.unit()).sum::<f64>() - 6.0;
                own.on_residual(number % BLOCK_BINS, times * normal);
            }
            let member = Member { own, ..Member::new(Peer(1), Interval(0)) };
            assert!(expected.contains(&member.own_variance()), "{}", member.own_variance());
        }
    }

    #[test]
    fn reports_of_open_intervals_add_up() {
        let mut member = Member::new(Peer(1), Interval(0));
        for at in 0..OPEN_INTERVALS_MAX as u64 {
            member.report(Interval(at), &StepTimes::new(at));
            member.report(Interval(at), &StepTimes::new(1));
        }
        member.close_interval(Interval(3));
        member.close_interval(Interval(3));
        assert_eq!((member.bin.steps(), member.has_reported(Interval(3))), (4, false));
        assert_eq!(member.last_report, Interval(7));
    }
}
