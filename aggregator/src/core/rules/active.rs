//! Which alerts are active while rules are evaluated. Most scopes are within every limit and have
//! no alert; for these nothing is copied and no finding is made.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_schemas::alert::{AlertKey, Scope};
use plimsoll_schemas::ids::{NodeName, RuleName};

/// Nodes, and `None` for the fleet, that an alert is about.
pub type ActiveScopes<'a> = BTreeSet<Option<&'a NodeName>>;

/// The scopes of alerts that are not inactive, by rule.
#[derive(Debug, Default)]
pub struct ActiveAlerts<'a> {
    by_rule: BTreeMap<&'a RuleName, ActiveScopes<'a>>,
    none: ActiveScopes<'a>,
}

impl<'a> ActiveAlerts<'a> {
    /// The scopes of a rule's active alerts.
    pub fn of(&self, rule: &RuleName) -> &ActiveScopes<'a> {
        self.by_rule.get(rule).unwrap_or(&self.none)
    }
}

impl<'a> FromIterator<&'a AlertKey> for ActiveAlerts<'a> {
    fn from_iter<I: IntoIterator<Item = &'a AlertKey>>(keys: I) -> Self {
        let mut active = Self::default();
        for AlertKey { rule, scope, .. } in keys {
            active.by_rule.entry(rule).or_default().insert(match scope {
                Scope::Fleet => None,
                Scope::Node(name) => Some(name),
            });
        }
        active
    }
}
