//! Alerting: findings move alerts, and alerts notify.
//!
//! Owns the state of every alert, silences and acknowledgements, the notifications on their way to
//! the bus and to receivers, the latest changes, and the template of dashboard links. It judges no
//! rule and merges nothing: what it needs of rules and fleet comes through [`Situation`]. It opens
//! no connection; the driver sends what it returns.
//!
//! Interface: [`Alerting::on_findings`] moves alerts; [`Alerting::end`] ends those whose rule or
//! node is gone; [`Alerting::on_command`] silences and acknowledges; [`Deliveries::next_post`] and
//! [`Alerting::on_answer`] deliver to receivers; [`Notifications`] are on their way to the bus.
//!
//! DESIGN A26.

mod alert;
mod commands;
mod context;
mod dashboard;
mod delivery;
mod groups;
mod notifications;
mod record;
mod silences;
mod situation;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use crate::limits::ALERT_HISTORY_MAX;
use crate::limits::captures::EVIDENCE_MAX;
use plimsoll_schemas::alert::{
    AlertContext, AlertEndReason, AlertKey, AlertRow, AlertState, DataStatus, Evidence, LEDGER_GAP,
    Notification, ProfileEvidence,
};
use plimsoll_schemas::ids::{Labels, MeshName, NodeName, RuleName};
use plimsoll_schemas::own_operations::is_own;
use plimsoll_schemas::rule::Rules;
use plimsoll_schemas::time::{Now, Wall, nanos, seconds};
use plimsoll_schemas::wire::silences::SharedSilences;
use serde::{Deserialize, Serialize};

pub use alert::{AlertEntry, Alerts, Change, Ending, displayed};
pub use commands::{AlertCommand, AlertsQuery, CommandResult};
pub use dashboard::{Dashboard, DashboardError, RunbookPage};
pub use delivery::{
    Answer, Body, Deliveries, Post, Receiver, ReceiverCounts, ReceiverKind, ReceiverStats,
    Undeliverable, Waits, fields, template,
};
pub use notifications::{DueNotification, NotificationCounts, Notifications};
pub use record::AlertsRecord;
pub use silences::{CommandError, Silences, Suppression};
pub use situation::Situation;

use super::fleet::{Fleet, shorten};
use super::rules::{AlertFinding, EvaluationTime};

/// The resolution of how far behind a notification is, in nanoseconds.
const MILLISECOND: u64 = 1_000_000;

/// Labels that each rule is about, of series and of nodes; of rules with active alerts.
pub type RuleLabels = BTreeMap<RuleName, (Labels, Labels)>;

/// All alerts, and the receivers to notify of them.
#[derive(Debug)]
pub struct Alerting {
    mesh: MeshName,
    pub(super) alerts: Alerts,
    /// After a restart: what the rules of active alerts were about.
    rule_labels_before: Option<RuleLabels>,
    pub(super) silences: Silences,
    changes: Vec<Notification>,
    /// On their way to the bus.
    pub(super) notifications: Notifications,
    /// On their way to receivers.
    pub(super) deliveries: Deliveries,
    dashboard: Dashboard,
    runbook_page: RunbookPage,
    /// Alerts that fire since [`Self::take_fired`].
    fired: Vec<AlertKey>,
    /// What nodes at fault do more than their peers, of alerts that fire.
    profiles: BTreeMap<AlertKey, ProfileEvidence>,
    changed: bool,
    /// As of the last checkpoint.
    counts_saved: NotificationCounts,
}

/// An alert as it is when a notification of its change is made.
struct MovedAlert<'a> {
    key: AlertKey,
    change: Change,
    entry: &'a AlertEntry,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StoredAlerting {
    alerts: Alerts,
    rule_labels: RuleLabels,
    silences: Silences,
    /// The latest changes of alerts, oldest first.
    pub changes: Vec<Notification>,
    notifications: Notifications,
    deliveries: Deliveries,
}

impl Alerting {
    /// No alert is active and no receiver is notified.
    pub fn new(mesh: MeshName) -> Self {
        Self {
            mesh,
            alerts: Alerts::default(),
            rule_labels_before: None,
            silences: Silences::default(),
            changes: Vec::new(),
            notifications: Notifications::default(),
            deliveries: Deliveries::default(),
            dashboard: Dashboard::default(),
            runbook_page: RunbookPage::default(),
            fired: Vec::new(),
            profiles: BTreeMap::new(),
            changed: false,
            counts_saved: NotificationCounts::default(),
        }
    }

