//! The section on counters and gauges of jobs.

use plimsoll_schemas::figure::number;
use plimsoll_schemas::summary::MetricKind;

use super::document::{Document, MetricResult};
use super::tables::{Cell, Section, figure, table, text};

/// Counters of tokens beside the range; the section has all.
const TOKENS_SHOWN: usize = 4;

pub(super) fn metrics(of: &Document) -> Section {
    let heading =
        ["Metric", "Total", "A second", "A second of its operation", "Mean", "Least", "Highest"];
    let rows = of.metrics.iter().map(row).collect();
    let about = "A counter has its increase, by wall time and by the time of the operation that its \
                 name starts with; a gauge its values in the intervals in which its job set it.";
    Section {
        id: "metrics",
        heading: "Metrics of jobs",
        paragraphs: vec![about.to_owned()],
        tables: vec![table("Metrics", &heading, rows, "No job sent counters or gauges.")],
    }
}

/// The rates of counters of tokens, by wall time and by the time of their operation.
pub(super) fn tokens(of: &[MetricResult]) -> Option<String> {
    let is_tokens = |of: &&MetricResult| {
        of.kind == MetricKind::Counter && (of.metric == "tokens" || of.metric.ends_with(".tokens"))
    };
    let rates = of.iter().filter(is_tokens).filter_map(|of| {
        let by_time = match (&of.operation, of.point.per_operation_second) {
            (Some(operation), Some(rate)) => format!(" ({} of {operation})", number(rate)),
            _ => String::new(),
        };
        Some(format!("{} {}{by_time}", of.metric, number(of.point.per_second?)))
    });
    let rates: Vec<String> = rates.take(TOKENS_SHOWN).collect();
    (!rates.is_empty()).then(|| rates.join(", "))
}

fn row(of: &MetricResult) -> Vec<Cell> {
    let point = &of.point;
    let total = (of.kind == MetricKind::Counter).then_some(point.sum);
    let by_time = match (&of.operation, point.per_operation_second) {
        (Some(operation), Some(rate)) => format!("{} ({operation})", number(rate)),
        _ => "-".to_owned(),
    };
    let or_dash = |value: Option<f64>| figure(value.map_or("-".to_owned(), number));
    vec![
        text(of.metric.as_str()),
        or_dash(total),
        or_dash(point.per_second),
        figure(by_time),
        or_dash(point.mean),
        or_dash(point.min),
        or_dash(point.max),
    ]
}
