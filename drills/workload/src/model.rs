//! A small classifier, really trained: logistic regression that learns which of two rings a point
//! lies on. The same seed and kernels produce the same model.

use std::f32::consts::TAU;

use crate::kernels::Kernel;
use crate::rng::Generator;

/// Points to train on, and points held back to judge the model.
const TRAINING_POINTS: usize = 2_000;
const VALIDATION_POINTS: usize = 10_000;
/// Points in one step of the descent.
const BATCH: usize = 20;
const LEARNING_RATE: f32 = 0.3;
/// How far a kernel's noise moves a point along each axis, at most.
const NOISE: f32 = 0.02;

/// A point and whether it lies on the outer ring.
#[derive(Clone, Copy, Debug)]
struct Point {
    at: [f32; 2],
    is_outer: bool,
}

/// The model with its data.
#[derive(Clone, Debug)]
pub struct Model {
    training: Vec<Point>,
    validation: Vec<Point>,
    weights: [f32; 4],
    rng: Generator,
}

impl Model {
    /// An untrained model and the data of a seed.
    pub fn new(seed: u64) -> Self {
        let mut rng = Generator::new(seed, 0);
        let count = TRAINING_POINTS + VALIDATION_POINTS;
        let mut training: Vec<Point> = (0..count).map(|n| point(n % 2 == 0, &mut rng)).collect();
        let validation = training.split_off(TRAINING_POINTS);
        Self { training, validation, weights: [0.0; 4], rng: Generator::new(seed, 2) }
    }

    /// One pass over the training points in random order, each moved by the kernel's noise;
    /// returns their mean loss.
    pub fn train(&mut self, kernel: &Kernel) -> f32 {
        self.rng.shuffle(&mut self.training);
        let mut noise = kernel.noise(self.rng.below(kernel.bytes().len()));
        let mut moved = |x: f32| x + NOISE * noise.next().unwrap_or_default();
        let mut loss = 0.0;

        for batch in self.training.chunks(BATCH) {
            let mut gradient = [0.0; 4];
            for point in batch {
                let features = features(point.at.map(&mut moved));
                let (wanted, found) = (f32::from(point.is_outer), self.probability(features));
                let right = if point.is_outer { found } else { 1.0 - found };
                loss -= right.max(f32::MIN_POSITIVE).ln();
                for (slope, x) in gradient.iter_mut().zip(features) {
                    *slope += (found - wanted) * x;
                }
            }

            for (weight, slope) in self.weights.iter_mut().zip(gradient) {
                *weight -= LEARNING_RATE * slope / batch.len() as f32;
            }
        }

        loss / TRAINING_POINTS as f32
    }

    /// The share of the points held back that the model classifies correctly.
    pub fn validate(&self) -> f32 {
        let is_right =
            |point: &&Point| (self.probability(features(point.at)) > 0.5) == point.is_outer;
        self.validation.iter().filter(is_right).count() as f32 / VALIDATION_POINTS as f32
    }

    /// The probability that a point lies on the outer ring.
    fn probability(&self, features: [f32; 4]) -> f32 {
        let sum: f32 = self.weights.iter().zip(features).map(|(weight, x)| weight * x).sum();
        1.0 / (1.0 + (-sum).exp())
    }
}

/// A line in these features is a circle in the plane.
fn features([x, y]: [f32; 2]) -> [f32; 4] {
    [1.0, x, y, 4.0 * (x * x + y * y) - 2.0]
}

fn point(is_outer: bool, rng: &mut Generator) -> Point {
    let radius = if is_outer { 0.75 + 0.25 * rng.unit() } else { 0.6 * rng.unit() };
    let angle = TAU * rng.unit();
    Point { at: [radius * angle.cos(), radius * angle.sin()], is_outer }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn training_lowers_the_loss_and_classifies_unseen_points() {
        for seed in 1..4 {
            let mut model = Model::new(seed);
            assert!(model.validate() < 0.6, "{seed}: an untrained model guesses");
            let losses: Vec<f32> =
                (0..30).map(|n| model.train(&Kernel::generate(seed, n % 3))).collect();
            assert!(losses[29] < losses[0] / 3.0, "{seed}: {losses:?}");
            assert!(model.validate() > 0.93, "{seed}: {}", model.validate());
        }
    }

    #[test]
    fn a_seed_fixes_the_model_and_the_kernel_takes_part_in_it() {
        let trained = |seed, number| {
            let mut model = Model::new(seed);
            model.train(&Kernel::generate(9, number));
            model.weights
        };
        assert_eq!(trained(9, 0), trained(9, 0));
        assert_ne!(trained(9, 0), trained(9, 1));
        assert_ne!(trained(9, 0), trained(8, 0));
    }
}
