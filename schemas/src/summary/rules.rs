//! The state of the rule files, as the summary page reports it.

use serde::{Deserialize, Serialize};

/// Whether the active rules are those of the files, and whether budgets match samples.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct RulesState {
    /// Error in the files on disk; the previous rules stay active.
    pub rules_error: Option<String>,
    /// Budgets that no sample has matched since they were loaded, although samples have arrived
    /// for minutes.
    pub unmatched: Vec<String>,
    /// Budgets that for 15 minutes have had too few samples to judge, some of them over the limit.
    #[serde(default)]
    pub insufficient: Vec<String>,
}
