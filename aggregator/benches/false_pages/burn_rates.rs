//! Alerts on error budgets as practised for services: the budget is spent many times too fast over
//! a long window, and over a twelfth of it, so that the alert ends soon. (The Site Reliability
//! Workbook, chapter 5, "Multiwindow, Multi-Burn-Rate Alerts": those of its alerts that page.)

use std::collections::VecDeque;

use plimsoll_schemas::budget::Budget;

/// Seconds between evaluations, and of one step of every window.
const EVERY: u64 = 15;
/// Steps of the longest window.
const STEPS: usize = 6 * 240;
/// Long window and short window in steps, and the burn rate that fires.
const ALERTS: [(usize, usize, f64); 2] = [(240, 20, 14.4), (STEPS, 120, 6.0)];

/// Both alerts over one budget's error budget.
#[derive(Clone)]
pub(crate) struct BurnRates {
    limit_ns: u64,
    allowed: f64,
    /// Samples of each step and those over the limit, newest first.
    steps: VecDeque<(u64, u64)>,
    is_firing: bool,
}

impl BurnRates {
    pub(crate) fn new(budget: &Budget) -> Self {
        let allowed = 1.0 - budget.quantile;
        Self { limit_ns: budget.limit_ns, allowed, steps: VecDeque::new(), is_firing: false }
    }

    /// Whether one of them fires after this second's samples.
    pub(crate) fn fires(&mut self, second: u64, samples: &[u64]) -> bool {
        if second.is_multiple_of(EVERY) || self.steps.is_empty() {
            self.is_firing = ALERTS.iter().any(|(long, short, factor)| {
                self.rate(*long) > *factor && self.rate(*short) > *factor
            });
            self.steps.push_front((0, 0));
            self.steps.truncate(STEPS);
        }
        let (all, over) = &mut self.steps[0];
        *all += samples.len() as u64;
        *over += samples.iter().filter(|sample| **sample > self.limit_ns).count() as u64;
        self.is_firing
    }

    /// How many times too fast the budget is spent over this number of steps.
    #[expect(clippy::cast_precision_loss, reason = "counts of hours")]
    fn rate(&self, steps: usize) -> f64 {
        let add = |sum: (u64, u64), step: &(u64, u64)| (sum.0 + step.0, sum.1 + step.1);
        let (all, over) = self.steps.iter().take(steps).fold((0, 0), add);
        if all == 0 { 0.0 } else { over as f64 / all as f64 / self.allowed }
    }
}
