//! Captures by alerts: who is captured, and how often.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use plimsoll_schemas::alert::AlertKey;
use plimsoll_schemas::ids::{Operation, RuleName};
use plimsoll_schemas::time::Wall;
use plimsoll_schemas::wire::capture::{CaptureOrder, ProcessSelector};

use super::effect::{CaptureTarget, ComparedPair};
use crate::limits::captures::{
    BREACH_PAUSE, BREACHES_AN_HOUR_MAX, HZ_DEFAULT, SECONDS_DEFAULT, START_WITHIN,
};

const HOUR: Duration = Duration::from_secs(3_600);

/// A process at fault and a healthy peer, which do the same work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapturePair {
    pub alert: AlertKey,
    /// What both send.
    pub operation: Operation,
    pub culprit: CaptureTarget,
    pub peer: CaptureTarget,
}

/// Two captures whose difference is for an alert.
#[derive(Clone, Debug)]
pub(super) struct AwaitedPair(pub(super) ComparedPair);

/// When alerts have ordered captures.
#[derive(Debug, Default)]
pub(super) struct Breaches {
    /// Of each rule and node within the pause. So it has no more than `hour`.
    latest: BTreeMap<(RuleName, String), Wall>,
    /// All within an hour, oldest first.
    hour: VecDeque<Wall>,
}

impl CapturePair {
    /// The order for one of both.
    pub(super) fn order(&self, target: &CaptureTarget, start_at: Wall) -> CaptureOrder {
        let (operation, labels) = (Some(self.operation.clone()), target.labels.clone());
        CaptureOrder {
            process: ProcessSelector { pid: None, operation, labels },
            seconds: SECONDS_DEFAULT,
            hz: HZ_DEFAULT,
            start_at,
            expires_at: start_at.plus(START_WITHIN),
            rule: Some(self.alert.rule.clone()),
        }
    }
}

impl Breaches {
    /// Forgets what no longer bounds others.
    pub(super) fn expire(&mut self, now: Wall) {
        // A clock that was set back must not keep an entry for longer.
        let is_within = |at: Wall, span: Duration| at <= now && now.since(at) < span;
        self.hour.retain(|at| is_within(*at, HOUR));
        self.latest.retain(|_, at| is_within(*at, BREACH_PAUSE));
    }

    /// Whether the hour has all that it may have.
    pub(super) fn is_full(&self) -> bool {
        self.hour.len() >= BREACHES_AN_HOUR_MAX
    }

    /// Whether this rule and node have had one within the pause.
    pub(super) fn is_paused(&self, alert: &AlertKey) -> bool {
        self.latest.contains_key(&rule_and_node(alert))
    }

    pub(super) fn count(&mut self, now: Wall, alert: &AlertKey) {
        self.hour.push_back(now);
        self.latest.insert(rule_and_node(alert), now);
    }
}

fn rule_and_node(alert: &AlertKey) -> (RuleName, String) {
    (alert.rule.clone(), alert.scope.node().to_owned())
}
