//! Turns the answers of an aggregator into the document: verdicts, ranks and notes. Pure.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use anyhow::Result;
use jiff::tz::TimeZone;
use plimsoll_compare::history::SecondsRange;
use plimsoll_schemas::alert::{AlertRow, AlertState, Scope};
use plimsoll_schemas::figure::{counted, percent};
use plimsoll_schemas::histogram::rank;
use plimsoll_schemas::own_operations::is_own_name;
use plimsoll_schemas::summary::{
    BucketCount, BudgetRow, EventRow, Freshness, HistoryPoint, LedgerPage, MetricHistoryPage,
    OverLimit, Verdict,
};
use plimsoll_schemas::unit::Unit;

use super::advice::{on_node, on_operation};
use super::document::{
    AlertResult, BudgetResult, ChangeResult, Column, Document, FORMAT, LatestVerdict, LedgerResult,
    Machines, MetricResult, NodeResult, OperationResult, OverTime, Range, RankedNode,
    RankedOperation, Subject, TimeRanking, VERSION,
};
use super::limits::{NODES_MAX, ROWS_MAX};
use super::material::{Material, NodePoint, OperationPages};
use super::samples::{epochs_ms, written};
use super::time_over::{FORMULA, LimitedQuantile, TimeOver};
use crate::run_results::epoch_rank;
use crate::time_range::shown;

/// The width of a bucket: its share of the value, and no less than these seconds.
const QUANTILE_ERROR: (f64, f64) = (0.001, 512e-9);
/// The gauge by which the Python client's experiments send the memory of a process.
const RESIDENT_GAUGE: &str = "process.resident_bytes";
/// A range is complete from here on: intervals that end in the next slot leave some thousandths.
pub(super) const COMPLETE: f64 = 0.99;

/// The document.
///
/// # Errors
/// When an aggregator sent what cannot be a sample.
pub(super) fn compose(material: &Material, zone: &TimeZone) -> Result<Document> {
    let operations: Vec<OperationResult> =
        material.operations.iter().filter_map(|pages| operation(material, pages)).collect();
    let hardware = Machines::of(material.hardware.as_ref(), &material.alerts.alerts);
    let ranking = ranking(material, &operations, &hardware, zone);
    let hardware = hardware.shown_beside(&ranking.nodes).with_descriptions(&material.machines);
    let range = range(material);
    let active = SecondsRange { from: range.from_seconds, to: range.to_seconds };
    let epochs = epochs(material);
    let metrics = metrics(&material.metrics);
    let slots =
        || material.operations.iter().map(|of| (of.whole.operation.as_str(), &of.slots[..]));
    let has_slots = slots().any(|(_, slots)| !slots.is_empty());

    Ok(Document {
        format: FORMAT,
        version: VERSION,
        mesh: material.summary.mesh.clone(),
        subject: material.subject.clone(),
        time_zone: zone_name(material.asked_at, zone),
        asked_at_seconds: material.asked_at,
        plimsoll_version: env!("CARGO_PKG_VERSION"),
        summary: String::new(),
        notes: notes(material, &range, &operations, zone),
        beside: material.beside.clone(),
        budgets: budgets(material),
        bottlenecks: material.bottlenecks.as_ref().ok().cloned(),
        bottlenecks_left_out: material.bottlenecks.as_ref().err().cloned(),
        peak_resident_bytes: peak_resident_bytes(material, &metrics),
        metrics,
        where_the_time_goes: ranking,
        range,
        operations,
        hardware,
        alerts: alerts(&material.alerts.alerts, active),
        alert_changes: changes(material, active),
        events: events(material, active),
        ledger: ledger(&material.ledger),
        drills: material.drills.clone(),
        epoch_operation: epochs.operation,
        epoch_source: epochs.source,
        epoch_time_ms: epochs.time_ms,
        epoch_time_ms_avg: epochs.avg_ms,
        samples: has_slots.then(|| written(slots())).transpose()?,
        samples_left_out: material.slots_left_out.clone(),
    })
}

/// Those with a value in the range.
fn metrics(pages: &[MetricHistoryPage]) -> Vec<MetricResult> {
    let result = |page: &MetricHistoryPage| {
        let point = *page.points.iter().find(|point| point.count > 0)?;
        let (metric, kind, operation) = (page.metric.clone(), page.kind, page.operation.clone());
        Some(MetricResult { metric, kind, operation, point })
    };
    pages.iter().filter_map(result).collect()
}

