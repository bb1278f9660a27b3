//! What became of the files that rules come from.

use serde::{Deserialize, Serialize};

/// Whether rules are as their files have them, and whether they fit what comes in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RulesState {
    /// What is wrong with the files on disk, while the rules of before are kept.
    pub rules_error: Option<String>,
    /// Budgets that no sample has matched since they were loaded, though samples have come for
    /// minutes.
    pub unmatched: Vec<String>,
}
