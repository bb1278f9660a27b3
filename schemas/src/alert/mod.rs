//! Alerts as the rest of the world sees them: what they are about, and what is said of a change.
//!
//! Notices are JSON, unlike the mesh's own messages: they are few, and their readers are
//! people, webhooks and scripts.

mod context;
mod event;
mod evidence;
mod notice;
mod standing;
mod words;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ids::{NodeName, Operation, RuleName};

pub use context::{BarSeconds, BusContext, Context, HardwareContext, WorstNode};
pub use event::LatencyHigh;
pub use evidence::{BurnEvidence, Evidence, GapEvidence, LatencyEvidence, ValueEvidence};
pub use notice::{Ended, Notice};
pub use standing::{
    Acknowledgement, AlertRow, AlertsPage, Pattern, Silence, SilenceMatch, SilenceRow, SilencesPage,
};

/// The rule that watches for gaps in nodes' accounts.
pub const LEDGER_GAP: &str = "ledger_gap";

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
    /// Nothing stands, and there are too few samples to say that nothing is wrong.
    Insufficient,
    /// Nothing stands, and there is nothing to judge.
    NoData,
}

impl AlertState {
    /// All values.
    pub const ALL: [Self; 6] = [
        Self::Inactive,
        Self::Pending,
        Self::Firing,
        Self::Resolved,
        Self::Insufficient,
        Self::NoData,
    ];

    /// The state's value as a label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Inactive => "inactive",
            Self::Pending => "pending",
            Self::Firing => "firing",
            Self::Resolved => "resolved",
            Self::Insufficient => "insufficient",
            Self::NoData => "no_data",
        }
    }

    /// The state as a gauge: inactive 0, pending 1, firing 2, resolved 3, insufficient 4,
    /// no data 5.
    #[must_use]
    pub const fn as_number(self) -> u8 {
        match self {
            Self::Inactive => 0,
            Self::Pending => 1,
            Self::Firing => 2,
            Self::Resolved => 3,
            Self::Insufficient => 4,
            Self::NoData => 5,
        }
    }
}

/// Whether there was enough to judge when an alert was last judged. One that stands stays where it
/// stands while there is not: silence is never "clear".
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Data {
    /// There was.
    #[default]
    Enough,
    /// There were too few samples.
    Insufficient,
    /// There was nothing.
    NoData,
}

impl Data {
    /// The value as a label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Enough => "enough",
            Self::Insufficient => "insufficient",
            Self::NoData => "no_data",
        }
    }

    /// Where an alert is shown to stand: at [`AlertState::Insufficient`] or
    /// [`AlertState::NoData`] only where nothing else stands.
    #[must_use]
    pub const fn displayed(self, state: AlertState) -> AlertState {
        match (state, self) {
            (AlertState::Inactive, Self::Insufficient) => AlertState::Insufficient,
            (AlertState::Inactive, Self::NoData) => AlertState::NoData,
            _ => state,
        }
    }
}
