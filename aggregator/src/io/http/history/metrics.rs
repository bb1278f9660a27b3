//! Jobs' metrics over HTTP: `/api/v1/query?metric=` from the history, and the list of
//! `/api/v1/metrics`, which needs none.
//!
//! DESIGN A194.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::http::StatusCode;
use plimsoll_schemas::ids::{MeshName, Operation};
use plimsoll_schemas::summary::{
    HistoryGroup, MetricHistoryPage, MetricKind, MetricRow, MetricsPage,
};
use plimsoll_schemas::time::{Wall, seconds};

use super::metric_page::page_of;
use super::unknown::unknown_metric;
use super::{Answered, HistoryHandler, accumulate, kept_from, rollup_of, tiers, values_of};
use crate::core::fleet::Pool;
use crate::core::history::{Accumulator, HistoryKey, HistoryQuery, Layout, MetricKey};
use crate::io::history::{ReadError, Reading};
use crate::io::http::query::Query;
use crate::io::http::refusal::{Refusal, computed};

impl HistoryHandler {
    /// Several metrics by time, if the history has each of them.
    pub(super) async fn known_metrics(
        &self,
        queries: Vec<HistoryQuery>,
        now: Wall,
    ) -> Result<Vec<MetricHistoryPage>, Refusal> {
        let (_, _, known) = self.keys().await?;
        let is_known = |of: &MetricKey| known.contains(&HistoryKey::Metric(of.clone()));
        match queries.iter().find(|query| !query.metrics.iter().any(is_known)) {
            Some(query) => Err(unknown_metric(&query.metrics, &known)),
            None => self.metrics_of(queries, now).await,
        }
    }

    /// Several metrics of one range by time, from one reading: the samples of an operation are read
    /// once for all metrics whose names start with it.
    pub(in crate::io::http) async fn metrics_of(
        &self,
        queries: Vec<HistoryQuery>,
        now: Wall,
    ) -> Result<Vec<MetricHistoryPage>, Refusal> {
        let Some(first) = queries.first() else { return Ok(Vec::new()) };
        let turn = Arc::clone(&self.turn).lock_owned().await;
        let (mesh, reader) = self.reader().await?;
        let keys: BTreeSet<HistoryKey> = queries.iter().flat_map(HistoryQuery::keys).collect();
        let (reading, unstored) = self.read(&reader, keys.into_iter().collect()).await?;
        let layout = Layout::of(&first.range, first.step, now, &reading.kept_from())
            .map_err(|error| Refusal::bad(error.to_string()))?;

        let pages = computed(move || {
            let _turn = turn;
            let mut by_pool: BTreeMap<&Pool, BTreeSet<HistoryKey>> = BTreeMap::new();
            for query in &queries {
                by_pool.entry(&query.pool).or_default().extend(query.keys());
            }

            let mut answers = BTreeMap::new();
            for (pool, keys) in by_pool {
                // First the samples: of the first key's pool, what is not stored is added.
                let samples = HistoryKey::Samples(pool.clone());
                let metrics = keys.into_iter().filter(|key| *key != samples);
                let keys: Vec<_> = std::iter::once(samples.clone()).chain(metrics).collect();
                let answer = accumulate(&keys, 0..keys.len(), layout.clone(), &reading, &unstored)?;
                answers.insert(pool, answer.unwrap_or_else(|| Accumulator::new(layout.clone())));
            }

            let page =
                |query: &HistoryQuery| metric_page(&mesh, query, &answers[&query.pool], &reading);
            Ok::<_, ReadError>(queries.iter().map(page).collect())
        });
        Ok(pages.await??)
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
    pub(super) fn metric_page(&self) -> MetricHistoryPage {
        metric_page(&self.mesh, &self.query, &self.answer, &self.reading)
    }
}

fn metric_page(
    mesh: &MeshName,
    query: &HistoryQuery,
    answer: &Accumulator,
    reading: &Reading,
) -> MetricHistoryPage {
    MetricHistoryPage {
        mesh: mesh.to_string(),
        rollup: rollup_of(&query.pool),
        values: values_of(&query.pool),
        kept_from_seconds: kept_from(reading),
        ..page_of(query, answer, reading.begun().unwrap_or_default())
    }
}
