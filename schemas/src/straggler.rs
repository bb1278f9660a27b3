//! Words of stragglers that rules, evidence and pages share: methods, labels, classes of time.

use serde::{Deserialize, Serialize};

/// The label of a process of a job that works in lockstep with others.
pub const RANK_LABEL: &str = "rank";
/// The label of a phase: what its time is spent on.
pub const CLASS_LABEL: &str = "class";
/// Classes of a peer's own work, unless a rule names others.
pub const WORK: [&str; 3] = ["input", "compute", "checkpoint"];
/// Classes of waiting for other peers, unless a rule names others.
pub const WAIT: [&str; 1] = ["sync"];

/// How a straggler shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum StragglerMethod {
    /// Steps end at a barrier, so all take the same time: the straggler waits least for others.
    WaitsLeast,
    /// Operations are independent: the straggler's take longest.
    Slowest,
}

impl StragglerMethod {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::WaitsLeast, Self::Slowest];

    /// As rule files have it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::WaitsLeast => "waits_least",
            Self::Slowest => "slowest",
        }
    }
}
