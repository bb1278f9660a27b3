//! The notification of one change of an alert.
//!
//! DESIGN S14.

use serde::{Deserialize, Serialize};

use super::context::AlertContext;
use super::description::describe;
use super::evidence::Evidence;
use super::profile_evidence::ProfileEvidence;
use super::state::{AlertState, DataStatus};
use crate::annotations::Severity;
use crate::ids::MeshName;
use crate::scope::AlertKey;
use crate::unit::Unit;

/// A change of an alert, as receivers get it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Notification {
    /// The mesh it happened in.
    pub mesh: MeshName,
    /// The alert.
    #[serde(flatten)]
    pub key: AlertKey,
    /// The state before. Equal to `state` for an alert that still fires and is sent again because a
    /// silence or an acknowledgement has ended, or because the number of silent nodes has changed.
    pub from: AlertState,
    /// The state now.
    pub state: AlertState,
    /// When it changed, in seconds since 1970.
    pub at_seconds: f64,
    /// Delay of the detection; more than 0 when no aggregator ran at the time of the change.
    /// Example: the limit was exceeded at 12:00:00, the aggregator was restarted at 12:00:40 and
    /// found it while it read the streams: 40.
    #[serde(default)]
    pub late_seconds: f64,
    /// The evidence.
    pub evidence: Evidence,
    /// What its `.._seconds` and the bars of its context are where they are no seconds: `bytes` or
    /// `count`, by the name of the operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// Severity.
    #[serde(default)]
    pub severity: Severity,
    /// Names of the receivers that are notified; empty means all.
    #[serde(default)]
    pub routes: Vec<String>,
    /// Link to the runbook section.
    #[serde(default)]
    pub runbook: Option<String>,
    /// Summary in one line.
    #[serde(default)]
    pub summary: String,
    /// When it last began to fire, in seconds since 1970.
    #[serde(default)]
    pub firing_since_seconds: Option<f64>,
    /// Why it ended, if not because the rule holds again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<AlertEndReason>,
    /// The operator who has acknowledged it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acknowledged_by: Option<String>,
    /// True when a silence matches it, or an alert about the number of silent nodes stands for it:
    /// it is published on the bus, and receivers are not notified.
    /// Never true for the end of an alert whose beginning receivers were notified of.
    #[serde(default)]
    pub silenced: bool,
    /// How often it has fired again soon after it resolved; each time makes it slower to resolve.
    #[serde(default)]
    pub flaps: u32,
    /// Whether there was enough data.
    #[serde(default)]
    pub data: DataStatus,
    /// What an engineer would look up next. Only notifications of a firing alert carry it: it is
    /// dropped when the alert ends, since it describes the time at which it fired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Box<AlertContext>>,
}

/// Why an alert ended that was not shown to be within its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum AlertEndReason {
    /// Its rule is no longer in the files.
    RuleRemoved,
    /// Its node was evicted.
    NodeForgotten,
    /// The node, or every node that brought its samples, left normally, and the window has
    /// passed.
    NodeLeft,
    /// Every job that brought its samples has ended in good order or left with its node, and the
    /// window has passed.
    JobEnded,
    /// The node is up, and none of its peers has made a step for ten minutes.
    NoSteps,
}

impl AlertEndReason {
    /// As on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RuleRemoved => "rule_removed",
            Self::NodeForgotten => "node_forgotten",
            Self::NodeLeft => "node_left",
            Self::JobEnded => "job_ended",
            Self::NoSteps => "no_steps",
        }
    }

    /// In words, after "ended: ".
    #[must_use]
    pub const fn in_words(self) -> &'static str {
        match self {
            Self::RuleRemoved => "its rule was removed",
            Self::NodeForgotten => "its node was silent for too long",
            Self::NodeLeft => "its node left normally",
            Self::JobEnded => "its job ended normally",
            Self::NoSteps => "no step for ten minutes",
        }
    }
}

