//! How a fleet recovers from each fault.
//!
//! DESIGN D35.

use serde::Serialize;

use super::faults::Fault;
use crate::live::expectation::{Drill, Expectation, Look};

/// A lag under this is none: messages that are due wait no longer for the broker, and samples no
/// longer for `/metrics`.
const LAG_MAX: f64 = 5.0;
/// Time after the end of a fault in which the lag must be gone.
const RECOVERED_WITHIN: f64 = 60.0;

/// The longest lag of one second of a run.
#[derive(Clone, Copy, Debug)]
pub struct Lag {
    /// When, in seconds since its start.
    pub at: f64,
    pub seconds: f64,
}

/// A fault and how long its lag lasted.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Recovery {
    #[serde(flatten)]
    pub fault: Fault,
    /// Seconds from its end until the lag was gone for good; none if it was not in time, or the
    /// next fault began before.
    pub recovered_seconds: Option<f64>,
    /// Whether the next fault began before.
    pub cut_short: bool,
}

impl Recovery {
    /// How the fleet recovers from each fault.
    pub fn of(faults: &[Fault], lags: &[Lag]) -> Vec<Self> {
        let next = faults.iter().skip(1).map(|fault| fault.at.as_secs_f64());
        let next = next.chain([f64::INFINITY]);
        faults.iter().zip(next).map(|(fault, next)| Self::one(*fault, next, lags)).collect()
    }

    fn one(fault: Fault, next: f64, lags: &[Lag]) -> Self {
        let end = fault.end().as_secs_f64();
        let until = next.min(end + RECOVERED_WITHIN);
        let mut window = lags.iter().filter(|lag| (end..until).contains(&lag.at)).peekable();
        let (mut lags_since, mut free_from) = (window.peek().is_none(), Some(end));

        for lag in window {
            lags_since = lag.seconds >= LAG_MAX;
            if lags_since {
                free_from = None;
            } else if free_from.is_none() {
                free_from = Some(lag.at);
            }
        }

        let cut_short = lags_since && next < end + RECOVERED_WITHIN;
        let recovered_seconds = free_from.filter(|_| !lags_since).map(|at| at - end);
        Self { fault, recovered_seconds, cut_short }
    }
}

/// Judges how the fleet recovers.
pub fn judge_recovery(drill: &mut Drill, recoveries: &[Recovery]) {
    let expectation = Expectation::new(
        "recovered",
        format!(
            "within {RECOVERED_WITHIN} s of the end of each fault no message waits for the broker, and \
             no sample for /metrics, for longer than {LAG_MAX} s"
        ),
    );

    let since = drill.elapsed();
    let judged = || recoveries.iter().filter(|one| !one.cut_short);
    let failed = judged().find(|one| one.recovered_seconds.is_none());

    let worst = judged().max_by(|one, other| {
        let took = |one: &Recovery| one.recovered_seconds.unwrap_or(f64::INFINITY);
        took(one).total_cmp(&took(other))
    });

    let Some(worst) = failed.or(worst) else {
        return drill.skip(expectation, "the run was too short for a fault");
    };
    let Fault { at, kind, lasting } = worst.fault;

    let took = match worst.recovered_seconds {
        Some(took) => format!("after {took:.0} s"),
        None => "not".to_owned(),
    };

    let seen = format!(
        "{} faults, {} of them followed by another too soon to judge; worst {kind:?} at {:.0} s for \
         {:.1} s: recovered {took}",
        recoveries.len(),
        recoveries.len() - judged().count(),
        at.as_secs_f64(),
        lasting.as_secs_f64()
    );

    drill.judge(expectation, since, Look::new(failed.is_none(), seen));
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::fleet::faults::FaultKind;
    use crate::live::expectation::Verdict;

    fn fault(at: u64, lasting: u64) -> Fault {
        let (at, lasting) = (Duration::from_secs(at), Duration::from_secs(lasting));
        Fault { at, kind: FaultKind::BrokerKilled, lasting }
    }

    /// A lag in these seconds.
    fn lags(of: impl Fn(u32) -> bool) -> Vec<Lag> {
        let lag = |at| Lag { at: f64::from(at), seconds: if of(at) { 6.0 } else { 0.5 } };
        (0..400).map(lag).collect()
    }

    #[test]
    fn a_lag_that_comes_after_the_fault_counts_until_it_is_gone_for_good() {
        let faults = [fault(100, 10)];
        let took = |of: fn(u32) -> bool| Recovery::of(&faults, &lags(of))[0].recovered_seconds;
        assert_eq!(took(|_| false), Some(0.0));
        assert_eq!(took(|at| (115..130).contains(&at) || at == 140), Some(31.0));
        assert_eq!(took(|at| at >= 115), None);
    }

    #[test]
    fn a_fault_that_another_follows_is_judged_with_that_one() {
        let faults = [fault(100, 10), fault(140, 5)];
        let found = Recovery::of(&faults, &lags(|at| (110..160).contains(&at)));
        assert!(found[0].cut_short && found[0].recovered_seconds.is_none());
        assert_eq!((found[1].cut_short, found[1].recovered_seconds), (false, Some(15.0)));
        let mut drill = Drill::begin("test");
        judge_recovery(&mut drill, &found);
        judge_recovery(&mut drill, &Recovery::of(&faults, &lags(|at| at >= 110)));
        let verdicts: Vec<Verdict> = drill.outcomes().iter().map(|one| one.verdict).collect();
        assert_eq!(verdicts, [Verdict::Met, Verdict::Missed]);
    }
}
