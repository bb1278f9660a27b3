//! The page `/api/v1/blame`: the alerts about stragglers, and how far each cohort can be judged.

use plimsoll_schemas::alert::{AlertState, Evidence, Scope};
use plimsoll_schemas::rule::Rules;
use plimsoll_schemas::summary::{BlamePage, StragglerRow};

use crate::core::alerting::Alerting;
use crate::core::blame::Blame;

/// The page as of now; a rule about stragglers has few alerts.
pub(in crate::core) fn blame_page(blame: &Blame, rules: &Rules, alerting: &Alerting) -> BlamePage {
    let entries = alerting.alerts.entries();
    let firing = entries.filter(|(_, entry)| entry.state == AlertState::Firing);

    let alerts = firing.filter_map(|(key, entry)| {
        let Scope::Node(node) = &key.scope else { return None };
        let of_last = || {
            let last = entry.notified.as_ref()?.evidence.clone();
            if let Evidence::Straggler(of) = last { Some(of) } else { None }
        };
        let now = blame.slowest(key).map(|of| of.evidence);
        let evidence = now.or_else(of_last)?;
        let function = alerting.profile(key).and_then(|of| of.function_of(&evidence));
        Some(StragglerRow {
            rule: key.rule.clone(),
            node: node.clone(),
            operation: key.operation.clone(),
            data: entry.data,
            sentence: evidence.sentence(node.as_str(), entry.state, function),
            evidence,
        })
    });

    BlamePage {
        rules: rules.stragglers.iter().map(|rule| rule.name.clone()).collect(),
        alerts: alerts.collect(),
        cohorts: blame.rows(),
        refused: blame.refused(),
    }
}
