//! Judges the samples of a budget.
//!
//! A quantile of few samples is mostly luck. So a breach is claimed only when the samples over the
//! limit are more than chance explains, over the shortest stretch that shows it, however many or
//! few samples there are. A stretch reaches back half an hour at most, or the window if that is
//! longer. The end of a breach takes as much evidence. [`stretch`] has the test and its error
//! bound.
//!
//! Which side of the limit a sample of some rank lies on follows from how many samples lie over
//! the limit. So that number decides, which is exact where values in buckets are not. The quantile
//! that is shown, with its confidence bounds, is that of the budget's own window.
//!
//! DESIGN A1, A2.

mod bounds;
mod stretch;

use std::time::Duration;

use plimsoll_schemas::alert::AlertState;
use plimsoll_schemas::budget::{Budget, Window};
use plimsoll_schemas::figure::{counted, number, percent};
use plimsoll_schemas::histogram::{Quantile, rank};
use plimsoll_schemas::summary::Verdict;
use plimsoll_schemas::time::Wall;

use super::finding::Finding;
use crate::core::fleet::{Overdispersion, SlotCounts, Sums};
use bounds::Bounds;
use stretch::Detector;

pub use bounds::{lower_rank, upper_rank};
pub use stretch::Stretch;

/// Nanoseconds from one sample to the next from which on each counts for itself: three a minute,
/// and a few more at the edges of slots. Three slow ones in a row are a breach there, which is what
/// these loops are watched for.
const SINGLE_EVERY: u128 = 18_000_000_000;
/// Shares of samples over the limit for which `--check-config` states the delay, as multiples of
/// the odds of the allowed share.
const SHARES: [f64; 3] = [2.0, 10.0, f64::INFINITY];
/// Multiple of the mean time between two samples.
const OVERDUE_AFTER: u128 = 3;

/// The evidence about one budget.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judgement {
    /// What it amounts to.
    pub finding: Finding,
    /// The stretch of samples that shows a breach, also one that has ended.
    pub stretch: Option<Stretch>,
    /// The samples of the budget's window.
    pub sums: Sums,
    /// The quantile in nanoseconds, when there are samples.
    pub value_ns: Option<u64>,
    /// Where producers' wide buckets leave that open: the least and the most that it may be.
    pub within_ns: Option<(u64, u64)>,
    /// Its lower confidence bound in nanoseconds, when there are enough samples for one.
    pub lower_ns: Option<u64>,
    /// Its upper confidence bound in nanoseconds, when there are enough samples for one.
    pub upper_ns: Option<u64>,
    /// How its samples over the limit come in clusters, as far as that was allowed for.
    pub overdispersion: Overdispersion,
    /// Whether a wide bucket that holds the quantile has the limit inside it.
    is_open: bool,
}

impl Judgement {
    /// What it amounts to, as it is shown beside the state of its alert: a breach that fires is one
    /// until it is shown to have ended.
    pub fn verdict(&self, state: AlertState) -> Verdict {
        match self.finding {
            Finding::NoData => Verdict::NoData,
            Finding::Insufficient => Verdict::Insufficient,
            Finding::Uncertain if state == AlertState::Firing => Verdict::Breach,
            Finding::Uncertain if self.is_open => Verdict::Uncertain,
            Finding::Uncertain | Finding::Clear => Verdict::Within,
            Finding::Breach => Verdict::Breach,
        }
    }
}

/// Judges scopes by one budget.
#[derive(Clone, Copy, Debug)]
pub struct Judge<'b> {
    budget: &'b Budget,
    detector: Detector,
    overdispersion: Overdispersion,
    /// With fewer samples nothing could be a breach.
    pub samples_min: u64,
}

impl<'b> Judge<'b> {
    /// Judges independent samples by this budget.
    pub fn new(budget: &'b Budget) -> Self {
        let detector = Detector::new(budget);
        let samples_min = detector.samples_min().max(budget.min_samples);
        Self { budget, detector, overdispersion: Overdispersion::NONE, samples_min }
    }

    /// The same for samples that come in clusters.
    pub fn of(self, overdispersion: Overdispersion) -> Self {
        Self { overdispersion, ..self }
    }

