//! The alerts of a view: those of the fleet and of the nodes that are shown.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use plimsoll_schemas::alert::{AlertKey, AlertState};
use plimsoll_schemas::ids::NodeName;
use plimsoll_schemas::rule::Severity;

use crate::core::Word;
use crate::core::fleet::node::Node;
use crate::core::view::read_view::Still;

/// One alert that stands.
#[derive(Clone, Debug, PartialEq)]
pub struct AlertView {
    /// What it is about.
    pub key: AlertKey,
    /// Where it stands.
    pub state: AlertState,
    /// How bad it is.
    pub severity: Severity,
}

/// How many alerts there are, and what receivers did not hear of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AlertCounts {
    /// Alerts that stand, by state.
    pub by_state: BTreeMap<AlertState, u64>,
    /// Of these, alerts for which there is nothing or too little to judge now.
    pub without_data: u64,
    /// Silences that hold or are yet to begin.
    pub silences: u64,
    /// Notices that receivers did not get, by reason.
    pub suppressed: BTreeMap<Word, u64>,
}

impl Still {
    pub(super) fn alert_views(
        &self,
        fleet: bool,
        nodes: &[(&NodeName, &Arc<Node>)],
    ) -> Vec<AlertView> {
        let nodes: BTreeSet<&str> = nodes.iter().map(|(name, _)| name.as_str()).collect();
        let shown = |key: &AlertKey| match key.scope.node() {
            "" => fleet,
            node => nodes.contains(node),
        };
        let mut severities = BTreeMap::new();
        let mut severity = |key: &AlertKey| {
            let of_rule = || self.rules.find(&key.rule).map(|rule| rule.severity());
            *severities.entry(key.rule.clone()).or_insert_with(|| of_rule().unwrap_or_default())
        };
        let alerts = self.alerts.iter().filter(|(key, _)| shown(key));
        let view = |(key, state): (&AlertKey, &AlertState)| AlertView {
            severity: severity(key),
            key: key.clone(),
            state: *state,
        };
        alerts.map(view).collect()
    }

    pub(super) fn alert_counts(&self) -> AlertCounts {
        let mut by_state = BTreeMap::new();
        for state in self.alerts.values() {
            *by_state.entry(*state).or_default() += 1;
        }
        AlertCounts { by_state, ..self.alert_counts.clone() }
    }
}
