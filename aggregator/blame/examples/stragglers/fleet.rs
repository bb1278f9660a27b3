//! Simulated ranks: lognormal steps that depend on the step before, a part that all ranks share, a
//! few wild steps, permanent differences, and reports that come late. Nothing is slow unless
//! planted.

use plimsoll_blame::{Class, ClassKind, Rule, Setup, StepTimes};
use plimsoll_schemas::random::SplitMix64;

/// Deviation of the logarithm of a rank's own steps, and of what all ranks share.
const OWN_SIGMA: f64 = 0.05;
const SHARED_SIGMA: f64 = 0.1;
/// Wild steps: their share, and how much longer they take.
const WILD: f64 = 0.01;
const WILD_TIMES: f64 = 3.0;
/// The largest permanent difference from a rank without any.
const DIFFERENCE: f64 = 0.02;
/// Reports that come one to [`LATE_MOST`] intervals late.
const LATE: f64 = 0.05;
const LATE_MOST: u64 = 4;
/// The share of input in a step that is not slow; the rest is compute.
const INPUT: f64 = 0.1;

const HALF_HOUR: u64 = 1_800;

pub(crate) const INPUT_CLASS: Class = Class(0);
pub(crate) const COMPUTE_CLASS: Class = Class(1);
pub(crate) const SYNC_CLASS: Class = Class(2);

/// What ranks do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) rule: Rule,
    pub(crate) ranks: usize,
    pub(crate) steps_per_second: usize,
    /// How much of the step before each step has.
    pub(crate) correlation: f64,
    pub(crate) ranks_are: Ranks,
}

/// How ranks differ while none is slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ranks {
    /// By up to 2 % in either direction.
    Alike,
    /// Every tenth is 3 % slower than the median rank, as much as is allowed.
    AtFloor,
    /// Every tenth varies twice as much as the others.
    Noisy,
    /// All vary twice as much in every other half hour.
    Restless,
}

/// One rank's second: what it reports, and how many seconds late.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Second {
    pub(crate) times: StepTimes,
    pub(crate) late: u64,
}

#[derive(Clone, Debug)]
struct Rank {
    state: f64,
    factor: f64,
    sigma: f64,
    steps: usize,
}

/// Ranks, and what their next steps depend on.
#[derive(Clone, Debug)]
pub(crate) struct Fleet {
    load: Load,
    ranks: Vec<Rank>,
    random: Random,
    until_wild: u64,
    until_late: u64,
    /// The rank that is slow, and how many times as long its steps take.
    pub(crate) culprit: Option<(usize, f64)>,
    work: Vec<f64>,
    second: u64,
    louder: f64,
}

impl Load {
    pub(crate) fn setup(&self) -> Setup {
        let kinds = [ClassKind::Work, ClassKind::Work, ClassKind::Wait];
        Setup::new(self.rule, &kinds).expect("it has work and waiting")
    }
}

impl Fleet {
    pub(crate) fn new(load: Load, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut rank = |place: usize| {
            let is_tenth = |ranks| load.ranks_are == ranks && place.is_multiple_of(10);
            let difference = match load.ranks_are {
                Ranks::Alike | Ranks::Noisy | Ranks::Restless => {
                    DIFFERENCE * (2.0 * random.unit() - 1.0)
                }
                // The tenth moves the median by a tenth of its own difference.
                Ranks::AtFloor => f64::from(u8::from(is_tenth(Ranks::AtFloor))) * 0.0335,
            };
            let times = match load.rule {
                Rule::WaitsLeast => 1.0,
                // From half to double the number of steps.
                Rule::Slowest => 2_f64.powf(2.0 * random.unit() - 1.0),
            };
            Rank {
                state: random.normal(),
                factor: 1.0 + difference,
                sigma: if is_tenth(Ranks::Noisy) { 2.0 * OWN_SIGMA } else { OWN_SIGMA },
                steps: ((load.steps_per_second as f64 * times).round() as usize).max(1),
            }
        };
        let ranks: Vec<Rank> = (0..load.ranks).map(&mut rank).collect();
        let (until_wild, until_late) = (random.until(WILD), random.until(LATE));
        Self {
            load,
            work: vec![0.0; ranks.len()],
            ranks,
            random,
            until_wild,
            until_late,
            culprit: None,
            second: 0,
            louder: 1.0,
        }
    }

    /// The excess of a rank over the median of all, as planted and drawn.
    pub(crate) fn excess(&self, rank: usize) -> f64 {
        let factor = |(at, rank): (usize, &Rank)| match self.culprit {
            Some((culprit, times)) if culprit == at => rank.factor * times,
            _ => rank.factor,
        };
        let mut factors: Vec<f64> = self.ranks.iter().enumerate().map(factor).collect();
        let own = factors[rank];
        let middle = factors.len() / 2;
        own / *factors.select_nth_unstable_by(middle, f64::total_cmp).1 - 1.0
    }

