//! Where alerts and captures meet: an alert about one node orders profiles of that node and of a
//! peer, and their difference becomes part of its evidence.
//!
//! DESIGN A183.

use plimsoll_schemas::alert::{AlertKey, ProfileEvidence, Scope};
use plimsoll_schemas::budget::{Budget, Window};
use plimsoll_schemas::ids::NodeName;
use plimsoll_schemas::rule::Rule;
use plimsoll_schemas::summary::{Presence, ProfileRequest, ProfileRow};
use plimsoll_schemas::time::{Now, Wall};
use plimsoll_schemas::wire::capture::CaptureKind;

use super::Core;
use super::captures::{CaptureError, CapturePair, CaptureTarget, Captures};
use super::fleet::{Fleet, Node};
use crate::limits::captures::PEERS_MAX;

impl Core {
    pub fn captures(&self) -> &Captures {
        &self.captures
    }

    pub fn captures_mut(&mut self) -> &mut Captures {
        &mut self.captures
    }

    /// Orders a capture for a client; of the past without a node all nodes that are up.
    ///
    /// # Errors
    /// When the node is unknown, the order out of bounds, or too many are running.
    pub fn on_capture_request(
        &mut self,
        now: Now,
        mut request: ProfileRequest,
    ) -> Result<ProfileRow, CaptureError> {
        request.nodes.extend(request.node.take());
        request.nodes.sort_unstable();
        request.nodes.dedup();
        if let Some(unknown) = request.nodes.iter().find(|node| self.node(node).is_none()) {
            return Err(CaptureError::UnknownNode(unknown.clone()));
        }
        if request.nodes.is_empty() && request.kind == CaptureKind::Past {
            let up = self.fleet.shown().filter(|(_, node)| node.presence(now.wall) == Presence::Up);
            request.nodes = up.map(|(name, _)| name.clone()).collect();
        }
        self.captures.order(now, &self.mesh, request)
    }

    /// The difference that an alert has ordered was computed: receivers are sent it.
    pub fn on_compared(&mut self, now: Wall, alert: &AlertKey, evidence: ProfileEvidence) {
        let (alerting, situation) = self.alerting();
        alerting.on_profile(now, alert, evidence, situation);
    }

    /// Alerts that have just fired order captures. `fleet` is as they were judged.
    pub(super) fn capture_fired(&mut self, now: Now, fleet: &Fleet) {
        let mut fired = self.alerting.take_fired();
        if !self.captures.on_breach {
            return;
        }
        fired.retain(|alert| self.names_culprit(alert));
        let mut captures = std::mem::take(&mut self.captures);
        let pair_of =
            |captures: &Captures, alert| self.capture_pair(now.wall, alert, fleet, captures);
        captures.on_fired(now, &self.mesh, fired, pair_of);
        self.captures = captures;
    }

    /// Whether an alert is about one node that others can be compared with.
    fn names_culprit(&self, alert: &AlertKey) -> bool {
        let rule = self.evaluator.rules().find(&alert.rule);
        let is_compared = rule.is_some_and(|rule| !matches!(rule, Rule::Threshold(_)));
        is_compared && alert.scope != Scope::Fleet
    }

    /// Who is compared with whom for an alert; `None` of one that names no culprit. A rule about
    /// stragglers finds both itself.
    fn capture_pair(
        &self,
        now: Wall,
        alert: AlertKey,
        fleet: &Fleet,
        captures: &Captures,
    ) -> Option<CapturePair> {
        let Scope::Node(culprit) = alert.scope.clone() else { return None };
        let (budget, window) = match self.evaluator.rules().find(&alert.rule)? {
            Rule::Budget(budget) => (budget, budget.window),
            Rule::Burn(budget, burn) => (budget, burn.short),
            Rule::Straggler(_) => return self.blame.slowest(&alert)?.pair,
            Rule::Threshold(_) => return None,
        };
        let is_free = |node: &NodeName| {
            *node != culprit && !captures.is_spent(now, &alert.rule, node.as_str())
        };
        let peer = median_node(now, fleet, budget, window, is_free)?;
        let target = |node| CaptureTarget { node, labels: budget.selector.series.clone() };
        Some(CapturePair { culprit: target(culprit), peer: target(peer), alert })
    }
}

/// The node whose value of a budget is the median of all these that send samples of it.
fn median_node(
    now: Wall,
    fleet: &Fleet,
    budget: &Budget,
    window: Window,
    is_free: impl Fn(&NodeName) -> bool,
) -> Option<NodeName> {
    // Nodes keep shorter windows than the fleet.
    let window = fleet.longest_node_window(budget).min(window);
    let is_peer = |name: &NodeName, node: &Node| {
        is_free(name)
            && node.presence(now) == Presence::Up
            && node.operations.judged(budget).is_some_and(|of| of.has_data(now, window))
    };
    let nodes = fleet.shown_in(&Scope::Fleet).filter(|(name, node)| is_peer(name, node));
    let nodes: Vec<_> = nodes.collect();
    // Of many nodes some, evenly over their names.
    let step = nodes.len().div_ceil(PEERS_MAX).max(1);

    let value = |(name, node): &(&NodeName, &Node)| {
        let merged = node.operations.judged(budget)?.merged(now, window);
        Some((coarse(merged.quantile(budget.quantile)?.value_ns), (*name).clone()))
    };
    let mut values: Vec<_> = nodes.iter().step_by(step).filter_map(value).collect();
    values.sort_unstable();
    let middle = values.len().checked_sub(1)? / 2;
    Some(values.swap_remove(middle).1)
}

/// The highest three bits of a value. So two aggregators, of which one has read a message more,
/// mostly find the same peer among nodes that are alike.
fn coarse(value_ns: u64) -> u64 {
    let rest = (u64::BITS - value_ns.leading_zeros()).saturating_sub(3);
    value_ns >> rest << rest
}
