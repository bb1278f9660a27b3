//! What is counted for the limits of an operation's budgets beside its samples: how many came since
//! a limit is known, how many lay in slots that no ring keeps any more, how they cluster, and what
//! an error budget's record carried over.
//!
//! Owns these counts, each of which follows the limits when they change. Refuses to hold samples.

use std::sync::Arc;

use plimsoll_schemas::budget::Window;
use plimsoll_schemas::histogram::{Over, Packed};
use plimsoll_schemas::time::Wall;

use super::carried::Carried;
use super::cascade::Sums;
use super::dispersion::{Dispersion, Overdispersion};
use super::recent::{RecentCounts, SlotCounts};
use super::ring::Shown;
use super::slot::{Batch, Times};
use super::tally::{Limits, Overs, Since};

#[derive(Clone, Debug, PartialEq)]
pub(super) struct LimitCounts {
    pub(super) limits: Limits,
    /// What has come since each limit is known.
    pub(super) since: Since,
    /// Of samples that the last ring has passed, where the operation has a budget.
    pub(super) recent: Arc<RecentCounts>,
    /// How samples over the limits come in clusters.
    pub(super) dispersion: Arc<Dispersion>,
    pub(super) carried: Carried,
}

impl LimitCounts {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            since: Since::default(),
            recent: Arc::default(),
            dispersion: Arc::default(),
            carried: Carried::default(),
        }
    }

    /// Counts for these limits from now on, where there are `count` samples.
    pub(super) fn keep(&mut self, limits: Limits, count: u64) {
        let before = self.limits;
        if before != limits {
            Arc::make_mut(&mut self.dispersion).keep(&before, &limits);
            Arc::make_mut(&mut self.recent).reckon(&before, &limits);
            self.since = self.since.under(&before, &limits, count);
            self.carried.keep(&limits);
        }
        // The same limits may be for budgets that allow another share.
        self.limits = limits;
    }

    pub(super) fn is_judged(&self) -> bool {
        self.limits != Limits::default()
    }

    pub(super) fn add_to_clusters(&mut self, times: Times, batch: &Batch) {
        if self.limits.used() == 0 {
            return;
        }
        // After a restart the allowed shares are unknown
        // until samples bring them: they are not stored.
        self.limits.renew(&batch.limits);
        let samples = batch.exact().count;
        let dispersion = Arc::make_mut(&mut self.dispersion);
        dispersion.add(times.shown, times.taken, samples, &batch.overs, &self.limits);
    }

    /// Counts samples of a time that every ring had passed when they came.
    pub(super) fn add_late(&mut self, now: Wall, taken: Wall, batch: &Batch) {
        if RecentCounts::covers(now, taken.0) {
            self.add_passed(taken.0, batch.exact().count, &batch.overs);
        }
    }

    /// Counts the samples of a slot that every ring has passed.
    pub(super) fn add_passed(&mut self, begin: u64, samples: u64, overs: &Overs) {
        Arc::make_mut(&mut self.recent).add(begin, samples, overs);
    }

    /// Adds all samples of an operation that is evicted.
    pub(super) fn absorb(&mut self, total: &Packed) {
        self.since.tally.add(&Batch::new(total, &self.limits).overs);
    }

    /// Drops counts of times that the longest window has passed.
    pub(super) fn expire(&mut self, now: Wall) {
        if !self.recent.is_empty() {
            Arc::make_mut(&mut self.recent).expire(now);
        }
        if !self.dispersion.is_idle(now) {
            Arc::make_mut(&mut self.dispersion).expire(now, &self.limits);
        }
        if !self.carried.is_empty() {
            let longest = Window::ALL[Window::ALL.len() - 1];
            self.carried.expire(Wall(Shown::new(now, longest).from));
        }
    }

    /// The clock was set back: nothing was counted in the future.
    pub(super) fn turn_back(&mut self, now: Wall) {
        Arc::make_mut(&mut self.recent).turn_back(now);
        Arc::make_mut(&mut self.dispersion).turn_back(now);
    }

    /// Counts of slots that no ring keeps any more; none for a limit for which nothing is summed.
    pub(super) fn passed(&self, limit_ns: u64) -> impl Iterator<Item = SlotCounts> {
        let place = self.limits.place(limit_ns);
        place.into_iter().flat_map(|place| self.recent.slots(place))
    }

    pub(super) fn overdispersion(&self, limit_ns: u64) -> Overdispersion {
        self.dispersion.of(self.limits.place(limit_ns))
    }

    /// As `Windows::since_known`, where there are `count` samples.
    pub(super) fn since_known(&self, limit_ns: u64, count: u64) -> Option<Sums> {
        let place = self.limits.place(limit_ns)?;
        let (samples, Over { over, uncertain }) = self.since.at(place, count);
        Some(Sums { samples, over, uncertain })
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.recent.heap_bytes() + self.carried.heap_bytes() + self.dispersion.heap_bytes()
    }
}
