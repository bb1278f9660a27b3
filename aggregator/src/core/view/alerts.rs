//! The alerts of a view: those of the fleet and of the nodes that are shown.

use std::collections::BTreeMap;

use plimsoll_schemas::alert::{AlertKey, AlertState};
use plimsoll_schemas::ids::RuleName;
use plimsoll_schemas::rule::{Rules, Severity};

use super::read_view::{AlertCounts, ReadView, ShownScopes};

#[derive(Clone, Debug, PartialEq)]
pub struct AlertView {
    /// What it is about.
    pub key: AlertKey,
    pub state: AlertState,
    /// How bad it is.
    pub severity: Severity,
}

pub(super) fn alert_views(view: &ReadView, scopes: &ShownScopes<'_>) -> Vec<AlertView> {
    let mut severity = severities(&view.rules);
    let row = |(key, state): (&AlertKey, AlertState)| AlertView {
        severity: severity(key),
        key: key.clone(),
        state,
    };
    view.alerts_about(scopes).into_iter().map(row).collect()
}

/// How bad an alert is. Thousands of alerts are of few rules, each of which is looked up once.
pub(in crate::core) fn severities(rules: &Rules) -> impl FnMut(&AlertKey) -> Severity {
    let mut known: BTreeMap<RuleName, Severity> = BTreeMap::new();
    move |key| {
        // Of thousands of alerts most are of few rules, and finding a rule searches all of them.
        known.get(&key.rule).copied().unwrap_or_else(|| {
            let severity = rules.find(&key.rule).map(|rule| rule.severity()).unwrap_or_default();
            known.insert(key.rule.clone(), severity);
            severity
        })
    }
}

pub(super) fn alert_counts(view: &ReadView) -> AlertCounts {
    let mut by_state = BTreeMap::new();
    for state in view.alerts.values() {
        *by_state.entry(*state).or_default() += 1;
    }
    AlertCounts { by_state, ..view.alert_counts.clone() }
}
