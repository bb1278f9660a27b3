//! Error budgets: how fast each is spent, over a long and a short window, and what is left of it.
//! A pace is exceeded where both windows are strictly above it: equal is within, as with limits.
//! The share of samples over the limit is exact; what nobody is sure of does not count as over.
//! Where samples do not reach back over half of the long window, that says nothing: else one bad
//! minute of a young mesh would be a bad hour, day and three days at once.

use std::sync::Arc;
use std::time::Duration;

use plimsoll_schemas::alert::{AlertKey, AlertState, BurnEvidence, Scope};
use plimsoll_schemas::budget::{Budget, Burn, Window};
use plimsoll_schemas::time::{Wall, nanos, seconds};

use crate::core::Core;
use crate::core::alerting::alert::{Finding, Patience};
use crate::core::fleet::window::Windows;

/// What is known of one budget's error budget.
#[derive(Clone, Debug, PartialEq)]
pub struct ErrorBudget {
    /// The budget's name.
    pub budget: String,
    /// The share of samples that must stay within its limit.
    pub objective: f64,
    /// What is left of it, 1 being all; below 0 it is overdrawn. `None` without samples.
    pub remaining: Option<f64>,
    /// How many times as fast as it may be it is spent, over each window that a rule watches.
    pub burns: Vec<(Window, Option<f64>)>,
}

impl ErrorBudget {
    /// That of the samples in `windows`; `None` of a budget without an objective.
    #[must_use]
    pub fn of(at: Wall, budget: &Budget, time_scale: u32, windows: &Windows) -> Option<Self> {
        let objective = budget.objective?;
        let burns = budget.burns(time_scale).into_iter();
        let mut watched: Vec<_> = burns.flat_map(|burn| [burn.short, burn.long]).collect();
        watched.sort_unstable();
        watched.dedup();
        let pace = |window| (window, spent(at, budget, window, windows).map(|of| of.pace));
        Some(Self {
            budget: budget.name.to_string(),
            objective,
            remaining: remaining(at, budget, time_scale, windows),
            burns: watched.into_iter().map(pace).collect(),
        })
    }
}

/// How fast an error budget is spent over one window.
#[derive(Clone, Copy, Debug)]
struct Spent {
    samples: u64,
    pace: f64,
}

impl Core {
    /// Judges every pace of every error budget as of `at`, which lies `late` before the present.
    pub(crate) fn judge_burns(&mut self, (at, late): (Wall, Duration)) {
        let rules = Arc::clone(&self.rules);
        for budget in &rules.budgets {
            let (fire_after, clear_after) = (budget.fire_after, budget.clear_after);
            for burn in budget.burns(rules.time_scale) {
                let finding = self.burn_finding(at, budget, &burn);
                let (rule, operation) = (burn.rule(budget), budget.operation.clone());
                let key = AlertKey { rule, scope: Scope::Fleet, operation };
                // What never was stays so.
                if finding < Finding::Breach && self.alerts.state(&key) == AlertState::Inactive {
                    continue;
                }
                self.on_found((at, late), key, finding, Patience { fire_after, clear_after });
            }
        }
    }

    fn burn_finding(&self, at: Wall, budget: &Budget, burn: &Burn) -> Finding {
        let windows = self.windows_of(budget, &Scope::Fleet);
        let of = |window| windows.and_then(|windows| spent(at, budget, window, windows));
        let (Some(long), Some(short)) = (of(burn.long), of(burn.short)) else {
            return Finding::NoData;
        };
        let half = Wall(at.0.saturating_sub(nanos(burn.long.span() / 2)));
        let reaches_back = windows.and_then(Windows::oldest).is_some_and(|oldest| oldest <= half);
        if short.samples < budget.min_samples || !reaches_back {
            return Finding::Insufficient;
        }
        match (long.pace > burn.factor, short.pace > burn.factor) {
            (true, true) => Finding::Breach,
            (false, true) => Finding::Unsure,
            (_, false) => Finding::Clear,
        }
    }

    /// The figures about one pace of one error budget, as of when rules were last judged.
    #[must_use]
    pub fn burn_of(&self, budget: &Budget, burn: &Burn) -> Option<BurnEvidence> {
        let (at, objective) = (self.judged_at?, budget.objective?);
        let windows = self.windows_of(budget, &Scope::Fleet)?;
        let pace = |window| spent(at, budget, window, windows).map_or(0.0, |spent| spent.pace);
        Some(BurnEvidence {
            objective,
            limit_seconds: seconds(budget.limit_ns),
            factor: burn.factor,
            long_burn: pace(burn.long),
            long: burn.long,
            short_burn: pace(burn.short),
            short: burn.short,
            remaining: remaining(at, budget, self.rules.time_scale, windows).unwrap_or(1.0),
        })
    }
}

#[expect(clippy::cast_precision_loss, reason = "a share, of counts below 2^53")]
fn spent(at: Wall, budget: &Budget, window: Window, windows: &Windows) -> Option<Spent> {
    let sums = windows.sums(at, window, budget.limit_ns);
    let allowed = 1.0 - budget.objective?;
    let share = sums.over as f64 / sums.samples as f64;
    (sums.samples > 0).then(|| Spent { samples: sums.samples, pace: share / allowed })
}

/// Spent at pace 1 over the whole of its time, an error budget is used up.
fn remaining(at: Wall, budget: &Budget, time_scale: u32, windows: &Windows) -> Option<f64> {
    let all = spent(at, budget, Budget::spent_over(time_scale), windows)?;
    Some(1.0 - all.pace)
}

#[cfg(test)]
mod tests;
