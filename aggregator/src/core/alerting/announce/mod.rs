//! What is said of an alert: the notice of a change, of an end, and of a silence that is over.
//! Whether it moves is decided by [`crate::core::alerting::alert`], what moved it by [`crate::core::alerting::evidence`], and who
//! hears of it by [`crate::core::alerting::silences`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use plimsoll_schemas::alert::{AlertKey, AlertState, Ended, Evidence, Notice};
use plimsoll_schemas::ids::{Labels, RuleName};
use plimsoll_schemas::rule::{About, Severity};
use plimsoll_schemas::time::{Wall, nanos, seconds};

use crate::core::Core;
use crate::core::alerting::alert::{Change, Ending, Entry};
use crate::core::alerting::silences::Told;

/// How exactly a notice tells how late it is, in nanoseconds.
const MILLISECOND: u64 = 1_000_000;

/// Labels that each rule is about, of series and of nodes; of those that alerts stand about.
pub(crate) type Watched = BTreeMap<RuleName, (Labels, Labels)>;

impl Core {
    /// Tells of a change that an evaluation as of `at`, `late` before the present, has caused.
    pub(crate) fn announce(&mut self, (at, late): (Wall, Duration), key: AlertKey, change: Change) {
        let Some(entry) = self.alerts.get(&key).cloned() else { return };
        let evidence = self.evidence(at, &key);
        let Some(mut notice) = self.notice_of(at, key, (change, &entry), evidence) else {
            return self.silences.count_suppressed("no_evidence");
        };
        notice.late_seconds = seconds(nanos(late) / MILLISECOND * MILLISECOND);
        self.alerts.on_told(&notice);
        self.note_overrun(at, &notice, change);
        self.tell(notice);
    }

    /// Ends all alerts that `gone` names, and tells of those that fired or were pending: no alert
    /// leaves without a word.
    pub(crate) fn end_alerts(&mut self, now: Wall, gone: impl Fn(&AlertKey) -> bool, why: Ended) {
        for Ending { key, change, entry } in self.alerts.end(gone) {
            // What it was about is not there any more, so what was last said of it has to do.
            let Some(mut notice) = self.notice_of(now, key, (change, &entry), None) else {
                self.silences.count_suppressed("no_evidence");
                continue;
            };
            notice.ended = Some(why);
            self.unsaved.touch();
            self.tell(notice);
        }
    }

    /// Ends all alerts of which no rule is about their operation, scope and labels any more.
    pub(crate) fn end_unruled(&mut self, now: Wall, before: &Watched) {
        let rules = Arc::clone(&self.rules);
        let selects = |key: &AlertKey| rules.find(&key.rule).map(|rule| rule.selects());
        let others = |key: &AlertKey| {
            let before = before.get(&key.rule);
            before.is_some() && before != selects(key).as_ref()
        };
        self.end_alerts(now, |key| !rules.watch(key) || others(key), Ended::RuleRemoved);
    }

    /// The same of what a restart has found changed: once, when there is somebody to hear of it.
    pub(crate) fn end_unruled_since_restart(&mut self, now: Wall) {
        if let Some(before) = self.watched_before.take() {
            self.end_unruled(now, &before);
        }
    }

    /// What the rules of standing alerts are about.
    pub(crate) fn watched(&self) -> Watched {
        let rules: BTreeSet<_> = self.alerts.standing().map(|(key, _)| &key.rule).collect();
        let selects = |rule: &RuleName| Some((rule.clone(), self.rules.find(rule)?.selects()));
        rules.into_iter().filter_map(selects).collect()
    }

    /// Tells of alerts of which nobody was told while a silence or an acknowledgement held, and
    /// keeps those from Alertmanagers that have not heard of them to which one holds now.
    pub(crate) fn end_silences(&mut self, now: Wall) {
        self.silences.expire(now);
        let (alerts, rules) = (&self.alerts, &self.rules);
        let firing = |key: &AlertKey| {
            let entry = alerts.get(key).filter(|entry| entry.state == AlertState::Firing)?;
            let severity = rules.find(&key.rule).map(|rule| rule.severity());
            Some(severity.or(entry.told.as_ref().map(|told| told.severity)).unwrap_or_default())
        };
        for key in self.silences.take_due(now, firing) {
            self.unsaved.touch();
            let change = Change { from: AlertState::Firing, to: AlertState::Firing };
            self.announce((now, Duration::ZERO), key, change);
        }
        let silences = &self.silences;
        self.deliveries.hold_back(|key, severity| silences.present(now, key, severity).silenced);
    }

    /// The notice of a change; `None` when nobody has ever known a figure that would show it.
    fn notice_of(
        &mut self,
        at: Wall,
        key: AlertKey,
        (change, entry): (Change, &Entry),
        evidence: Option<Evidence>,
    ) -> Option<Notice> {
        let told = entry.told.as_deref();
        let evidence = evidence.or_else(|| Some(told?.evidence.clone()))?;
        let (_, severity) = self.about(&key, told);
        let heard = self.silences.on_change(at, &key, severity, change);
        Some(self.notice(at, key, (change, entry), (evidence, heard)))
    }

    /// What is said of an alert that fires already to who has not heard of it.
    pub(crate) fn still_firing(&self, now: Wall, key: AlertKey) -> Option<Notice> {
        let entry = self.alerts.get(&key)?;
        let told = entry.told.as_deref();
        let evidence = self.evidence(now, &key).or_else(|| Some(told?.evidence.clone()))?;
        let (_, severity) = self.about(&key, told);
        let heard = self.silences.present(now, &key, severity);
        let change = Change { from: AlertState::Pending, to: AlertState::Firing };
        Some(self.notice(now, key, (change, entry), (evidence, heard)))
    }

    fn notice(
        &self,
        at: Wall,
        key: AlertKey,
        (change, entry): (Change, &Entry),
        (evidence, heard): (Evidence, Told),
    ) -> Notice {
        let (about, severity) = self.about(&key, entry.told.as_deref());
        let context = (change.to == AlertState::Firing).then(|| self.context(at, &key));
        let moved = (change.from, change.to);
        let mut notice = Notice::new(self.mesh.clone(), key, moved, seconds(at.0), evidence);
        notice.severity = severity;
        notice.routes = about.routes;
        notice.runbook = about.runbook;
        notice.summary = about.summary.unwrap_or_else(|| notice.in_words());
        notice.firing_since_seconds = entry.firing_since.map(|since| seconds(since.0));
        notice.acknowledged_by = heard.acknowledged_by;
        notice.silenced = heard.silenced;
        (notice.flaps, notice.data) = (entry.flaps, entry.data);
        notice.context = context.map(Box::new);
        notice
    }

    /// What an alert's rule says of it; of a rule that is gone what it last said, so that
    /// receivers know the end for that of the same alert.
    pub(crate) fn about(&self, key: &AlertKey, told: Option<&Notice>) -> (About, Severity) {
        if let Some(rule) = self.rules.find(&key.rule) {
            return (rule.about().clone(), rule.severity());
        }
        let Some(told) = told else { return (About::default(), Severity::default()) };
        let about = About {
            severity: told.severity,
            routes: told.routes.clone(),
            runbook: told.runbook.clone(),
            summary: None,
        };
        (about, told.severity)
    }
}

#[cfg(test)]
mod tests;
