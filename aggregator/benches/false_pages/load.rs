//! Latencies to be judged: lognormal, drawn one by one, so that their distribution is exact; also
//! correlated with the one before, with a daily season, with seconds in which all are slow, or with
//! a part that all of one second share.

use plimsoll_schemas::random::SplitMix64;

/// Of a standard normal distribution, its 0.99 quantile.
const NORMAL_P99: f64 = 2.326_347_874_040_841;

#[derive(Clone)]
pub(crate) struct Dice(pub(crate) SplitMix64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(SplitMix64(seed))
    }

    /// Above 0 and at most 1.
    fn unit(&mut self) -> f64 {
        self.0.unit() + f64::EPSILON / 2.0
    }

    /// Two of mean 0 and deviation 1 (Box and Muller).
    fn normals(&mut self) -> [f64; 2] {
        let radius = (-2.0 * self.unit().ln()).sqrt();
        let (sin, cos) = (std::f64::consts::TAU * self.unit()).sin_cos();
        [radius * cos, radius * sin]
    }

    /// Below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0.bits() % end
    }
}

/// Seconds of a day.
const DAY: u64 = 86_400;
/// By how much of its peak the p99 of a load with a season is lower at its least.
const SEASON: f64 = 0.4;

/// Samples at a steady rate, whose true p99 is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// Either a divisor of sixty, or a multiple of it.
    pub(crate) per_minute: u64,
    /// The deviation of their logarithms.
    pub(crate) sigma: f64,
    /// Their true p99 in nanoseconds; with a season its greatest.
    pub(crate) p99_ns: f64,
    /// How much of the logarithm's deviation each sample has of the one before: that of an
    /// autoregressive process of the first order. 0 of independent ones.
    pub(crate) correlation: f64,
    /// Whether the p99 rises and falls within each day.
    pub(crate) has_season: bool,
    /// The share of seconds in which all samples take [`BURST`] times as long.
    pub(crate) bursts: f64,
    /// How much of the logarithm's variance all samples of one second share: those of ranks that
    /// wait for each other.
    pub(crate) shared: f64,
}

/// How much slower the samples of a burst are.
const BURST: f64 = 3.0;

/// A load, and what its next samples depend on.
#[derive(Clone)]
pub(crate) struct Source {
    pub(crate) load: Load,
    /// By how much samples outside bursts are faster, so that the p99 of all is the load's.
    outside: f64,
    spare: Option<f64>,
    last: f64,
}

impl Load {
    /// The same where every sample takes this many times as long.
    pub(crate) fn times(self, factor: f64) -> Self {
        Self { p99_ns: self.p99_ns * factor, ..self }
    }

    /// How many samples there are in this second.
    fn samples(&self, second: u64) -> u64 {
        match self.per_minute {
            many if many >= 60 => many / 60,
            few => u64::from(second.is_multiple_of(60 / few)),
        }
    }

    fn p99_ns(&self, second: u64) -> f64 {
        if !self.has_season {
            return self.p99_ns;
        }
        #[expect(clippy::cast_precision_loss, reason = "a part of a day")]
        let phase = std::f64::consts::TAU * (second % DAY) as f64 / DAY as f64;
        self.p99_ns * (1.0 - SEASON * (1.0 - phase.cos()) / 2.0)
    }
}

impl Source {
    pub(crate) fn new(load: Load) -> Self {
        Self { load, outside: outside(&load), spare: None, last: 0.0 }
    }

    fn fresh(&mut self, dice: &mut Dice) -> f64 {
        self.spare.take().unwrap_or_else(|| {
            let [one, other] = dice.normals();
            self.spare = Some(other);
            one
        })
    }

    fn normal(&mut self, dice: &mut Dice) -> f64 {
        let (fresh, of) = (self.fresh(dice), self.load.correlation);
        self.last = of * self.last + (1.0 - of * of).sqrt() * fresh;
        self.last
    }

    /// The samples of one second in nanoseconds, in place of what `samples` held.
    pub(crate) fn draw(&mut self, second: u64, dice: &mut Dice, samples: &mut Vec<u64>) {
        let Load { sigma, bursts, shared, .. } = self.load;
        let is_burst = bursts > 0.0 && dice.unit() < bursts;
        let slower = if is_burst { BURST.ln() } else { 0.0 };
        let median = self.load.p99_ns(second).ln() - NORMAL_P99 * sigma - self.outside + slower;
        let common = if shared > 0.0 { shared.sqrt() * self.fresh(dice) } else { 0.0 };
        samples.clear();
        for _ in 0..self.load.samples(second) {
            let own = (1.0 - shared).sqrt() * self.normal(dice);
            let latency = (median + sigma * (common + own)).exp();
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "> 0")]
            samples.push(latency as u64);
        }
    }
}

/// By how much the logarithms of all samples are less, so that a hundredth of all are over the p99
/// although there are bursts.
fn outside(load: &Load) -> f64 {
    let Load { sigma, bursts, .. } = *load;
    if bursts == 0.0 {
        return 0.0;
    }
    let over = |less: f64| {
        let calm = above(NORMAL_P99 + less / sigma);
        (1.0 - bursts) * calm + bursts * above(NORMAL_P99 + (less - BURST.ln()) / sigma)
    };
    let (mut least, mut most) = (0.0, 2.0);
    for _ in 0..60 {
        let middle = f64::midpoint(least, most);
        if over(middle) > 0.01 { least = middle } else { most = middle }
    }
    most
}

/// The probability of a standard normal value above this one (Simpson's rule).
fn above(value: f64) -> f64 {
    const STEPS: u32 = 2_000;
    let width = 12.0 / f64::from(STEPS);
    let density = |x: f64| (-x * x / 2.0).exp() / std::f64::consts::TAU.sqrt();
    let term = |step: u32| {
        let weight = if step == 0 || step == STEPS { 1.0 } else { 2.0 + 2.0 * f64::from(step % 2) };
        weight * density(value + f64::from(step) * width)
    };
    (0..=STEPS).map(term).sum::<f64>() * width / 3.0
}
