//! Silent nodes as receivers are notified of them: one by one, or, while an alert about their
//! number fires, by that one alone. It is an alert like any other: it has a state, a row, and an
//! end, and it can be silenced. What receivers are not notified of is withheld as by a silence, and
//! sent once the alert has ended.
//!
//! DESIGN A165.

use std::collections::BTreeSet;

use crate::limits::alerts::{GROUP_CHANGE_PART, GROUP_CHANGED_EVERY, GROUP_REPEATED_EVERY};
use plimsoll_schemas::alert::{AlertKey, AlertState, Evidence, Notification, Scope};
use plimsoll_schemas::ids::{NodeName, RuleName};
use plimsoll_schemas::metric::{Metric, NodeMetric};
use plimsoll_schemas::rule::{Rules, Threshold};
use plimsoll_schemas::summary::Presence;
use plimsoll_schemas::time::{Wall, seconds};

use super::alert::Alerts;
use super::delivery::Deliveries;
use super::silences::Silences;
use super::situation::Situation;
use crate::core::fleet::Fleet;

/// The rules about one silent node each.
fn node_rules(rules: &Rules) -> impl Iterator<Item = &Threshold> {
    let of_one = Metric::Node(NodeMetric::SilentSeconds);
    rules.thresholds.iter().filter(move |of| of.metric == of_one)
}

/// The alert of a rule about how many nodes are silent.
pub(super) fn key(rule: &Threshold) -> AlertKey {
    let (operation, scope) = (rule.metric.operation(), Scope::Fleet);
    AlertKey { rule: rule.name.clone(), scope, operation }
}

/// The rules whose alerts of single nodes receivers are notified of by one alert. None of a rule
/// that has a receiver which is not notified of that alert.
pub(super) fn grouped(
    at: Wall,
    situation: Situation<'_>,
    alerts: &Alerts,
    silences: &Silences,
    deliveries: &Deliveries,
) -> BTreeSet<RuleName> {
    // While it is pending, single notifications wait for it.
    let stands = |rule: &&Threshold| {
        let key = key(rule);
        let is_active = matches!(alerts.state(&key), AlertState::Pending | AlertState::Firing);
        let is_quiet = silences.is_quiet(at, &key, rule.about.severity);
        is_active && !is_quiet && !silences.withheld.contains(&key)
    };
    let Some(group) = situation.group_rules().find(stands) else { return BTreeSet::new() };
    // A receiver of the single alerts that is not sent this one would be notified of nothing.
    let have_it = |rule: &&Threshold| deliveries.have_receivers_of(&rule.about, &group.about);
    node_rules(situation.rules()).filter(have_it).map(|rule| rule.name.clone()).collect()
}

/// Silent nodes whose alert an operator has silenced or acknowledged.
pub(super) fn quiet_nodes(
    at: Wall,
    rules: &Rules,
    fleet: &Fleet,
    silences: &Silences,
) -> BTreeSet<NodeName> {
    if !silences.are_any() {
        return BTreeSet::new();
    }
    let silent = fleet.shown().filter(|(_, node)| node.presence(at) == Presence::Silent);
    let is_quiet = |name: &NodeName| {
        node_rules(rules).any(|rule| {
            let (scope, operation) = (Scope::Node(name.clone()), rule.metric.operation());
            let key = AlertKey { rule: rule.name.clone(), scope, operation };
            silences.is_quiet(at, &key, rule.about.severity)
        })
    };
    silent.map(|(name, _)| name).filter(|name| is_quiet(name)).cloned().collect()
}

/// Whether receivers are to be notified that the number is another one by now. One that calls for
/// no alert is followed by the end.
pub(super) fn is_news(
    at: Wall,
    rule: &Threshold,
    last: &Notification,
    evidence: &Evidence,
) -> bool {
    let [before, now] = [&last.evidence, evidence].map(|of| of.value_and_limit().0);
    let (change, passed) = ((now - before).abs(), seconds(at.0) - last.at_seconds);
    let is_great = change >= before * GROUP_CHANGE_PART;
    let wait = if is_great { GROUP_CHANGED_EVERY } else { GROUP_REPEATED_EVERY };
    rule.comparison.holds(now, rule.value) && change >= 1.0 && passed >= wait.as_secs_f64()
}
