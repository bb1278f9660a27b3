//! What a peer is suspected of, from its first evidence to the end of its name.
//!
//! | from | to | when |
//! |---|---|---|
//! | healthy | suspect | its evidence exceeds ten minutes' worth |
//! | suspect | healthy | its evidence falls below that |
//! | suspect | named | its evidence passes the bound on false names (`naming`) |
//! | named | healthy | its excess is shown to be over, for 30 bins in a row |
//!
//! A peer that is silent changes nothing: silence is no evidence.

use crate::limits::{
    BLOCK_BINS, CLASSES_MAX, ENDED_BINS, EXPLAINED, FLOOR, INTERVAL_Z, SUSPECT_SECONDS, TALLY_BINS,
};
use crate::report::{Class, Interval};

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Suspicion {
    Healthy,
    Suspect(Tally),
    Named(Name),
}

/// Means since the evidence started, over the newest bins.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tally {
    pub(crate) since: Interval,
    bins: f64,
    sum: Slower,
    /// Of levels.
    squares: f64,
}

/// By how much a peer is slower: in one bin, or summed over bins.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Slower {
    /// The level of its block, as a share of the median peer's work.
    pub(crate) level: f64,
    pub(crate) level_ns: f64,
    /// Of the bin alone, and what of it is in each class: not a number if that is not measured.
    pub(crate) bin: f64,
    pub(crate) classes: [f64; CLASSES_MAX],
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Name {
    pub(crate) tally: Tally,
    /// Its mean excess when it was named.
    excess: f64,
    over_bins: u32,
}

impl Suspicion {
    pub(crate) fn tally(&self) -> Option<&Tally> {
        match self {
            Self::Healthy => None,
            Self::Suspect(tally) | Self::Named(Name { tally, .. }) => Some(tally),
        }
    }

    pub(crate) fn name(&self) -> Option<&Name> {
        match self {
            Self::Healthy | Self::Suspect(_) => None,
            Self::Named(name) => Some(name),
        }
    }

    /// Follows the evidence after a block that starts there.
    pub(crate) fn on_evidence(&mut self, seconds: f64, block_start: Interval) {
        match self {
            Self::Healthy if seconds >= SUSPECT_SECONDS => {
                *self = Self::Suspect(Tally::new(block_start));
            }
            Self::Suspect(_) if seconds < SUSPECT_SECONDS => *self = Self::Healthy,
            Self::Healthy | Self::Suspect(_) | Self::Named(_) => {}
        }
    }

    /// Adds a bin to the means of a suspect or a culprit.
    pub(crate) fn add(&mut self, slower: &Slower) {
        match self {
            Self::Healthy => {}
            Self::Suspect(tally) | Self::Named(Name { tally, .. }) => tally.add(slower),
        }
    }

    /// Names a suspect.
    pub(crate) fn on_proof(&mut self) {
        if let Self::Suspect(tally) = self {
            let excess = tally.excess();
            *self = Self::Named(Name { tally: tally.clone(), excess, over_bins: 0 });
        }
    }

    /// Counts a bin of a name; whether its excess has been over for long enough. The function is
    /// the standard error of a mean over this number of bins.
    pub(crate) fn has_ended(&mut self, error: impl Fn(f64) -> f64) -> bool {
        let Self::Named(name) = self else { return false };
        let is_over = name.is_over(error(name.tally.bins));
        name.over_bins = if is_over { name.over_bins + 1 } else { 0 };
        name.over_bins >= ENDED_BINS
    }
}

impl Name {
    /// The mean is within the floor, and even its upper bound below half of what was named. The
    /// bound alone would stay above the floor for a quarter of an hour where steps vary by 5 % and
    /// depend on the step before, with a healthy peer that is always 2 % slower.
    fn is_over(&self, error: f64) -> bool {
        let upper = self.tally.excess() + INTERVAL_Z * error;
        self.tally.excess() <= FLOOR && upper <= FLOOR.max(0.5 * self.excess)
    }
}

impl Tally {
    fn new(since: Interval) -> Self {
        Self { since, bins: 0.0, sum: Slower::default(), squares: 0.0 }
    }