    /// What is allowed for where these are the recent samples.
    fn allows_for(&self, at: Wall, recent: &[SlotCounts], samples: u64) -> Overdispersion {
        let reach = recent.last().map_or(Duration::ZERO, |oldest| at.since(oldest.begin));
        // Half an hour at least, so that an operation with up to a hundred samples so far counts as
        // such a loop, however fast they came (A179).
        let reach = reach.max(Window::HalfHour.span()).as_nanos();
        let are_few = u128::from(samples) * SINGLE_EVERY <= reach;
        if are_few { Overdispersion::NONE } else { self.overdispersion }
    }

    /// What it can detect and how soon, in three lines.
    ///
    /// `budget "epoch_hook": a breach needs at least 3 samples in 30m, one every 10m`
    pub fn reach(&self) -> [String; 3] {
        let window = self.budget.window.max(Window::HalfHour);
        let (name, least) = (self.budget.name.as_str(), self.samples_min);
        let seconds = window.span().as_secs() / least.max(1);

        let every = match seconds {
            0 => format!("{} per second", least.div_ceil(window.span().as_secs())),
            seconds => {
                format!("one every {}", humantime::format_duration(Duration::from_secs(seconds)))
            }
        };

        let unknown = Overdispersion::UNKNOWN;
        let (known, learning) = (self.found_after(), self.of(unknown).found_after());

        [
            format!("a breach needs at least {} in {window}, {every}", counted(least, "sample")),
            format!("detected at one sample per second: {known}"),
            format!(
                "until 100 clusters of slow samples were seen, counts are assumed to vary {} \
                 times as much as with independent samples: {learning}",
                number(unknown.factor)
            ),
        ]
        .map(|line| format!("budget {name:?}: {line}"))
    }

    /// After what time it shows shares of samples over the limit, at one sample a second.
    fn found_after(&self) -> String {
        let detector = self.detector.of(self.overdispersion);
        let shares = detector.shares(SHARES).map(|share| {
            let after = detector.samples_until(share).map(|n| format_span(n, self.samples_min));
            let after = after.map_or("never".to_owned(), |after| format!("after {after}"));
            // Examples, for which whole percents are enough.
            format!("{} over the limit {after}", percent((share * 100.0).round() / 100.0))
        });
        shares.join(", ")
    }

    /// The finding as of `at` from the sums of the budget's window and from the recent slots,
    /// newest first, and the stretch that shows a breach, if one does.
    pub fn finding(
        &self,
        at: Wall,
        window: &Sums,
        recent: &[SlotCounts],
    ) -> (Finding, Option<Stretch>) {
        let all = total(recent);
        // The window of a slow loop is empty most of the time, which is its pace and no silence.
        if window.samples == 0 && is_overdue(at, recent, all.samples) {
            return (Finding::NoData, None);
        }

        let overdispersion = self.allows_for(at, recent, all.samples);
        let detector = self.detector.of(overdispersion);
        let stretch = detector.breach(recent, self.budget.min_samples);

        // A window that one cluster fills shows no quantile; all that is recent does.
        let shown = if self.resolves(window, overdispersion.factor) { window } else { &all };
        let is_learned = overdispersion.factor > 1.0 && !overdispersion.is_learning;
        let is_within = self.is_within(window) == Some(true)
            || is_learned && self.is_within(shown) == Some(true);

        let finding = match stretch {
            Some(Stretch { has_ended: true, .. }) if is_within => Finding::Clear,
            // Good and bad seconds in turns end nothing that the whole window shows.
            Some(Stretch { has_ended: true, .. }) if !detector.shows(window, &all) => {
                Finding::Uncertain
            }
            Some(Stretch { has_ended: true, .. }) => Finding::Breach,
            // A window that is long enough for its quantile outweighs a shorter stretch.
            Some(_) if is_within && self.resolves(window, 1.0) => Finding::Uncertain,
            Some(_) => Finding::Breach,
            None if all.samples < self.samples_min => Finding::Insufficient,
            None if is_within && self.is_within(&all) == Some(true) => Finding::Clear,
            // Or newer samples have shown that a breach has passed.
            None if is_within && detector.has_passed(recent, self.budget.min_samples) => {
                Finding::Clear
            }
            None => Finding::Uncertain,
        };

        (finding, stretch)
    }

