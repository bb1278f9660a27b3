//! What rules are judged by, alerts that are active already among it, and what an evaluation finds
//! out about one alert.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_schemas::alert::{AlertKey, DataStatus, Scope};
use plimsoll_schemas::ids::{Labels, NodeName, RuleName};

use crate::core::fleet::Fleet;
use crate::core::ingest::BrokerHealth;

/// What an evaluation found out about one alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Finding {
    /// There was nothing to judge.
    NoData,
    /// There was too little to judge.
    Insufficient,
    /// Neither shown to be over the limit nor to be within.
    Uncertain,
    /// Shown to be within the limit.
    Clear,
    /// Shown to be over the limit.
    Breach,
}

impl Finding {
    /// Whether there was enough to judge.
    pub const fn data(self) -> DataStatus {
        match self {
            Self::NoData => DataStatus::NoData,
            Self::Insufficient => DataStatus::Insufficient,
            Self::Uncertain | Self::Clear | Self::Breach => DataStatus::Enough,
        }
    }
}

/// How many evaluations in a row it takes to move an alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hysteresis {
    /// Breaches until an alert fires.
    pub fire_after: u32,
    /// Evaluations clearly within the limit until it resolves.
    pub clear_after: u32,
}

#[derive(Clone, Debug, PartialEq)]
pub struct AlertFinding {
    pub key: AlertKey,
    pub finding: Finding,
    /// How many of these in a row move it.
    pub hysteresis: Hysteresis,
}

/// What a threshold is compared with.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// The value; of several the worst.
    pub value: f64,
    /// Which one it is, where there are several.
    pub labels: Labels,
}

#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// Everything that was merged.
    pub fleet: &'a Fleet,
    /// How far silence can be trusted.
    pub broker: BrokerHealth,
}

/// Nodes, and `None` for the fleet, that an alert is about.
pub type ActiveScopes<'a> = BTreeSet<Option<&'a NodeName>>;

/// The scopes of alerts that are not inactive, by rule. Most scopes are within every limit and have
/// no alert; for these nothing is copied and no finding is made.
#[derive(Debug, Default)]
pub struct ActiveAlerts<'a> {
    by_rule: BTreeMap<&'a RuleName, ActiveScopes<'a>>,
    none: ActiveScopes<'a>,
}

impl<'a> ActiveAlerts<'a> {
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
