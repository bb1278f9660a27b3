//! Bytes that look random and are the same in every run: a failure repeats itself.

/// A source of noise (xorshift64*, Vigna 2016), fixed by its seed.
#[derive(Clone, Debug)]
pub struct Noise(u64);

impl Noise {
    /// Noise that is always the same for the same seed.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self(seed.max(1))
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.bits() % bound as u64).unwrap_or_default()
    }

    /// So many bytes.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.bits().to_be_bytes()[0]).collect()
    }
}
