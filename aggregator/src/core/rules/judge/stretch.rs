//! The shortest stretch of samples up to now that shows a breach, and whether that breach has
//! ended.
//!
//! The quantile is over the limit if and only if the share of samples over the limit is above
//! `p0 = 1 - quantile`. A stretch is what was sampled from the start of some slot up to now: `n`
//! samples, `k` of them over the limit. Each step below has its formula here, in the order of the
//! code; `ln` is the natural logarithm.
//!
//! | step | formula |
//! |---|---|
//! | alternative share | `p1 / (1 - p1) = m p0 / (1 - p0)`, for ten `m` from 1.1 to 1000 |
//! | one sample over the limit | `ln(p1/p0) = ln m - ln(1 + p0 (m - 1))` |
//! | one sample within it | `ln((1-p1)/(1-p0)) = -ln(1 + p0 (m - 1))` |
//! | likelihood ratio | `L = (p1/p0)^k ((1-p1)/(1-p0))^(n-k)` |
//! | evidence | `E = (L_1 + .. + L_10) / 10`; 0 if `k/n <= p0` |
//! | threshold | `A = 480 b`: half hours in ten days, times starts of stretches in half an hour |
//! | a breach | `k >= 3` and `E >= A` |
//! | share `p'` of older samples | `(k + 1/2) / (n + 1)` |
//! | its end, by newer samples | `(p0/p')^k ((1-p0)/(1-p'))^(n-k) >= A` |
//!
//! While the true share is at most `p0`, `L` is a supermartingale from each start on, and so is
//! `E`, the mean over several `p1`.
//!
//! The maximum evidence over all starts is at most their sum, which grows by at most one for each
//! start: a Shiryaev-Roberts e-detector. So on average at least A starts pass before it reaches A
//! by chance, however often one looks (Shin, Ramdas and Rinaldo, "E-detectors", New England Journal
//! of Statistics in Data Science 2024; Lorden, "Procedures for reacting to a change in
//! distribution", Annals of Mathematical Statistics 42, 1971, for one `p1`). Starts are slots of at
//! least a second that hold a sample, so A is the number of those in ten days: at most one false
//! breach in ten days for each scope while the quantile is exactly at the limit, and far fewer
//! below it.
//!
//! Samples come in clusters, so that counts vary `f` times as much as those of independent samples
//! ([`Overdispersion`]). Let clusters be independent, of at most `c` samples over the limit. Then
//! `ln E[exp(s k)]` is at most `n` times that of clusters of exactly `c`, as many as make up the
//! variance (`f/c^2` for one sample), beside a steady rest of `p0 (1 - f/c)` (Bennett, "Probability
//! inequalities for the sum of independent random variables", Journal of the American Statistical
//! Association 57, 1962; Freedman, "On tail probabilities for martingales", Annals of Probability
//! 3, 1975). A sample over the limit adds `s = ln m / c`, and each sample takes away
//!
//! `f/c^2 ln(1 + p0 (m - 1)) + p0 (1 - f/c) s`.
//!
//! The likelihood ratio then is a supermartingale of clusters. With `f = c = 1` it is the one
//! above. Time runs in effective samples, `f` for one, in the threshold and in the end of a breach.
//!
//! DESIGN A1, A179.

use plimsoll_schemas::budget::Budget;

use crate::core::fleet::{Overdispersion, SlotCounts, Sums};
use crate::limits::alerts::STRETCH_ENDS_MAX;

/// Samples over the limit without which nothing is a breach: one or two are an accident.
pub(super) const OVER_MIN: u64 = 3;
/// Half hours in the mean time between two false breaches: 10 d x 24 h x 2.
const HALF_HOURS: f64 = 480.0;
/// Seconds.
const HALF_HOUR: u64 = 1_800;
/// `b`, starts of stretches within half an hour: at least one a minute, so that the first samples
/// are not judged by a lower threshold than later ones, and at most one a second, the shortest
/// slot.
const STARTS_MIN: f64 = 30.0;
const STARTS_MAX: f64 = 1_800.0;
/// `m`: the shares that a breach is compared with, as multiples of the odds of `p0`. From a tenth
/// more up to nearly all samples; the steps are close where a breach is hard to see.
const ODDS: [f64; 10] = [1.1, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0, 1_000.0];

/// A stretch that shows a breach.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stretch {
    pub begin: plimsoll_schemas::time::Wall,
    pub samples: u64,
    /// Of those, samples certainly over the limit.
    pub over: u64,
    /// Whether newer samples show that it has ended.
    pub has_ended: bool,
}

/// Judges stretches by one budget.
#[derive(Clone, Copy, Debug)]
pub(super) struct Detector {
    /// `p0`, the share of samples that may be over the limit.
    allowed: f64,
    /// For independent samples.
    alternatives: [Alternative; ODDS.len()],
    /// Of each alternative, for samples in clusters.
    weights: [Weight; ODDS.len()],
    /// `f`, the variance of counts divided by that of independent samples.
    factor: f64,
}