fn zone_name(at: f64, zone: &TimeZone) -> String {
    let offset = shown(at, zone);
    let offset = offset.get(19..).unwrap_or_default();
    match zone.iana_name() {
        Some(name) => format!("{name} ({offset})"),
        None => offset.to_owned(),
    }
}

fn range(material: &Material) -> Range {
    let SecondsRange { from, to } = material.range;
    let pages = || material.operations.iter();
    let any = material.operations.first().map(|of| &of.whole).or(material.empty.as_ref());

    let completeness = match any {
        Some(_) if material.operations.is_empty() => {
            material.empty.as_ref().and_then(|page| page.points.first()?.completeness)
        }
        // One operation's may be older than another's by a request.
        _ => pages().filter_map(|of| of.point()?.completeness).min_by(f64::total_cmp),
    };

    let (quantile_error_ratio, quantile_error_min_seconds) = QUANTILE_ERROR;

    Range {
        requested_from_seconds: from,
        requested_to_seconds: to,
        from_seconds: any.map_or(from, |page| page.from_seconds),
        to_seconds: any.map_or(to, |page| page.to_seconds),
        resolution: any.map(|page| page.resolution.clone()),
        completeness,
        kept_from_seconds: any.map(|page| page.kept_from_seconds),
        quantile_error_ratio,
        quantile_error_min_seconds,
    }
}

fn notes(
    material: &Material,
    range: &Range,
    operations: &[OperationResult],
    zone: &TimeZone,
) -> Vec<String> {
    let mut notes = Vec::new();
    let mut note = |is: bool, words: String| notes.extend(is.then_some(words));
    note(operations.is_empty(), "There are no samples in this range.".to_owned());

    if let (true, Subject::Run(name)) = (material.is_of_fleet, &material.subject) {
        note(
            true,
            format!(
                "No samples are labelled run={name}: these are all samples of the fleet from the \
                 start to the end of the run."
            ),
        );
    }

    match range.completeness {
        Some(share) => note(
            share < COMPLETE,
            format!(
                "The range is incomplete: {} of the nodes' time was received. Counts and sums \
                 cover what was received.",
                percent(share)
            ),
        ),
        None => note(
            true,
            "Completeness is unknown: no aggregator ran for more than a tenth of the range."
                .to_owned(),
        ),
    }

    let kept = range.kept_from_seconds.is_some_and(|kept| kept > range.from_seconds);
    note(kept, "The history starts within the range; there is no data before.".to_owned());
    let open = range.to_seconds > material.asked_at;
    note(open, "The range ends now: its last samples may still arrive.".to_owned());

    note(
        !material.summary.ready,
        "The aggregator was still catching up: samples may be missing.".to_owned(),
    );

    let Freshness { as_of_seconds, stale } = material.summary.freshness;
    let since = as_of_seconds.map(|at| format!(" since {}", shown(at, zone)));
    let since = since.unwrap_or_default();
    let broker = &material.summary.broker;

    note(
        stale,
        format!("The aggregator had no data{since} (broker {broker}): current verdicts are stale."),
    );

    let behind = "A stream has unread messages: samples may be missing.";
    note(material.ledger.behind, behind.to_owned());
    let approximate = operations.iter().any(|of| of.approximate);

    note(
        approximate,
        "Some samples come in their producers' wide buckets: quantiles of operations marked \
         approximate have wider bounds."
            .to_owned(),
    );

    let left_out = material.operations_left_out;
    note(
        left_out > 0,
        format!("{} left out; choose with --operation.", counted(left_out as u64, "operation")),
    );

    let missing = material.recorded.iter().flat_map(|of| &of.epochs_missing);
    let missing: Vec<String> = missing.cloned().collect();
    note(!missing.is_empty(), format!("Epochs are missing: {}.", missing.join("; ")));

    let slots = material.slots_left_out.as_ref();
    note(slots.is_some(), format!("No samples by slot: {}.", slots.map_or("", String::as_str)));
    notes
}

