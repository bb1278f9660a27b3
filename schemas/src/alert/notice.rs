//! What is said of an alert's change.

use serde::{Deserialize, Serialize};

use super::context::Context;
use super::description::describe;
use super::evidence::Evidence;
use super::state::{AlertState, Data};
use crate::annotations::Severity;
use crate::ids::MeshName;
use crate::scope::AlertKey;

/// What is sent when an alert changes its state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Notice {
    /// The mesh it happened in.
    pub mesh: MeshName,
    /// What it is about.
    #[serde(flatten)]
    pub key: AlertKey,
    /// The state before; of an alert that goes on firing, and of which is told once more because a
    /// silence or an acknowledgement has ended, the same as the state now.
    pub from: AlertState,
    /// The state now.
    pub state: AlertState,
    /// When it changed, in seconds since 1970.
    pub at_seconds: f64,
    /// How long after the fact that was found out: more than 0 when no aggregator ran then.
    #[serde(default)]
    pub late_seconds: f64,
    /// The evidence.
    pub evidence: Evidence,
    /// How bad it is.
    #[serde(default)]
    pub severity: Severity,
    /// Names of the receivers that are told; none for all.
    #[serde(default)]
    pub routes: Vec<String>,
    /// Where it stands what to do.
    #[serde(default)]
    pub runbook: Option<String>,
    /// What it means, in one line.
    #[serde(default)]
    pub summary: String,
    /// Since when it fires, in seconds since 1970; of one that does not, since when it did.
    #[serde(default)]
    pub firing_since_seconds: Option<f64>,
    /// Why it ended, where that was not because all is well again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Ended>,
    /// Who has said to look after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acknowledged_by: Option<String>,
    /// True where someone has asked not to be told: then it stands on the bus alone. Never of the
    /// end of an alert of which receivers have been told.
    #[serde(default)]
    pub silenced: bool,
    /// How often it has fired again soon after it resolved; each time makes it slower to resolve.
    #[serde(default)]
    pub flaps: u32,
    /// Whether there was enough to judge.
    #[serde(default)]
    pub data: Data,
    /// What an engineer would look up next; only of alerts that fire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Box<Context>>,
}

/// Why an alert ended that was not shown to be within its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// Its rule is no longer in the files.
    RuleRemoved,
    /// Its node is no longer remembered.
    NodeForgotten,
}

impl Notice {
    /// A notice about a change, of a rule that says nothing more about it.
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
            data: Data::Enough,
            context: None,
        }
    }

    /// Whether it says that somebody looks after an alert that fires on, and no more than that.
    /// One that fires on and that nobody looks after is told because what kept it is over.
    #[must_use]
    pub fn is_acknowledgement(&self) -> bool {
        (self.from, self.state) == (AlertState::Firing, AlertState::Firing)
            && self.acknowledged_by.is_some()
    }

    /// What has happened in one line, for rules that say nothing themselves.
    #[must_use]
    pub fn in_words(&self) -> String {
        describe(&self.key, self.state, &self.evidence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alert::{GapEvidence, LatencyEvidence, Scope};
    use crate::budget::Window;
    use crate::ids::{NodeName, Operation, RuleName};

    fn notice(evidence: Evidence) -> Notice {
        let key = AlertKey {
            rule: RuleName::new("epoch_hook").unwrap(),
            scope: Scope::Node(NodeName::new("n1").unwrap()),
            operation: Operation::new("epoch_hook").unwrap(),
        };
        let change = (AlertState::Pending, AlertState::Firing);
        Notice::new(MeshName::new("m").unwrap(), key, change, 1.5, evidence)
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
            unsure: 0,
            within_seconds: None,
        })
    }

    #[test]
    fn a_notice_reads_back_from_its_json() {
        let gap = Evidence::Gap(GapEvidence { gap_samples: 7 });
        for notice in [notice(latency()), notice(gap)] {
            let text = serde_json::to_string(&notice).unwrap();
            assert!(text.contains(r#""scope":{"node":"n1"}"#), "{text}");
            assert_eq!(serde_json::from_str::<Notice>(&text).unwrap(), notice);
        }
    }

    #[test]
    fn a_notice_from_before_lateness_was_told_is_read_as_one_in_time() {
        let old = r#"{"mesh":"m","rule":"epoch_hook","scope":{"node":"n1"},
            "operation":"epoch_hook","from":"pending","state":"firing","at_seconds":1.5,
            "evidence":{"quantile":0.99,"value_seconds":0.03,"lower_seconds":0.029,
            "limit_seconds":0.018,"window":"10s","samples":200}}"#;
        assert_eq!(serde_json::from_str::<Notice>(old).unwrap(), notice(latency()));
    }
}
