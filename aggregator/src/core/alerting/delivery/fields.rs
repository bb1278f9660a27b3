//! The fields of a notification that templates may name.

use plimsoll_schemas::alert::{AlertKey, AlertState, Evidence, GapEvidence, Notification, Scope};
use plimsoll_schemas::ids::{MeshName, Operation, RuleName};
use plimsoll_schemas::own_operations::is_own;
use plimsoll_schemas::rule::Severity;
use serde_json::{Value, json};

use super::template::Fields;
use super::{alertmanager_alert, texts};

/// The fields of a notification for a template. `routing_key` exists only if the receiver has one.
///
/// `id` stays the same for the lifetime of an alert. `status` is `firing`, `resolved` or
/// `acknowledged`; `action` is the same in PagerDuty's words. `ended` is why an alert ended that
/// was not shown to be within its limit. `at` and `since` are dates.
/// `notification` is the whole notification as the bus carries it.
///
/// Origin of texts: names (`mesh`, `rule`, `node`, `operation`, and `id` and `title` made of them)
/// are of letters, digits and `_.:/-`. `summary` and `evidence` hold labels of jobs, so a receiver
/// that reads markup needs a filter in `template`. `runbook` is the operator's, `acknowledged_by`
/// any text of a client with the token, `dashboard` a URL with its variables percent-encoded. Only
/// `notification` is no single line: no text holds a control character.
///
/// Lengths in bytes: `runbook` up to 1 024, `dashboard` 4 096. `summary` and `evidence` may hold 16
/// labels of 192 each, so a service with a limit needs texts cut: it refuses a longer message for
/// good. A field without a value is an empty text: `runbook` and `dashboard` often are.
pub fn fields(notification: &Notification, routing_key: Option<&str>) -> Fields {
    let Notification { key, mesh, .. } = notification;
    let (value, limit) = texts::figures(notification);
    let (status, action) = status(notification);
    let context = notification.context.as_ref();
    let since = notification.firing_since_seconds.unwrap_or(notification.at_seconds);
    // What was not shown to be within its limit has ended, and not resolved.
    let heading = notification.ended.map_or(status, |_| "ended").to_uppercase();
    let title = format!("{heading}: {} ({}, {})", key.rule, key.scope, mesh);

    let mut fields = Fields::from([
        ("id", json!(texts::alert_id(mesh, key))),
        ("mesh", json!(mesh)),
        ("rule", json!(key.rule)),
        ("scope", json!(key.scope.as_str())),
        ("node", json!(key.scope.node())),
        ("operation", json!(key.operation)),
        ("own", json!(is_own(&key.operation))),
        ("severity", json!(notification.severity)),
        ("status", json!(status)),
        ("ended", json!(notification.ended)),
        ("action", json!(action)),
        ("color", json!(color(notification))),
        ("title", json!(title)),
        ("summary", json!(texts::summary(notification))),
        ("value", json!(value)),
        ("limit", json!(limit)),
        ("evidence", json!(texts::evidence(notification))),
        ("runbook", json!(notification.runbook)),
        ("dashboard", json!(context.and_then(|context| context.dashboard.as_ref()))),
        ("at", json!(alertmanager_alert::date(texts::wall(notification.at_seconds)))),
        ("since", json!(alertmanager_alert::date(texts::wall(since)))),
        ("acknowledged_by", json!(notification.acknowledged_by)),
        ("notification", serde_json::to_value(notification).unwrap_or(Value::Null)),
    ]);

    fields.extend(routing_key.map(|secret| ("routing_key", json!(secret))));
    fields
}

/// The evidence as text, for templates and the log.
pub fn evidence(notification: &Notification) -> String {
    texts::evidence(notification)
}

/// A notification to try a template with.
pub fn sample() -> Notification {
    let key = AlertKey {
        rule: RuleName::new("sample").expect("a constant name of plain letters"),
        scope: Scope::Fleet,
        operation: Operation::new("sample").expect("a constant name of plain letters"),
    };
    let mesh = MeshName::new("sample").expect("a constant name of plain letters");
    let evidence = Evidence::Gap(GapEvidence { gap_samples: 1 });
    Notification::new(mesh, key, (AlertState::Pending, AlertState::Firing), 0.0, evidence)
}

fn status(notification: &Notification) -> (&'static str, &'static str) {
    match notification.state {
        AlertState::Firing if notification.is_acknowledgement() => ("acknowledged", "acknowledge"),
        AlertState::Firing => ("firing", "trigger"),
        _ => ("resolved", "resolve"),
    }
}

fn color(notification: &Notification) -> &'static str {
    match (notification.state, notification.severity) {
        (AlertState::Firing, Severity::Critical) => "#d0021b",
        (AlertState::Firing, Severity::Warning) => "#f5a623",
        (AlertState::Firing, Severity::Info) => "#4a90e2",
        _ => "#2eb67d",
    }
}
