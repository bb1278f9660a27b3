//! How fast an error budget may be spent before someone is told: several paces, each over a long
//! window that shows it matters and a short one that shows it still goes on.
//! (Google, The Site Reliability Workbook, chapter 5, "Multiwindow, multi-burn-rate alerts".)

use std::time::Duration;

use super::{Budget, Window};
use crate::ids::RuleName;
use crate::rule::Severity;

/// A pace at which an error budget must not be spent: so many times as fast as would use all of
/// it up in thirty days.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Times as fast.
    pub factor: f64,
    /// Over this window,
    pub long: Window,
    /// and over this one.
    pub short: Window,
    /// How bad that is.
    pub severity: Severity,
    /// What the rule's name ends with.
    suffix: &'static str,
}

/// All paces, the fastest first. 14.4 for an hour is 2 % of the budget, 6 for six hours 5 %, 3 for
/// a day and 1 for three days 10 %.
pub const PACES: [Pace; 4] = [
    Pace {
        factor: 14.4,
        long: Window::OneHour,
        short: Window::FiveMinutes,
        severity: Severity::Critical,
        suffix: "burn_1h",
    },
    Pace {
        factor: 6.0,
        long: Window::SixHours,
        short: Window::HalfHour,
        severity: Severity::Critical,
        suffix: "burn_6h",
    },
    Pace {
        factor: 3.0,
        long: Window::OneDay,
        short: Window::TwoHours,
        severity: Severity::Warning,
        suffix: "burn_1d",
    },
    Pace {
        factor: 1.0,
        long: Window::ThreeDays,
        short: Window::SixHours,
        severity: Severity::Warning,
        suffix: "burn_3d",
    },
];

/// One pace of one budget, in the windows that a time scale makes of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Burn {
    /// Times as fast.
    pub factor: f64,
    /// Over this window,
    pub long: Window,
    /// and over this one.
    pub short: Window,
    /// How bad that is.
    pub severity: Severity,
    suffix: &'static str,
}

impl Burn {
    /// The name of the rule that watches it for a budget.
    #[must_use]
    pub fn rule(&self, budget: &Budget) -> RuleName {
        let name = format!("{}_{}", budget.name, self.suffix);
        RuleName::new(name).expect("a budget with an objective has a name that leaves room for it")
    }
}

impl Budget {
    /// The paces at which its error budget must not be spent: those at which it can be at all,
    /// since no more than every sample can be over the limit. None without an objective.
    #[must_use]
    pub fn burns(&self, time_scale: u32) -> Vec<Burn> {
        let Some(objective) = self.objective else { return Vec::new() };
        let reached = PACES.into_iter().filter(|pace| pace.factor * (1.0 - objective) < 1.0);
        let burn = |Pace { factor, long, short, severity, suffix }| Burn {
            factor,
            long: scaled(long, time_scale),
            short: scaled(short, time_scale),
            severity,
            suffix,
        };
        reached.map(burn).collect()
    }

    /// The window over which its error budget is spent: thirty days, or what a time scale makes
    /// of them.
    #[must_use]
    pub fn spent_over(time_scale: u32) -> Window {
        scaled(Window::ThirtyDays, time_scale)
    }
}

/// The kept window nearest to one that is so many times shorter.
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
    use crate::budget::effective;

    fn budget(objective: Option<f64>) -> Budget {
        Budget { objective, ..effective(&[]).unwrap().remove(0) }
    }

    #[test]
    fn a_budget_burns_at_the_paces_that_its_objective_lets_it_reach() {
        let names = |objective| {
            let budget = budget(objective);
            let burns = budget.burns(1).into_iter();
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
            let burn = budget(Some(0.99)).burns(scale)[0];
            let found = (burn.long.as_str(), burn.short.as_str());
            assert_eq!(found, (if long == "10m" { "5m" } else { long }, short), "{scale}");
        }
    }
}
