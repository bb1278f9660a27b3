//! The state of an Alertmanager and a webhook after the posts of whole cores.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::time::Duration;
use std::time::UNIX_EPOCH;

use plimsoll_schemas::alert::AlertKey;
use plimsoll_schemas::alert::AlertState;
use plimsoll_schemas::alert::Notification;
use plimsoll_schemas::rule::Severity;
use serde_json::Value;

use super::*;
use crate::core::alerting::Body as PostBody;

/// A model of both: an Alertmanager by an alert's labels, with when each ends there by itself.
#[derive(Default)]
pub(super) struct Receivers {
    alertmanager: BTreeMap<String, String>,
    webhook: BTreeSet<AlertKey>,
    /// What the webhook was sent.
    pub(super) sent: Vec<Notification>,
    is_away: bool,
}

impl Receivers {
    pub(super) fn all() -> Vec<Receiver> {
        let webhook = ReceiverKind::Webhook { resolved: true, acknowledged: true };
        let alertmanager = ReceiverKind::Alertmanager { resend_every: SECOND * 60 };
        let severity_min = Severity::Info;
        let of = |name: &str, kind| Receiver { name: name.into(), kind, severity_min };
        vec![of("am", alertmanager), of("hook", webhook)]
    }

    /// Answers all that is posted, unless it goes or is away.
    pub(super) fn receive(&mut self, core: &mut Core, now: Now, away: Option<bool>) {
        self.is_away = away.unwrap_or(self.is_away);
        while let Some(post) = core.next_post(now) {
            if self.is_away {
                core.on_answer(now, &post.receiver, Answer::Failed("connect", None));
                continue;
            }
            match post.body {
                PostBody::Alerts(json) => self.on_alerts(&json),
                PostBody::Notification(notification) => self.on_notification(&notification),
            }
            core.on_answer(now, &post.receiver, Answer::Taken);
        }
    }

    fn on_alerts(&mut self, json: &[u8]) {
        for alert in serde_json::from_slice::<Vec<Value>>(json).unwrap() {
            let ends_at = alert["endsAt"].as_str().unwrap().to_owned();
            self.alertmanager.insert(alert["labels"].to_string(), ends_at);
        }
    }

    fn on_notification(&mut self, notification: &Notification) {
        self.sent.push(notification.clone());
        match notification.state {
            AlertState::Firing => drop(self.webhook.insert(notification.key.clone())),
            _ => drop(self.webhook.remove(&notification.key)),
        }
    }

    /// How many alerts are firing in the state of each of the two.
    pub(super) fn firing(&self, now: Now) -> [u32; 2] {
        let date = UNIX_EPOCH + Duration::from_nanos(now.wall.0);
        let date = humantime::format_rfc3339_millis(date).to_string();
        let active = self.alertmanager.values().filter(|ends_at| **ends_at > date);
        [active.count(), self.webhook.len()].map(|count| u32::try_from(count).unwrap())
    }
}

pub(super) fn restarted_without_rules(core: &mut Core, now: Now) -> Core {
    let mut records = StoredRecords::default();
    core.on_changes_lost();
    records.write(core.take_changes(now.wall).unwrap());
    let core = Core::restore(core.mesh.clone(), Vec::new(), now, records.read().unwrap());
    let mut core = core.with_receivers(now, Receivers::all(), 2);
    Lane::ALL.into_iter().for_each(|lane| core.on_positioned(lane, 0, 0, "s1"));
    core
}

/// A core in which two alerts fire, and what receivers have received about them.
fn firing_core() -> (Core, Receivers, Now) {
    let mut core = core().with_receivers(start(), Receivers::all(), 1);
    let (mut slow, mut now, mut model) = (Speaker::new("a"), start(), Receivers::default());
    for _ in 0..8 {
        now = live(&mut core, &mut slow, now, 30);
        model.receive(&mut core, now, None);
    }
    (core, model, now)
}

#[test]
fn receivers_get_the_end_of_a_rule_that_a_restart_removes() {
    let (mut core, mut model, now) = firing_core();
    assert_eq!(model.firing(now), [2, 2]);
    let mut core = restarted_without_rules(&mut core, now);
    model.receive(&mut core, now, None);
    assert_eq!(model.firing(now.after(SECOND)), [0, 0]);
}

#[test]
fn an_alert_whose_severity_changes_ends_in_an_alertmanager_and_begins_under_its_new_labels() {
    let (mut core, mut model, now) = firing_core();
    let mut rules = Rules::clone(core.rules());
    rules.budgets.iter_mut().for_each(|budget| budget.about.severity = Severity::Critical);
    core.reload(now, rules);
    let now = now.after(SECOND);
    model.receive(&mut core, now, None);
    let [active, _] = model.firing(now);
    assert_eq!(active, 2);
    let date = humantime::format_rfc3339_millis(UNIX_EPOCH + Duration::from_nanos(now.wall.0));
    let active = model.alertmanager.iter().filter(|(_, ends)| **ends > date.to_string());
    let severe = active.filter(|(labels, _)| labels.contains(r#""severity":"critical""#));
    assert_eq!(severe.count(), 2);
}