/// The budgets of the fleet, worst first.
fn budgets(material: &Material) -> Vec<BudgetResult> {
    let rows = material.summary.budgets.iter().filter(|row| row.scope == Scope::Fleet);
    let is_wanted = |row: &&BudgetRow| {
        let is_of = |of: &OperationPages| of.whole.operation == row.operation;
        material.operations.iter().any(is_of) || material.subject == Subject::Fleet
    };
    let mut found: Vec<BudgetResult> =
        rows.filter(is_wanted).map(|row| budget(material, row)).collect();
    found.sort_by_cached_key(|of| {
        (Reverse(of.verdict), is_own_name(&of.operation), of.budget.clone())
    });
    found
}

fn budget(material: &Material, row: &BudgetRow) -> BudgetResult {
    let pages = material.operations.iter().find(|of| of.whole.operation == row.operation);
    let point = pages.and_then(OperationPages::point);
    let limit = Unit::of(&row.operation).shown(row.limit_ns);
    let over = point.and_then(|point| over_limit(&point.over, limit));
    let count = point.map_or(0, |point| point.count);
    let allowed_ratio = 1.0 - row.quantile;
    let (over, uncertain) = over.map_or((0, 0), |of| (of.over, of.uncertain));

    BudgetResult {
        budget: row.budget.clone(),
        operation: row.operation.clone(),
        unit: Unit::other_than_seconds(&row.operation),
        quantile: row.quantile,
        limit_seconds: limit,
        count,
        value: point.and_then(|point| {
            point.quantiles.iter().find(|found| found.quantile == row.quantile).copied()
        }),
        over,
        uncertain,
        allowed_ratio,
        verdict: verdict(count, over, uncertain, allowed_ratio),
        latest: LatestVerdict {
            verdict: row.verdict,
            window: row.window,
            alert: row.alert,
            freshness: row.freshness,
        },
    }
}

/// The verdict of the range, by the share of samples over the limit.
fn verdict(count: u64, over: u64, uncertain: u64, allowed_ratio: f64) -> Verdict {
    let allowed = count as f64 * allowed_ratio;
    match count {
        0 => Verdict::NoData,
        // A p99 of 100 samples allows one, and 1 - 0.99 is a little more than 0.01.
        _ if over as f64 > allowed + 1e-6 => Verdict::Breach,
        _ if (over + uncertain) as f64 > allowed + 1e-6 => Verdict::Uncertain,
        _ => Verdict::Within,
    }
}

fn over_limit(of: &[OverLimit], limit: f64) -> Option<OverLimit> {
    // Both were nanoseconds before they became seconds.
    of.iter().find(|over| (over.limit - limit).abs() < 0.5e-9).copied()
}

fn operation(material: &Material, pages: &OperationPages) -> Option<OperationResult> {
    let point = pages.point()?;
    let name = &pages.whole.operation;
    let limit_seconds = limit_of(&material.summary.budgets, name).map(|of| of.seconds);
    let column = |point: &HistoryPoint| column(point, limit_seconds);

    Some(OperationResult {
        operation: name.clone(),
        unit: Unit::other_than_seconds(name),
        own: is_own_name(name),
        count: point.count,
        mean: point.mean,
        min: point.min,
        max: point.max,
        approximate: point.approximate,
        quantiles: point.quantiles.clone(),
        completeness: point.completeness,
        limit_seconds,
        over: point.over.clone(),
        distribution: buckets(point, name),
        over_time: OverTime {
            step_seconds: pages.columns.step_seconds,
            columns: pages.columns.points.iter().map(column).collect(),
            bands: pages.heatmap.bands.clone(),
            counts: pages.heatmap.counts.clone(),
        },
    })
}

fn buckets(point: &HistoryPoint, operation: &str) -> Vec<BucketCount> {
    let counts = point.distribution.iter().map(|of| &of.counts);
    counts.flat_map(|of| BucketCount::all(of, Unit::of(operation))).collect()
}

fn column(point: &HistoryPoint, limit: Option<f64>) -> Column {
    let at = |quantile: f64| {
        point.quantiles.iter().find(|found| found.quantile == quantile).map(|found| found.value)
    };
    Column {
        from_seconds: point.from_seconds,
        to_seconds: point.to_seconds,
        count: point.count,
        p50: at(0.5),
        p99: at(0.99),
        max: point.max,
        over: limit.and_then(|limit| over_limit(&point.over, limit)),
        completeness: point.completeness,
    }
}

