//! `plimsoll metrics`: the counters and gauges of jobs, now and in the past.

use anyhow::Result;
use clap::Args;
use jiff::Zoned;
use jiff::tz::TimeZone;
use plimsoll_compare::history::SecondsRange;
use plimsoll_runtime::exit::Exit;
use plimsoll_schemas::figure::{counted, number, percent, span};
use plimsoll_schemas::run::RUN_LABEL;
use plimsoll_schemas::summary::{
    MetricHistoryPage, MetricKind, MetricPoint, MetricRow, MetricsPage,
};

use crate::query::missing;
use crate::runs;
use crate::targets::{Targets, with_parameters};
use crate::time_range::{TimeRange, shown};

const LIST: &str = "/api/v1/metrics";
const QUERY: &str = "/api/v1/query";

/// Show counters and gauges of jobs: rates, ratios and values, now and in the past
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  plimsoll metrics                                     all of them, with their values now
  plimsoll metrics train_step.tokens --last 2h --step 10m
  plimsoll metrics train_step.tokens --run v42
  plimsoll metrics cache.hits --per cache.hits --per cache.misses
  plimsoll metrics memory.bytes --rollup rank --value 3 --last 1d --json | jq '.points[].max'
  plimsoll metrics train_step.tokens --node gpu7 --label rank=3 --last 5m --step 1s

A counter has its increase, and that by wall time; where its name starts with that of an operation,
as train_step.tokens does with train_step, also the increase by the time of this operation. A gauge
has mean, least and highest value over the intervals of nodes in which its job set it. With --node,
nodes are asked for their own histories (plimsoll-node --history), which have every second.
Ranges are widened to whole slots, as for plimsoll query.")]
pub struct MetricsArgs {
    /// The metric; without it, all that jobs send or the history has
    metric: Option<String>,
    #[command(flatten)]
    range: TimeRange,
    /// Duration of a point, such as 1m; without it, one point
    #[arg(long, value_name = "SPAN")]
    step: Option<String>,
    /// Divide by this counter; may be repeated, then by their sum
    #[arg(long, value_name = "METRIC", requires = "metric")]
    per: Vec<String>,
    /// The run; without times its own range
    #[arg(long, value_name = "NAME", conflicts_with = "rollup")]
    run: Option<String>,
    /// The roll-up, such as rank; without it, the fleet
    #[arg(long, value_name = "NAME", requires = "value")]
    rollup: Option<String>,
    /// Value of a label of the roll-up; repeat it for each label, in their order
    #[arg(long, value_name = "VALUE", requires = "rollup")]
    value: Vec<String>,
    /// A node to ask for its own history, by the second; may be repeated, '*' asks all
    #[arg(long, value_name = "NAME", requires = "metric", conflicts_with_all = ["rollup", "run"])]
    node: Vec<String>,
    /// Label that series or their nodes must have, with --node; may be repeated
    #[arg(long, value_name = "KEY=VALUE", requires = "node")]
    label: Vec<String>,
    #[command(flatten)]
    at: Targets,
}

/// Shows the answer of each aggregator.
///
/// # Errors
/// When a time is not understood, or an aggregator does not respond or rejects the request.
pub async fn metrics(args: &MetricsArgs) -> Result<Exit> {
    let Some(metric) = &args.metric else {
        return args.at.show(LIST, list).await;
    };
    let now = Zoned::now();
    let range = match (&args.run, args.range.is_given()) {
        (Some(run), false) => of_run(args, run).await,
        _ => None,
    };
    let range = range.map_or_else(|| args.range.seconds(&now), Ok)?;
    let rollup = args.rollup.clone().or_else(|| args.run.as_ref().map(|_| RUN_LABEL.to_owned()));

    let mut parameters = vec![
        ("metric", Some(metric.clone())),
        ("from", Some(range.from.to_string())),
        ("to", Some(range.to.to_string())),
        ("step", args.step.clone()),
        ("rollup", rollup),
    ];
    let values = args.run.iter().chain(&args.value);
    parameters.extend(values.map(|value| ("value", Some(value.clone()))));
    for (key, values) in [("per", &args.per), ("node", &args.node), ("label", &args.label)] {
        parameters.extend(values.iter().map(|value| (key, Some(value.clone()))));
    }
    let parameters: Vec<_> = parameters.iter().map(|(key, value)| (*key, value)).collect();

    args.at.show(&with_parameters(QUERY, &parameters), |page| table(page, now.time_zone())).await
}

