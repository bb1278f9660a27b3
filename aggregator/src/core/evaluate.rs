//! What happens once a second: windows move on, budgets are judged, alerts move, notices leave.

use std::sync::Arc;
use std::time::Duration;

use plimsoll_schemas::alert::{AlertKey, Evidence, LatencyEvidence, Notice, Scope};
use plimsoll_schemas::budget::Budget;
use plimsoll_schemas::ids::NodeName;
use plimsoll_schemas::limits::aggregator::{ALERT_HISTORY_MAX, EVALUATE_EVERY, NODE_SILENT_AFTER};
use plimsoll_schemas::summary::Verdict;
use plimsoll_schemas::time::{Mono, Now, Wall, nanos, seconds};

use super::Core;
use super::alert::{Change, Patience};
use super::judge::{Judgement, judge, verdict};
use super::node::Node;
use super::window::{Sums, Windows};

/// How exactly a notice tells how late it is, in nanoseconds.
const MILLISECOND: u64 = 1_000_000;

/// An alert that moved, and when.
pub(super) struct Moved {
    pub(super) key: AlertKey,
    pub(super) change: Change,
    pub(super) at: Wall,
    /// How long after that it was found out.
    pub(super) late: Duration,
    pub(super) evidence: Evidence,
}

impl Core {
    /// Lets time pass: once a second windows move on and every budget is judged.
    pub fn on_deadline(&mut self, now: Now) {
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
            self.evaluate(now.wall, Duration::ZERO);
            self.judge_gaps(now);
        }
    }

    /// When [`Self::on_deadline`] next has something to do.
    #[must_use]
    pub fn next_deadline(&self) -> Mono {
        self.evaluates_at
    }

    /// Lets the windows of fleet and roll-ups move on. Those of a node do when it speaks; when it
    /// is silent, all that every window has passed goes at once.
    pub(super) fn expire_windows(&mut self, now: Wall) {
        Arc::make_mut(&mut self.fleet).expire(now);
        self.rollups.expire(now);
        let silent = |node: &Node| now.since(node.last_heard) >= NODE_SILENT_AFTER;
        let stale = |node: &Node| silent(node) && node.operations.are_stale(now);
        for node in self.nodes.values_mut().filter(|node| stale(node)) {
            Arc::make_mut(node).operations.expire(now);
        }
    }

    /// Judges every budget as of `at`, which lies `late` before the present.
    pub(super) fn evaluate(&mut self, at: Wall, late: Duration) {
        self.judged_at = Some(at);
        let mut shares = Vec::new();
        for number in 0..self.budgets.len() {
            for (scope, verdict) in self.verdicts(at, &self.budgets[number], &mut shares) {
                self.unsaved.touch();
                self.on_verdict(number, scope, verdict, (at, late));
            }
        }
        // Of several budgets the greatest share comes last, and stays.
        shares.sort();
        self.shares = Arc::new(shares.into_iter().collect());
    }

    /// The verdicts about one budget that may move an alert. Most are within the limit and
    /// belong to no alert, and for these nothing is copied. Notes nodes with samples over it.
    fn verdicts(
        &self,
        at: Wall,
        budget: &Budget,
        shares: &mut Vec<(NodeName, u64)>,
    ) -> Vec<(Scope, Verdict)> {
        let alive = self.alerts.alive(&budget.name);
        let sums = |windows: &Windows| windows.sums(at, budget.window, budget.limit_ns);
        let may_move = |name: Option<&NodeName>, verdict| match verdict {
            Verdict::Breach => true,
            Verdict::Within => name.is_none() || alive.contains(&name),
            Verdict::Insufficient => false,
        };
        let fleet = self.fleet.get(&budget.operation).map(|of| verdict(budget, &sums(of)));
        let fleet = fleet.filter(|verdict| may_move(None, *verdict));
        let nodes = self.nodes.iter().filter_map(|(name, node)| {
            let sums = sums(node.operations.get(&budget.operation)?);
            if sums.over > 0 {
                shares.push((name.clone(), share_over(budget, &sums)));
            }
            let verdict = verdict(budget, &sums);
            may_move(Some(name), verdict).then(|| (Scope::Node(name.clone()), verdict))
        });
        let fleet = fleet.map(|verdict| (Scope::Fleet, verdict));
        fleet.into_iter().chain(nodes).collect()
    }

    fn on_verdict(
        &mut self,
        number: usize,
        scope: Scope,
        verdict: Verdict,
        (at, late): (Wall, Duration),
    ) {
        let budget = &self.budgets[number];
        let patience = Patience { fire_after: budget.fire_after, clear_after: budget.clear_after };
        let key =
            AlertKey { rule: budget.name.clone(), scope, operation: budget.operation.clone() };
        let Some(change) = self.alerts.on_verdict(at, &key, verdict, patience) else { return };
        let Some(windows) = self.windows_of(&key) else { return };
        let judgement = judge(budget, &windows.merged(at, budget.window));
        let evidence = evidence(budget, &judgement);
        self.tell(Moved { key, change, at, late, evidence });
    }

    fn windows_of(&self, key: &AlertKey) -> Option<&Windows> {
        match &key.scope {
            Scope::Fleet => self.fleet.get(&key.operation),
            Scope::Node(name) => self.nodes.get(name)?.operations.get(&key.operation),
        }
    }

    /// Makes a notice of a move.
    pub(super) fn tell(&mut self, moved: Moved) {
        let Moved { key, change, at, late, evidence } = moved;
        let notice = Notice {
            mesh: self.mesh.clone(),
            key,
            from: change.from,
            state: change.to,
            at_seconds: seconds(at.0),
            late_seconds: seconds(nanos(late) / MILLISECOND * MILLISECOND),
            evidence,
        };
        if self.changes.len() >= ALERT_HISTORY_MAX {
            self.changes.remove(0);
        }
        self.changes.push(notice.clone());
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

fn evidence(budget: &Budget, judgement: &Judgement) -> Evidence {
    Evidence::Latency(LatencyEvidence {
        quantile: budget.quantile,
        value_seconds: seconds(judgement.value.map_or(0, |value| value.value_ns)),
        lower_seconds: seconds(judgement.lower_ns.unwrap_or(0)),
        limit_seconds: seconds(budget.limit_ns),
        window: budget.window,
        samples: judgement.samples,
    })
}
