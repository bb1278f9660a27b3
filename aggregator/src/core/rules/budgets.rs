//! Judges every budget of quantiles, for the fleet and for each node.

use plimsoll_schemas::alert::{AlertKey, Scope};
use plimsoll_schemas::budget::Budget;
use plimsoll_schemas::ids::NodeName;
use plimsoll_schemas::own_operations::is_own;
use plimsoll_schemas::time::Wall;

use super::active::ActiveScopes;
use super::finding::{AlertFinding, Finding, Hysteresis};
use super::judge::Judge;
use crate::core::fleet::{Fleet, Sums, Windows};

/// What is found about one budget that may move an alert. Adds to `shares` which nodes have samples
/// over the limit, and how great their share is, unless the operation is the system's own.
pub(super) fn judge_budget(
    at: Wall,
    budget: &Budget,
    fleet: &Fleet,
    active: &ActiveScopes<'_>,
    shares: &mut Vec<(NodeName, u64)>,
) -> Vec<AlertFinding> {
    let judge = Judge::new(budget);
    let sums = |windows: &Windows| windows.sums(at, budget.window, budget.limit_ns);
    let found = |name: Option<&NodeName>, windows: &Windows, sums: &Sums| {
        // An active alert takes findings of too few samples too.
        let is_active = active.contains(&name);
        let found = is_active || judge.may_be_breach(sums);
        let recent = || windows.recent(at, budget.window, budget.limit_ns);
        let found = found.then(|| judge.finding(at, sums, &recent()).0);
        found.filter(|found| is_active || *found == Finding::Breach)
    };
    let of_fleet = fleet.operations().judged(budget).filter(|_| budget.scopes.fleet);
    let of_fleet = of_fleet.and_then(|windows| found(None, windows, &sums(windows)));
    let nodes = fleet.nodes().iter().filter_map(|(name, node)| {
        let windows = node.operations.judged(budget)?;
        let sums = sums(windows);
        if sums.over > 0 && !is_own(&budget.operation) {
            shares.push((name.clone(), share_over(budget, &sums)));
        }
        let found = found(Some(name), windows, &sums).filter(|_| budget.scopes.nodes)?;
        Some((Scope::Node(name.clone()), found))
    });
    let of_fleet = of_fleet.map(|found| (Scope::Fleet, found));
    let scopes = active.iter().map(|name| (*name).map_or(Scope::Fleet, |n| Scope::Node(n.clone())));
    let gone = scopes.filter(|scope| fleet.windows_of(budget, scope).is_none());
    let gone = gone.map(|scope| (scope, Finding::NoData));
    let hysteresis = Hysteresis { fire_after: budget.fire_after, clear_after: budget.clear_after };
    let all = of_fleet.into_iter().chain(nodes).chain(gone);
    let all = all.map(|(scope, finding)| {
        let (rule, operation) = (budget.name.clone(), budget.operation.clone());
        AlertFinding { key: AlertKey { rule, scope, operation }, finding, hysteresis }
    });
    all.collect()
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
