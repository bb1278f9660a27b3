//! Jobs' metrics over HTTP: `/api/v1/query?metric=` from the history, and the list of
//! `/api/v1/metrics`, which needs none.
//!
//! DESIGN A194.

use std::collections::BTreeSet;

use axum::http::StatusCode;
use plimsoll_schemas::ids::Operation;
use plimsoll_schemas::summary::{
    HistoryGroup, MetricHistoryPage, MetricKind, MetricRow, MetricsPage,
};
use plimsoll_schemas::time::seconds;

use super::{Answered, HistoryHandler, kept_from, tiers};
use crate::core::fleet::Pool;
use crate::core::history::{HistoryKey, HistoryQuery, MetricKey};
use crate::io::http::query::Query;
use crate::io::http::refusal::{Refusal, computed};

impl HistoryHandler {
    /// One metric by time.
    pub(super) async fn metric(&self, query: HistoryQuery) -> Result<MetricHistoryPage, Refusal> {
        self.answer(query, self.clock.now().wall, Answered::metric_page).await
    }

    /// What jobs send now, and what the history has, if one is kept.
    pub(in crate::io::http) async fn metrics(&self) -> Result<MetricsPage, Refusal> {
        let history = match self.keys().await {
            Ok((_, reading, keys)) => Some((reading, keys)),
            Err(Refusal(StatusCode::NOT_FOUND, _)) => None,
            Err(refusal) => return Err(refusal),
        };
        let source = self.queries.send(Query::ReadView).await?;

        let listed = computed(move || {
            let now = source.view.metrics_now();
            let (reading, keys) = history.map_or((None, Vec::new()), |(of, keys)| (Some(of), keys));
            let kept: BTreeSet<(&Operation, MetricKind)> =
                keys.iter().filter_map(of_fleet).collect();
            let names: BTreeSet<(&Operation, MetricKind)> =
                now.keys().map(|(name, kind)| (name, *kind)).chain(kept.iter().copied()).collect();

            let row = |(name, kind): (&Operation, MetricKind)| MetricRow {
                metric: name.to_string(),
                kind,
                is_kept: kept.contains(&(name, kind)),
                now: now.get(&(name.clone(), kind)).copied(),
            };

            MetricsPage {
                mesh: source.view.mesh.to_string(),
                at_seconds: seconds(source.view.at.0),
                kept_from_seconds: reading.as_ref().map(kept_from),
                tiers: reading.as_ref().map(tiers).unwrap_or_default(),
                metrics: names.into_iter().map(row).collect(),
                groups: keys.iter().filter_map(of_group).collect(),
            }
        });
        listed.await
    }
}

fn of_fleet(key: &HistoryKey) -> Option<(&Operation, MetricKind)> {
    match key {
        HistoryKey::Metric(MetricKey { kind, pool: Pool::Fleet(name) }) => Some((name, *kind)),
        _ => None,
    }
}

fn of_group(key: &HistoryKey) -> Option<HistoryGroup> {
    let HistoryKey::Metric(MetricKey { pool: Pool::Group(rollup, group), .. }) = key else {
        return None;
    };
    Some(HistoryGroup {
        rollup: rollup.clone(),
        operation: group.operation.to_string(),
        values: group.values.iter().map(ToString::to_string).collect(),
    })
}

impl Answered {
    /// The metric point by point.
    pub(in crate::io::http) fn metric_page(&self) -> MetricHistoryPage {
        let Answered { query, answer, .. } = self;
        let (by_kind, per) = query.metrics.split_at(2);
        // A name that is both is the counter, whose values add up.
        let metric = by_kind.iter().find(|key| answer.has(key)).unwrap_or(&by_kind[0]);
        let layout = &answer.layout;
        let points = answer.metric_points(metric, per, self.reading.begun().unwrap_or_default());
        let has_operation = points.iter().any(|point| point.operation_seconds.is_some());

        MetricHistoryPage {
            mesh: self.mesh.to_string(),
            metric: metric.pool.operation_name(),
            kind: metric.kind,
            operation: has_operation.then(|| self.operation()),
            per: per.iter().map(|of| of.pool.operation_name()).collect(),
            rollup: self.rollup(),
            values: self.values(),
            from_seconds: seconds(layout.range.start.0),
            to_seconds: seconds(layout.range.end.0),
            resolution: layout.slots().to_owned(),
            step_seconds: layout.step.as_secs_f64(),
            kept_from_seconds: kept_from(&self.reading),
            points,
        }
    }
}
