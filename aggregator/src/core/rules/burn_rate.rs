//! Burn rates: how fast each error budget is spent, over a long and a short window, and what is
//! left of it. A burn rate is exceeded where both windows are strictly above it: equal is within,
//! as with limits. The share of samples over the limit is exact; uncertain ones do not count as
//! over. Samples must reach back over half of the long window: otherwise one bad minute of a young
//! mesh would be a bad hour, day and three days at once.
//!
//! DESIGN A5.

use plimsoll_schemas::alert::{AlertKey, BurnEvidence, Scope};
use plimsoll_schemas::budget::{Budget, BurnRate, Window};
use plimsoll_schemas::rule::Rules;
use plimsoll_schemas::time::{Wall, nanos};

use super::finding::{ActiveAlerts, AlertFinding, Finding, Hysteresis};
use crate::core::fleet::{Fleet, Windows};
use crate::limits::BURN_SAMPLES_MIN;

#[derive(Clone, Debug, PartialEq)]
pub struct ErrorBudget {
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
    pub fn of(at: Wall, budget: &Budget, time_scale: u32, windows: &Windows) -> Option<Self> {
        let objective = budget.objective?;
        let burns = budget.burn_rates(time_scale).into_iter();
        let mut watched: Vec<_> = burns.flat_map(|burn| [burn.short, burn.long]).collect();
        watched.sort_unstable();
        watched.dedup();
        let rate = |window| (window, spent(at, budget, window, windows).map(|of| of.rate));
        Some(Self {
            budget: budget.name.to_string(),
            objective,
            remaining: remaining(at, budget, time_scale, windows),
            burns: watched.into_iter().map(rate).collect(),
        })
    }
}

/// How fast an error budget is spent over one window.
#[derive(Clone, Copy, Debug)]
struct Spent {
    samples: u64,
    rate: f64,
}

/// Judges every burn rate of every error budget as of `at`.
pub(super) fn judge_burn_rates(
    at: Wall,
    rules: &Rules,
    fleet: &Fleet,
    active: &ActiveAlerts<'_>,
) -> Vec<AlertFinding> {
    let mut found = Vec::new();
    for budget in &rules.budgets {
        let windows = fleet.windows_of(budget, &Scope::Fleet);
        let hysteresis =
            Hysteresis { fire_after: budget.fire_after, clear_after: budget.clear_after };

        for burn in budget.burn_rates(rules.time_scale) {
            let finding = finding(at, budget, &burn, windows);
            let rule = burn.rule(budget);
            if finding == Finding::Breach || active.of(&rule).contains(&None) {
                let operation = budget.operation.clone();
                let key = AlertKey { rule, scope: Scope::Fleet, operation };
                found.push(AlertFinding { key, finding, hysteresis });
            }
        }
    }

    found
}

pub(crate) fn finding(
    at: Wall,
    budget: &Budget,
    burn: &BurnRate,
    windows: Option<&Windows>,
) -> Finding {
    let of = |window| windows.and_then(|windows| spent(at, budget, window, windows));
    let (Some(long), Some(short)) = (of(burn.long), of(burn.short)) else {
        return Finding::NoData;
    };
    let half = Wall(at.0.saturating_sub(nanos(burn.long.span() / 2)));
    let reaches_back = windows.and_then(Windows::oldest).is_some_and(|oldest| oldest <= half);
    if short.samples < BURN_SAMPLES_MIN || !reaches_back {
        return Finding::Insufficient;
    }

    match (long.rate > burn.factor, short.rate > burn.factor) {
        (true, true) => Finding::Breach,
        // A burst that has not spent enough yet neither fires an alert nor resolves one.
        (false, true) => Finding::Uncertain,
        // The short window resolves an alert within minutes of the
        // fault's end, where the long one stays above for hours.
        (_, false) => Finding::Clear,
    }
}

/// The values behind one burn rate of one error budget; `None` of a budget without an objective.
pub(super) fn evidence(
    at: Wall,
    budget: &Budget,
    burn: &BurnRate,
    time_scale: u32,
    windows: &Windows,
) -> Option<BurnEvidence> {
    let objective = budget.objective?;
    let rate = |window| spent(at, budget, window, windows).map_or(0.0, |spent| spent.rate);
    Some(BurnEvidence {
        objective,
        limit_seconds: budget.unit().shown(budget.limit_ns),
        factor: burn.factor,
        long_burn: rate(burn.long),
        long: burn.long,
        short_burn: rate(burn.short),
        short: burn.short,
        remaining: remaining(at, budget, time_scale, windows).unwrap_or(1.0),
    })
}

#[expect(clippy::cast_precision_loss, reason = "a share, of counts below 2^53")]
fn spent(at: Wall, budget: &Budget, window: Window, windows: &Windows) -> Option<Spent> {
    let sums = windows.spent(at, window, budget.limit_ns);
    let allowed = 1.0 - budget.objective?;
    let share = sums.over as f64 / sums.samples as f64;
    (sums.samples > 0).then(|| Spent { samples: sums.samples, rate: share / allowed })
}

/// Spent at burn rate 1 over the whole of its time, an error budget is used up.
fn remaining(at: Wall, budget: &Budget, time_scale: u32, windows: &Windows) -> Option<f64> {
    let all = spent(at, budget, Budget::spent_over(time_scale), windows)?;
    Some(1.0 - all.rate)
}