    /// As a checkpoint holds it.
    pub fn restore(mesh: MeshName, stored: StoredAlerting) -> Self {
        Self {
            alerts: stored.alerts,
            rule_labels_before: Some(stored.rule_labels),
            silences: stored.silences,
            changes: stored.changes,
            counts_saved: stored.notifications.counts,
            notifications: stored.notifications,
            deliveries: stored.deliveries,
            ..Self::new(mesh)
        }
    }

    /// What receivers are owed.
    pub fn record(&self, at: Wall) -> AlertsRecord {
        AlertsRecord {
            version: AlertsRecord::VERSION,
            mesh: self.mesh.clone(),
            at,
            firing: self.alerts.firing(),
            silencing: self.silences.record(),
            receivers: self.deliveries.record(),
        }
    }

    /// As far as receivers are owed it. Alerts whose rules are gone end as after any restart.
    pub fn restore_owed(mesh: MeshName, record: AlertsRecord) -> Self {
        Self {
            alerts: Alerts::restored(record.firing),
            rule_labels_before: Some(RuleLabels::new()),
            silences: Silences::restored(record.silencing),
            deliveries: Deliveries::restored(record.receivers),
            changed: true,
            ..Self::new(mesh)
        }
    }

    pub fn link_to(&mut self, dashboard: Dashboard, runbook_page: RunbookPage) {
        (self.dashboard, self.runbook_page) = (dashboard, runbook_page);
    }

    /// These receivers are notified from now on, at once of what fires already. The seed is for
    /// the pauses after failures.
    pub fn notify(
        &mut self,
        now: Wall,
        receivers: Vec<Receiver>,
        seed: u64,
        situation: Situation<'_>,
    ) {
        self.deliveries = std::mem::take(&mut self.deliveries).with_receivers(now, receivers, seed);
        // Only now are there receivers of the ends that a restart brings.
        self.end_unruled_since_restart(now, situation);
        // Before Alertmanagers are sent what fires, since some of it may be withheld.
        self.group(now, situation);
        self.update_alertmanagers(now, situation);
    }

    pub fn active(&self) -> Vec<AlertKey> {
        self.alerts.active().map(|(key, _)| key.clone()).collect()
    }

    pub fn firing(&self) -> impl Iterator<Item = &AlertKey> {
        let firing = self.alerts.active().filter(|(_, state)| *state == AlertState::Firing);
        firing.map(|(key, _)| key)
    }

    pub fn nodes_with_gap_alerts(&self) -> BTreeSet<Option<&NodeName>> {
        let rule = RuleName::new(LEDGER_GAP).expect("a constant name of plain letters");
        self.alerts.alive(&rule)
    }

    /// Moves alerts by the findings of an evaluation, and notifies of it.
    pub fn on_findings(
        &mut self,
        time: EvaluationTime,
        findings: Vec<AlertFinding>,
        situation: Situation<'_>,
    ) {
        // What is notified of together is known before it changes one by one.
        let is_of_group =
            |of: &AlertFinding| situation.group_rules().any(|r| r.name == of.key.rule);
        let (of_groups, others) = findings.into_iter().partition(is_of_group);
        self.move_alerts(time, of_groups, situation);
        self.repeat_changed(time, situation);
        self.group(time.at, situation);
        self.move_alerts(time, others, situation);
        self.alerts.evict_calm(time.at);
        self.changed |= self.alerts.take_changed();
    }

    fn move_alerts(
        &mut self,
        time: EvaluationTime,
        findings: Vec<AlertFinding>,
        situation: Situation<'_>,
    ) {
        for AlertFinding { key, finding, hysteresis } in findings {
            let change = self.alerts.on_finding(time.at, &key, finding, hysteresis);
            self.changed |= self.alerts.take_changed();
            let Some(change) = change else { continue };
            // It is about a breach that has ended.
            self.profiles.remove(&key);
            // Of the past, which is judged after a restart, no profile can be taken.
            if change.to == AlertState::Firing && time.behind.is_zero() {
                self.fired.push(key.clone());
            }
            // That a resolved alert is no longer shown as such is no news.
            if (change.from, change.to) != (AlertState::Resolved, AlertState::Inactive) {
                self.compose(time, key, change, situation);
            }
        }
    }

    /// Alerts that have started to fire since this was last called.
    pub fn take_fired(&mut self) -> Vec<AlertKey> {
        std::mem::take(&mut self.fired)
    }

