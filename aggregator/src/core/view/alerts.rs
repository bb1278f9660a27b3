//! The alerts of a view: those of the fleet and of the nodes that are shown.

use std::collections::BTreeMap;
use std::sync::Arc;

use plimsoll_schemas::alert::{AlertKey, AlertState};
use plimsoll_schemas::ids::NodeName;
use plimsoll_schemas::rule::Severity;

use super::alert_counts::AlertCounts;
use super::read_view::ReadView;
use crate::core::fleet::Node;

/// One active alert.
#[derive(Clone, Debug, PartialEq)]
pub struct AlertView {
    /// What it is about.
    pub key: AlertKey,
    /// Its state.
    pub state: AlertState,
    /// How bad it is.
    pub severity: Severity,
}

pub(super) fn alert_views(
    view: &ReadView,
    fleet: bool,
    nodes: &[(&NodeName, &Arc<Node>)],
) -> Vec<AlertView> {
    let mut severities = BTreeMap::new();
    let mut severity = |key: &AlertKey| {
        let of_rule = || view.rules.find(&key.rule).map(|rule| rule.severity());
        *severities.entry(key.rule.clone()).or_insert_with(|| of_rule().unwrap_or_default())
    };
    let row = |(key, state): (&AlertKey, AlertState)| AlertView {
        severity: severity(key),
        key: key.clone(),
        state,
    };
    view.alerts_about(fleet, nodes).into_iter().map(row).collect()
}

pub(super) fn alert_counts(view: &ReadView) -> AlertCounts {
    let mut by_state = BTreeMap::new();
    for state in view.alerts.values() {
        *by_state.entry(*state).or_default() += 1;
    }
    AlertCounts { by_state, ..view.alert_counts.clone() }
}