/// That of the budget that is named like the operation: others may cover a part of it.
fn budget_of<'b>(budgets: &'b [BudgetRow], operation: &str) -> Option<&'b BudgetRow> {
    let of_it = |row: &&BudgetRow| row.operation == operation && row.scope == Scope::Fleet;
    let mut rows = budgets.iter().filter(of_it);
    let named = rows.clone().find(|row| row.budget == operation);
    named.or_else(|| rows.next())
}

fn limit_of(budgets: &[BudgetRow], operation: &str) -> Option<LimitedQuantile> {
    let row = budget_of(budgets, operation)?;
    Some(LimitedQuantile {
        quantile: row.quantile,
        seconds: Unit::of(operation).shown(row.limit_ns),
    })
}

fn ranking(
    material: &Material,
    operations: &[OperationResult],
    machines: &Machines,
    zone: &TimeZone,
) -> TimeRanking {
    let limit = |of: &OperationResult| limit_of(&material.summary.budgets, &of.operation);
    // Bytes and counts over a limit take no time.
    let times = operations.iter().filter(|of| Unit::of(&of.operation).is_time());
    let limited = times.filter_map(|of| Some((of, limit(of)?)));
    let over = |(of, limit): (&OperationResult, LimitedQuantile)| {
        TimeOver::of(&of.distribution, limit, of.max.unwrap_or(f64::INFINITY))
    };
    let total: f64 = limited.clone().map(|found| over(found).seconds).sum();

    let mut ranked: Vec<RankedOperation> = limited
        .map(|(of, limit)| {
            let TimeOver { seconds, error_seconds } = over((of, limit));
            let own = of.mean.unwrap_or_default() * of.count as f64;
            RankedOperation {
                operation: of.operation.clone(),
                limit_seconds: limit.seconds,
                limit_quantile: limit.quantile,
                over_seconds: seconds,
                over_error_seconds: error_seconds,
                share: ratio(seconds, total),
                share_of_own_time: ratio(seconds, own),
                advice: on_operation(of, limit.seconds, seconds + error_seconds, zone),
            }
        })
        .collect();

    ranked.sort_by(|a, b| {
        let is_own = |of: &RankedOperation| is_own_name(&of.operation);
        // Our own operations last: a slow broker is not where the time of jobs goes.
        is_own(a).cmp(&is_own(b)).then_with(|| b.over_seconds.total_cmp(&a.over_seconds))
    });

    let (nodes_by, nodes) = ranked_nodes(material, operations, machines);
    TimeRanking { formula: FORMULA.to_owned(), operations: ranked, nodes_by, nodes }
}

/// Nodes, and what they are ranked by.
fn ranked_nodes(
    material: &Material,
    operations: &[OperationResult],
    machines: &Machines,
) -> (String, Vec<RankedNode>) {
    let by_time = nodes_by_time(material, operations);
    let of_windows = by_time.is_empty();
    let mut found = if of_windows { nodes_by_samples(&material.summary.budgets) } else { by_time };
    let weight = |of: &RankedNode| of.over_seconds.unwrap_or(of.forbidden);
    let total: f64 = found.iter().map(weight).sum();
    let of_all = found.len();
    let firing = material.firing_nodes();
    found.iter_mut().for_each(|of| of.firing = firing.contains(of.node.as_str()));
    found.retain(|of| weight(of) > 0.0 || (of.firing && of.over > 0));
    found.sort_by(|a, b| {
        let by_weight = || weight(b).total_cmp(&weight(a)).then_with(|| a.node.cmp(&b.node));
        b.firing.cmp(&a.firing).then_with(by_weight)
    });
    found.truncate(NODES_MAX);

    for of in &mut found {
        // The total is over all nodes, also those beyond the bound:
        // shares of those that are listed would add up to all of it.
        of.share = ratio(weight(of), total);
        of.machine = machines.nodes.get(&of.node).cloned().unwrap_or_default();
        of.advice = on_node(of.over, of.share, of_all, &of.machine);
    }

    let by = match (of_windows, found.is_empty()) {
        (false, false) => {
            "Nodes with firing alerts come first, then nodes by time over budget in the range, \
             from their own histories."
        }
        (true, false) => {
            "Nodes with firing alerts come first, then nodes by the samples over limits that \
             their budgets forbid, in the current windows. No node has a history (plimsoll-node \
             --history)."
        }
        (_, true) => "No listed node had more samples of jobs over a limit than its budget allows.",
    };

    let silent = material.nodes_silent.first_key_value().filter(|_| !of_windows);
    let silent = silent.map(|(node, why)| {
        let all = counted(material.nodes_silent.len() as u64, "node");
        format!(" No answer for the whole range from {all}; {node}: {why}.")
    });

    (by.to_owned() + silent.as_deref().unwrap_or_default(), found)
}