    /// What the node of an alert does more than a peer.
    pub fn profile(&self, key: &AlertKey) -> Option<&ProfileEvidence> {
        self.profiles.get(key)
    }

    /// Adds to the evidence of an alert what its node does more than a peer, and notifies of it.
    pub fn on_profile(
        &mut self,
        at: Wall,
        key: &AlertKey,
        evidence: ProfileEvidence,
        situation: Situation<'_>,
    ) {
        let alerts = &self.alerts;
        self.profiles.retain(|key, _| alerts.state(key) == AlertState::Firing);
        if alerts.state(key) != AlertState::Firing || self.profiles.len() >= EVIDENCE_MAX {
            return;
        }
        self.profiles.insert(key.clone(), evidence);

        let (_, severity) = situation.about(key, None);
        if !self.silences.present(at, key, severity).silenced {
            let change = Change { from: AlertState::Firing, to: AlertState::Firing };
            self.compose(EvaluationTime::present(at), key.clone(), change, situation);
            self.changed = true;
        }
    }

    /// Notifies again of how many nodes are silent, where that has changed.
    fn repeat_changed(&mut self, time: EvaluationTime, situation: Situation<'_>) {
        let at = time.at;
        for rule in situation.group_rules() {
            let key = groups::key(rule);
            let Some(entry) = self.alerts.get(&key) else { continue };
            let is_sent = entry.state == AlertState::Firing
                && !self.silences.present(at, &key, rule.about.severity).silenced;
            let last = entry.notified.as_ref().filter(|_| is_sent);
            let evidence = situation.evidence(at, &key);
            if last.zip(evidence).is_some_and(|(last, now)| groups::is_news(at, rule, last, &now)) {
                let change = Change { from: AlertState::Firing, to: AlertState::Firing };
                self.compose(time, key, change, situation);
            }
        }
    }

    /// Updates which alerts receivers are notified of together.
    fn group(&mut self, at: Wall, situation: Situation<'_>) {
        let Self { alerts, silences, deliveries, .. } = self;
        let grouped = groups::grouped(at, situation, alerts, silences, deliveries);
        self.silences.group(grouped);
    }

    /// Silent nodes whose alert an operator has silenced or acknowledged.
    pub fn quiet_nodes(&self, at: Wall, rules: &Rules, fleet: &Fleet) -> BTreeSet<NodeName> {
        groups::quiet_nodes(at, rules, fleet, &self.silences)
    }

    /// Notifies of a change.
    fn compose(
        &mut self,
        EvaluationTime { at, behind }: EvaluationTime,
        key: AlertKey,
        change: Change,
        situation: Situation<'_>,
    ) {
        let Some(entry) = self.alerts.get(&key).cloned() else { return };
        let evidence = situation.evidence(at, &key);
        let moved = MovedAlert { key, change, entry: &entry };
        let notification = self.notification_of_change(at, moved, evidence, situation);
        let Some(mut notification) = notification else {
            return self.silences.count_suppressed("no_evidence");
        };
        notification.late_seconds = seconds(nanos(behind) / MILLISECOND * MILLISECOND);
        self.alerts.on_notified(&notification);
        if let Some(event) = notifications::latency_high(at, &notification, change) {
            self.notifications.push_event(event);
        }
        self.dispatch(notification);
    }

    fn dispatch(&mut self, notification: Notification) {
        let mut changes = VecDeque::from(std::mem::take(&mut self.changes));
        changes.push_back(notification.clone());
        // Alerts of one node that come and go push out no others.
        shorten(&mut changes, ALERT_HISTORY_MAX, |change| change.key.scope.node());
        self.changes = changes.into();
        self.deliveries.on_notification(&notification);
        self.notifications.push(notification);
    }

    /// Ends all alerts that `gone` names, and notifies of those that fired or were pending: no
    /// alert ends without a notification.
    pub fn end(
        &mut self,
        now: Wall,
        gone: impl Fn(&AlertKey) -> bool,
        why: AlertEndReason,
        situation: Situation<'_>,
    ) {
        for Ending { key, change, entry } in self.alerts.end(gone) {
            // What it was about is gone, so the evidence of its last notification has to do.
            let moved = MovedAlert { key, change, entry: &entry };
            let notification = self.notification_of_change(now, moved, None, situation);

            let Some(mut notification) = notification else {
                self.silences.count_suppressed("no_evidence");
                continue;
            };

            let figures = notification.description();
            // The summary ends with the figures, which change with
            // the reason. The rule's own words before them stay.
            let of_rule = notification.summary.strip_suffix(&figures).map(str::to_owned);
            notification.ended = Some(why);
            notification.summary = of_rule.unwrap_or_default() + &notification.description();
            self.changed = true;
            self.dispatch(notification);
        }
    }

