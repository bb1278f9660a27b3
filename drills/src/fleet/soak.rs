//! Whether processes grow in a run with faults.
//!
//! DESIGN D35.

use std::time::Duration;

use super::faults::FaultKind;
use super::figures::Second;
use super::recovery::Recovery;
use super::slope::Slope;
use crate::live::expectation::{Drill, Expectation, Look};
use crate::processes::Usage;

/// Growth of memory in an hour, in percent of its median.
const GROWTH_MAX: f64 = 1.0;
/// Handles that a process may have more after an hour.
const HANDLES_MAX: f64 = 1.0;
/// Shorter runs are not judged by slopes: what caches fill in minutes would be much in an hour.
const JUDGED_FROM: Duration = Duration::from_secs(1_800);

/// What each process holds after the first quarter of a run, and how that grows.
pub fn slopes(timeline: &[Second], length: Duration) -> Vec<Slope> {
    let (from, until) = (length.as_secs_f64() / 4.0, length.as_secs_f64());
    let after = || timeline.iter().filter(|one| (from..=until).contains(&one.at));
    let used = timeline.iter().find_map(|one| one.usage.as_ref());
    let names = used.into_iter().flatten().map(|(name, _)| *name).filter(|name| *name != PAGES);
    let mut slopes = Vec::new();

    for process in names {
        let name = process.replace('_', " ");

        let value = |of: fn(&Usage) -> u64| {
            after().filter_map(move |one| {
                let usage = one.usage.as_ref()?.get(process)?;
                // One that is down holds nothing.
                #[expect(clippy::cast_precision_loss, reason = "bytes and counts, below 2^53")]
                (usage.resident_bytes > 0).then_some((one.at, of(usage) as f64))
            })
        };

        let memory = value(|usage| usage.resident_floor_bytes);
        slopes.extend(Slope::of(&format!("{MEMORY} of the {name}"), memory));
        slopes.extend(Slope::of(&format!("{HANDLES} of the {name}"), value(|usage| usage.handles)));
        slopes.extend(Slope::of(&format!("threads of the {name}"), value(|usage| usage.threads)));
    }

    slopes
}

const PAGES: &str = "pages";
const MEMORY: &str = "resident bytes between bursts";
const HANDLES: &str = "handles";

/// Judges what processes hold that were never restarted: the second aggregator, and the broker if
/// it was not killed. What began again begins small.
pub fn judge_slopes(drill: &mut Drill, slopes: &[Slope], faults: &[Recovery], length: Duration) {
    let broker_killed = faults.iter().any(|one| one.fault.kind == FaultKind::BrokerKilled);
    let judged = [("second aggregator", true), ("broker", !broker_killed)];

    for (name, is_judged) in judged {
        for (what, bound) in [
            (MEMORY, format!("by less than {GROWTH_MAX} % an hour")),
            (HANDLES, format!("by less than {HANDLES_MAX} an hour")),
        ] {
            let of = format!("{what} of the {name}");
            let expectation =
                Expectation::new(format!("{of} level"), format!("after warm-up it grows {bound}"));
            let since = drill.elapsed();
            let found = slopes.iter().find(|slope| slope.of == of);

            match found {
                _ if length < JUDGED_FROM => drill.skip(expectation, "the run was too short"),
                _ if !is_judged => drill.skip(expectation, "it was killed, and starts small"),
                None => drill.skip(expectation, "none"),
                Some(Slope { median, per_hour, percent_per_hour, .. }) => {
                    let met = match what {
                        MEMORY => *percent_per_hour < GROWTH_MAX,
                        _ => *per_hour < HANDLES_MAX,
                    };
                    let seen = format!("{median:.0}, {percent_per_hour:+.2} % an hour");
                    drill.judge(expectation, since, Look::new(met, seen));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::faults::Fault;
    use crate::live::expectation::Verdict;

    fn judged(growth: f64, length: u64) -> Vec<(String, Verdict)> {
        let slope = |what: &str| Slope {
            of: format!("{what} of the second aggregator"),
            median: 100.0,
            per_hour: growth,
            percent_per_hour: growth,
        };
        let kind = FaultKind::BrokerKilled;
        let killed = Fault { at: Duration::ZERO, kind, lasting: Duration::ZERO };
        let (mut drill, killed) = (Drill::begin("test"), Recovery::of(&[killed], &[]));
        let slopes = [slope(MEMORY), slope(HANDLES)];
        judge_slopes(&mut drill, &slopes, &killed, Duration::from_secs(length));
        drill.outcomes().iter().map(|one| (one.name.clone(), one.verdict)).collect()
    }

    #[test]
    fn a_leak_is_missed_a_short_run_and_a_killed_broker_are_not_judged() {
        let verdicts = |growth, length| {
            let all = judged(growth, length).into_iter().map(|(_, verdict)| verdict);
            all.collect::<Vec<_>>()
        };
        use Verdict::{Met, Missed, Skipped};
        assert_eq!(verdicts(0.4, 3_600), [Met, Met, Skipped, Skipped]);
        assert_eq!(verdicts(2.0, 3_600), [Missed, Missed, Skipped, Skipped]);
        assert_eq!(verdicts(2.0, 600), [Skipped; 4]);
    }
}
