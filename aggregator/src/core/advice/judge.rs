//! Judges what rules of bottlenecks measured.
//!
//! DESIGN A186.

use std::cmp::Ordering;

use plimsoll_schemas::figure::counted;
use plimsoll_schemas::metric::Comparison;
use plimsoll_schemas::rule::{BottleneckRule, Bottlenecks, PassedLimit};
use plimsoll_schemas::summary::{BottleneckRow, BottleneckState};

use super::measures::{Inputs, Measured, Measurement, NotMeasured, measure};
use crate::limits::BOTTLENECKS_OF_RULE_MAX;

/// The findings of all rules: what is found, the most severe first; then one line for each rule
/// that found nothing, and one for each that lacked something to measure.
pub fn bottlenecks(rules: &Bottlenecks, inputs: Inputs<'_>) -> Vec<BottleneckRow> {
    let judged = |rule| judge(rule, measure(rules, rule, inputs));
    let mut rows: Vec<BottleneckRow> = rules.rules.iter().flat_map(judged).collect();
    // Stable: rules of one severity stay in the order of their file.
    rows.sort_by_key(|row| (row.state, std::cmp::Reverse(row.severity)));
    rows
}

fn judge(
    rule: &BottleneckRule,
    outcomes: Vec<Result<Measurement, NotMeasured>>,
) -> Vec<BottleneckRow> {
    let mut measured = Vec::new();
    let mut lacking = Vec::new();
    for outcome in outcomes {
        match outcome {
            Ok(found) => measured.push(found),
            Err(why) => lacking.push(why),
        }
    }
    measured.sort_by(|a, b| worst_first(rule, a.value, b.value));

    let is_found = |of: &Measurement| rule.passed(of.value).is_some();
    let found = measured.iter().filter(|of| is_found(of));
    let mut rows: Vec<BottleneckRow> =
        found.take(BOTTLENECKS_OF_RULE_MAX).map(|of| row(rule, of)).collect();
    if rows.is_empty() {
        rows.extend(measured.first().map(|of| row(rule, of)));
    }
    rows.extend(not_measured(rule, &lacking));
    rows
}

fn worst_first(rule: &BottleneckRule, a: f64, b: f64) -> Ordering {
    match rule.comparison() {
        Comparison::Less => a.total_cmp(&b),
        _ => b.total_cmp(&a),
    }
}

fn row(rule: &BottleneckRule, Measurement { of, value, words }: &Measurement) -> BottleneckRow {
    let passed = rule.passed(*value);
    let state = if passed.is_some() { BottleneckState::Found } else { BottleneckState::Within };
    let limit = passed.or_else(|| rule.limits().next()).map(|PassedLimit { limit, .. }| limit);
    let severity = passed.map(|of| of.severity);
    BottleneckRow { severity, value: Some(*value), limit, ..bare(rule, of, state, words.clone()) }
}

/// One row for all that the rule lacked, with the reason of the first.
fn not_measured(rule: &BottleneckRule, lacking: &[NotMeasured]) -> Option<BottleneckRow> {
    let NotMeasured { of, why } = lacking.first()?;
    let more = match lacking.len() {
        1 => String::new(),
        all => format!("; {} as well", counted(all as u64 - 1, "other")),
    };
    let words = format!("not measured: {why}{more}");
    Some(bare(rule, of, BottleneckState::NotMeasured, words))
}

fn bare(
    rule: &BottleneckRule,
    of: &Measured,
    state: BottleneckState,
    evidence: String,
) -> BottleneckRow {
    BottleneckRow {
        rule: rule.name.clone(),
        state,
        severity: None,
        cycle: of.cycle.clone(),
        node: of.node.clone(),
        value: None,
        limit: None,
        evidence,
        summary: rule.summary.clone(),
        runbook: rule.runbook.clone(),
    }
}