    pub fn on_nodes_expired(
        &mut self,
        now: Wall,
        expired: &BTreeSet<NodeName>,
        situation: Situation<'_>,
    ) {
        if !expired.is_empty() {
            let gone = |key: &AlertKey| expired.contains(key.scope.node());
            self.end(now, gone, AlertEndReason::NodeForgotten, situation);
        }
    }

    /// Ends alerts that have no data any more because what brought it has left or ended in order
    /// (DESIGN A59).
    pub fn end_finished(&mut self, now: Wall, situation: Situation<'_>) {
        let without_data = self.alerts.entries().filter(|(_, of)| of.data == DataStatus::NoData);
        let finished: BTreeMap<AlertKey, AlertEndReason> = without_data
            .filter_map(|(key, _)| Some((key.clone(), situation.reason_of_end(now, key)?)))
            .collect();
        // A notification states one reason, so alerts end reason by reason.
        for why in finished.values().collect::<BTreeSet<_>>() {
            self.end(now, |key| finished.get(key) == Some(why), *why, situation);
        }
    }

    /// What the rules of active alerts are about.
    pub fn rule_labels(&self, rules: &Rules) -> RuleLabels {
        let active: BTreeSet<_> = self.alerts.active().map(|(key, _)| &key.rule).collect();
        let selects = |rule: &RuleName| Some((rule.clone(), rules.find(rule)?.selects()));
        active.into_iter().filter_map(selects).collect()
    }

    /// Applies other rules; `before` is what those of active alerts were about. Alerts of rules
    /// that were removed, or are about something else, end; all others stay.
    pub fn on_rules(&mut self, now: Wall, before: &RuleLabels, situation: Situation<'_>) {
        self.end_unruled(now, before, situation);
        self.group(now, situation);
        self.update_alertmanagers(now, situation);
        self.changed = true;
    }

    /// Ends all alerts of which no rule is about their operation, scope and labels any more.
    fn end_unruled(&mut self, now: Wall, before: &RuleLabels, situation: Situation<'_>) {
        let rules = situation.rules();
        let selects = |key: &AlertKey| rules.find(&key.rule).map(|rule| rule.selects());
        let others = |key: &AlertKey| {
            let before = before.get(&key.rule);
            before.is_some() && before != selects(key).as_ref()
        };
        let gone = |key: &AlertKey| !rules.watch(key) || others(key);
        self.end(now, gone, AlertEndReason::RuleRemoved, situation);
    }

    /// Ends, once, alerts of rules that have changed over a restart.
    pub fn end_unruled_since_restart(&mut self, now: Wall, situation: Situation<'_>) {
        if let Some(before) = self.rule_labels_before.take() {
            self.end_unruled(now, &before, situation);
        }
    }

    /// Advances to `now`: silences and acknowledgements end.
    pub fn on_tick(&mut self, now: Wall, situation: Situation<'_>) {
        self.group(now, situation);
        self.end_silences(now, situation);
    }

    /// Notifies of alerts whose silence or acknowledgement is over. Withholds alerts that are
    /// silenced or acknowledged now from Alertmanagers that were not sent them.
    fn end_silences(&mut self, now: Wall, situation: Situation<'_>) {
        self.silences.expire(now);
        let (alerts, rules) = (&self.alerts, situation.rules());

        let firing = |key: &AlertKey| {
            let entry = alerts.get(key).filter(|entry| entry.state == AlertState::Firing)?;
            // If its rule is gone, the severity is that under which receivers know it.
            let severity = rules.find(&key.rule).map(|rule| rule.severity());
            Some(severity.or(entry.notified.as_ref().map(|last| last.severity)).unwrap_or_default())
        };

        for key in self.silences.take_due(now, firing) {
            self.changed = true;
            let change = Change { from: AlertState::Firing, to: AlertState::Firing };
            self.compose(EvaluationTime::present(now), key, change, situation);
        }

        let silences = &self.silences;
        self.deliveries.hold_back(|key, severity| silences.present(now, key, severity).silenced);
    }

