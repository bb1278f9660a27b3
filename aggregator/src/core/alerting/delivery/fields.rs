//! The fields of a notice that templates may name.

use plimsoll_schemas::alert::{AlertKey, AlertState, Evidence, GapEvidence, Notice, Scope};
use plimsoll_schemas::ids::{MeshName, Operation, RuleName};
use plimsoll_schemas::rule::Severity;
use serde_json::{Value, json};

use super::template::Fields;
use super::{alertmanager_alert, texts};

/// What a notice gives a template. `routing_key` is there only where the receiver has one.
///
/// `id` is the same for one alert as long as there is one. `status` is `firing`, `resolved` or
/// `acknowledged`; `action` says the same in PagerDuty's words. `at` and `since` are dates; the
/// whole notice, as it stands on the bus, is `notice`.
#[must_use]
pub fn fields(notice: &Notice, routing_key: Option<&str>) -> Fields {
    let Notice { key, mesh, .. } = notice;
    let (value, limit) = texts::figures(&notice.evidence);
    let (status, action) = status(notice);
    let context = notice.context.as_ref();
    let since = notice.firing_since_seconds.unwrap_or(notice.at_seconds);
    let title = format!("{}: {} ({}, {})", status.to_uppercase(), key.rule, key.scope, mesh);
    let mut fields = Fields::from([
        ("id", json!(texts::alert_id(mesh, key))),
        ("mesh", json!(mesh)),
        ("rule", json!(key.rule)),
        ("scope", json!(key.scope.as_str())),
        ("node", json!(key.scope.node())),
        ("operation", json!(key.operation)),
        ("severity", json!(notice.severity)),
        ("status", json!(status)),
        ("action", json!(action)),
        ("color", json!(color(notice))),
        ("title", json!(title)),
        ("summary", json!(texts::summary(notice))),
        ("value", json!(value)),
        ("limit", json!(limit)),
        ("evidence", json!(texts::evidence(notice))),
        ("runbook", json!(notice.runbook)),
        ("dashboard", json!(context.and_then(|context| context.dashboard.as_ref()))),
        ("at", json!(alertmanager_alert::date(texts::wall(notice.at_seconds)))),
        ("since", json!(alertmanager_alert::date(texts::wall(since)))),
        ("acknowledged_by", json!(notice.acknowledged_by)),
        ("notice", serde_json::to_value(notice).unwrap_or(Value::Null)),
    ]);
    fields.extend(routing_key.map(|secret| ("routing_key", json!(secret))));
    fields
}

/// The evidence as text, for templates and the log.
#[must_use]
pub fn evidence(notice: &Notice) -> String {
    texts::evidence(notice)
}

/// A notice to try a template with.
#[must_use]
pub fn sample() -> Notice {
    let key = AlertKey {
        rule: RuleName::new("sample").expect("a constant name of plain undelivered"),
        scope: Scope::Fleet,
        operation: Operation::new("sample").expect("a constant name of plain undelivered"),
    };
    let mesh = MeshName::new("sample").expect("a constant name of plain undelivered");
    let evidence = Evidence::Gap(GapEvidence { gap_samples: 1 });
    Notice::new(mesh, key, (AlertState::Pending, AlertState::Firing), 0.0, evidence)
}

fn status(notice: &Notice) -> (&'static str, &'static str) {
    match notice.state {
        AlertState::Firing if notice.is_acknowledgement() => ("acknowledged", "acknowledge"),
        AlertState::Firing => ("firing", "trigger"),
        _ => ("resolved", "resolve"),
    }
}

fn color(notice: &Notice) -> &'static str {
    match (notice.state, notice.severity) {
        (AlertState::Firing, Severity::Critical) => "#d0021b",
        (AlertState::Firing, Severity::Warning) => "#f5a623",
        (AlertState::Firing, Severity::Info) => "#4a90e2",
        _ => "#2eb67d",
    }
}
