//! Rules that take the place of others while the aggregator runs. What was merged stays; what
//! stands about a rule that is still there stands on.

use std::sync::Arc;

use plimsoll_schemas::rule::Rules;
use plimsoll_schemas::time::{Now, Wall};

use crate::core::Core;
use crate::core::rules::unmatched::Matches;

/// What became of the files that rules come from. They only grow, but for the last two.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleFigures {
    /// Times that other rules were taken.
    pub loaded: u64,
    /// Times that files were read and gave the same rules.
    pub unchanged: u64,
    /// Times that something was wrong with them.
    pub refused: u64,
    /// When rules were last read that were right.
    pub loaded_at: Wall,
    /// What is wrong with the files now.
    pub error: Option<String>,
}

impl RuleFigures {
    /// Those of a start.
    #[must_use]
    pub fn at_start(now: Wall) -> Self {
        Self { loaded: 1, loaded_at: now, ..Self::default() }
    }
}

impl Core {
    /// Judges by other rules from now on. Alerts of rules that are no longer there, or are about
    /// something else, end with a notice; all others stand as they did.
    pub fn reload(&mut self, now: Now, rules: Rules) {
        let (limits, watched) = (self.limits(), self.watched());
        self.judge_by(Arc::new(rules));
        self.matches = Matches::new(&self.rules.budgets);
        self.end_unruled(now.wall, &watched);
        self.stand_anew(now.wall);
        self.unsaved.touch();
        if self.limits() != limits {
            self.tell_limits_anew();
        }
    }

    /// What is judged.
    #[must_use]
    pub fn rules(&self) -> &Rules {
        &self.rules
    }
}

#[cfg(test)]
mod tests;
