//! A change from A to B with its interval, and when it is one.
//!
//! DESIGN A78.

use serde::Serialize;

use crate::interval::Interval;
use crate::verdict::Verdict;

/// A change with its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Change {
    /// How large it is: 0.01 for 1 %.
    pub estimate: f64,
    /// The lower end of its interval.
    pub low: f64,
    /// The upper end of its interval.
    pub high: f64,
    /// The noise floor: smaller changes are not judged.
    pub floor: f64,
    /// `same`, `better` or `worse`.
    pub verdict: Verdict,
}

/// An interval of logarithms as shares of A.
pub(crate) fn change_of(interval: &Interval, tolerance: f64) -> Change {
    Change {
        estimate: interval.shift.exp_m1(),
        low: interval.low.exp_m1(),
        high: interval.high.exp_m1(),
        floor: interval.floor.exp_m1(),
        verdict: verdict(interval, tolerance.ln_1p()),
    }
}

/// A change is one if its interval excludes none, and if neither noise nor the tolerance explains
/// it.
pub(crate) fn verdict(interval: &Interval, tolerance: f64) -> Verdict {
    if interval.shift.abs() <= interval.floor.max(tolerance) {
        return Verdict::Same;
    }
    match (interval.low > 0.0, interval.high < 0.0) {
        (true, _) => Verdict::Worse,
        (_, true) => Verdict::Better,
        (false, false) => Verdict::Same,
    }
}
