//! Trains the network pass by pass and judges it on points that it never saw.
//!
//! Knows no clock and no file: the same seed and kernels give the same network.

use crate::artefact::Kernel;
use crate::dataset::{CLASSES, Dataset};
use crate::network::{Gradient, Network, Scratch, cross_entropy, likeliest};
use crate::rng::Generator;

/// Widths of the network: 2371 parameters.
pub const SIZES: [usize; 4] = [2, 64, 32, CLASSES];
/// Points in one step of the descent.
const BATCH: usize = 20;
/// The learning rate until a command changes it.
pub const LEARNING_RATE: f32 = 0.3;
/// How far a kernel's noise may move a point along each axis.
const NOISE: f32 = 0.02;

/// How the network does on the points held back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Validation {
    /// Mean loss.
    pub loss: f32,
    /// Share of points whose class was told rightly.
    pub accuracy: f32,
}

/// The network, its data and its way down.
#[derive(Clone, Debug)]
pub struct Trainer {
    data: Dataset,
    network: Network,
    gradient: Gradient,
    scratch: Scratch,
    rng: Generator,
    learning_rate: f32,
}

impl Trainer {
    /// An untrained network and the data that belong to `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let data = Dataset::spirals(&mut Generator::new(seed, 0));
        let network = Network::random(&SIZES, &mut Generator::new(seed, 1));
        Self {
            data,
            gradient: network.gradient(),
            scratch: network.scratch(),
            network,
            rng: Generator::new(seed, 2),
            learning_rate: LEARNING_RATE,
        }
    }

    /// Sets the step of the descent.
    pub fn set_learning_rate(&mut self, rate: f32) {
        self.learning_rate = rate;
    }

    /// Goes once over the training points in random order, each moved by the kernel's noise,
    /// and tells their mean loss.
    pub fn train(&mut self, kernel: &Kernel) -> f32 {
        self.rng.shuffle(&mut self.data.training);
        let mut noise = kernel.noise(self.rng.below(kernel.bytes().len()));
        let mut moved = |x: f32| x + NOISE * noise.next().unwrap_or_default();
        let mut loss = 0.0;
        for batch in self.data.training.chunks(BATCH) {
            for point in batch {
                let at = point.at.map(&mut moved);
                let Self { network, scratch, gradient, .. } = self;
                loss += network.learn(&at, point.class, scratch, gradient);
            }
            self.network.descend(&mut self.gradient, self.learning_rate);
        }
        loss / self.data.training.len() as f32
    }

    /// Goes once over the points held back.
    pub fn validate(&mut self) -> Validation {
        let Self { data, network, scratch, .. } = self;
        let (mut loss, mut right) = (0.0, 0);
        for point in &data.validation {
            let logits = network.logits(&point.at, scratch);
            loss += cross_entropy(logits, point.class);
            right += usize::from(likeliest(logits) == point.class);
        }
        let count = data.validation.len() as f32;
        Validation { loss: loss / count, accuracy: right as f32 / count }
    }

    /// Tells the class of one point drawn at random from those held back.
    pub fn infer(&mut self) -> usize {
        let point = self.data.validation[self.rng.below(self.data.validation.len())];
        likeliest(self.network.logits(&point.at, &mut self.scratch))
    }

    /// The network as it is now.
    #[must_use]
    pub fn network(&self) -> &Network {
        &self.network
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trained(seed: u64, passes: usize) -> (Trainer, Vec<f32>) {
        let mut trainer = Trainer::new(seed);
        let kernels: Vec<Kernel> = (0..3).map(|number| Kernel::generate(seed, number)).collect();
        let losses = (0..passes).map(|pass| trainer.train(&kernels[pass % 3])).collect();
        (trainer, losses)
    }

    #[test]
    fn training_lowers_the_loss_and_tells_unseen_points_rightly() {
        for seed in 1..6 {
            let (mut trainer, losses) = trained(seed, 150);
            let Validation { loss, accuracy } = trainer.validate();
            assert!(losses[149] < losses[0] / 4.0, "{seed}: {} {}", losses[0], losses[149]);
            assert!(accuracy > 0.93, "{seed}: {accuracy} {loss}");
            assert!(loss < 0.25, "{seed}: {loss}");
        }
    }

    #[test]
    fn an_untrained_network_is_no_better_than_a_guess() {
        let accuracy = Trainer::new(1).validate().accuracy;
        assert!(accuracy < 0.6, "{accuracy}");
    }

    #[test]
    fn a_seed_fixes_the_outcome_and_the_kernel_takes_part_in_it() {
        assert_eq!(trained(9, 3).0.network(), trained(9, 3).0.network());
        let with = |number| {
            let mut trainer = Trainer::new(9);
            trainer.train(&Kernel::generate(9, number));
            trainer.network
        };
        assert_ne!(with(0), with(1));
    }

    #[test]
    fn a_learning_rate_of_nearly_nothing_learns_nearly_nothing() {
        let mut trainer = Trainer::new(1);
        let before = trainer.validate().loss;
        trainer.set_learning_rate(1e-9);
        trainer.train(&Kernel::generate(1, 0));
        assert!((trainer.validate().loss - before).abs() < 1e-4);
    }
}
