//! What judges every second over the last minute: the aggregator's own windows, findings and
//! alerts, and plain comparisons of the same window's p99.

use plimsoll_aggregator::core::alerting::Alerts;
use plimsoll_aggregator::core::fleet::{
    Batch, Limits, Overdispersion, Retention, SlotCounts, Sums, Times, Windows,
};
use plimsoll_aggregator::core::rules::{Finding, Hysteresis, Judge};
use plimsoll_schemas::alert::{AlertKey, AlertState, Scope};
use plimsoll_schemas::budget::{Budget, Window};
use plimsoll_schemas::histogram::{Histogram, Packed, rank};
use plimsoll_schemas::ids::RuleName;
use plimsoll_schemas::time::Wall;

/// The fleet's windows of one operation, as the aggregator keeps them.
#[derive(Clone)]
pub(crate) struct Fleet {
    budget: Budget,
    retention: Retention,
    windows: Windows,
}

impl Fleet {
    pub(crate) fn new(budget: &Budget) -> Self {
        let retention =
            Retention { up_to: budget.window.max(Window::HalfHour), limits: Limits::of([budget]) };
        Self { budget: budget.clone(), retention, windows: Windows::new(&retention) }
    }

    /// Adds a snapshot's samples and returns the budget's window after it.
    pub(crate) fn take(&mut self, now: Wall, samples: &[u64]) -> Sums {
        if samples.is_empty() {
            return self.windows.sums(now, self.budget.window, self.budget.limit_ns);
        }
        let mut histogram = Histogram::default();
        histogram.watch(&[self.budget.limit_ns]);
        samples.iter().for_each(|sample| histogram.record(*sample));
        let packed = Packed::from(&histogram);
        let times = Times { shown: now, now, taken: now };
        self.windows.add(times, &Batch::new(&packed, &self.retention.limits));
        self.windows.sums(now, self.budget.window, self.budget.limit_ns)
    }

    /// How samples over the limit are taken to come together.
    pub(crate) fn overdispersion(&self) -> Overdispersion {
        self.windows.overdispersion(self.budget.limit_ns)
    }

    /// What the aggregator judges beside the window.
    fn recent(&self, now: Wall) -> Vec<SlotCounts> {
        self.windows.recent(now, self.budget.window, self.budget.limit_ns)
    }
}

/// The aggregator's judgement of one budget.
#[derive(Clone)]
pub(crate) struct Judged {
    budget: Budget,
    key: AlertKey,
    alerts: Alerts,
}

impl Judged {
    pub(crate) fn new(budget: Budget) -> Self {
        let rule: RuleName = budget.name.clone();
        let key = AlertKey { rule, scope: Scope::Fleet, operation: budget.operation.clone() };
        Self { budget, key, alerts: Alerts::default() }
    }

    /// Whether the alert fires after one more evaluation.
    pub(crate) fn fires(&mut self, now: Wall, sums: &Sums, fleet: &Fleet) -> bool {
        let Budget { fire_after, clear_after, .. } = self.budget;
        let judge = Judge::new(&self.budget).of(fleet.overdispersion());
        let state = self.alerts.state(&self.key);
        // As the aggregator does: an alert that is not active takes breaches alone.
        let is_active = state != AlertState::Inactive;
        if !is_active && !judge.may_be_breach(sums) {
            return false;
        }
        let (found, _) = judge.finding(now, sums, &fleet.recent(now));
        if is_active || found == Finding::Breach {
            let hysteresis = Hysteresis { fire_after, clear_after };
            let _ = self.alerts.on_finding(now, &self.key, found, hysteresis);
            self.alerts.evict_calm(now);
        }
        self.alerts.state(&self.key) == AlertState::Firing
    }
}

/// `p99 > limit`, in this many evaluations in a row.
#[derive(Clone)]
pub(crate) struct Plain {
    quantile: f64,
    evaluations: u32,
    streak: u32,
}

impl Plain {
    pub(crate) fn new(budget: &Budget, evaluations: u32) -> Self {
        Self { quantile: budget.quantile, evaluations, streak: 0 }
    }

    pub(crate) fn fires(&mut self, sums: &Sums) -> bool {
        let within = sums.samples - sums.over;
        let over = rank(self.quantile, sums.samples) > within;
        self.streak = if over { self.streak.saturating_add(1) } else { 0 };
        self.streak >= self.evaluations
    }
}