/// The time of a run, where the first aggregator knows it: a rate by wall time is by its own.
async fn of_run(args: &MetricsArgs, run: &str) -> Option<SecondsRange> {
    let apis = args.at.apis().ok()?;
    let row = runs::find(apis.first()?, run).await?;
    let to = row.ended_seconds.unwrap_or_else(|| Zoned::now().timestamp().as_second() as f64);
    Some(SecondsRange { from: row.begun_seconds, to: to.max(row.begun_seconds + 1.0) })
}

fn list(page: &MetricsPage) -> String {
    if page.metrics.is_empty() {
        return "no job sends counters or gauges\n".to_owned();
    }
    let mut text = format!(
        "{:<40} {:<8} {:>6} {:>14} {:>12} {:>12} {:>12}\n",
        "METRIC", "KIND", "NODES", "SUM", "MEAN", "MIN", "MAX"
    );
    text.extend(page.metrics.iter().map(list_row));
    if page.kept_from_seconds.is_none() {
        text.push_str("\nno history is kept: set history.path to have their past\n");
    }
    text
}

fn list_row(row: &MetricRow) -> String {
    let (name, kind) = (&row.metric, row.kind.as_str());
    match &row.now {
        None => format!("{name:<40} {kind:<8} {:>6}\n", "-"),
        Some(now) => {
            let [sum, mean, min, max] = [now.sum, now.mean, now.min, now.max].map(number);
            let nodes = now.nodes;
            format!("{name:<40} {kind:<8} {nodes:>6} {sum:>14} {mean:>12} {min:>12} {max:>12}\n")
        }
    }
}

/// A column of a table: its heading, and what a point has in it.
struct Column {
    heading: String,
    value: fn(&MetricPoint) -> Option<String>,
}

fn table(page: &MetricHistoryPage, zone: &TimeZone) -> String {
    let scope = match (&page.rollup, &page.values, &page.nodes) {
        (Some(rollup), Some(values), _) => format!("{rollup} {}", values.join(", ")),
        (_, _, Some(nodes)) => counted(nodes.len() as u64, "node"),
        _ => "fleet".to_owned(),
    };
    let (from, to) = (shown(page.from_seconds, zone), shown(page.to_seconds, zone));
    let (metric, kind, resolution) = (&page.metric, page.kind.as_str(), &page.resolution);
    let mut text = format!("{kind} {metric} of {scope}, {from} to {to}, slots of {resolution}\n");

    let columns = columns(page);
    text += &format!("{:<25} {:>11} {:>8}", "FROM", "VALUES", "COMPLETE");
    columns.iter().for_each(|column| text += &format!(" {:>16}", column.heading));
    text.push('\n');

    for point in &page.points {
        let complete = point.completeness.map_or("?".to_owned(), percent);
        let from = shown(point.from_seconds, zone);
        text += &format!("{from:<25} {:>11} {complete:>8}", point.count);
        for column in &columns {
            text += &format!(" {:>16}", (column.value)(point).unwrap_or_else(|| "-".to_owned()));
        }
        text.push('\n');
    }
    let range = SecondsRange { from: page.from_seconds, to: page.to_seconds };
    text.extend(page.nodes.iter().flatten().map(|node| missing(node, range, zone)));
    text
}