/// From the distributions that nodes have of the range.
fn nodes_by_time(material: &Material, operations: &[OperationResult]) -> Vec<RankedNode> {
    let mut nodes: BTreeMap<&str, RankedNode> = BTreeMap::new();
    for NodePoint { node, operation, point } in &material.nodes {
        // A slow broker is no fault of a node.
        let is_of_jobs = operations.iter().any(|of| of.operation == *operation && !of.own)
            && Unit::of(operation).is_time();
        let limit = limit_of(&material.summary.budgets, operation).filter(|_| is_of_jobs);
        let Some(limit) = limit else { continue };
        let max = point.max.unwrap_or(f64::INFINITY);
        let buckets = buckets(point, operation);
        let found = TimeOver::of(&buckets, limit, max);
        let over = over_limit(&point.over, limit.seconds).map_or(0, |over| over.over);
        let of = nodes.entry(node).or_insert_with(|| ranked_node(node));
        of.samples = of.samples.saturating_add(point.count);
        of.over = of.over.saturating_add(over);
        of.over_seconds = Some(of.over_seconds.unwrap_or_default() + found.seconds);
        of.over_error_seconds =
            Some(of.over_error_seconds.unwrap_or_default() + found.error_seconds);
    }

    nodes.into_values().collect()
}

/// From the windows of their budgets, which end when the report is made.
fn nodes_by_samples(budgets: &[BudgetRow]) -> Vec<RankedNode> {
    let mut nodes: BTreeMap<&str, RankedNode> = BTreeMap::new();
    for row in budgets {
        let Scope::Node(node) = &row.scope else { continue };
        // Several budgets of one operation have the same samples.
        let is_ranked_by =
            budget_of(budgets, &row.operation).is_none_or(|of| of.budget == row.budget);
        if is_ranked_by && !is_own_name(&row.operation) {
            let of = nodes.entry(node.as_str()).or_insert_with(|| ranked_node(node.as_str()));
            let allowed = row.samples.saturating_sub(rank(row.quantile, row.samples));
            of.samples = of.samples.saturating_add(row.samples);
            of.over = of.over.saturating_add(row.over);
            of.forbidden += row.over.saturating_sub(allowed) as f64;
        }
    }
    nodes.into_values().collect()
}