/// A share `p1` that samples are compared with.
#[derive(Clone, Copy, Debug)]
struct Alternative {
    /// `ln m`.
    ln_odds: f64,
    /// `ln(1 + p0 (m - 1))`, the logarithm of the mean of `m^k` of one sample at `p0`.
    ln_mean: f64,
}

/// What one sample adds to the logarithm of an alternative's likelihood ratio.
#[derive(Clone, Copy, Debug, Default)]
struct Weight {
    over: f64,
    within: f64,
}

/// What newer samples of a stretch must reach to show that its breach has ended.
#[derive(Clone, Copy)]
struct EndTest {
    samples_min: u64,
    /// `ln A`.
    ln_threshold: f64,
}

/// Samples, those certainly over the limit, and those that may be.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    samples: u64,
    over: u64,
    uncertain: u64,
}

impl Detector {
    pub(super) fn new(budget: &Budget) -> Self {
        let allowed = 1.0 - budget.quantile;
        let alternatives = ODDS.map(|times| Alternative {
            ln_odds: times.ln(),
            ln_mean: (allowed * (times - 1.0)).ln_1p(),
        });
        let weights = [Weight::default(); ODDS.len()];
        Self { allowed, alternatives, weights, factor: 1.0 }.of(Overdispersion::NONE)
    }

    /// The same for samples that come in clusters.
    pub(super) fn of(self, samples: Overdispersion) -> Self {
        let Overdispersion { factor, cluster, .. } = samples;
        let weights = self.alternatives.map(|Alternative { ln_odds, ln_mean }| {
            // s = ln m / c
            let over = ln_odds / cluster;
            // f/c^2 ln(1 + p0 (m - 1))
            let clusters = ln_mean * factor / (cluster * cluster);
            // p0 s (1 - f/c)
            let steady = self.allowed * over * (1.0 - factor / cluster);
            Weight { over: over - clusters - steady, within: -clusters - steady }
        });
        Self { weights, factor, ..self }
    }

    /// `ln E`: the logarithm of the evidence that more than the allowed share is over the limit.
    fn ln_evidence(&self, counts: Counts) -> f64 {
        let (over, within) = (float(counts.over), float(counts.samples - counts.over));
        // No alternative fits better than the share that was found.
        let share = over / float(counts.samples).max(1.0);
        if share <= self.allowed {
            return f64::NEG_INFINITY;
        }

        // ln L = k ln(p1/p0) + (n - k) ln((1-p1)/(1-p0))
        let ratios = self.weights.map(|weight| over * weight.over + within * weight.within);
        // ln((L_1 + .. + L_10) / 10), with the largest L in front so that no power overflows.
        let most = ratios.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = ratios.iter().map(|ratio| (ratio - most).exp()).sum();
        most + (sum / float(ODDS.len() as u64)).ln()
    }

    /// `ln A`, the logarithm of the evidence that shows a breach: of the starts in ten days at this
    /// number of samples in half an hour. Each effective sample may start a stretch.
    fn ln_threshold(&self, samples: u64) -> f64 {
        let effective = float(samples) / self.factor;
        (HALF_HOURS * effective.clamp(STARTS_MIN, STARTS_MAX)).ln()
    }

    /// Whether the samples of a window show a breach, where there were `recent` ones in all.
    pub(super) fn shows(&self, window: &Sums, recent: &Sums) -> bool {
        let Sums { samples, over, uncertain, .. } = *window;
        let evidence = self.ln_evidence(Counts { samples, over: over.min(samples), uncertain });
        over >= OVER_MIN && evidence >= self.ln_threshold(recent.samples)
    }

    /// The shortest stretch that shows a breach. Slots are newest first.
    pub(super) fn breach(&self, slots: &[SlotCounts], samples_min: u64) -> Option<Stretch> {
        let ln_threshold = self.ln_threshold(samples_of(slots));
        let mut counts = Counts::default();

        let oldest = slots.iter().position(|slot| {
            counts.add(slot);
            // A stretch need not start with samples that are all within.
            let is_enough = counts.over >= OVER_MIN && counts.samples >= samples_min;
            slot.over.over > 0 && is_enough && self.ln_evidence(counts) >= ln_threshold
        })?;

        let end_test = EndTest { samples_min, ln_threshold };
        let has_ended = self.has_ended(&slots[..=oldest], counts, end_test);
        let begin = slots[oldest].begin;
        Some(Stretch { begin, samples: counts.samples, over: counts.over, has_ended })
    }

    /// Whether newer samples reject the share of older ones where no stretch up to now shows a
    /// breach: the newer samples, or coarser slots, have thinned out the one that did. Of older
    /// samples the stretch with the most evidence counts, however much that is.
    pub(super) fn has_passed(&self, slots: &[SlotCounts], samples_min: u64) -> bool {
        let ln_threshold = self.ln_threshold(samples_of(slots));
        let mut newer = Counts::default();
        let mut ends = 0;

        for (place, slot) in slots.iter().enumerate() {
            if slot.over.over > 0 {
                let older = self.strongest(&slots[place..]);
                if newer.samples >= samples_min && self.rejects(newer, older, ln_threshold) {
                    return true;
                }
                ends += 1;
            }

            // Each end costs a pass over the slots behind it.
            if ends == STRETCH_ENDS_MAX {
                return false;
            }

            newer.add(slot);
        }

        false
    }