fn columns(page: &MetricHistoryPage) -> Vec<Column> {
    let column = |heading: &str, value| Column { heading: heading.to_owned(), value };
    if page.kind == MetricKind::Gauge {
        return vec![
            column("MEAN", |point| point.mean.map(number)),
            column("MIN", |point| point.min.map(number)),
            column("MAX", |point| point.max.map(number)),
        ]
        .into_iter()
        .chain(page.nodes.iter().map(|_| column("LAST", |point| point.last.map(number))))
        .collect();
    }

    let mut columns = vec![
        column("INCREASE", |point| (point.count > 0).then(|| number(point.sum))),
        column("PER SECOND", |point| point.per_second.map(number)),
    ];
    if let Some(operation) = &page.operation {
        columns.push(column(&format!("PER s OF {operation}"), |point| {
            point.per_operation_second.map(number)
        }));
        columns.push(column("TIME OF IT", |point| point.operation_seconds.map(span)));
    }
    if page.per.contains(&page.metric) {
        let heading = format!("SHARE OF {}", counted(page.per.len() as u64, "metric"));
        columns.push(column(&heading, |point| point.ratio.map(percent)));
    } else if !page.per.is_empty() {
        let heading = format!("PER {}", page.per.join(" + "));
        columns.push(column(&heading, |point| point.ratio.map(number)));
    }
    columns
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn page(kind: MetricKind) -> MetricHistoryPage {
        let point = MetricPoint {
            from_seconds: 0.0,
            to_seconds: 10.0,
            count: 10,
            sum: 5_000.0,
            mean: Some(500.0),
            min: Some(1.0),
            max: Some(900.0),
            last: Some(7.0),
            per_second: Some(500.0),
            operation_seconds: Some(8.0),
            per_operation_second: Some(625.0),
            ratio: Some(0.75),
            completeness: Some(1.0),
        };
        let empty = MetricPoint { from_seconds: 10.0, to_seconds: 20.0, ..MetricPoint::default() };
        MetricHistoryPage {
            mesh: "m".to_owned(),
            metric: "train_step.tokens".to_owned(),
            kind,
            operation: Some("train_step".to_owned()),
            per: vec!["train_step.tokens".to_owned(), "a".to_owned()],
            rollup: Some("run".to_owned()),
            values: Some(vec!["v42".to_owned()]),
            from_seconds: 0.0,
            to_seconds: 20.0,
            resolution: "10s".to_owned(),
            step_seconds: 10.0,
            kept_from_seconds: 0.0,
            nodes: None,
            labels: BTreeMap::new(),
            points: vec![point, empty],
        }
    }

    fn last_cells(line: &str, cells: usize) -> Vec<&str> {
        let words: Vec<&str> =
            line.split("  ").map(str::trim).filter(|word| !word.is_empty()).collect();
        words[words.len() - cells..].to_vec()
    }

    #[test]
    fn a_counter_has_rates_and_a_gauge_has_its_range() {
        let text = table(&page(MetricKind::Counter), &TimeZone::UTC);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("counter train_step.tokens of run v42, "), "{text}");
        assert!(lines[1].contains("PER s OF train_step"), "{text}");
        assert!(lines[2].ends_with(" 75 %") && lines[2].contains(" 625 "), "{text}");
        assert_eq!(last_cells(lines[3], 5), ["-"; 5], "{text}");

        let text = table(&page(MetricKind::Gauge), &TimeZone::UTC);
        assert!(text.lines().nth(2).unwrap().ends_with("900"), "{text}");
        assert!(!text.contains("PER SECOND"), "{text}");

        let node = r#"{"node": "n1", "samples": 0, "answered_from_seconds": 20.0,
            "kept_from_seconds": null, "missing": 0, "error": "away"}"#;
        let nodes = Some(vec![serde_json::from_str(node).unwrap()]);
        let of_node = MetricHistoryPage { rollup: None, nodes, ..page(MetricKind::Gauge) };
        let text = table(&of_node, &TimeZone::UTC);
        assert!(text.contains(" of 1 node, ") && text.ends_with("n1: away\n"), "{text}");
        assert!(text.lines().nth(2).unwrap().ends_with(" 7"), "{text}");
    }

    #[test]
    fn without_metrics_the_list_states_it() {
        let page = r#"{"mesh":"m","at_seconds":1.0,"kept_from_seconds":null,"tiers":[],
            "metrics":[],"groups":[]}"#;
        assert_eq!(list(&serde_json::from_str(page).unwrap()), "no job sends counters or gauges\n");
    }
}
