//! Points on a plane that lie along three spiral arms: the class of a point is its arm.
//!
//! Made from a seed, never read from anywhere. No straight line parts the arms, so a network
//! that tells them apart has learnt something.

use std::f32::consts::TAU;

use crate::rng::Generator;

/// Arms, and with them classes.
pub const CLASSES: usize = 3;
/// Points to train on.
pub const TRAINING_POINTS: usize = 600;
/// Points held back to judge the network.
pub const VALIDATION_POINTS: usize = 300;
/// How far an arm winds, in turns.
const TURNS: f32 = 0.6;
/// Deviation of a point's angle from its arm, in radians.
const SPREAD: f32 = 0.12;

/// One point and the arm that it lies on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Where it lies; within about 1 of the origin.
    pub at: [f32; 2],
    /// Its class, below [`CLASSES`].
    pub class: usize,
}

/// All points, parted for good into those to learn from and those to be judged by.
#[derive(Clone, Debug, PartialEq)]
pub struct Dataset {
    /// Points to train on.
    pub training: Vec<Point>,
    /// Points that training never sees.
    pub validation: Vec<Point>,
}

impl Dataset {
    /// The points that belong to `rng`'s seed; classes are equally frequent over both parts.
    #[must_use]
    pub fn spirals(rng: &mut Generator) -> Self {
        let count = TRAINING_POINTS + VALIDATION_POINTS;
        let mut training: Vec<Point> = (0..count).map(|n| spiral(n % CLASSES, rng)).collect();
        rng.shuffle(&mut training);
        let validation = training.split_off(TRAINING_POINTS);
        Self { training, validation }
    }
}

fn spiral(class: usize, rng: &mut Generator) -> Point {
    let radius = 0.1 + 0.9 * rng.unit();
    let arm = class as f32 / CLASSES as f32;
    let angle = TAU * (arm + TURNS * radius) + SPREAD * rng.normal();
    Point { at: [radius * angle.cos(), radius * angle.sin()], class }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_fixes_the_points_and_another_seed_makes_others() {
        let made = |seed| Dataset::spirals(&mut Generator::new(seed, 0));
        assert_eq!(made(1), made(1));
        assert_ne!(made(1), made(2));
    }

    #[test]
    fn points_are_parted_and_classes_equally_frequent() {
        let Dataset { training, validation } = Dataset::spirals(&mut Generator::new(3, 0));
        assert_eq!((training.len(), validation.len()), (TRAINING_POINTS, VALIDATION_POINTS));
        for class in 0..CLASSES {
            let all = training.iter().chain(&validation);
            assert_eq!(all.filter(|point| point.class == class).count(), 300);
        }
        assert!(validation.iter().all(|point| !training.contains(point)));
    }
}