    /// Appends the next second of each rank.
    pub(crate) fn second(&mut self, seconds: &mut Vec<Second>) {
        seconds.clear();
        let is_loud = self.load.ranks_are == Ranks::Restless && self.second / HALF_HOUR % 2 == 1;
        self.louder = if is_loud { 2.0 } else { 1.0 };
        self.second += 1;
        match self.load.rule {
            Rule::WaitsLeast => self.in_step(seconds),
            Rule::Slowest => self.apart(seconds),
        }
    }

    fn in_step(&mut self, seconds: &mut Vec<Second>) {
        let steps = self.load.steps_per_second;
        let mut sums = vec![(0.0, 0.0, 0.0); self.ranks.len()];
        for _ in 0..steps {
            let shared = self.shared();
            for rank in 0..self.ranks.len() {
                self.work[rank] = self.step(rank, shared);
            }
            let wall = self.work.iter().copied().fold(0.0, f64::max);
            for (rank, (sum, work)) in sums.iter_mut().zip(&self.work).enumerate() {
                sum.0 += work;
                sum.1 += work * self.input(rank);
                sum.2 += wall - work;
            }
        }
        seconds.extend(
            sums.into_iter().map(|(work, input, wait)| self.report(steps, work, input, wait)),
        );
    }

    fn apart(&mut self, seconds: &mut Vec<Second>) {
        let shared = self.shared();
        for rank in 0..self.ranks.len() {
            let steps = self.ranks[rank].steps;
            let work: f64 = (0..steps).map(|_| self.step(rank, shared)).sum();
            let second = self.report(steps, work, work * self.input(rank), 0.0);
            seconds.push(second);
        }
    }

    fn shared(&mut self) -> f64 {
        let base = 0.8e9 / self.load.steps_per_second as f64;
        base * (SHARED_SIGMA * self.random.normal()).exp()
    }

    /// The nanoseconds of a rank's own work in its next step.
    fn step(&mut self, rank: usize, shared: f64) -> f64 {
        let fresh = self.random.normal();
        let Rank { state, factor, sigma, .. } = &mut self.ranks[rank];
        let of = self.load.correlation;
        *state = of * *state + (1.0 - of * of).sqrt() * fresh;
        let mut work = shared * *factor * (self.louder * *sigma * *state).exp();
        if self.until_wild == 0 {
            self.until_wild = self.random.until(WILD);
            work *= WILD_TIMES;
        }
        self.until_wild -= 1;
        match self.culprit {
            Some((culprit, times)) if culprit == rank => work * times,
            _ => work,
        }
    }

    /// The share of input in a rank's step: all that is slow is input.
    fn input(&self, rank: usize) -> f64 {
        match self.culprit {
            Some((culprit, times)) if culprit == rank => 1.0 - (1.0 - INPUT) / times,
            _ => INPUT,
        }
    }

    fn report(&mut self, steps: usize, work: f64, input: f64, wait: f64) -> Second {
        let late = if self.until_late == 0 {
            self.until_late = self.random.until(LATE);
            1 + self.random.0.bits() % LATE_MOST
        } else {
            0
        };
        self.until_late -= 1;
        let times = StepTimes::new(steps as u64)
            .with(INPUT_CLASS, whole(input))
            .with(COMPUTE_CLASS, whole(work - input))
            .with(SYNC_CLASS, whole(wait));
        Second { times, late }
    }
}

fn whole(ns: f64) -> u64 {
    ns as u64
}

/// Random numbers of a seed.
#[derive(Clone, Debug)]
pub(crate) struct Random(SplitMix64, Option<f64>);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(SplitMix64(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)), None)
    }

    /// Above 0 and at most 1.
    pub(crate) fn unit(&mut self) -> f64 {
        self.0.unit() + f64::EPSILON / 2.0
    }

    /// Of mean 0 and deviation 1 (Box and Muller).
    pub(crate) fn normal(&mut self) -> f64 {
        if let Some(spare) = self.1.take() {
            return spare;
        }
        let radius = (-2.0 * self.unit().ln()).sqrt();
        let (sin, cos) = (std::f64::consts::TAU * self.unit()).sin_cos();
        self.1 = Some(radius * sin);
        radius * cos
    }

    /// Trials up to the next success of this chance, at least 1.
    fn until(&mut self, chance: f64) -> u64 {
        1 + (self.unit().ln() / (1.0 - chance).ln()) as u64
    }
}
