//! What became of the files that rules come from, for the aggregator's own metrics.

use plimsoll_schemas::time::Wall;

/// What became of the files that rules come from. They only grow, but for the last two.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleFileStats {
    /// Times that other rules were taken.
    pub loaded: u64,
    /// Times that files were read and held the same rules.
    pub unchanged: u64,
    /// Times that something was wrong with them.
    pub refused: u64,
    /// When rules were last read that were right.
    pub loaded_at: Wall,
    /// What is wrong with the files now.
    pub error: Option<String>,
}

impl RuleFileStats {
    pub fn at_start(now: Wall) -> Self {
        Self { loaded: 1, loaded_at: now, ..Self::default() }
    }
}
