//! Captures by alerts: who is captured, and how often.

use std::time::Duration;

use plimsoll_schemas::alert::AlertKey;
use plimsoll_schemas::ids::{Labels, NodeName, RuleName};
use plimsoll_schemas::time::{Wall, nanos};

use crate::limits::captures::{BREACH_PAUSE, BREACHES_AN_HOUR_MAX, START_AHEAD};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);

/// The process of a node that sends an operation with these labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureTarget {
    pub node: NodeName,
    pub labels: Labels,
}

/// A process at fault and a healthy peer, which do the same work: both send the alert's operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapturePair {
    pub alert: AlertKey,
    pub culprit: CaptureTarget,
    pub peer: CaptureTarget,
}

/// What alerts have ordered within an hour.
#[derive(Debug, Default)]
pub(super) struct Breaches(Vec<Breach>);

#[derive(Debug)]
struct Breach {
    at: Wall,
    rule: RuleName,
    culprit: NodeName,
    peer: NodeName,
}

impl Breaches {
    /// Forgets what no longer bounds others.
    pub(super) fn expire(&mut self, now: Wall) {
        // A clock that was set back must not keep an entry for longer.
        self.0.retain(|of| of.at <= now && now.since(of.at) < HOUR);
    }

    /// Whether the hour has all that it may have.
    pub(super) fn is_full(&self) -> bool {
        self.0.len() >= BREACHES_AN_HOUR_MAX
    }

    /// Whether a node was captured for a rule so recently that it refuses another capture. A peer
    /// that is to start is that of further alerts, too.
    pub(super) fn is_spent(&self, now: Wall, rule: &RuleName, node: &str) -> bool {
        let is_of = |of: &Breach| {
            of.culprit.as_str() == node || of.peer.as_str() == node && next_instant(of.at) <= now
        };
        let mut recent = self.0.iter().filter(|of| now.since(of.at) < BREACH_PAUSE);
        recent.any(|of| of.rule == *rule && is_of(of))
    }

    pub(super) fn count(&mut self, at: Wall, pair: &CapturePair) {
        let (culprit, peer) = (pair.culprit.node.clone(), pair.peer.node.clone());
        self.0.push(Breach { at, rule: pair.alert.rule.clone(), culprit, peer });
    }
}

/// The first whole second that is far enough ahead.
pub(super) fn next_instant(now: Wall) -> Wall {
    let second = nanos(SECOND);
    Wall(now.plus(START_AHEAD).0.div_ceil(second).saturating_mul(second))
}