    /// Whether enough samples of the window are over the limit for a breach to start now: a
    /// cheap question, with which most are done.
    pub fn may_be_breach(&self, window: &Sums) -> bool {
        self.is_within(window) == Some(false)
    }

    /// Whether the quantile of these samples is within the limit; `None` if that is uncertain.
    fn is_within(&self, sums: &Sums) -> Option<bool> {
        let is_over = is_over(sums, rank(self.budget.quantile, sums.samples));
        if sums.samples == 0 { Some(true) } else { is_over.map(|over| !over) }
    }

    /// Whether the quantile is not just the maximum, where `factor` samples count as one.
    #[expect(clippy::cast_precision_loss, reason = "counts stay below 2^53")]
    fn resolves(&self, sums: &Sums, factor: f64) -> bool {
        sums.samples as f64 * (1.0 - self.budget.quantile) >= factor
    }

    /// Judges the samples of the budget's window, whose values are read by rank, and the recent
    /// slots.
    pub fn judge(
        &self,
        at: Wall,
        sums: &Sums,
        recent: &[SlotCounts],
        mut at_rank: impl FnMut(u64) -> Option<Quantile>,
    ) -> Judgement {
        let (budget, n) = (self.budget, sums.samples);

        // A bucket may lie on both sides of the limit where the sample itself is known not to.
        let mut find = |rank: u64| {
            let ends = match is_over(sums, rank) {
                Some(true) => (budget.limit_ns.saturating_add(1), u64::MAX),
                Some(false) => (0, budget.limit_ns),
                None => (0, u64::MAX),
            };

            let Quantile { value_ns, lower_ns, upper_ns } = at_rank(rank)?;
            let [value_ns, lower_ns, upper_ns] =
                [value_ns, lower_ns, upper_ns].map(|ns| ns.clamp(ends.0, ends.1));
            Some(Quantile { value_ns, lower_ns, upper_ns })
        };

        let overdispersion = self.allows_for(at, recent, total(recent).samples);
        let bounds = Bounds::new(n, overdispersion.factor);
        let lower = bounds.lower_rank(budget.quantile, budget.confidence);
        let lower_ns = Some(lower).filter(|rank| *rank > 0).and_then(&mut find);

        let own = rank(budget.quantile, n);
        let value = find(own);
        let within_ns = value.and_then(|found| found.within());
        let upper = bounds.upper_rank(budget.quantile, budget.confidence);
        let upper_ns = upper.and_then(&mut find).map(|found| found.upper_ns);

        let (finding, stretch) = self.finding(at, sums, recent);

        Judgement {
            finding,
            stretch,
            sums: *sums,
            value_ns: value.map(|found| found.value_ns),
            within_ns,
            lower_ns: lower_ns.map(|found| found.lower_ns),
            upper_ns,
            overdispersion,
            is_open: within_ns.is_some() && is_over(sums, own).is_none(),
        }
    }
}

/// The time that samples take at one a second.
fn format_span(samples: f64, samples_min: u64) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "half an hour")]
    let seconds = (samples.ceil() as u64).max(samples_min);
    humantime::format_duration(Duration::from_secs(seconds)).to_string()
}

/// Whether a next sample should have come long ago: after three times the mean time between two.
fn is_overdue(at: Wall, recent: &[SlotCounts], samples: u64) -> bool {
    let (Some(newest), Some(oldest)) = (recent.first(), recent.last()) else { return true };
    let between = newest.begin.since(oldest.begin).as_nanos() / u128::from(samples.max(1));
    at.since(newest.begin).as_nanos() > OVERDUE_AFTER * between
}

fn total(slots: &[SlotCounts]) -> Sums {
    slots.iter().fold(Sums::default(), |sums, slot| Sums {
        samples: sums.samples.saturating_add(slot.samples),
        over: sums.over.saturating_add(slot.over.over),
        uncertain: sums.uncertain.saturating_add(slot.over.uncertain),
    })
}

/// Whether the sample of a rank is over the limit; `None` if the sums leave it uncertain.
fn is_over(sums: &Sums, rank: u64) -> Option<bool> {
    let up_to_uncertain = sums.samples.saturating_sub(sums.over);
    if rank > up_to_uncertain {
        return Some(true);
    }
    (rank <= up_to_uncertain.saturating_sub(sums.uncertain)).then_some(false)
}

#[cfg(test)]
mod tests;
