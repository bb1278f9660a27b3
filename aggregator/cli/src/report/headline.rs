//! The sentence that a report starts with: what is over its budget, on what node or rank and since
//! when, or that all is within, or why nothing was judged. Pure, and written from a document whose
//! names are replaced already.

use jiff::tz::TimeZone;
use plimsoll_schemas::alert::{AlertState, Evidence, Scope};
use plimsoll_schemas::figure::{counted, percent, quantile};
use plimsoll_schemas::summary::Verdict;
use plimsoll_schemas::unit::Unit;

use super::compose::COMPLETE;
use super::document::{AlertResult, BudgetResult, Document};
use super::words::value;
use crate::time_range::shown;

/// Findings that the sentence names; the sections have all.
const NAMED_MAX: usize = 3;
/// A node with more than this share of the time over budget is where most of it is.
const MOST: f64 = 0.5;

pub(super) fn headline(of: &Document, zone: &TimeZone) -> String {
    let over = of.budgets.iter().filter(|row| row.verdict == Verdict::Breach);
    let over: Vec<&BudgetResult> = over.collect();
    let mut findings: Vec<String> = over.iter().map(|row| budget(of, row, zone)).collect();
    // Those of a budget that is over are in its words. One within for the fleet may be over on a
    // node.
    let is_named = |row: &&AlertResult| over.iter().any(|of| of.budget == row.rule);
    let firing = || of.alerts.iter().filter(|row| row.state == AlertState::Firing);
    // Of a rule that fires for nodes, the fleet is no further finding.
    let has_node = |row: &AlertResult| {
        firing().any(|other| other.rule == row.rule && other.scope != Scope::Fleet)
    };
    let firing = firing().filter(|row| row.scope != Scope::Fleet || !has_node(row));
    let is_over = !over.is_empty();
    findings.extend(firing.filter(|row| !is_named(row)).map(|row| alert(row, zone)));

    let left_out = findings.len().saturating_sub(NAMED_MAX);
    findings.truncate(NAMED_MAX);
    if left_out > 0 {
        findings.push(format!("and {left_out} more"));
    }
    let findings = findings.join("; ");
    match (is_over, findings.is_empty()) {
        (true, _) => format!("Over budget: {findings}."),
        (false, true) => format!("{}.", without_breach(of)),
        // A budget that is within over all of a range may be over in its last minute.
        (false, false) => format!("Over the whole range: {}, but: {findings}.", without_breach(of)),
    }
}

/// A budget that is over: by how much, where and since when.
fn budget(of: &Document, row: &BudgetResult, zone: &TimeZone) -> String {
    let text = |shown| value(&row.operation, Some(shown));
    let found = row.value.map(|found| format!(" is {},", text(found.value))).unwrap_or_default();
    let (name, limit) = (quantile(row.quantile), text(row.limit_seconds));
    let alerts: Vec<&AlertResult> =
        of.alerts.iter().filter(|alert| alert.rule == row.budget).collect();

    let of_alerts = alerts.iter().map(|alert| start(alert)).min_by(f64::total_cmp);
    let since = of_alerts.or_else(|| first_over(of, row));
    let since = since.map(|at| format!(" since {}", shown(at, zone))).unwrap_or_default();
    format!("{} {name}{found} limit {limit}{}{since}", row.budget, nodes(of, row, &alerts))
}

/// The nodes of alerts, or else the one that has most of the time over budget.
fn nodes(of: &Document, row: &BudgetResult, alerts: &[&AlertResult]) -> String {
    let named = alerts.iter().filter_map(|alert| match &alert.scope {
        Scope::Node(node) => Some(node.as_str()),
        Scope::Fleet => None,
    });
    let named: Vec<&str> = named.collect();
    if !named.is_empty() {
        let more = named.len().saturating_sub(NAMED_MAX);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        return format!(", on {}{more}", named[..named.len().min(NAMED_MAX)].join(", "));
    }
    // The ranking is of times. It puts firing nodes first, which need not have the largest share.
    let ranked = of.where_the_time_goes.nodes.iter().find(|row| row.share > MOST);
    let ranked = ranked.filter(|_| Unit::of(&row.operation).is_time());
    ranked.map_or_else(String::new, |row| {
        format!(", {} of the time over it on {}", percent(row.share), row.node)
    })
}

/// The first column in which more samples are over the limit than the budget allows.
fn first_over(of: &Document, row: &BudgetResult) -> Option<f64> {
    let operation = of.operations.iter().find(|of| of.operation == row.operation)?;
    let is_limit = |limit: f64| (limit / row.limit_seconds - 1.0).abs() < 1e-6;
    let mut columns = operation.over_time.columns.iter();
    let first = columns.find(|column| {
        let over = column.over.filter(|over| is_limit(over.limit)).map_or(0, |over| over.over);
        over as f64 > column.count as f64 * row.allowed_ratio + 1e-6
    });
    first.map(|column| column.from_seconds)
}

/// An alert of another rule: a rank that is slower than its peers, or a threshold.
fn alert(row: &AlertResult, zone: &TimeZone) -> String {
    let on = match &row.scope {
        Scope::Node(node) => format!(" on {node}"),
        Scope::Fleet => String::new(),
    };
    if let Some(Evidence::Straggler(found)) = &row.evidence {
        let (excess, since) = (percent(found.excess_ratio), shown(found.slow_since_seconds, zone));
        let (by, peer, operation) = (&found.by, &found.peer, &found.operation);
        let slower = format!("{excess} slower than the median in {operation}");
        return format!("{by} {peer}{on} is {slower} since {since}");
    }
    format!("alert {}{on} firing since {}", row.rule, shown(start(row), zone))
}

fn start(of: &AlertResult) -> f64 {
    of.firing_since_seconds.unwrap_or(of.since_seconds)
}

/// What holds of the budgets while none is over.
fn without_breach(of: &Document) -> String {
    if of.operations.is_empty() {
        return "Nothing was measured: there are no samples in this range".to_owned();
    }
    if of.budgets.is_empty() {
        return "Nothing was judged: no budget is defined for these operations".to_owned();
    }
    let judged = |wanted: Verdict| of.budgets.iter().filter(move |row| row.verdict == wanted);
    let within = judged(Verdict::Within).count();
    let uncertain: Vec<&str> =
        judged(Verdict::Uncertain).map(|row| row.budget.as_str()).take(NAMED_MAX).collect();

    if !uncertain.is_empty() {
        return format!("No budget is certainly over, but {} may be", uncertain.join(", "));
    }
    if within == 0 {
        return "Nothing was judged: no budget has samples in this range".to_owned();
    }
    let received = match of.range.completeness {
        Some(share) if share >= COMPLETE => String::new(),
        Some(share) => format!(" in the {} of the nodes' time that was received", percent(share)),
        None => " in what was received".to_owned(),
    };
    match of.budgets.len() - within {
        0 => format!("All is within budget ({}){received}", counted(within as u64, "budget")),
        silent => {
            let silent = format!("{} without samples", counted(silent as u64, "budget"));
            format!("All that was measured is within budget ({within}; {silent}){received}")
        }
    }
}
