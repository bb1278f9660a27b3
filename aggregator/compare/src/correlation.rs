//! How long slots depend on each other, and how long blocks must be for that.
//!
//! Politis and White (2004): a flat-top window over the autocovariance, which ends where nothing
//! significant follows. It measures slow dependence that noise hides from the first lag, unlike an
//! AR(1) fit.
//!
//! DESIGN A77.

/// Lags that must all be insignificant behind the last one that counts.
const QUIET_LAGS: usize = 5;

/// The dependence of slots over time, as shares of the variance of one slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Correlation {
    /// The sum of autocorrelations over all lags: how many times the variance of independent slots
    /// that of a sum is.
    long_run: f64,
    /// The sum of |lag| times autocorrelation: what blocks lose at their ends.
    slope: f64,
    slots: usize,
}

impl Correlation {
    /// Of series that are each in the order of time, with means of their own.
    pub(crate) fn of(series: &[Vec<f64>]) -> Self {
        let centred: Vec<Vec<f64>> = series.iter().map(|one| centred(one)).collect();
        let slots = centred.iter().map(Vec::len).sum();
        let variance = covariance(&centred, 0);
        let independent = Self { long_run: 1.0, slope: 0.0, slots };
        if variance <= 0.0 {
            return independent;
        }

        let longest = centred.iter().map(Vec::len).max().unwrap_or_default();
        let lags = longest.saturating_sub(1).min(lags_max(slots));
        let correlations: Vec<f64> =
            (1..=lags).map(|lag| covariance(&centred, lag) / variance).collect();
        // At twice the last significant lag the window is down to zero;
        // up to that lag it weighs all of it, so that it takes nothing
        // off the dependence that was found (Politis and White 2004).
        let window = 2 * last_significant(&correlations, slots).max(1);

        let weighted = (1..).zip(&correlations).take(window).map(|(lag, correlation)| {
            let lag = lag as f64;
            (lag, flat_top(lag / window as f64) * correlation)
        });

        let (long_run, slope) = weighted.fold((1.0, 0.0), |(long_run, slope), (lag, weight)| {
            (long_run + 2.0 * weight, slope + 2.0 * lag * weight)
        });
        // Slots that alternate would promise smaller intervals than independent ones: refused.
        if slope <= 0.0 || long_run <= 1.0 { independent } else { Self { long_run, slope, slots } }
    }

    /// The length in slots that makes the error of the variance smallest (Lahiri 1999, blocks that
    /// do not overlap).
    pub(crate) fn block_slots(&self) -> f64 {
        let ratio = self.slope / self.long_run;
        ((ratio * ratio * self.slots as f64).cbrt()).max(1.0)
    }

    /// The share of the long-run variance that sums over blocks of this many slots have.
    pub(crate) fn seen(&self, block_slots: usize) -> f64 {
        1.0 - self.slope / (self.long_run * block_slots as f64)
    }
}

/// Bounds the work to the lags that the window can use.
fn lags_max(slots: usize) -> usize {
    2 * (slots.isqrt() + QUIET_LAGS)
}

fn centred(series: &[f64]) -> Vec<f64> {
    let mean = series.iter().sum::<f64>() / series.len().max(1) as f64;
    series.iter().map(|value| value - mean).collect()
}

fn covariance(series: &[Vec<f64>], lag: usize) -> f64 {
    let pairs = series.iter().flat_map(|one| one.iter().zip(one.iter().skip(lag)));
    pairs.map(|(earlier, later)| earlier * later).sum()
}

/// The last lag before the first run of insignificant ones; 0 if none is significant.
fn last_significant(correlations: &[f64], slots: usize) -> usize {
    let slots = slots as f64;
    let bound = 2.0 * (slots.log10() / slots).sqrt();
    let mut quiet = 0;
    for (at, correlation) in correlations.iter().enumerate() {
        // One lag below the bound is chance among many: only a run of them bounds the dependence.
        quiet = if correlation.abs() < bound { quiet + 1 } else { 0 };
        if quiet == QUIET_LAGS {
            return at + 1 - QUIET_LAGS;
        }
    }
    correlations.len() - quiet
}

fn flat_top(share: f64) -> f64 {
    (2.0 * (1.0 - share)).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::random::SplitMix64;

    use super::*;

    /// AR(1) with steps of a uniform distribution.
    fn series(coefficient: f64, seed: u64) -> Vec<f64> {
        let mut rng = SplitMix64(seed);
        let mut value = 0.0;
        (0..10_000)
            .map(|_| {
                let thousandths = ((rng.bits() >> 32) * 1_000) >> 32;
                value = coefficient * value + thousandths as f64 / 1_000.0 - 0.5;
                value
            })
            .collect()
    }

    #[test]
    fn independent_slots_need_no_blocks() {
        let found = Correlation::of(&[series(0.0, 7)]);
        assert!(found.block_slots() < 2.5, "{found:?}");
        assert!(found.seen(1) > 0.9, "{found:?}");
    }

    #[test]
    fn dependence_is_that_of_the_process() {
        let found = Correlation::of(&[series(0.8, 7), series(0.8, 8)]);
        // (1 + r) / (1 - r) = 9 and 2 r / (1 - r)^2 = 40.
        assert!((7.5..10.5).contains(&found.long_run), "{found:?}");
        assert!((28.0..56.0).contains(&found.slope), "{found:?}");
    }

    #[test]
    fn slots_that_alternate_and_constant_ones_count_as_independent() {
        let alternating: Vec<f64> = (0..100).map(|n| f64::from(n % 2)).collect();
        for series in [alternating, vec![3.0; 50], Vec::new()] {
            let found = Correlation::of(&[series]);
            assert_eq!((found.long_run, found.slope), (1.0, 0.0));
        }
    }
}
