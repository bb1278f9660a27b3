//! Judges every budget of quantiles, for the fleet and for each node.
//!
//! DESIGN A73.

use std::collections::BTreeMap;

use plimsoll_schemas::alert::{AlertKey, Scope};
use plimsoll_schemas::budget::Budget;
use plimsoll_schemas::ids::NodeName;
use plimsoll_schemas::own_operations::is_own;
use plimsoll_schemas::time::Wall;

use super::finding::{ActiveAlerts, ActiveScopes, AlertFinding, Finding, Hysteresis};
use super::judge::Judge;
use crate::core::fleet::{Fleet, Sums, Windows};

/// Judges every budget as of `at`. Returns what may move an alert, one budget after the other, and
/// which nodes have samples over a limit and how great their share is; of several budgets the
/// greatest, and none of the system's own operations.
///
/// A node is judged by all budgets before the next one: each waits for memory once.
pub(super) fn judge_budgets(
    at: Wall,
    budgets: &[Budget],
    fleet: &Fleet,
    active: &ActiveAlerts<'_>,
) -> (Vec<AlertFinding>, BTreeMap<NodeName, u64>) {
    let mut judged: Vec<_> = budgets.iter().map(|budget| Judged::new(at, budget, active)).collect();
    for of in judged.iter_mut().filter(|of| of.budget.scopes.fleet) {
        if let Some(windows) = fleet.operations().judged(of.budget) {
            let sums = of.sums(windows);
            of.judge(None, windows, &sums);
        }
    }

    let mut shares = Vec::new();
    for (name, node) in fleet.nodes() {
        let mut share = None;
        for of in &mut judged {
            let Some(windows) = node.operations.judged(of.budget) else { continue };
            let sums = of.sums(windows);
            // A broker that is slow makes all nodes slow to
            // publish: that puts none of them before others (A61).
            if sums.over > 0 && !is_own(&of.budget.operation) {
                share = share.max(Some(share_over(of.budget, &sums)));
            }
            if of.budget.scopes.nodes {
                of.judge(Some(name), windows, &sums);
            }
        }

        shares.extend(share.map(|share| (name.clone(), share)));
    }

    judged.iter_mut().for_each(|of| of.find_gone(fleet));
    let found = judged.into_iter().flat_map(|of| of.found).collect();
    (found, shares.into_iter().collect())
}

/// One budget while nodes are judged by it.
struct Judged<'b> {
    at: Wall,
    budget: &'b Budget,
    judge: Judge<'b>,
    active: &'b ActiveScopes<'b>,
    found: Vec<AlertFinding>,
}

impl<'b> Judged<'b> {
    fn new(at: Wall, budget: &'b Budget, active: &'b ActiveAlerts<'_>) -> Self {
        let active = active.of(&budget.name);
        Self { at, budget, judge: Judge::new(budget), active, found: Vec::new() }
    }

    fn sums(&self, windows: &Windows) -> Sums {
        windows.sums(self.at, self.budget.window, self.budget.limit_ns)
    }

    /// An active alert takes findings of too few samples too.
    fn judge(&mut self, name: Option<&NodeName>, windows: &Windows, sums: &Sums) {
        let is_active = self.active.contains(&name);
        // Nearly all scopes are done here: stretches are looked at
        // only where the window's quantile is over the limit (A2).
        if !is_active && !self.judge.may_be_breach(sums) {
            return;
        }
        let recent = windows.recent(self.at, self.budget.window, self.budget.limit_ns);
        let judge = self.judge.of(windows.overdispersion(self.budget.limit_ns));
        let (finding, _) = judge.finding(self.at, sums, &recent);
        if is_active || finding == Finding::Breach {
            self.find(name, finding);
        }
    }

    /// An active alert whose scope has no samples any more.
    fn find_gone(&mut self, fleet: &Fleet) {
        for name in self.active {
            if fleet.windows_of(self.budget, &scope(*name)).is_none() {
                self.find(*name, Finding::NoData);
            }
        }
    }

    fn find(&mut self, name: Option<&NodeName>, finding: Finding) {
        let Budget { name: rule, operation, fire_after, clear_after, .. } = self.budget.clone();
        let hysteresis = Hysteresis { fire_after, clear_after };
        let key = AlertKey { rule, scope: scope(name), operation };
        self.found.push(AlertFinding { key, finding, hysteresis });
    }
}

fn scope(name: Option<&NodeName>) -> Scope {
    name.map_or(Scope::Fleet, |name| Scope::Node(name.clone()))
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
