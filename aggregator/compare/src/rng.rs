//! Random numbers from a fixed seed: the same input gives the same intervals.

/// The generator SplitMix64 (Steele, Lea and Flood 2014).
#[derive(Clone, Debug)]
pub(crate) struct SplitMix(u64);

impl SplitMix {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed(self.0)
    }

    /// A number below `bound`, at most 2^32.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        let high = self.next_u64() >> 32;
        usize::try_from((high * bound as u64) >> 32).unwrap_or_default()
    }
}

/// Spreads the bits of a number over all bits.
pub(crate) fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_reference_and_stay_below_their_bound() {
        let mut rng = SplitMix::new(0);
        assert_eq!(rng.next_u64(), 0xe220_a839_7b1d_cdaf);
        let mut drawn = [0_u32; 7];
        (0..7_000).for_each(|_| drawn[rng.below(7)] += 1);
        assert!(drawn.iter().all(|n| (850..1_150).contains(n)), "{drawn:?}");
    }
}
