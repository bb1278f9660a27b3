//! A change of an alert in one line, short enough for a pager.

use std::fmt::{self, Write};

use super::evidence::{BurnEvidence, Evidence, LatencyEvidence, StretchEvidence, ValueEvidence};
use super::profile_evidence::ProfileEvidence;
use super::state::AlertState;
use crate::figure::{count, counted, number, percent, span};
use crate::scope::{AlertKey, Scope};
use crate::unit::Unit;

/// The change in words: the value, its limit, the scope.
///
/// `epoch_hook p99 24 ms over 18 ms on node n1, 1,234 samples in 1m`
pub(super) fn describe(
    key: &AlertKey,
    state: AlertState,
    evidence: &Evidence,
    profile: Option<&ProfileEvidence>,
) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _written = match evidence {
        Evidence::Latency(latency) => of_latency(&mut text, key, state, latency),
        Evidence::Burn(burn) => of_burn(&mut text, key, burn),
        Evidence::Straggler(straggler) => {
            let function = profile.and_then(|of| of.function_of(straggler));
            text.push_str(&straggler.sentence(key.scope.node(), state, function));
            Ok(())
        }
        Evidence::Value(value) => of_value(&mut text, key, value),
        Evidence::Gap(gap) => {
            let samples = counted(gap.gap_samples, "sample");
            write!(text, "{samples} missing {}", place(&key.scope))
        }
    };
    text
}

fn of_latency(
    text: &mut String,
    key: &AlertKey,
    state: AlertState,
    of: &LatencyEvidence,
) -> fmt::Result {
    let quantile = number(of.quantile * 100.0);

    let compared = match state {
        AlertState::Pending | AlertState::Firing => "over",
        _ if of.value_seconds <= of.limit_seconds => "within",
        _ => "over",
    };

    let unit = Unit::of(key.operation.as_str());
    let (mut value, limit) = (unit.text(of.value_seconds), unit.text(of.limit_seconds));
    if let Some((least, most)) = of.within_seconds {
        let (least, most) = (unit.text(least), unit.text(most));
        value = format!("~{value} (approximate, from {least} to {most})");
    }
    let (samples, window) = (counted(of.samples, "sample"), of.window);
    let place = place(&key.scope);

    write!(
        text,
        "{} p{quantile} {value} {compared} {limit} {place}, {samples} in {window}",
        key.operation
    )?;

    // The samples that show the breach, if the window alone does not.
    let longer = of.stretch.as_ref().filter(|of| of.seconds > window.span().as_secs_f64());

    if let Some(StretchEvidence { seconds, samples, over }) = longer {
        let (over, samples) = (count(*over), count(*samples));
        write!(text, ", {over} of {samples} over the limit in {}", span(*seconds))?;
    }

    let is_breach = matches!(state, AlertState::Pending | AlertState::Firing);
    if of.overdispersion <= 1.0 || !is_breach {
        return Ok(());
    }
    let vary = if of.learning { "counts are assumed to vary" } else { "counts vary" };
    let times = number(of.overdispersion);
    write!(text, ", {vary} {times} times as much as with independent samples")
}

fn of_burn(text: &mut String, key: &AlertKey, of: &BurnEvidence) -> fmt::Result {
    let (long, short) = (number(of.long_burn), number(of.short_burn));
    write!(
        text,
        "{} spends its error budget {long} times too fast over {} and {short} times over {} {}, \
         {} of it left",
        key.operation,
        of.long,
        of.short,
        place(&key.scope),
        percent(of.remaining)
    )
}

fn of_value(text: &mut String, key: &AlertKey, of: &ValueEvidence) -> fmt::Result {
    write!(text, "{} {}", of.metric, number(of.value))?;
    for (name, value) in of.labels.iter() {
        write!(text, " {name}={value}")?;
    }
    let fires = of.comparison.holds(of.value, of.threshold);
    let fits = if fires { "is" } else { "is not" };
    let threshold = number(of.threshold);
    write!(text, " {fits} {} {threshold} {}", of.comparison, place(&key.scope))
}

