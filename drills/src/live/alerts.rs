//! The alerts that a drill provokes, and what the notifications of each must show.

use std::time::Duration;

use plimsoll_schemas::alert::{
    AlertKey, AlertState, Evidence, LatencyEvidence, Notification, Scope, StragglerEvidence,
    ValueEvidence,
};
use plimsoll_schemas::ids::{Operation, RuleName};
use plimsoll_schemas::rule::file::shipped;

use super::expectation::{Expectation, Look};
use super::notifications::Arrival;

/// An alert that a drill provokes.
#[derive(Clone, Debug)]
pub struct ProvokedAlert {
    pub key: AlertKey,
    shows: Shows,
    /// Whether its notification came: what never fired cannot clear.
    pub has_fired: bool,
}

/// What the evidence must show, beside on which side of the limit it is.
#[derive(Clone, Copy, Debug)]
enum Shows {
    /// A latency of at least this many samples.
    Latency { samples_min: u64 },
    /// A value.
    Value,
    /// A value of the machine, or of this GPU. If it fires, the alert's node is beside it.
    Machine { gpu: Option<&'static str> },
    /// This rank, which computes longer.
    Straggler { rank: usize },
}

impl ProvokedAlert {
    /// Of a built-in budget, whose rule and operation share their name.
    pub fn of_budget(name: &'static str, scope: Scope, samples_min: u64) -> Self {
        let rule = RuleName::new(name).expect("built-in budgets have plain names");
        let operation = Operation::new(name).expect("built-in budgets have plain names");
        let key = AlertKey { rule, scope, operation };
        Self { key, shows: Shows::Latency { samples_min }, has_fired: false }
    }

    /// Of a shipped threshold rule.
    ///
    /// # Panics
    /// When no such rule is shipped, which the tests of each drill exclude.
    pub fn of_rule(rule: &str, scope: Scope) -> Self {
        let thresholds = shipped().thresholds;
        let mut of = thresholds.into_iter().filter(|threshold| threshold.name.as_str() == rule);
        let threshold = of.next().expect("only shipped rules are named, which a test shows");
        let key = AlertKey { operation: threshold.metric.operation(), rule: threshold.name, scope };
        Self { key, shows: Shows::Value, has_fired: false }
    }

    /// Of a shipped rule about a machine, which names this GPU of it or none.
    ///
    /// # Panics
    /// As [`Self::of_rule`].
    pub fn of_machine(rule: &str, scope: Scope, gpu: Option<&'static str>) -> Self {
        Self { shows: Shows::Machine { gpu }, ..Self::of_rule(rule, scope) }
    }

    /// Of a rule about stragglers, which must name this rank.
    ///
    /// # Panics
    /// When rule or operation are no names.
    pub fn of_straggler(rule: &str, operation: &str, scope: Scope, rank: usize) -> Self {
        let rule = RuleName::new(rule).expect("shipped rules have plain names");
        let operation = Operation::new(operation).expect("the drill's step has a plain name");
        let key = AlertKey { rule, scope, operation };
        Self { key, shows: Shows::Straggler { rank }, has_fired: false }
    }

    /// A notification that it moved into this state.
    pub fn notification(&self, state: AlertState, within: Duration) -> Expectation {
        let AlertKey { rule, scope, operation } = &self.key;

        let shown = match (self.shows, state) {
            (Shows::Latency { samples_min }, _) => {
                let not = if state == AlertState::Firing { "" } else { "not " };
                format!("lower bound {not}over the limit, from at least {samples_min} samples")
            }
            (Shows::Value, AlertState::Firing) => format!("{operation} beyond the limit"),
            (Shows::Machine { gpu }, AlertState::Firing) => {
                format!("{operation}{} beyond the limit, its node beside it", of_gpu(gpu))
            }
            (Shows::Straggler { rank }, AlertState::Firing) => {
                format!("rank {rank} computes longer in {operation}")
            }
            (Shows::Straggler { rank }, _) => format!("rank {rank} as fast as the others"),
            (Shows::Value | Shows::Machine { .. }, _) => format!("{operation} within the limit"),
        };

        Expectation::new(
            format!("{rule} {} ({scope})", state.as_str()),
            format!("a notification on the bus within {} s, {shown}", within.as_secs()),
        )
    }

