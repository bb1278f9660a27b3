//! Random numbers from a seed: the same seed draws the same numbers in every process.
//!
//! SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014). Good
//! enough for jitter, resampling and simulation, not for secrets.

/// The generator and its state. Every state is a good seed.
#[derive(Clone, Debug, Default)]
pub struct SplitMix64(pub u64);

impl SplitMix64 {
    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed(self.0)
    }

    /// A number in [0, 1), in steps of 2^-53.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Spreads the bits of a number over all bits.
pub fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// The upper 32 bits as a number in [0, 1).
pub fn share(bits: u64) -> f64 {
    (bits >> 32) as f64 / (1_u64 << 32) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_published_generator() {
        assert_eq!(SplitMix64(0).bits(), 0xe220_a839_7b1d_cdaf);
        let mut random = SplitMix64(1_234_567);
        assert_eq!(
            [random.bits(), random.bits(), random.bits()],
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn parts_of_one_stay_below_one() {
        assert_eq!([share(0), share(1 << 63)], [0.0, 0.5]);
        assert!(share(u64::MAX) < 1.0);
        let mut random = SplitMix64(7);
        assert!((0..1_000).all(|_| (0.0..1.0).contains(&random.unit())));
    }
}
