//! All random numbers of a run, from one seed: the same seed always draws the same numbers.
//!
//! DESIGN D14.

use std::ops::RangeInclusive;

use plimsoll_schemas::random::SplitMix64;

/// A generator of numbers. Every seed is a good one, and forks do not overlap.
#[derive(Clone, Debug)]
pub struct Rng(SplitMix64);

impl Rng {
    /// A generator for one purpose of one seed, so that one purpose's draws do not shift another's.
    pub fn new(seed: u64, purpose: u64) -> Self {
        let mut rng = Self(SplitMix64(seed ^ purpose.wrapping_mul(0xd134_2543_de82_ef95)));
        rng.bits();
        rng
    }

    pub fn bits(&mut self) -> u64 {
        self.0.bits()
    }

    /// A number below `n`, which must not be zero.
    pub fn below(&mut self, n: u64) -> u64 {
        let wide = u128::from(self.bits()) * u128::from(n);
        u64::try_from(wide >> 64).unwrap_or(0)
    }

    /// A number within the range.
    pub fn within(&mut self, range: RangeInclusive<u64>) -> u64 {
        range.start() + self.below(range.end() - range.start() + 1)
    }

    /// True with this chance in a thousand.
    pub fn chance(&mut self, permille: u64) -> bool {
        self.below(1_000) < permille
    }

    /// A place in a list of `len`, which must not be empty.
    pub fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap_or(0)
    }

    pub fn one_of<T: Copy, const N: usize>(&mut self, choices: [T; N]) -> T {
        choices[self.index(N)]
    }

    /// A span that is mostly short and sometimes up to `max`: each tenth of it as likely as
    /// the next power of two.
    pub fn span(&mut self, min: u64, max: u64) -> u64 {
        let doublings = (max / min.max(1)).max(1).ilog2();
        let top = min << self.below(u64::from(doublings) + 1);
        self.within(min..=top.max(min).min(max))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_throws_the_same_numbers_and_another_purpose_others() {
        let draws = |mut rng: Rng| -> Vec<u64> { (0..50).map(|_| rng.below(1_000)).collect() };
        assert_eq!(draws(Rng::new(7, 1)), draws(Rng::new(7, 1)));
        assert_ne!(draws(Rng::new(7, 1)), draws(Rng::new(7, 2)));
        assert_ne!(draws(Rng::new(7, 1)), draws(Rng::new(8, 1)));
    }

    #[test]
    fn numbers_stay_in_range_and_reach_both_ends() {
        let mut rng = Rng::new(1, 1);
        let drawn: Vec<u64> = (0..1_000).map(|_| rng.within(3..=9)).collect();
        assert_eq!((drawn.iter().min(), drawn.iter().max()), (Some(&3), Some(&9)));
        let spans: Vec<u64> = (0..1_000).map(|_| rng.span(10, 5_000)).collect();
        assert!(spans.iter().all(|span| (10..=5_000).contains(span)));
        assert!(spans.iter().any(|span| *span > 2_000) && spans.iter().any(|span| *span < 20));
    }
}
