//! The page of a metric, whether the history has its values or nodes answer them.

use std::collections::BTreeMap;

use plimsoll_schemas::summary::MetricHistoryPage;
use plimsoll_schemas::time::{Wall, seconds};

use crate::core::history::{Accumulator, HistoryQuery};

/// The metric of a query, of a history that began then, without what it was read from.
pub(super) fn page_of(
    query: &HistoryQuery,
    answer: &Accumulator,
    begun: Wall,
) -> MetricHistoryPage {
    let (by_kind, per) = query.metrics.split_at(2);
    // A name that is both is the counter, whose values add up.
    let metric = by_kind.iter().find(|key| answer.has(key)).unwrap_or(&by_kind[0]);
    let layout = &answer.layout;
    let points = answer.metric_points(metric, per, begun, query.unit());
    let has_operation = points.iter().any(|point| point.operation_seconds.is_some());

    MetricHistoryPage {
        mesh: String::new(),
        metric: metric.pool.operation_name(),
        kind: metric.kind,
        operation: has_operation.then(|| query.pool.operation_name()),
        per: per.iter().map(|of| of.pool.operation_name()).collect(),
        rollup: None,
        values: None,
        from_seconds: seconds(layout.range.start.0),
        to_seconds: seconds(layout.range.end.0),
        resolution: layout.slots().to_owned(),
        step_seconds: layout.step.as_secs_f64(),
        kept_from_seconds: seconds(begun.0),
        nodes: None,
        labels: BTreeMap::new(),
        points,
    }
}
