//! Words of stragglers and of where the time goes that rules, evidence and pages share: methods,
//! labels, classes of time.

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

/// Classes of time by which history and shares are kept; clients of ours send these.
pub const CLASSES: [&str; 8] =
    ["input", "compute", "sync", "checkpoint", "llm", "database", "mode", OTHER_CLASS];
/// The class of time that has no other.
pub const OTHER_CLASS: &str = "other";

/// The class of [`CLASSES`] that a label's value is; [`OTHER_CLASS`] for words of a site's own.
#[must_use]
pub fn class_of(label: &str) -> &'static str {
    CLASSES.into_iter().find(|class| *class == label).unwrap_or(OTHER_CLASS)
}

/// The step that an operation with a class of time is a phase of, if it is one: DESIGN N85.
#[must_use]
pub fn step_of(phase: &str) -> Option<&str> {
    phase.rsplit_once('.').map(|(step, _)| step)
}

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