    /// Judges a notification by its own evidence.
    pub fn judge(&self, Arrival { at, notification }: &Arrival) -> Look {
        let fires = notification.state == AlertState::Firing;
        let (met, seen) = match (self.shows, &notification.evidence) {
            (Shows::Latency { samples_min }, Evidence::Latency(evidence)) => {
                let over = evidence.lower_seconds > evidence.limit_seconds;
                (over == fires && evidence.samples >= samples_min, latency(evidence))
            }
            (Shows::Value, Evidence::Value(evidence)) => {
                (is_beyond(evidence) == fires, value(evidence))
            }
            (Shows::Machine { gpu }, Evidence::Value(evidence)) => {
                let node = blamed(notification);
                let names = evidence.labels.get("gpu") == gpu
                    && node == Some(notification.key.scope.node());
                let beside = node.unwrap_or("no node");
                let beside = if fires { format!(", beside it {beside}") } else { String::new() };
                (is_beyond(evidence) == fires && (names || !fires), value(evidence) + &beside)
            }
            // What was named is repeated at the end.
            (Shows::Straggler { rank }, Evidence::Straggler(evidence)) => {
                let is_it = evidence.peer == rank.to_string();
                (is_it && evidence.class.as_deref() == Some("compute"), straggler(evidence))
            }
            _ => (false, "other evidence than expected".to_owned()),
        };

        let seen = format!("{}, {seen}", notification.state.as_str());
        Look { at: Some(*at), ..Look::new(met, seen) }
    }
}

fn straggler(of: &StragglerEvidence) -> String {
    let class = of.class.as_deref().unwrap_or("no class");
    let (ms, lower) = (of.excess_seconds * 1e3, of.lower_seconds * 1e3);
    format!("{} {}: {class} +{ms:.1} ms, at least {lower:.1} ms", of.by, of.peer)
}

fn latency(evidence: &LatencyEvidence) -> String {
    format!(
        "value {:.1} ms, lower bound {:.1} ms, limit {:.1} ms, {} samples in {}",
        evidence.value_seconds * 1e3,
        evidence.lower_seconds * 1e3,
        evidence.limit_seconds * 1e3,
        evidence.samples,
        evidence.window,
    )
}

fn is_beyond(evidence: &ValueEvidence) -> bool {
    evidence.comparison.holds(evidence.value, evidence.threshold)
}

fn value(ValueEvidence { metric, labels, value, threshold, .. }: &ValueEvidence) -> String {
    format!("{metric} {value}{}, limit {threshold}", of_gpu(labels.get("gpu")))
}

fn of_gpu(gpu: Option<&str>) -> String {
    gpu.map_or_else(String::new, |gpu| format!(" of GPU {gpu}"))
}

/// The node that an alert shows first.
fn blamed(notification: &Notification) -> Option<&str> {
    notification.context.as_ref()?.worst.first().map(|worst| worst.node.as_str())
}

#[cfg(test)]
mod tests {
    use AlertState::{Firing, Resolved};
    use plimsoll_schemas::alert::{AlertContext, WorstNode};
    use plimsoll_schemas::ids::{Labels, NodeName};
    use plimsoll_schemas::rule::Comparison;

    use super::*;
    use crate::live::notifications::tests::{arrival, latency};

    fn hook() -> ProvokedAlert {
        ProvokedAlert::of_budget("epoch_hook", Scope::Fleet, 100)
    }

    #[test]
    fn a_notification_counts_only_if_its_own_evidence_supports_it() {
        for (state, lower_seconds, samples, met) in [
            (Firing, 0.02, 100, true),
            (Firing, 0.02, 99, false),
            (Firing, 0.018, 100, false),
            (Resolved, 0.018, 100, true),
            (Resolved, 0.018, 0, false),
            (Resolved, 0.02, 100, false),
        ] {
            let look =
                hook().judge(&arrival(7, hook().key, state, latency(lower_seconds, samples)));
            assert_eq!(look.met, met, "{state:?} {lower_seconds} {samples}");
            assert_eq!(look.at, Some(Duration::from_secs(7)));
        }
    }

    #[test]
    fn what_is_skipped_has_the_text_of_what_would_have_been_awaited() {
        let Expectation { name, expected } = hook().notification(Resolved, Duration::from_secs(45));
        assert_eq!(name, "epoch_hook resolved (fleet)");
        assert_eq!(
            expected,
            "a notification on the bus within 45 s, lower bound not over the limit, from at least 100 \
             samples"
        );
    }

    /// Of the temperature of a GPU, beside which the alert shows a node.
    fn heat(state: AlertState, value: f64, gpu: Option<&str>, beside: &str) -> Arrival {
        let evidence = Evidence::Value(ValueEvidence {
            metric: "gpu_temperature_celsius".parse().unwrap(),
            labels: Labels::new(gpu.map(|gpu| ("gpu", gpu))).unwrap(),
            value,
            comparison: Comparison::Greater,
            threshold: 75.0,
        });
        let worst = WorstNode {
            node: NodeName::new(beside).unwrap(),
            labels: Labels::default(),
            samples: 0,
            over: 0,
            share: 0.0,
            share_of_slow: 0.0,
            over_ratio: 0.0,
            hardware: Default::default(),
            bus: Default::default(),
        };
        let mut heat = arrival(7, hot(None).key, state, evidence);
        let context = AlertContext { worst: vec![worst], ..AlertContext::default() };
        heat.notification.context = Some(Box::new(context));
        heat
    }

    fn hot(gpu: Option<&'static str>) -> ProvokedAlert {
        let scope = Scope::Node(NodeName::new("a").unwrap());
        ProvokedAlert::of_machine("gpu_hot", scope, gpu)
    }

    #[test]
    fn a_notification_counts_only_if_its_evidence_is_of_the_right_node_and_gpu_and_supports_it() {
        let (first, other) = (Some("0"), Some("1"));
        for (state, value, gpu, beside, met) in [
            (Firing, 80.0, first, "a", true),
            (Firing, 75.0, first, "a", false),
            (Firing, 80.0, other, "a", false),
            (Firing, 80.0, None, "a", false),
            (Firing, 80.0, first, "b", false),
            (Resolved, 75.0, first, "a", true),
            (Resolved, 45.0, other, "b", true),
            (Resolved, 80.0, first, "a", false),
        ] {
            let look = hot(first).judge(&heat(state, value, gpu, beside));
            assert_eq!(look.met, met, "{state:?} {value} {gpu:?} {beside}");
            assert_eq!(look.at, Some(Duration::from_secs(7)));
        }
    }

    #[test]
    fn evidence_of_another_kind_proves_nothing() {
        let latency = arrival(7, hot(None).key, Firing, latency(0.02, 100));
        assert!(!hot(None).judge(&latency).met);
        assert!(!hook().judge(&heat(Firing, 80.0, Some("0"), "a")).met);
    }
}
