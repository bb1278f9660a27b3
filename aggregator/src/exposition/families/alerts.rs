//! Alerts of all rules. An alert stays while its node is silent. `plimsoll_alert_firing` has a
//! series for every budget, and for other rules only while they have an active alert.
//!
//! DESIGN A41.

use std::collections::BTreeSet;

use plimsoll_schemas::alert::{AlertKey, AlertState};

use crate::core::view::AlertView;
use crate::exposition::labelled_view::LabelledView;
use crate::exposition::writer::{Family, LabelSet, Writer};

/// The states of active alerts.
const ACTIVE: [AlertState; 3] = [AlertState::Pending, AlertState::Firing, AlertState::Resolved];

pub(super) fn write(writer: &mut Writer, page: &LabelledView<'_>) {
    let alerts = &page.view.alerts;
    let labels: Vec<_> = alerts.iter().map(|alert| alert_labels(writer, &alert.key)).collect();
    write_firing(writer, page, &labels);
    let help = "1 for the current state of an active alert, 0 for its other states";
    writer.family(Family::gauge("plimsoll_alert_state", help), |rows| {
        let states = ACTIVE.map(|state| (rows.labels([("state", state.as_str())]), state));
        for (labels, AlertView { state: current, severity, .. }) in labels.iter().zip(alerts) {
            let severity = rows.labels([("severity", severity.as_str())]);
            for (label, state) in &states {
                rows.add(&[labels, &severity, label], (state == current).into());
            }
        }
    });
}

fn write_firing(writer: &mut Writer, page: &LabelledView<'_>, labels: &[LabelSet]) {
    let family = Family::gauge("plimsoll_alert_firing", "1 while the alert fires");
    let (budgets, alerts) = (&page.view.summary.budgets, &page.view.alerts);

    writer.family(family, |rows| {
        // Budgets have a series whether they fire or not, so that a rule in Prometheus resolves at
        // 0 (A41); their alerts are among the others too and must not be written twice.
        let mut written = BTreeSet::new();
        for row in budgets {
            let (scope, node) = (row.scope.as_str(), row.scope.node());

            let labels = [
                ("rule", row.budget.as_str()),
                ("scope", scope),
                ("node", node),
                ("operation", &row.operation),
            ];

            rows.add(&[&rows.labels(labels)], (row.alert == AlertState::Firing).into());
            written.insert((row.budget.as_str(), node, row.operation.as_str()));
        }

        for (labels, AlertView { key, state, .. }) in labels.iter().zip(alerts) {
            let name = (key.rule.as_str(), key.scope.node(), key.operation.as_str());
            if !written.contains(&name) {
                rows.add(&[labels], (*state == AlertState::Firing).into());
            }
        }
    });
}

/// Counts over all alerts, whether they are on the page or not, and suppressed notifications.
pub(super) fn write_counts(writer: &mut Writer, page: &LabelledView<'_>) {
    let counts = &page.view.alert_counts;
    let help = "Active alerts by state, including those not on the page";
    let n = |state| counts.by_state.get(&state).copied().unwrap_or_default();
    let by_state = ACTIVE.map(|state| (state.as_str(), n(state)));
    writer.by_label(Family::gauge("plimsoll_alerts", help), "state", by_state);
    let help = "Active alerts whose rules currently have no data or too few samples";
    writer.gauge("plimsoll_alerts_without_data", help, counts.without_data);
    let help = "Silences that are active or start later";
    writer.gauge("plimsoll_silences", help, counts.silences);

    let help = "Notifications not sent to receivers, by reason";
    let family = Family::counter("plimsoll_notifications_suppressed_total", help);
    writer.by_label(family, "reason", counts.suppressed.iter().map(|(why, n)| (&**why, *n)));
    let help =
        "Silences of other aggregators, or reports of them, that were not accepted, by reason";
    let family = Family::counter("plimsoll_shared_silences_refused_total", help);
    writer.by_label(family, "reason", counts.silences_refused.iter().map(|(why, n)| (*why, *n)));
}

fn alert_labels(writer: &Writer, key: &AlertKey) -> LabelSet {
    writer.labels([
        ("rule", key.rule.as_str()),
        ("scope", key.scope.as_str()),
        ("node", key.scope.node()),
        ("operation", key.operation.as_str()),
    ])
}