    /// Of the stretches up to the newest slot, the one with the most evidence.
    fn strongest(&self, slots: &[SlotCounts]) -> Counts {
        let mut counts = Counts::default();
        let mut found = (f64::NEG_INFINITY, counts);
        for slot in slots {
            counts.add(slot);
            if slot.over.over > 0 && counts.over >= OVER_MIN {
                let evidence = self.ln_evidence(counts);
                if evidence > found.0 {
                    found = (evidence, counts);
                }
            }
        }
        found.1
    }

    /// Whether the newest samples of a stretch reject the share of the older ones in favour of the
    /// allowed one, by as much evidence as the breach needed.
    fn has_ended(&self, slots: &[SlotCounts], all: Counts, end_test: EndTest) -> bool {
        let mut newer = Counts::default();
        slots.iter().any(|slot| {
            newer.add(slot);
            let older = Counts {
                samples: all.samples - newer.samples,
                over: all.over - newer.over,
                uncertain: 0,
            };
            newer.samples >= end_test.samples_min
                && self.rejects(newer, older, end_test.ln_threshold)
        })
    }

    /// Whether newer samples reject the share of older ones in favour of the allowed one. The
    /// logarithm of their likelihood ratio is divided by `f`, since `f` samples count as one.
    fn rejects(&self, newer: Counts, older: Counts, ln_threshold: f64) -> bool {
        // p' = (k + 1/2) / (n + 1), never 0 or 1 (Krichevsky and Trofimov, "The performance of
        // universal encoding", IEEE Transactions on Information Theory 27, 1981).
        let share = (float(older.over) + 0.5) / (float(older.samples) + 1.0);
        if older.over < OVER_MIN || share <= self.allowed {
            return false;
        }

        // What may be over the limit counts as over: only certain samples end a breach.
        let over = float(newer.over.saturating_add(newer.uncertain).min(newer.samples));
        let within = float(newer.samples) - over;

        let weight = Weight {
            over: (self.allowed / share).ln(),
            within: ((1.0 - self.allowed) / (1.0 - share)).ln(),
        };

        (over * weight.over + within * weight.within) / self.factor >= ln_threshold
    }

    /// Shares with these multiples of the odds of the share that is allowed: with the odds
    /// `o = m p0 / (1 - p0)` a share is `o / (1 + o)`.
    pub(super) fn shares<const N: usize>(&self, times: [f64; N]) -> [f64; N] {
        times.map(|times| {
            let odds = self.allowed / (1.0 - self.allowed) * times;
            if odds.is_finite() { odds / (1.0 + odds) } else { 1.0 }
        })
    }

    /// How many samples it takes on average to show such a share over the limit, at one a second;
    /// `None` if those of half an hour are too few.
    ///
    /// `n = (ln A + ln 10) / (p ln(p1/p0) + (1 - p) ln((1-p1)/(1-p0)))` with the best `p1`: one of
    /// ten alternatives alone must reach ten times the threshold, and each sample adds the same on
    /// average (Wald, "On cumulative sums of random variables", Annals of Mathematical Statistics
    /// 15, 1944).
    pub(super) fn samples_until(&self, share: f64) -> Option<f64> {
        let each = |weight: Weight| share * weight.over + (1.0 - share) * weight.within;
        let most = self.weights.map(each).into_iter().fold(0.0, f64::max);
        let needed = self.ln_threshold(HALF_HOUR) + float(ODDS.len() as u64).ln();
        Some(needed / most).filter(|samples| *samples <= float(HALF_HOUR))
    }

    /// The least number of samples that show a breach if all of them are over the limit, at the
    /// lowest threshold.
    pub(super) fn samples_min(&self) -> u64 {
        let threshold = self.ln_threshold(0);
        let shows =
            |n: u64| self.ln_evidence(Counts { samples: n, over: n, uncertain: 0 }) >= threshold;

        // A power of two that is enough, then the least number between it and its half.
        let enough = (0..u64::BITS - 2).map(|bits| 1 << bits).find(|n| shows(*n));
        let Some(mut most) = enough else { return u64::MAX };
        let mut least = most / 2;
        while most - least > 1 {
            let middle = least + (most - least) / 2;
            if shows(middle) { most = middle } else { least = middle }
        }
        most.max(OVER_MIN)
    }
}

impl Counts {
    fn add(&mut self, slot: &SlotCounts) {
        let over = slot.over.over.min(slot.samples);
        self.samples = self.samples.saturating_add(slot.samples);
        self.over = self.over.saturating_add(over);
        self.uncertain = self.uncertain.saturating_add(slot.over.uncertain);
    }
}

fn samples_of(slots: &[SlotCounts]) -> u64 {
    slots.iter().fold(0, |sum, slot| sum.saturating_add(slot.samples))
}

#[expect(clippy::cast_precision_loss, reason = "counts stay below 2^53")]
fn float(n: u64) -> f64 {
    n as f64
}
