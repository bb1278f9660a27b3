//! What others do, from their descriptions: a share of waiting, a ratio to the fastest, and the
//! median plus a multiple of the median absolute deviation. They see all reports in time.

use plimsoll_blame::{Class, Rule, StepTimes};

use crate::fleet::{COMPUTE_CLASS, INPUT_CLASS, SYNC_CLASS, Second};

/// Seconds of their windows, and between their verdicts.
const WINDOW: usize = 60;
const SHORT_WINDOW: usize = 10;
const EVERY: u64 = 10;
/// TraceML: a warning from a tenth of the step on.
const WAIT_SHARE: f64 = 0.10;
/// NVIDIA Resiliency Extension: a straggler below three quarters of the fastest rank's speed.
const SPEED_RATIO: f64 = 0.75;
/// Ingero Fleet: beyond the median by three deviations, back within two hundredths less.
const DEVIATIONS: f64 = 3.0;
const MAD_TO_SIGMA: f64 = 1.4826;
const HYSTERESIS: f64 = 0.02;

pub(crate) const NAMES: [&str; 3] =
    ["TraceML: waits least, by 10 %", "NVRx: 0.75 of the fastest", "Ingero: median + 3 MAD"];

/// All three over the same seconds.
#[derive(Clone, Debug)]
pub(crate) struct Rivals {
    rule: Rule,
    /// By rank, the last seconds' mean work and wait, at the second modulo [`WINDOW`].
    past: Vec<[(f64, f64); WINDOW]>,
    second: u64,
    /// By rule and rank, whether it is named.
    named: [Vec<bool>; NAMES.len()],
}

/// What a rule did in one second.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Verdicts {
    /// Ranks that were named anew.
    pub(crate) new: [u64; NAMES.len()],
    /// Whether the rank that is asked for is named.
    pub(crate) has_named: [bool; NAMES.len()],
}

impl Rivals {
    pub(crate) fn new(rule: Rule, ranks: usize) -> Self {
        let named = std::array::from_fn(|_| vec![false; ranks]);
        Self { rule, past: vec![[(0.0, 0.0); WINDOW]; ranks], second: 0, named }
    }

    /// Takes a second of all ranks; `rank` is the one that is asked for.
    pub(crate) fn take(&mut self, seconds: &[Second], rank: usize) -> Verdicts {
        let at = self.second as usize % WINDOW;
        for (past, second) in self.past.iter_mut().zip(seconds) {
            past[at] = mean_step(&second.times);
        }
        self.second += 1;
        let mut verdicts = Verdicts::default();
        if self.second >= WINDOW as u64 && self.second.is_multiple_of(EVERY) {
            let now = [self.waits_least(), self.slower_than_fastest(), self.far_from_median()];
            for ((named, now), new) in self.named.iter_mut().zip(now).zip(&mut verdicts.new) {
                *new = named.iter().zip(&now).filter(|(before, now)| !**before && **now).count()
                    as u64;
                *named = now;
            }
        }
        verdicts.has_named = std::array::from_fn(|rule| self.named[rule][rank]);
        verdicts
    }

    fn waits_least(&self) -> Vec<bool> {
        let mut named = vec![false; self.past.len()];
        if self.rule == Rule::Slowest {
            return named;
        }
        let of = |past: &[(f64, f64); WINDOW], value: fn(&(f64, f64)) -> f64| {
            past.iter().map(value).sum::<f64>() / WINDOW as f64
        };
        let mut waits: Vec<(f64, f64, usize)> = self
            .past
            .iter()
            .enumerate()
            .map(|(rank, past)| (of(past, |one| one.1), of(past, |one| one.0 + one.1), rank))
            .collect();
        waits.sort_by(|one, other| one.0.total_cmp(&other.0));
        let ((least, _, culprit), (wait, step, _)) = (waits[0], waits[waits.len() / 2]);
        named[culprit] = (wait - least) / step >= WAIT_SHARE;
        named
    }

    fn slower_than_fastest(&self) -> Vec<bool> {
        let medians: Vec<f64> = self
            .past
            .iter()
            .map(|past| {
                let mut work = past.map(|one| one.0);
                *work.select_nth_unstable_by(WINDOW / 2, f64::total_cmp).1
            })
            .collect();
        let fastest = medians.iter().copied().fold(f64::INFINITY, f64::min);
        medians.iter().map(|median| fastest / median < SPEED_RATIO).collect()
    }

    fn far_from_median(&self) -> Vec<bool> {
        let last = self.second as usize;
        let mean = |past: &[(f64, f64); WINDOW]| {
            let newest = (1..=SHORT_WINDOW).map(|back| past[(last + WINDOW - back) % WINDOW].0);
            newest.sum::<f64>() / SHORT_WINDOW as f64
        };
        let means: Vec<f64> = self.past.iter().map(mean).collect();
        let middle = median(means.clone());
        let deviation =
            MAD_TO_SIGMA * median(means.iter().map(|one| (one - middle).abs()).collect());
        let limit = middle + DEVIATIONS * deviation;
        let named = self.named[2].iter().zip(&means);
        named
            .map(|(is_named, mean)| {
                *mean > if *is_named { limit - HYSTERESIS * middle } else { limit }
            })
            .collect()
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    let middle = values.len() / 2;
    *values.select_nth_unstable_by(middle, f64::total_cmp).1
}

/// The nanoseconds of work and of waiting.
fn mean_step(times: &StepTimes) -> (f64, f64) {
    let of = |class: Class| times.ns(class).unwrap_or_default() as f64 / times.steps() as f64;
    (of(INPUT_CLASS) + of(COMPUTE_CLASS), of(SYNC_CLASS))
}