    /// The notification of a change; `None` when no evidence of it was ever known.
    fn notification_of_change(
        &mut self,
        at: Wall,
        moved: MovedAlert<'_>,
        evidence: Option<Evidence>,
        situation: Situation<'_>,
    ) -> Option<Notification> {
        let last = moved.entry.notified.as_deref();
        let evidence = evidence.or_else(|| Some(last?.evidence.clone()))?;
        let (_, severity) = situation.about(&moved.key, last);
        let suppression = self.silences.on_change(at, &moved.key, severity, moved.change);
        Some(self.notification(at, moved, evidence, suppression, situation))
    }

    /// The notification of an alert that fires already, for receivers that were not sent it.
    fn notification_of_firing(
        &self,
        now: Wall,
        key: AlertKey,
        situation: Situation<'_>,
    ) -> Option<Notification> {
        let entry = self.alerts.get(&key)?;
        let last = entry.notified.as_deref();
        let evidence = situation.evidence(now, &key).or_else(|| Some(last?.evidence.clone()))?;
        let (_, severity) = situation.about(&key, last);
        let suppression = self.silences.present(now, &key, severity);
        let change = Change { from: AlertState::Pending, to: AlertState::Firing };
        let moved = MovedAlert { key, change, entry };
        Some(self.notification(now, moved, evidence, suppression, situation))
    }

    fn notification(
        &self,
        at: Wall,
        MovedAlert { key, change, entry }: MovedAlert<'_>,
        evidence: Evidence,
        suppression: Suppression,
        situation: Situation<'_>,
    ) -> Notification {
        let (about, severity) = situation.about(&key, entry.notified.as_deref());
        let context = (change.to == AlertState::Firing).then(|| self.context(at, &key, situation));
        let moved = (change.from, change.to);
        let mut notification =
            Notification::new(self.mesh.clone(), key, moved, seconds(at.0), evidence);
        notification.context = context.map(Box::new);
        notification.severity = severity;
        notification.routes = about.routes;
        notification.runbook = self.runbook_page.link(about.runbook);
        // What the rule states is the same at any time: the figures are what is new.
        let figures = notification.description();

        notification.summary = match about.summary {
            Some(text) => format!("{}: {figures}", text.trim_end_matches('.')),
            None => figures,
        };

        notification.firing_since_seconds = entry.firing_since.map(|since| seconds(since.0));
        notification.acknowledged_by = suppression.acknowledged_by;
        notification.silenced = suppression.silenced;
        (notification.flaps, notification.data) = (entry.flaps, entry.data);
        notification
    }

    fn context(&self, at: Wall, key: &AlertKey, situation: Situation<'_>) -> AlertContext {
        let (context, window) = situation.context(at, key);
        let dashboard = self.dashboard.link(&self.mesh, key, at, 2 * window);
        AlertContext { dashboard, profile: self.profiles.get(key).cloned(), ..context }
    }

    /// Brings the Alertmanagers' state in line with the rules. An alert under another severity is
    /// another alert to them, so the one that they were sent ends. So do those that do not fire.
    fn update_alertmanagers(&mut self, now: Wall, situation: Situation<'_>) {
        let firing = self.alerts.entries().filter(|(_, of)| of.state == AlertState::Firing);
        let unknown = firing.filter(|(key, entry)| {
            let (about, severity) = situation.about(key, entry.notified.as_deref());
            !self.deliveries.has_reported(key, severity, &about.routes)
        });

        let unknown: Vec<_> = unknown.map(|(key, _)| key.clone()).collect();
        for key in unknown {
            let Some(notification) = self.notification_of_firing(now, key, situation) else {
                continue;
            };
            self.deliveries.stand(&notification, now);
        }

        let alerts = &self.alerts;
        self.deliveries.end_all_but(now, |key| alerts.state(key) == AlertState::Firing);
    }

    /// Executes a client's command about alerts. Receivers are notified of it within a second.
    pub fn on_command(
        &mut self,
        now: Wall,
        command: AlertCommand,
        situation: Situation<'_>,
    ) -> Result<CommandResult, CommandError> {
        let done = match command {
            AlertCommand::Silence(silence) => {
                self.silences.add(now, silence).map(CommandResult::Silence)
            }
            AlertCommand::EndSilence(id) => {
                let ended = self.silences.end(id);
                ended.then_some(CommandResult::Ended).ok_or(CommandError::NoSilence(id))
            }
            AlertCommand::Acknowledge(key, of) => {
                let state = self.alerts.state(&key);
                let taken = self.silences.acknowledge(now, key.clone(), state, of.clone());
                // Receivers that show which operator works on it are notified of that too.
                if taken.is_ok() && state == AlertState::Firing {
                    let change = Change { from: state, to: state };
                    self.compose(EvaluationTime::present(now), key, change, situation);
                }
                taken.map(|()| CommandResult::Acknowledged(of))
            }
            AlertCommand::Unacknowledge(key) => {
                let ended = self.silences.unacknowledge(&key);
                let no_such = CommandError::NotAcknowledged(Box::new(key));
                ended.then_some(CommandResult::Ended).ok_or(no_such)
            }
        }?;

        self.changed = true;
        Ok(done)
    }