fn ranked_node(name: &str) -> RankedNode {
    RankedNode { node: name.to_owned(), ..RankedNode::default() }
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// Alerts that were pending or firing at some time of the range, or were resolved in it.
fn alerts(rows: &[AlertRow], range: SecondsRange) -> Vec<AlertResult> {
    let was_active = |row: &&AlertRow| {
        let begun = row.firing_since_seconds.unwrap_or(row.since_seconds).min(row.since_seconds);
        let is_over = !matches!(row.state, AlertState::Firing | AlertState::Pending);
        begun < range.to && (!is_over || row.since_seconds >= range.from)
    };

    let result = |row: &AlertRow| AlertResult {
        rule: row.key.rule.to_string(),
        scope: row.key.scope.clone(),
        operation: row.key.operation.to_string(),
        state: row.state,
        severity: row.severity,
        since_seconds: row.since_seconds,
        firing_since_seconds: row.firing_since_seconds,
        summary: row.summary.clone(),
        data: row.data,
        evidence: row.evidence.clone(),
    };

    rows.iter().filter(was_active).take(ROWS_MAX).map(result).collect()
}

fn changes(material: &Material, range: SecondsRange) -> Vec<ChangeResult> {
    let all = &material.summary.changes;
    let inside = all.iter().filter(|change| (range.from..range.to).contains(&change.at_seconds));
    let result = inside.map(|change| ChangeResult {
        at_seconds: change.at_seconds,
        rule: change.key.rule.to_string(),
        scope: change.key.scope.clone(),
        operation: change.key.operation.to_string(),
        from: change.from,
        to: change.state,
        summary: change.summary.clone(),
        evidence: change.evidence.clone(),
    });
    result.take(ROWS_MAX).collect()
}

/// Oldest first.
fn events(material: &Material, range: SecondsRange) -> Vec<EventRow> {
    let all = &material.events.events;
    let inside = all.iter().filter(|event| (range.from..range.to).contains(&event.at_seconds));
    let mut found: Vec<EventRow> = inside.take(ROWS_MAX).cloned().collect();
    found.sort_by(|a, b| a.at_seconds.total_cmp(&b.at_seconds));
    found
}

fn ledger(page: &LedgerPage) -> LedgerResult {
    let mut nodes: Vec<NodeResult> = page
        .nodes
        .iter()
        .map(|row| NodeResult { node: row.node.clone(), ledger: row.ledger.clone() })
        .collect();

    // Nodes with anything that is not merged come first: the others have nothing to explain.
    nodes.sort_by_key(|row| row.ledger.recorded == row.ledger.merged);
    let nodes_left_out = nodes.len().saturating_sub(NODES_MAX);
    nodes.truncate(NODES_MAX);

    LedgerResult {
        at_seconds: page.at_seconds,
        behind: page.behind,
        fleet: page.fleet.clone(),
        evicted: page.evicted.clone(),
        nodes,
        nodes_left_out,
    }
}

/// The epochs of a report, and how they are known.
#[derive(Default)]
struct Epochs {
    operation: Option<String>,
    source: Option<String>,
    time_ms: Option<Vec<f64>>,
    avg_ms: Option<f64>,
}

/// Those that `plimsoll run` recorded, or else those of the history.
fn epochs(material: &Material) -> Epochs {
    let recorded = material.recorded.as_ref();
    if let Some(of) = recorded.filter(|of| of.epoch_operation.is_some()) {
        let processes = match of.epoch_processes {
            1 => "one process".to_owned(),
            n => format!("{n} processes"),
        };
        return Epochs {
            operation: of.epoch_operation.clone(),
            source: Some(format!("as recorded by {processes}, in the order of their ends")),
            time_ms: Some(of.epoch_time_ms.clone()),
            avg_ms: of.epoch_time_ms_avg,
        };
    }

    let ranked = material.operations.iter();
    let ranked = ranked.filter_map(|of| Some((epoch_rank(&of.whole.operation)?, of)));
    let Some((_, pages)) = ranked.min_by_key(|(rank, _)| *rank) else { return Epochs::default() };
    let source = "from the history: within a slot sorted, and rounded up to the end of a bucket \
                  (`plimsoll run --results` records them)";
    Epochs {
        operation: Some(pages.whole.operation.clone()),
        source: Some(source.to_owned()),
        time_ms: pages.point().and_then(|point| epochs_ms(&pages.slots, point.count)),
        avg_ms: pages.point().and_then(|point| Some(point.mean? * 1e3)),
    }
}

/// That of the processes that `plimsoll run` recorded, or else of what jobs sent themselves.
fn peak_resident_bytes(material: &Material, metrics: &[MetricResult]) -> Option<f64> {
    let recorded = material.recorded.as_ref().and_then(|of| of.peak_resident_bytes);
    let sent = || metrics.iter().find(|of| of.metric == RESIDENT_GAUGE)?.point.max;
    recorded.map(|bytes| bytes as f64).or_else(sent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verdict_of_a_range_compares_shares() {
        for (count, over, uncertain, wanted) in [
            (0, 0, 0, Verdict::NoData),
            (100, 1, 0, Verdict::Within),
            (100, 2, 0, Verdict::Breach),
            (100, 1, 1, Verdict::Uncertain),
            (1_000_000, 10_000, 0, Verdict::Within),
            (1_000_000, 10_001, 0, Verdict::Breach),
        ] {
            assert_eq!(verdict(count, over, uncertain, 1.0 - 0.99), wanted, "{over} of {count}");
        }
    }
}
