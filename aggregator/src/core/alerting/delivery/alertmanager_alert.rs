//! An alert as an Alertmanager is sent it. Two aggregators of a pair send the same labels of the
//! same alert, so that one notification comes of it: nothing in them depends on the aggregator.
//!
//! DESIGN A30.

use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};

use plimsoll_schemas::alert::{AlertEndReason, Notification};
use plimsoll_schemas::own_operations::is_own;
use plimsoll_schemas::time::Wall;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::texts;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct AlertmanagerAlert {
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    /// A page that shows the time of it.
    dashboard: Option<String>,
    /// Since when it fires.
    pub(super) starts_at: Wall,
}

impl AlertmanagerAlert {
    /// What a firing alert's notification comes to.
    pub(super) fn of(notification: &Notification) -> Self {
        let key = &notification.key;
        let labels = [
            ("alertname", key.rule.as_str()),
            ("mesh", notification.mesh.as_str()),
            ("scope", key.scope.as_str()),
            ("node", key.scope.node()),
            ("operation", key.operation.as_str()),
            ("severity", notification.severity.as_str()),
            ("own", if is_own(&key.operation) { "true" } else { "" }),
        ];

        let dashboard = notification.context.as_ref().and_then(|context| context.dashboard.clone());
        let runbook = notification.runbook.clone().unwrap_or_default();
        let is_url = runbook.starts_with("https://") || runbook.starts_with("http://");
        let (value, limit) = texts::figures(notification);

        let annotations = [
            ("summary", texts::summary(notification)),
            (if is_url { "runbook_url" } else { "runbook" }, runbook),
            ("value", value),
            ("limit", limit),
            ("evidence", texts::evidence(notification)),
            ("dashboard", dashboard.clone().unwrap_or_default()),
        ];

        Self {
            // To Alertmanager an empty label is no label.
            labels: without_empty(labels.map(|(name, value)| (name, value.to_owned()))),
            annotations: without_empty(annotations),
            dashboard,
            starts_at: texts::wall(
                notification.firing_since_seconds.unwrap_or(notification.at_seconds),
            ),
        }
    }

    /// The same once it has ended for a reason other than that it resolved.
    pub(super) fn with_reason(mut self, ended: Option<AlertEndReason>) -> Self {
        if let Some(why) = ended {
            self.annotations.insert("ended".to_owned(), why.in_words().to_owned());
        }
        self
    }

    /// The alert for `/api/v2/alerts`; it ends at that time unless it is sent again.
    pub(super) fn to_json(&self, ends_at: Wall) -> Value {
        // An alert that ends before it starts is refused.
        let ends_at = ends_at.max(self.starts_at.plus(Duration::from_millis(1)));
        let mut alert = json!({
            "labels": self.labels,
            "annotations": self.annotations,
            "startsAt": date(self.starts_at),
            "endsAt": date(ends_at),
        });
        if let Some(url) = &self.dashboard {
            alert["generatorURL"] = json!(url);
        }
        alert
    }
}

fn without_empty<const N: usize>(pairs: [(&str, String); N]) -> BTreeMap<String, String> {
    let pairs = pairs.into_iter().filter(|(_, value)| !value.is_empty());
    pairs.map(|(name, value)| (name.to_owned(), value)).collect()
}

/// A point in time as RFC 3339 has it.
pub(super) fn date(at: Wall) -> String {
    humantime::format_rfc3339_millis(UNIX_EPOCH + Duration::from_nanos(at.0)).to_string()
}
