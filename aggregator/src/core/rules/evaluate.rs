//! What happens once a second: windows move on, budgets are judged, alerts move, notices leave.

use std::sync::Arc;
use std::time::Duration;

use crate::limits::{ALERT_HISTORY_MAX, EVALUATE_EVERY, NODE_SILENT_AFTER};
use plimsoll_schemas::alert::{AlertKey, AlertState, Notice, Scope};
use plimsoll_schemas::budget::Budget;
use plimsoll_schemas::ids::NodeName;
use plimsoll_schemas::time::{Mono, Now, Wall};

use crate::core::Core;
use crate::core::alerting::alert::{Finding, Patience};
use crate::core::fleet::node::{Node, Operations};
use crate::core::fleet::window::Sums;
use crate::core::rules::judge::{finding, may_be_breach};

impl Core {
    /// Lets time pass: once a second windows move on and every budget is judged.
    pub fn on_deadline(&mut self, now: Now) {
        self.end_unruled_since_restart(now.wall);
        if self.ready {
            self.end_past(now);
        }
        if now.mono < self.evaluates_at {
            return;
        }
        self.evaluates_at = now.mono.plus(EVALUATE_EVERY);
        self.bear_a_leap(now);
        // The past is read as it was: a node long gone may still have messages to come.
        if self.ready {
            self.hide_nodes(now.wall);
            self.forget_accounts(now.wall);
            self.expire_windows(now.wall);
            self.watch_hearing(now);
            self.watch_gaps(now);
            self.evaluate(now.wall, Duration::ZERO);
            self.end_silences(now.wall);
            self.alerts.forget_calm(now.wall);
            self.save_alerts();
        }
    }

    /// When [`Self::on_deadline`] next has something to do.
    #[must_use]
    pub fn next_deadline(&self) -> Mono {
        self.evaluates_at
    }

    /// Lets the windows of fleet and roll-ups move on. Those of a node do when it speaks; when it
    /// is silent, all that every window has passed goes at once.
    pub(crate) fn expire_windows(&mut self, now: Wall) {
        Arc::make_mut(&mut self.fleet).expire(now);
        self.rollups.expire(now);
        let silent = |node: &Node| now.since(node.last_heard) >= NODE_SILENT_AFTER;
        let stale = |node: &Node| silent(node) && node.operations.are_stale(now);
        for node in self.nodes.values_mut().filter(|node| stale(node)) {
            Arc::make_mut(node).operations.expire(now);
        }
    }

    /// Judges every rule as of `at`, which lies `late` before the present.
    pub(crate) fn evaluate(&mut self, at: Wall, late: Duration) {
        self.judged_at = Some(at);
        let rules = Arc::clone(&self.rules);
        let mut shares = Vec::new();
        for budget in &rules.budgets {
            let patience =
                Patience { fire_after: budget.fire_after, clear_after: budget.clear_after };
            for (scope, finding) in self.findings(at, budget, &mut shares) {
                let (rule, operation) = (budget.name.clone(), budget.operation.clone());
                let key = AlertKey { rule, scope, operation };
                self.on_found((at, late), key, finding, patience);
            }
        }
        // Of several budgets the greatest share comes last, and stays.
        shares.sort();
        self.shares = Arc::new(shares.into_iter().collect());
        self.judge_thresholds((at, late));
        self.judge_burns((at, late));
    }

    /// What is found about one budget that may move an alert. Most are within the limit and
    /// belong to no alert, and for these nothing is copied. Notes nodes with samples over it.
    fn findings(
        &self,
        at: Wall,
        budget: &Budget,
        shares: &mut Vec<(NodeName, u64)>,
    ) -> Vec<(Scope, Finding)> {
        let alive = self.alerts.alive(&budget.name);
        let sums = |operations: &Operations| {
            Some(operations.judged(budget)?.sums(at, budget.window, budget.limit_ns))
        };
        let found = |name: Option<&NodeName>, sums: &Sums| {
            // Even of too few samples, where an alert stands.
            let is_alive = alive.contains(&name);
            let found = is_alive || may_be_breach(budget, sums);
            let found = found.then(|| finding(budget, sums));
            found.filter(|found| is_alive || *found == Finding::Breach)
        };
        let fleet = Some(&self.fleet).filter(|_| budget.scopes.fleet);
        let fleet = fleet.and_then(|fleet| found(None, &sums(fleet)?));
        let nodes = self.nodes.iter().filter_map(|(name, node)| {
            let sums = sums(&node.operations)?;
            if sums.over > 0 {
                shares.push((name.clone(), share_over(budget, &sums)));
            }
            let found = found(Some(name), &sums).filter(|_| budget.scopes.nodes)?;
            Some((Scope::Node(name.clone()), found))
        });
        let fleet = fleet.map(|found| (Scope::Fleet, found));
        let standing =
            alive.iter().map(|name| (*name).map_or(Scope::Fleet, |n| Scope::Node(n.clone())));
        let gone = standing.filter(|scope| self.windows_of(budget, scope).is_none());
        let gone = gone.map(|scope| (scope, Finding::NoData));
        fleet.into_iter().chain(nodes).chain(gone).collect()
    }

    /// Moves an alert by what an evaluation as of `at`, `late` before the present, has found, and
    /// tells of it.
    pub(crate) fn on_found(
        &mut self,
        (at, late): (Wall, Duration),
        key: AlertKey,
        finding: Finding,
        patience: Patience,
    ) {
        let change = self.alerts.on_finding(at, &key, finding, patience);
        self.save_alerts();
        let Some(change) = change else { return };
        // That a resolved alert is no longer shown as such is no news.
        if (change.from, change.to) != (AlertState::Resolved, AlertState::Inactive) {
            self.announce((at, late), key, change);
        }
    }

    /// What stands unchanged costs no checkpoint, however much that is.
    fn save_alerts(&mut self) {
        if self.alerts.take_changed() {
            self.unsaved.touch();
        }
    }

    /// Sends a notice on its way.
    pub(crate) fn tell(&mut self, notice: Notice) {
        if self.changes.len() >= ALERT_HISTORY_MAX {
            self.changes.remove(0);
        }
        self.changes.push(notice.clone());
        self.deliveries.on_notice(&notice);
        self.notices.push(notice);
    }
}

/// The share of samples over a budget's limit, in thousandths of the share that the budget allows:
/// one in a hundred for a p99, half of them for a median.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an order and no account"
)]
fn share_over(budget: &Budget, sums: &Sums) -> u64 {
    let share = sums.over as f64 / sums.samples.max(1) as f64;
    (share / (1.0 - budget.quantile) * 1_000.0) as u64
}
