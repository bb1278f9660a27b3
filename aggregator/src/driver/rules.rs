//! Files of rules that were read again: taken as a whole, or not at all.

use plimsoll_schemas::ids::RuleName;

use super::Driver;
use crate::io::rules::Found;

/// Says what is allowed and probably not meant.
pub(super) fn advise(advice: &[String]) {
    for advice in advice {
        tracing::warn!(advice, "a rule should be thought over");
    }
}

impl Driver {
    /// Takes what was found in the files.
    pub(super) fn on_rules(&mut self, found: Found) {
        let now = self.clock.now();
        let Found { asked, rules, advice, restart } = found;
        if !restart.is_empty() && (asked || restart != self.restart_told) {
            let sections = restart.join(", ");
            tracing::warn!(sections, "settings have changed that only a restart takes");
        }
        self.restart_told = restart;
        let rules = match rules {
            Ok(rules) => rules,
            Err(error) => {
                self.rule_files.refused += 1;
                if asked || self.rule_files.error.as_ref() != Some(&error) {
                    tracing::warn!(error, "rules are kept as they were: their files are wrong");
                }
                self.rule_files.error = Some(error);
                return self.looks.forget();
            }
        };
        self.rule_files.loaded_at = now.wall;
        let was_wrong = self.rule_files.error.take().is_some();
        if rules == *self.core.rules() {
            self.rule_files.unchanged += 1;
            if asked || was_wrong {
                tracing::info!("rules are as they were");
            }
        } else {
            self.rule_files.loaded += 1;
            let (budgets, thresholds) = (rules.budgets.len(), rules.thresholds.len());
            self.core.reload(now, rules);
            tracing::info!(budgets, thresholds, "rules have changed and are taken");
            advise(&advice);
        }
        // Whoever has just changed them looks whether they hold.
        self.looks.forget();
    }

    pub(super) fn tell_unmatched(&mut self) {
        let unmatched = self.core.next_unmatched();
        if !unmatched.is_empty() {
            let names: Vec<&str> = unmatched.iter().map(RuleName::as_str).collect();
            let budgets = names.join(", ");
            tracing::warn!(
                budgets,
                "no sample has matched these budgets; check their operation, labels and node_labels"
            );
        }
    }
}