    fn add(&mut self, slower: &Slower) {
        let Slower { level, level_ns, bin, classes } = &mut self.sum;
        if self.bins >= TALLY_BINS {
            let sums = [&mut self.squares, &mut *level, &mut *level_ns, &mut *bin];
            sums.into_iter().chain(classes.iter_mut()).for_each(|sum| *sum *= 0.5);
            self.bins *= 0.5;
        }
        self.bins += 1.0;
        self.squares += slower.level * slower.level;
        *level += slower.level;
        *level_ns += slower.level_ns;
        *bin += slower.bin;
        classes.iter_mut().zip(slower.classes).for_each(|(sum, added)| *sum += added);
    }

    pub(crate) fn bins(&self) -> f64 {
        self.bins
    }

    /// The mean excess, as a share of the median peer's work.
    pub(crate) fn excess(&self) -> f64 {
        self.sum.level / self.bins.max(1.0)
    }

    /// The standard error of the mean excess as the bins themselves show it: what a culprit takes
    /// longer may vary more than what it does otherwise. Levels of a block's bins are one.
    pub(crate) fn error(&self) -> f64 {
        let variance = self.squares / self.bins.max(1.0) - self.excess() * self.excess();
        (variance.max(0.0) * BLOCK_BINS as f64 / self.bins.max(1.0)).sqrt()
    }

    pub(crate) fn excess_ns(&self) -> f64 {
        self.sum.level_ns / self.bins.max(1.0)
    }

    /// The class that covers enough of the excess to explain it.
    pub(crate) fn class(&self) -> Option<Class> {
        let needed = EXPLAINED * self.sum.bin;
        let most = self.sum.classes.iter().enumerate().filter(|(_, of)| **of >= needed);
        let most = most.max_by(|(_, one), (_, other)| one.total_cmp(other));
        most.filter(|_| needed > 0.0).map(|(class, _)| Class(class))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slower(level: f64) -> Slower {
        let mut classes = [f64::NAN; CLASSES_MAX];
        classes[0] = 0.9 * level;
        Slower { level, level_ns: 100.0 * level, bin: level, classes }
    }

    fn named(excess: f64) -> Suspicion {
        let mut suspicion = Suspicion::Healthy;
        suspicion.on_evidence(SUSPECT_SECONDS, Interval(7));
        (0..20).for_each(|_| suspicion.add(&slower(excess)));
        suspicion.on_proof();
        suspicion
    }

    #[test]
    fn only_evidence_moves_a_peer() {
        let mut suspicion = Suspicion::Healthy;
        suspicion.on_proof();
        assert_eq!(suspicion, Suspicion::Healthy);
        suspicion.on_evidence(SUSPECT_SECONDS - 1.0, Interval(5));
        assert_eq!(suspicion, Suspicion::Healthy);
        suspicion.on_evidence(SUSPECT_SECONDS, Interval(7));
        suspicion.on_evidence(1e9, Interval(9));
        assert_eq!(suspicion.tally().map(|tally| tally.since), Some(Interval(7)));
        suspicion.on_evidence(1.0, Interval(11));
        assert_eq!(suspicion, Suspicion::Healthy);
        let mut named = named(0.2);
        named.on_evidence(0.0, Interval(11));
        assert!(named.name().is_some());
    }

    #[test]
    fn a_name_ends_after_thirty_bins_that_show_its_end() {
        for (level, error, ends_after) in [
            (0.2, 0.001, None),
            (0.0, 0.001, Some(30)),
            (0.025, 0.001, Some(30)),
            // Still slower than allowed.
            (0.05, 0.001, None),
            // Too uncertain: up to half of what was named is possible.
            (0.0, 0.06, None),
        ] {
            let mut suspicion = named(0.2);
            // Bins of before leave the mean.
            for _ in 0..1_000 {
                suspicion.add(&slower(level));
                if let Suspicion::Named(name) = &mut suspicion {
                    name.over_bins = 0;
                }
            }
            let ended = (1..100).find(|_| suspicion.has_ended(|_| error));
            assert_eq!(ended, ends_after, "{level} {error}");
        }
    }

    #[test]
    fn means_are_of_the_newest_bins() {
        let mut tally = Tally::new(Interval(1));
        (0..200).for_each(|_| tally.add(&slower(0.1)));
        assert!((tally.excess() - 0.1).abs() < 1e-12 && tally.bins() <= TALLY_BINS);
        (0..400).for_each(|_| tally.add(&slower(0.3)));
        assert!((tally.excess() - 0.3).abs() < 0.01, "{}", tally.excess());
        assert_eq!(tally.class(), Some(Class(0)));
    }
}
