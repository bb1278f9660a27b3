//! Reloads of the settings and rule files: new rules and roll-ups are taken as a whole, or the
//! previous ones stay.

use crate::core::Core;
use crate::core::durable::shard::KeptLabels;
use crate::core::rules::RuleFileStats;
use crate::io::rules::{Found, Watch};
use plimsoll_schemas::rule::{Rules, Scopes};
use plimsoll_schemas::time::{Now, Wall};

/// The watch on the rule files, and what came of reloads so far.
pub(super) struct RuleReload {
    watch: Watch,
    stats: RuleFileStats,
    /// Sections of the settings that need a restart, as last logged.
    restart_sections: Vec<&'static str>,
    /// Those in which budgets are judged.
    scopes: Scopes,
}

impl RuleReload {
    pub(super) fn new(watch: Watch, now: Wall, scopes: Scopes) -> Self {
        let stats = RuleFileStats::at_start(now);
        Self { watch, stats, restart_sections: Vec::new(), scopes }
    }

    /// The next result of reading the files. Cancel safe.
    pub(super) async fn next(&mut self) -> Found {
        self.watch.next().await
    }

    /// Requests a reload now.
    pub(super) fn request(&self) {
        self.watch.request();
    }

    /// Applies what was read from the files.
    pub(super) fn on_found(&mut self, core: &mut Core, now: Now, found: Found) {
        let Found { requested, rules, rollups, advice, restart } = found;
        self.log_restart(requested, restart);
        match rules {
            Ok(rules) => {
                let rules = rules.within(self.scopes);
                if let Some(shard) = core.shard_mut() {
                    shard.keep(KeptLabels::of(&rules, &rollups));
                }
                if core.group_by(&rollups) {
                    tracing::info!(rollups = rollups.len(), "roll-ups reloaded");
                }
                self.on_rules(core, now, rules, requested, &advice);
            }
            Err(error) => self.on_error(error, requested),
        }
    }

    fn on_rules(
        &mut self,
        core: &mut Core,
        now: Now,
        rules: Rules,
        requested: bool,
        advice: &[String],
    ) {
        self.stats.loaded_at = now.wall;
        let was_invalid = self.stats.error.take().is_some();
        if rules == *core.rules() {
            self.stats.unchanged += 1;
            if requested || was_invalid {
                tracing::info!("rules unchanged");
            }
            return;
        }
        self.stats.loaded += 1;
        let (budgets, thresholds) = (rules.budgets.len(), rules.thresholds.len());
        core.reload(now, rules);
        tracing::info!(budgets, thresholds, "rules reloaded");
        log_advice(advice);
    }

    fn on_error(&mut self, error: String, requested: bool) {
        self.stats.refused += 1;
        if requested || self.stats.error.as_ref() != Some(&error) {
            tracing::warn!(error, "rule files are invalid; previous rules stay active");
        }
        self.stats.error = Some(error);
    }

    fn log_restart(&mut self, requested: bool, sections: Vec<&'static str>) {
        if !sections.is_empty() && (requested || sections != self.restart_sections) {
            let sections = sections.join(", ");
            tracing::warn!(sections, "settings changed that take effect only after a restart");
        }
        self.restart_sections = sections;
    }

    pub(super) fn stats(&self) -> &RuleFileStats {
        &self.stats
    }

    pub(super) async fn end(self) {
        self.watch.end().await;
    }
}

/// Logs rules that are valid and probably not what was meant.
pub(super) fn log_advice(advice: &[String]) {
    for advice in advice {
        tracing::warn!(advice, "a rule is valid but probably not what was meant");
    }
}
