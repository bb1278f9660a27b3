//! A seeded generator of numbers, so that a seed alone fixes data, weights and kernels.

use plimsoll_schemas::random::SplitMix64;

/// The generator; the same seed always generates the same numbers.
#[derive(Clone, Debug)]
pub struct Generator(SplitMix64);

impl Generator {
    /// A generator for one `purpose`: two purposes under one seed share no numbers.
    pub fn new(seed: u64, purpose: u64) -> Self {
        Self(SplitMix64(SplitMix64(seed).bits() ^ SplitMix64(purpose).bits()))
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.bits()
    }

    /// Uniform in `0.0..1.0`, one excluded, in steps of 24 bits: an f32 resolves no more near one.
    pub fn unit(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1_u32 << 24) as f32
    }

    /// Uniform in `0..end`; `end` must not be zero.
    pub fn below(&mut self, end: usize) -> usize {
        let drawn = self.bits() % end as u64;
        usize::try_from(drawn).expect("it is below a usize")
    }

    /// Puts `items` into random order (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_stay_in_their_range(seed: u64, end in 1_usize..10_000) {
            let mut rng = Generator::new(seed, 0);
            prop_assert!(rng.below(end) < end);
            prop_assert!((0.0..1.0).contains(&rng.unit()));
        }

        #[test]
        fn purposes_of_one_seed_differ(seed: u64) {
            prop_assert_ne!(Generator::new(seed, 1).bits(), Generator::new(seed, 2).bits());
        }

        #[test]
        fn shuffling_loses_nothing(seed: u64, mut items in prop::collection::vec(0_u8..9, 0..40)) {
            let mut shuffled = items.clone();
            Generator::new(seed, 0).shuffle(&mut shuffled);
            items.sort_unstable();
            shuffled.sort_unstable();
            prop_assert_eq!(items, shuffled);
        }
    }
}
