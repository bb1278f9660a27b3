//! The families about alerts, whatever rule they follow from. An alert outlives the silence of its
//! node; whether it fires is told of every budget, and of other rules while an alert stands.

use std::collections::BTreeSet;

use plimsoll_schemas::alert::{AlertKey, AlertState};

use super::families::Page;
use super::writer::{Family, LabelSet, NONE, Value, Writer};
use crate::core::view::AlertView;

/// The states at which an alert stands.
const STANDING: [AlertState; 3] = [AlertState::Pending, AlertState::Firing, AlertState::Resolved];

impl Page<'_> {
    pub(super) fn alerts(&self, writer: &mut Writer) {
        let alerts = &self.view.alerts;
        let labels: Vec<_> = alerts.iter().map(|alert| labels(writer, &alert.key)).collect();
        self.firing(writer, &labels);
        let help = "State of each alert that stands: 1 pending, 2 firing, 3 resolved";
        writer.family(Family::gauge("plimsoll_alert_state", help), |rows| {
            for (labels, AlertView { state, severity, .. }) in labels.iter().zip(alerts) {
                let severity = rows.labels([("severity", severity.as_str())]);
                rows.add(&[labels, &severity], Value::Count(state.as_number().into()));
            }
        });
    }

    fn firing(&self, writer: &mut Writer, labels: &[LabelSet]) {
        let family = Family::gauge("plimsoll_alert_firing", "1 while the alert fires");
        let (budgets, alerts) = (&self.view.summary.budgets, &self.view.alerts);
        writer.family(family, |rows| {
            let mut told = BTreeSet::new();
            for row in budgets {
                let (scope, node) = (row.scope.as_str(), row.scope.node());
                let labels = [
                    ("rule", row.budget.as_str()),
                    ("scope", scope),
                    ("node", node),
                    ("operation", &row.operation),
                ];
                rows.add(&[&rows.labels(labels)], Value::flag(row.alert == AlertState::Firing));
                told.insert((row.budget.as_str(), node, row.operation.as_str()));
            }
            for (labels, AlertView { key, state, .. }) in labels.iter().zip(alerts) {
                let name = (key.rule.as_str(), key.scope.node(), key.operation.as_str());
                if !told.contains(&name) {
                    rows.add(&[labels], Value::flag(*state == AlertState::Firing));
                }
            }
        });
    }

    /// How many there are, shown or not, and what receivers did not hear of them.
    pub(super) fn alert_counts(&self, writer: &mut Writer) {
        let counts = &self.view.alert_counts;
        writer.family(Family::gauge("plimsoll_alerts", "Alerts by state, shown or not"), |rows| {
            for state in STANDING {
                let n = counts.by_state.get(&state).copied().unwrap_or_default();
                rows.add(&[&rows.labels([("state", state.as_str())])], Value::Count(n));
            }
        });
        let help = "Alerts that stand while there is nothing or too little to judge";
        let family = Family::gauge("plimsoll_alerts_without_data", help);
        writer.family(family, |rows| rows.add(&[NONE], Value::Count(counts.without_data)));
        let help = "Silences that hold or are yet to begin";
        let family = Family::gauge("plimsoll_silences", help);
        writer.family(family, |rows| rows.add(&[NONE], Value::Count(counts.silences)));
        let help = "Notices of which receivers did not hear, by reason; the bus has all but those \
                    of which there was no evidence";
        let family = Family::counter("plimsoll_notices_suppressed_total", help);
        writer.family(family, |rows| {
            for (reason, n) in &counts.suppressed {
                rows.add(&[&rows.labels([("reason", reason.as_ref())])], Value::Count(*n));
            }
        });
    }
}

fn labels(writer: &Writer, key: &AlertKey) -> LabelSet {
    writer.labels([
        ("rule", key.rule.as_str()),
        ("scope", key.scope.as_str()),
        ("node", key.scope.node()),
        ("operation", key.operation.as_str()),
    ])
}
