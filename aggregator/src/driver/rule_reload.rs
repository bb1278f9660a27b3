//! Reloads of the settings and rule files: new rules and roll-ups are taken as a whole, or the
//! previous ones stay.

use crate::core::Core;
use crate::core::durable::shard::KeptLabels;
use crate::core::view::RuleFileStats;
use crate::io::rules::{Found, Watch};
use crate::limits::REMOVAL_ANNOUNCED;
use plimsoll_schemas::ids::RuleName;
use plimsoll_schemas::rule::{Rules, Scopes};
use plimsoll_schemas::time::{Mono, Now, Wall};

/// The watch on the rule files, and what came of reloads so far.
pub(super) struct RuleReload {
    pub(super) watch: Watch,
    pub(super) stats: RuleFileStats,
    /// Sections of the settings that need a restart, as last logged.
    restart_sections: Vec<&'static str>,
    /// Those in which budgets are judged.
    scopes: Scopes,
    /// Rules that would end alerts which fire.
    held: Option<Held>,
}

/// What was read, and is applied later unless the files change again.
struct Held {
    found: Found,
    until: Mono,
}

impl RuleReload {
    pub(super) fn new(watch: Watch, now: Wall, scopes: Scopes) -> Self {
        let stats = RuleFileStats::at_start(now);
        let restart_sections = Vec::new();
        Self { watch, stats, restart_sections, scopes, held: None }
    }

    /// The next result of reading the files. Cancel safe.
    pub(super) async fn next(&mut self) -> Found {
        self.watch.next().await
    }

    /// When rules that are held are applied.
    pub(super) fn deadline(&self) -> Option<Mono> {
        self.held.as_ref().map(|held| held.until)
    }

    /// Applies rules that were held for long enough.
    pub(super) fn on_deadline(&mut self, core: &mut Core, now: Now) {
        if let Some(Held { found, .. }) = self.held.take_if(|held| held.until <= now.mono) {
            self.apply(core, now, found);
        }
    }

    /// Applies what was read from the files, in place of what is held.
    pub(super) fn on_found(&mut self, core: &mut Core, now: Now, found: Found) {
        // Whatever was read is newer than what is held, also if it is invalid.
        self.held = None;
        if !found.requested && self.ends_firing(core, &found) {
            self.held = Some(Held { found, until: now.mono.plus(REMOVAL_ANNOUNCED) });
        } else {
            self.apply(core, now, found);
        }
    }

    fn apply(&mut self, core: &mut Core, now: Now, found: Found) {
        let Found { requested, rules, rollups, advice, restart } = found;
        self.log_restart(requested, restart);

        match rules {
            Ok(rules) => {
                let rules = rules.within(self.scopes);
                if let Some(shard) = core.shard_mut() {
                    // Before the rules are taken: what this shard reports
                    // next must have the labels that they select by.
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

    /// Whether these rules would end alerts that fire. A writer that pauses leaves such a file, and
    /// so does an operator who means it; the log states how to tell.
    fn ends_firing(&self, core: &Core, found: &Found) -> bool {
        let Ok(rules) = &found.rules else { return false };
        let ending = core.firing_without(&rules.clone().within(self.scopes));
        if ending.is_empty() {
            return false;
        }

        let rules: Vec<&str> = ending.iter().map(RuleName::as_str).collect();
        tracing::warn!(
            rules = rules.join(", "),
            seconds = REMOVAL_ANNOUNCED.as_secs(),
            "firing rules are no longer in the files: their alerts end soon unless the rules \
             return; SIGHUP ends them at once"
        );

        true
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

        // Files are also written anew without a change: that is
        // counted apart, and logged only where it was awaited.
        if rules == *core.rules() {
            self.stats.unchanged += 1;
            if requested || was_invalid {
                tracing::info!("rules unchanged");
            }
            return;
        }

        self.stats.loaded += 1;
        let (budgets, thresholds) = (rules.budgets.len(), rules.thresholds.len());
        let stragglers = rules.stragglers.len();
        core.reload(now, rules);
        tracing::info!(budgets, thresholds, stragglers, "rules reloaded");
        log_advice(advice);
    }

    fn on_error(&mut self, error: String, requested: bool) {
        self.stats.refused += 1;
        // A file is read again with each of its changes: one mistake
        // is logged once, except where someone waits for the answer.
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
