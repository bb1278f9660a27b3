//! Alerts as the rest of the world sees them: what they are about, and what is said of a change.
//!
//! Notices are JSON, unlike the mesh's own messages: they are few, and their readers are
//! people, webhooks and scripts.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::budget::Window;
use crate::ids::{MeshName, NodeName, Operation, RuleName};

/// The rule that watches nodes' accounts; there is no budget behind it.
pub const LEDGER_GAP: &str = "ledger_gap";
/// What that rule watches.
pub const LEDGER: &str = "ledger";

/// Whom an alert, a window or a quantile is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// All nodes together.
    Fleet,
    /// One node.
    Node(NodeName),
}

impl Scope {
    /// `fleet` or `node`, the value of the label `scope`.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Fleet => "fleet",
            Self::Node(_) => "node",
        }
    }

    /// The node's name; empty for the fleet, as Prometheus treats an absent label.
    #[must_use]
    pub fn node(&self) -> &str {
        match self {
            Self::Fleet => "",
            Self::Node(node) => node.as_str(),
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fleet => f.write_str("fleet"),
            Self::Node(node) => write!(f, "node {node}"),
        }
    }
}

/// What one alert is about; every alert has its own state under its own key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AlertKey {
    /// The rule that watches.
    pub rule: RuleName,
    /// Whom it watches.
    pub scope: Scope,
    /// The operation it watches.
    pub operation: Operation,
}

impl fmt::Display for AlertKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}, {})", self.rule, self.scope, self.operation)
    }
}

/// Where an alert stands.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum AlertState {
    /// Nothing has been wrong.
    #[default]
    Inactive,
    /// Something is wrong, not yet for long enough.
    Pending,
    /// Someone should look.
    Firing,
    /// It was firing and has since been shown to be within its limit.
    Resolved,
}

impl AlertState {
    /// The state's value as a label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Inactive => "inactive",
            Self::Pending => "pending",
            Self::Firing => "firing",
            Self::Resolved => "resolved",
        }
    }

    /// The state as a gauge: inactive 0, pending 1, firing 2, resolved 3.
    #[must_use]
    pub const fn as_number(self) -> u8 {
        match self {
            Self::Inactive => 0,
            Self::Pending => 1,
            Self::Firing => 2,
            Self::Resolved => 3,
        }
    }
}

/// What is sent when an alert changes its state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Notice {
    /// The mesh it happened in.
    pub mesh: MeshName,
    /// What it is about.
    #[serde(flatten)]
    pub key: AlertKey,
    /// The state before.
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
}

/// The figures that moved an alert; which ones depends on what its rule watches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Evidence {
    /// A budget.
    Latency(LatencyEvidence),
    /// A node's account.
    Gap(GapEvidence),
}

impl Evidence {
    /// What was judged, when it was a budget.
    #[must_use]
    pub fn latency(&self) -> Option<&LatencyEvidence> {
        match self {
            Self::Latency(latency) => Some(latency),
            Self::Gap(_) => None,
        }
    }
}

/// Samples that are missing below a node's newest message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GapEvidence {
    /// How many; 0 once none is missing any more.
    pub gap_samples: u64,
}

/// A quantile and its limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LatencyEvidence {
    /// The quantile that was judged.
    pub quantile: f64,
    /// Its value over the window.
    pub value_seconds: f64,
    /// Its lower confidence bound.
    pub lower_seconds: f64,
    /// The limit it was compared with.
    pub limit_seconds: f64,
    /// The window.
    pub window: Window,
    /// Samples in it.
    pub samples: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notice(evidence: Evidence) -> Notice {
        Notice {
            mesh: MeshName::new("m").unwrap(),
            key: AlertKey {
                rule: RuleName::new("epoch_hook").unwrap(),
                scope: Scope::Node(NodeName::new("n1").unwrap()),
                operation: Operation::new("epoch_hook").unwrap(),
            },
            from: AlertState::Pending,
            state: AlertState::Firing,
            at_seconds: 1.5,
            late_seconds: 0.0,
            evidence,
        }
    }

    fn latency() -> Evidence {
        Evidence::Latency(LatencyEvidence {
            quantile: 0.99,
            value_seconds: 0.03,
            lower_seconds: 0.029,
            limit_seconds: 0.018,
            window: Window::TenSeconds,
            samples: 200,
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