    /// Takes over what another aggregator knows of silences.
    pub fn on_shared_silences(&mut self, now: Wall, shared: SharedSilences) {
        self.changed |= self.silences.merge(now, shared);
    }

    /// All active alerts that a query matches, the worst first, those about jobs before those about
    /// the system's own operations.
    pub fn rows(&self, now: Wall, query: &AlertsQuery, situation: Situation<'_>) -> Vec<AlertRow> {
        let entries = self.alerts.entries().filter(|(key, entry)| {
            query.matches(key, entry, || situation.about(key, entry.notified.as_deref()).1)
        });
        let mut rows: Vec<_> =
            entries.map(|(key, entry)| self.row(now, key, entry, situation)).collect();
        // Stable: those alike stay in order of their keys.
        rows.sort_by_key(|row| {
            (order(row.state), is_own(&row.key.operation), Reverse(row.severity))
        });
        rows
    }

    fn row(
        &self,
        now: Wall,
        key: &AlertKey,
        entry: &AlertEntry,
        situation: Situation<'_>,
    ) -> AlertRow {
        let last = entry.notified.as_deref();
        let (about, severity) = situation.about(key, last);
        let mut notifications =
            self.changes.iter().rev().filter(|notification| notification.key == *key);
        let context = notifications.find_map(|notification| notification.context.clone());
        // A silenced alert has no notification of its profile.
        let profile = self.profiles.get(key).cloned();
        let context =
            context.map(|of| AlertContext { profile: profile.or(of.profile.clone()), ..*of });

        AlertRow {
            key: key.clone(),
            state: entry.state,
            since_seconds: seconds(entry.since.0),
            firing_since_seconds: entry.firing_since.map(|since| seconds(since.0)),
            severity,
            summary: last.map(|last| last.summary.clone()).unwrap_or_default(),
            runbook: self.runbook_page.link(about.runbook),
            data: entry.data,
            flaps: entry.flaps,
            acknowledged: self.silences.acknowledged(now, key).cloned(),
            silenced_by: self.silences.holding(now, key, severity).collect(),
            evidence: last.map(|last| last.evidence.clone()),
            context,
        }
    }

    /// A post ended. Returns how long after their changes receivers were first notified by it.
    pub fn on_answer(&mut self, now: Now, receiver: &str, answer: Answer) -> Vec<Duration> {
        self.changed = true;
        self.deliveries.on_answer(now, receiver, answer)
    }

    /// How many notifications were undeliverable, on the way to the bus or to receivers.
    pub fn undeliverable_count(&self) -> u64 {
        self.notifications.counts.undeliverable + self.deliveries.given_up()
    }

    pub fn changes(&self) -> &[Notification] {
        &self.changes
    }

    /// Whether anything has changed since [`Self::checkpoint`]. An alert that stays as it is costs
    /// no checkpoint.
    pub fn has_changed(&self) -> bool {
        self.changed || self.counts_saved != self.notifications.counts
    }

    /// From here on nothing has changed.
    pub fn clear_changes(&mut self) {
        self.changed = false;
        self.counts_saved = self.notifications.counts;
    }

    /// What a checkpoint stores; from here on nothing has changed.
    pub fn checkpoint(&mut self, rules: &Rules) -> StoredAlerting {
        self.clear_changes();
        StoredAlerting {
            alerts: self.alerts.clone(),
            rule_labels: self.rule_labels(rules),
            silences: self.silences.clone(),
            changes: self.changes.clone(),
            notifications: self.notifications.clone(),
            deliveries: self.deliveries.clone(),
        }
    }
}

const fn order(state: AlertState) -> u8 {
    match state {
        AlertState::Firing => 0,
        AlertState::Pending => 1,
        AlertState::Resolved => 2,
        AlertState::Inactive | AlertState::Insufficient | AlertState::NoData => 3,
    }
}

#[cfg(test)]
mod tests;
