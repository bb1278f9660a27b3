//! What happens once a second: windows move on, budgets are judged, alerts move, notices leave.

use std::sync::Arc;
use std::time::Duration;

use plimsoll_schemas::alert::{AlertKey, Evidence, LatencyEvidence, Notice, Scope};
use plimsoll_schemas::budget::{Budget, Window};
use plimsoll_schemas::limits::aggregator::{ALERT_HISTORY_MAX, EVALUATE_EVERY};
use plimsoll_schemas::summary::Verdict;
use plimsoll_schemas::time::{Mono, Now, Wall, nanos, seconds};

use super::Core;
use super::alert::{Change, Patience};
use super::judge::{Judgement, judge};
use super::window::Windows;

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
            self.judge_gaps(now.wall);
        }
    }

    /// When [`Self::on_deadline`] next has something to do.
    #[must_use]
    pub fn next_deadline(&self) -> Mono {
        self.evaluates_at
    }

    pub(super) fn expire_windows(&mut self, now: Wall) {
        Arc::make_mut(&mut self.fleet).expire(now);
        let shown = self.nodes.values_mut().filter(|node| !node.hidden);
        shown.for_each(|node| Arc::make_mut(node).operations.expire(now));
    }

    /// Judges every budget as of `at`, which lies `late` before the present.
    pub(super) fn evaluate(&mut self, at: Wall, late: Duration) {
        self.judged_at = Some(at);
        // An empty window is no evidence and moves nothing; most are empty in a long gap.
        for (budget, scope, judgement) in self.judgements_of(at, Windows::speaks) {
            let key =
                AlertKey { rule: budget.name.clone(), scope, operation: budget.operation.clone() };
            let patience =
                Patience { fire_after: budget.fire_after, clear_after: budget.clear_after };
            let moved = self.alerts.on_verdict(at, &key, judgement.verdict, patience);
            if judgement.verdict != Verdict::Insufficient {
                self.unsaved.touch();
            }
            if let Some(change) = moved {
                let evidence = evidence(&budget, &judgement);
                self.tell(Moved { key, change, at, late, evidence });
            }
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

    fn judgements_of(
        &self,
        now: Wall,
        wanted: impl Fn(&Windows, Wall, Window) -> bool,
    ) -> Vec<(Budget, Scope, Judgement)> {
        let mut judged = Vec::new();
        for budget in &self.budgets {
            let mut weigh = |scope: &dyn Fn() -> Scope, windows: &Windows| {
                if wanted(windows, now, budget.window) {
                    let judgement = judge(budget, &windows.merged(now, budget.window));
                    judged.push((budget.clone(), scope(), judgement));
                }
            };
            if let Some(windows) = self.fleet.get(&budget.operation) {
                weigh(&|| Scope::Fleet, windows);
            }
            for (name, node) in &self.nodes {
                if let Some(windows) = node.operations.get(&budget.operation) {
                    weigh(&|| Scope::Node(name.clone()), windows);
                }
            }
        }
        judged
    }
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
