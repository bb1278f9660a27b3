//! Latencies to be judged: lognormal, drawn one by one, so that their distribution is exact.

/// Of a standard normal distribution, its 0.99 quantile.
const NORMAL_P99: f64 = 2.326_347_874_040_841;

/// The splitmix64 generator.
pub(crate) struct Dice(pub u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Above 0 and at most 1.
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
    fn unit(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    /// Two of mean 0 and deviation 1 (Box and Muller).
    fn normals(&mut self) -> [f64; 2] {
        let radius = (-2.0 * self.unit().ln()).sqrt();
        let (sin, cos) = (std::f64::consts::TAU * self.unit()).sin_cos();
        [radius * cos, radius * sin]
    }

    /// Below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// So many samples every second, whose true p99 is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// An even number, since samples are drawn in pairs.
    pub(crate) per_second: u64,
    /// The deviation of their logarithms.
    pub(crate) sigma: f64,
    /// Their true p99 in nanoseconds.
    pub(crate) p99_ns: f64,
}

impl Load {
    /// The same where every sample takes so many times as long.
    pub(crate) fn times(self, factor: f64) -> Self {
        Self { p99_ns: self.p99_ns * factor, ..self }
    }

    /// The samples of one second in nanoseconds, in place of what `samples` held.
    pub(crate) fn draw(&self, dice: &mut Dice, samples: &mut Vec<u64>) {
        let median = self.p99_ns.ln() - NORMAL_P99 * self.sigma;
        samples.clear();
        for _ in 0..self.per_second / 2 {
            for normal in dice.normals() {
                let latency = (median + self.sigma * normal).exp();
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "> 0")]
                samples.push(latency as u64);
            }
        }
    }
}