impl Notification {
    /// A notification without annotations, context and acknowledgement.
    #[must_use]
    pub fn new(
        mesh: MeshName,
        key: AlertKey,
        (from, state): (AlertState, AlertState),
        at_seconds: f64,
        evidence: Evidence,
    ) -> Self {
        Self {
            mesh,
            unit: Unit::other_than_seconds(key.operation.as_str()).map(str::to_owned),
            key,
            from,
            state,
            at_seconds,
            late_seconds: 0.0,
            evidence,
            severity: Severity::default(),
            routes: Vec::new(),
            runbook: None,
            summary: String::new(),
            firing_since_seconds: None,
            ended: None,
            acknowledged_by: None,
            silenced: false,
            flaps: 0,
            data: DataStatus::Enough,
            context: None,
        }
    }

    /// Whether it reports only that an operator has acknowledged a firing alert. Without an
    /// acknowledgement, a notification from firing to firing is a repetition after a silence.
    #[must_use]
    pub fn is_acknowledgement(&self) -> bool {
        (self.from, self.state) == (AlertState::Firing, AlertState::Firing)
            && self.acknowledged_by.is_some()
    }

    /// The change in one line, for rules without a summary.
    #[must_use]
    pub fn description(&self) -> String {
        let profile = self.context.as_ref().and_then(|context| context.profile.as_ref());
        let mut text = describe(&self.key, self.state, &self.evidence, profile);
        // The sentence about a straggler has its function in the middle.
        let is_sentence = matches!(self.evidence, Evidence::Straggler(_));
        if let Some(words) = profile.filter(|_| !is_sentence).and_then(ProfileEvidence::in_words) {
            text = format!("{text}; {words}");
        }
        match self.ended {
            // It was not shown to be within its limit.
            Some(why) => format!("{text}; ended: {}", why.in_words()),
            None if self.state == AlertState::Resolved => format!("{text}; resolved"),
            None => text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alert::{GapEvidence, LatencyEvidence, Scope};
    use crate::budget::Window;
    use crate::ids::{NodeName, Operation, RuleName};

    fn notification(evidence: Evidence) -> Notification {
        let key = AlertKey {
            rule: RuleName::new("epoch_hook").unwrap(),
            scope: Scope::Node(NodeName::new("n1").unwrap()),
            operation: Operation::new("epoch_hook").unwrap(),
        };
        let change = (AlertState::Pending, AlertState::Firing);
        Notification::new(MeshName::new("m").unwrap(), key, change, 1.5, evidence)
    }

    fn latency() -> Evidence {
        Evidence::Latency(LatencyEvidence {
            quantile: 0.99,
            value_seconds: 0.03,
            lower_seconds: 0.029,
            limit_seconds: 0.018,
            window: Window::TenSeconds,
            samples: 200,
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
    fn a_notification_reads_back_from_its_json() {
        let gap = Evidence::Gap(GapEvidence { gap_samples: 7 });
        for notification in [notification(latency()), notification(gap)] {
            let text = serde_json::to_string(&notification).unwrap();
            assert!(text.contains(r#""scope":{"node":"n1"}"#), "{text}");
            assert_eq!(serde_json::from_str::<Notification>(&text).unwrap(), notification);
        }
    }

    #[test]
    fn the_description_separates_what_resolved_from_what_only_ended() {
        let mut notification = notification(Evidence::Gap(GapEvidence { gap_samples: 7 }));
        let end = |of: &Notification| of.description().rsplit("; ").next().map(str::to_owned);
        assert!(!notification.description().contains(';'));
        notification.state = AlertState::Resolved;
        assert_eq!(end(&notification).as_deref(), Some("resolved"));
        notification.ended = Some(AlertEndReason::JobEnded);
        assert_eq!(end(&notification).as_deref(), Some("ended: its job ended normally"));
        use AlertEndReason::{NoSteps, NodeForgotten, RuleRemoved};
        for why in [RuleRemoved, NodeForgotten, NoSteps] {
            assert_eq!(serde_json::json!(why), why.as_str());
        }
    }

    #[test]
    fn a_notification_without_lateness_reads_as_in_time() {
        let old = r#"{"mesh":"m","rule":"epoch_hook","scope":{"node":"n1"},
            "operation":"epoch_hook","from":"pending","state":"firing","at_seconds":1.5,
            "evidence":{"quantile":0.99,"value_seconds":0.03,"lower_seconds":0.029,
            "limit_seconds":0.018,"window":"10s","samples":200}}"#;
        assert_eq!(serde_json::from_str::<Notification>(old).unwrap(), notification(latency()));
    }
}
