//! Simulated runs: lognormal latencies whose samples and whose level over time depend on what came
//! before, as AR(1).

use plimsoll_compare::{BucketLayout, Measured, Side, Slot};
use plimsoll_schemas::histogram::{Histogram, Packed};
use plimsoll_schemas::ids::{NodeName, Operation};
use plimsoll_schemas::random::SplitMix64;

/// What a run does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    /// Nodes, which are independent.
    pub(crate) nodes: u64,
    /// Slots of each node.
    pub(crate) slots: u64,
    /// Samples in each slot.
    pub(crate) per_slot: u64,
    /// Deviation of the samples' logarithms.
    pub(crate) sigma: f64,
    /// How much of the one before each sample has.
    pub(crate) correlation: f64,
    /// Deviation of the logarithm of a slot's level.
    pub(crate) level_sigma: f64,
    /// How much of the slot before each slot's level has.
    pub(crate) level_correlation: f64,
    /// By what all samples are multiplied.
    pub(crate) scale: f64,
}

impl Run {
    /// Independent samples around 10 ms.
    pub(crate) const PLAIN: Self = Self {
        nodes: 1,
        slots: 100,
        per_slot: 100,
        sigma: 0.3,
        correlation: 0.0,
        level_sigma: 0.0,
        level_correlation: 0.0,
        scale: 1.0,
    };

    /// All samples in nanoseconds, by node and slot.
    pub(crate) fn samples(&self, seed: u64) -> Vec<(u64, u64, Vec<u64>)> {
        let mut rng = Rng(SplitMix64(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        let mut all = Vec::new();
        for node in 0..self.nodes {
            let (mut level, mut sample) = (rng.normal(), rng.normal());
            for slot in 0..self.slots {
                level = rng.after(level, self.level_correlation);
                let values = (0..self.per_slot).map(|_| {
                    sample = rng.after(sample, self.correlation);
                    self.value(self.level_sigma * level + self.sigma * sample)
                });
                all.push((node, slot, values.collect()));
            }
        }
        all
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "milliseconds")]
    fn value(&self, logarithm: f64) -> u64 {
        (1e7 * self.scale * logarithm.exp()) as u64
    }

    /// The run as one side with one operation.
    pub(crate) fn side(&self, seed: u64) -> Side {
        let mut measured = Measured::new(BucketLayout::MESH);
        for (node, slot, values) in self.samples(seed) {
            let mut samples = Histogram::default();
            values.iter().for_each(|value| samples.record(*value));
            let node = Some(NodeName::new(format!("n{node}")).expect("a valid name"));
            let samples = Packed::from(&samples);
            measured.slots.push(Slot { node, start_ns: slot, length_ns: 1, samples });
        }
        Side { operations: [(operation(), measured)].into(), ..Side::default() }
    }
}

/// The operation of all runs.
pub(crate) fn operation() -> Operation {
    Operation::new("fetch").expect("a valid name")
}

/// Normal numbers (Box and Muller).
struct Rng(SplitMix64);

impl Rng {
    /// Above 0 and below 1.
    fn uniform(&mut self) -> f64 {
        self.0.unit() + f64::EPSILON / 4.0
    }

    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// The next number of an AR(1) process of variance 1.
    fn after(&mut self, before: f64, correlation: f64) -> f64 {
        correlation * before + (1.0 - correlation * correlation).sqrt() * self.normal()
    }
}
