//! Burn rates: how fast an error budget may be spent before an alert fires. Each is evaluated over
//! a long window that shows it matters and a short one that shows it still continues. (Google, The
//! Site Reliability Workbook, chapter 5, "Multiwindow, multi-burn-rate alerts".)

use std::time::Duration;

use super::definition::Budget;
use super::window::Window;
use crate::annotations::Severity;
use crate::ids::RuleName;

/// A burn rate that fires an alert: this many times as fast as would spend the error budget in
/// thirty days.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BurnRate {
    /// Multiple of the rate that spends the budget in thirty days.
    pub factor: f64,
    /// The long window.
    pub long: Window,
    /// The short window.
    pub short: Window,
    /// Severity of its alert.
    pub severity: Severity,
    /// End of its rule's name.
    suffix: &'static str,
}

/// All burn rates, the fastest first. 14.4 for an hour is 2 % of the budget, 6 for six hours 5 %, 3
/// for a day and 1 for three days 10 %.
pub const BURN_RATES: [BurnRate; 4] = [
    BurnRate {
        factor: 14.4,
        long: Window::OneHour,
        short: Window::FiveMinutes,
        severity: Severity::Critical,
        suffix: "burn_1h",
    },
    BurnRate {
        factor: 6.0,
        long: Window::SixHours,
        short: Window::HalfHour,
        severity: Severity::Critical,
        suffix: "burn_6h",
    },
    BurnRate {
        factor: 3.0,
        long: Window::OneDay,
        short: Window::TwoHours,
        severity: Severity::Warning,
        suffix: "burn_1d",
    },
    BurnRate {
        factor: 1.0,
        long: Window::ThreeDays,
        short: Window::SixHours,
        severity: Severity::Warning,
        suffix: "burn_3d",
    },
];

impl BurnRate {
    /// The name of the rule that evaluates it for a budget.
    #[must_use]
    pub fn rule(&self, budget: &Budget) -> RuleName {
        let name = format!("{}_{}", budget.name, self.suffix);
        RuleName::new(name).expect("a budget with an objective has a name that leaves room for it")
    }
}

impl Budget {
    /// The burn rates that are evaluated: those that can be reached at all, since no more than
    /// every sample can be over the limit. Empty without an objective.
    #[must_use]
    pub fn burn_rates(&self, time_scale: u32) -> Vec<BurnRate> {
        let Some(objective) = self.objective else { return Vec::new() };
        let reached = BURN_RATES.into_iter().filter(|burn| burn.factor * (1.0 - objective) < 1.0);
        let scale = |burn: BurnRate| BurnRate {
            long: scaled(burn.long, time_scale),
            short: scaled(burn.short, time_scale),
            ..burn
        };
        reached.map(scale).collect()
    }

    /// The window over which its error budget is spent: thirty days, or what a time scale makes
    /// of them.
    #[must_use]
    pub fn spent_over(time_scale: u32) -> Window {
        scaled(Window::ThirtyDays, time_scale)
    }
}

/// The window nearest to one that is `time_scale` times shorter.
fn scaled(window: Window, time_scale: u32) -> Window {
    let wanted = window.span() / time_scale.max(1);
    let distance = |of: &Window| {
        let ratio = |a: Duration, b: Duration| a.as_secs_f64() / b.as_secs_f64();
        let times = ratio(of.span(), wanted).max(ratio(wanted, of.span()));
        // Whole thousandths order well enough.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an order")]
        let order = (times * 1_000.0) as u64;
        order
    };
    Window::ALL.into_iter().min_by_key(distance).unwrap_or(window)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::annotations::RuleAnnotations;
    use crate::budget::Selector;
    use crate::ids::Operation;
    use crate::scope::Scopes;

    fn budget(objective: Option<f64>) -> Budget {
        Budget {
            name: RuleName::new("epoch_hook").unwrap(),
            operation: Operation::new("epoch_hook").unwrap(),
            selector: Selector::default(),
            quantile: 0.99,
            limit_ns: 18_000_000,
            window: Window::OneMinute,
            min_samples: 100,
            confidence: 0.99,
            fire_after: 3,
            clear_after: 3,
            objective,
            scopes: Scopes::ALL,
            is_built_in: false,
            about: RuleAnnotations::default(),
        }
    }

    #[test]
    fn a_budget_has_the_burn_rates_that_its_objective_can_reach() {
        let names = |objective| {
            let budget = budget(objective);
            let burns = budget.burn_rates(1).into_iter();
            burns.map(|burn| burn.rule(&budget).to_string()).collect::<Vec<_>>()
        };
        let all = ["burn_1h", "burn_6h", "burn_1d", "burn_3d"].map(|of| format!("epoch_hook_{of}"));
        assert_eq!(names(Some(0.99)), all);
        assert_eq!(names(Some(0.9)), all[1..]);
        assert_eq!(names(Some(0.5)), all[3..]);
        assert_eq!(names(None), [""; 0]);
    }

    #[test]
    fn a_time_scale_shortens_windows_to_the_nearest_that_is_kept() {
        for (scale, long, short) in [(1, "1h", "5m"), (60, "1m", "10s"), (6, "10m", "1m")] {
            let burn = budget(Some(0.99)).burn_rates(scale)[0];
            let found = (burn.long.as_str(), burn.short.as_str());
            assert_eq!(found, (if long == "10m" { "5m" } else { long }, short), "{scale}");
        }
    }
}
