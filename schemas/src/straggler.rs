//! Words of stragglers that rules, evidence and pages share: methods, labels, classes of time.

use serde::{Deserialize, Serialize};

use crate::labelled;

/// The label of a process of a job that works in lockstep with others.
pub const RANK_LABEL: &str = "rank";
/// The label of a phase: what its time is spent on.
pub const CLASS_LABEL: &str = "class";
/// Classes of a peer's own work, unless a rule names others.
pub const WORK: [&str; 3] = ["input", "compute", "checkpoint"];
/// Classes of waiting for other peers, unless a rule names others.
pub const WAIT: [&str; 1] = ["sync"];

labelled! {
    /// How a straggler shows.
    #[derive(Serialize, Deserialize)]
    #[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
    #[serde(rename_all = "snake_case")]
    pub enum StragglerMethod {
        /// Steps end at a barrier, so all take the same time: the straggler waits least for others.
        WaitsLeast = "waits_least",
        /// Operations are independent: the straggler's take longest.
        Slowest = "slowest",
    }
}