fn place(scope: &Scope) -> String {
    match scope {
        Scope::Fleet => "in the fleet".to_owned(),
        Scope::Node(node) => format!("on node {node}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alert::GapEvidence;
    use crate::budget::Window;
    use crate::ids::{Labels, NodeName, Operation, RuleName};
    use crate::metric::Comparison;

    fn key(node: Option<&str>) -> AlertKey {
        let scope = node.map_or(Scope::Fleet, |name| Scope::Node(NodeName::new(name).unwrap()));
        let operation = Operation::new("epoch_hook").unwrap();
        AlertKey { rule: RuleName::new("r").unwrap(), scope, operation }
    }

    fn latency(value_seconds: f64, samples: u64) -> Evidence {
        Evidence::Latency(LatencyEvidence {
            quantile: 0.99,
            value_seconds,
            lower_seconds: 0.0,
            limit_seconds: 0.018,
            window: Window::OneMinute,
            samples,
            upper_seconds: None,
            over: 0,
            uncertain: 0,
            stretch: None,
            within_seconds: None,
            overdispersion: 1.0,
            learning: false,
        })
    }

    #[test]
    fn an_approximate_value_is_marked_with_its_bounds() {
        let Evidence::Latency(exact) = latency(0.024, 1_234) else { panic!("it is of a latency") };
        let open = LatencyEvidence { within_seconds: Some((0.02, 0.025)), ..exact };
        assert_eq!(
            describe(&key(None), AlertState::Firing, &Evidence::Latency(open), None),
            "epoch_hook p99 ~24 ms (approximate, from 20 ms to 25 ms) over 18 ms in the fleet, \
             1,234 samples in 1m"
        );
    }

    #[test]
    fn values_are_in_the_unit_of_the_operation() {
        for (name, value, limit, expected) in [
            ("shard:bytes", 24e6, 12e6, "shard:bytes p99 22.9 MiB over 11.4 MiB in the fleet"),
            ("batch:count", 1_400.0, 512.0, "batch:count p99 1,400 over 512 in the fleet"),
            ("lookup:ps", 1.2e-6, 1e-6, "lookup:ps p99 1.2 µs over 1 µs in the fleet"),
        ] {
            let Evidence::Latency(of) = latency(value, 9) else { panic!("it is of a latency") };
            let of = Evidence::Latency(LatencyEvidence { limit_seconds: limit, ..of });
            let key = AlertKey { operation: Operation::new(name).unwrap(), ..key(None) };
            let text = describe(&key, AlertState::Firing, &of, None);
            assert!(text.starts_with(expected), "{text}");
        }
    }

    #[test]
    fn how_much_counts_vary_is_stated_unless_samples_are_independent() {
        let Evidence::Latency(of) = latency(0.024, 1_234) else { panic!("it is of a latency") };
        for (learning, vary) in [(false, "counts vary"), (true, "counts are assumed to vary")] {
            let of = LatencyEvidence { overdispersion: 6.1, learning, ..of.clone() };
            let ended = Evidence::Latency(of.clone());
            assert!(!describe(&key(None), AlertState::Resolved, &ended, None).contains("vary"));
            assert_eq!(
                describe(&key(None), AlertState::Firing, &Evidence::Latency(of), None),
                format!(
                    "epoch_hook p99 24 ms over 18 ms in the fleet, 1,234 samples in 1m, {vary} 6.1 \
                     times as much as with independent samples"
                )
            );
        }
    }

    #[test]
    fn every_kind_of_evidence_fits_one_line() {
        let burn = Evidence::Burn(BurnEvidence {
            objective: 0.99,
            limit_seconds: 0.018,
            factor: 14.4,
            long_burn: 16.25,
            long: Window::OneHour,
            short_burn: 31.0,
            short: Window::FiveMinutes,
            remaining: 0.62,
        });
        let value = |value| {
            Evidence::Value(ValueEvidence {
                metric: "memory_used_ratio".parse().unwrap(),
                labels: Labels::default(),
                value,
                comparison: Comparison::Greater,
                threshold: 0.85,
            })
        };
        let gap = Evidence::Gap(GapEvidence { gap_samples: 37 });
        let (n1, fleet) = (key(Some("n1")), key(None));
        let table = [
            (
                describe(&n1, AlertState::Firing, &latency(0.024, 1_234), None),
                "epoch_hook p99 24 ms over 18 ms on node n1, 1,234 samples in 1m",
            ),
            (
                describe(&fleet, AlertState::Resolved, &latency(0.01234, 1_234_567), None),
                "epoch_hook p99 12.3 ms within 18 ms in the fleet, 1,234,567 samples in 1m",
            ),
            (
                describe(&fleet, AlertState::Firing, &burn, None),
                "epoch_hook spends its error budget 16.2 times too fast over 1h and 31 times \
                 over 5m in the fleet, 62 % of it left",
            ),
            (
                describe(&n1, AlertState::Firing, &value(0.91), None),
                "memory_used_ratio 0.91 is > 0.85 on node n1",
            ),
            (
                describe(&n1, AlertState::Resolved, &value(0.5), None),
                "memory_used_ratio 0.5 is not > 0.85 on node n1",
            ),
            (describe(&n1, AlertState::Firing, &gap, None), "37 samples missing on node n1"),
        ];
        for (got, wanted) in table {
            assert_eq!(got, wanted);
        }
    }
}
