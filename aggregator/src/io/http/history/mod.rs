//! The past over HTTP: `/api/v1/query`, `/api/v1/heatmap`, `/api/v1/operations` and
//! `/api/v1/bottlenecks`. What the
//! history file holds is read on a thread of its own, one request at a time, and what is not stored
//! yet is added. With `node=`, nodes are asked for their own histories instead.
//!
//! DESIGN A75.

mod bottlenecks;
mod encoded;
mod metric_page;
mod metrics;
mod nodes;
mod parameters;
mod shares_query;
mod unknown;

pub(super) use nodes::latencies;
pub(super) use parameters::range;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use axum::extract::{Query as Parameters, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use plimsoll_clock::Clock;
use plimsoll_schemas::histogram::{ExactFigures, Histogram};
use plimsoll_schemas::ids::MeshName;
use plimsoll_schemas::summary::{
    BottlenecksPage, HardwareHistoryPage, HeatmapPage, HistoryGroup, HistoryPage, HistoryTier,
    MetricHistoryPages, MetricsPage, OperationsPage,
};
use plimsoll_schemas::time::{Wall, seconds};
use tokio::sync::Mutex as Turn;

use super::accept;
use super::parameters::{BadRequest, Pairs};
use super::query::{Query, QuerySender};
use super::refusal::{Answer, Refusal, computed};
use crate::core::fleet::Pool;
use crate::core::history::{
    Accumulator, HistoryKey, HistoryQuery, Layout, MetricKey, MetricTotals, Received, Resolution,
    Unstored,
};
use crate::io::history::{HistoryReader, ReadError, Reading};
use crate::limits::{ASK_ALL_WAIT, HISTORY_READINGS_MAX};

const NOT_KEPT: &str = "no history is kept; set history.path and state.path in the settings, or \
                        start with --history and --state";
const BUSY: &str = "the history was written too often while it was read; retry";

/// What reads the history for pages: one request at a time, whichever page it is for.
#[derive(Clone)]
pub(super) struct HistoryHandler {
    queries: QuerySender,
    turn: Arc<Turn<()>>,
    clock: Clock,
}

pub(super) fn routes(handler: HistoryHandler) -> Router {
    Router::new()
        .route("/api/v1/query", get(show_query))
        .route("/api/v1/heatmap", get(show_heatmap))
        .route("/api/v1/operations", get(show_operations))
        .route("/api/v1/metrics", get(show_metrics))
        .route("/api/v1/bottlenecks", get(show_bottlenecks))
        .route("/api/v1/hardware/history", get(show_hardware))
        .with_state(handler)
}

async fn show_query(
    State(handler): State<HistoryHandler>,
    Parameters(pairs): Pairs,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    if pairs.iter().any(|(key, _)| key == "metric") {
        let now = handler.clock.now().wall;
        let mut queries = parameters::parse_metrics(&pairs, now)?;
        if queries.len() > 1 {
            let pages = handler.known_metrics(queries, now).await?;
            return Ok(Json(MetricHistoryPages { pages }).into_response());
        }
        let page = match queries.pop() {
            Some(query) if query.nodes.is_some() => {
                nodes::metric(&handler.queries, query, now).await?
            }
            Some(query) => handler.answer(query, now, Answered::metric_page).await?,
            None => return Err(BadRequest::Missing("metric").into()),
        };
        return Ok(Json(page).into_response());
    }
    let (now, encoding) = (handler.clock.now().wall, accept::encoding(&headers));
    let query = parameters::parse(&pairs, now)?;
    if query.nodes.is_some() {
        let page = latencies(&handler.queries, query, now).await?;
        // Off the runtime's thread: JSON of 256 MiB would
        // stop all other requests for a second (A89).
        return computed(move || encoded::response(&page, encoding)).await?;
    }
    let response = move |answered: &Answered| encoded::response(&page(answered), encoding);
    handler.answer(query, now, response).await?
}

async fn show_heatmap(
    State(handler): State<HistoryHandler>,
    Parameters(pairs): Pairs,
) -> Answer<HeatmapPage> {
    let now = handler.clock.now().wall;
    let (query, bands) = parameters::parse_heatmap(&pairs, now)?;
    if query.nodes.is_some() {
        let why = "node is given; a heatmap is of the fleet's history, so leave it out";
        return Err(Refusal::bad(why));
    }
    handler.answer(query, now, move |answered| heatmap(answered, bands)).await.map(Json)
}

async fn show_hardware(
    State(handler): State<HistoryHandler>,
    Parameters(pairs): Pairs,
) -> Answer<HardwareHistoryPage> {
    let now = handler.clock.now().wall;
    let query = parameters::parse_hardware(&pairs, now)?;
    nodes::hardware(&handler.queries, query, now, ASK_ALL_WAIT).await.map(Json)
}

async fn show_operations(
    State(handler): State<HistoryHandler>,
    Parameters(pairs): Pairs,
) -> Answer<OperationsPage> {
    no_parameters(&pairs)?;
    handler.operations().await.map(Json)
}

async fn show_metrics(
    State(handler): State<HistoryHandler>,
    Parameters(pairs): Pairs,
) -> Answer<MetricsPage> {
    no_parameters(&pairs)?;
    handler.metrics().await.map(Json)
}

fn no_parameters(pairs: &[(String, String)]) -> Result<(), Refusal> {
    let refused = |(key, _): &(String, String)| {
        Refusal::bad(format!("unknown parameter {key:?}; this page has no parameters"))
    };
    pairs.first().map_or(Ok(()), |first| Err(refused(first)))
}

async fn show_bottlenecks(
    State(handler): State<HistoryHandler>,
    Parameters(pairs): Pairs,
) -> Answer<BottlenecksPage> {
    let now = handler.clock.now().wall;
    let query = shares_query::parse(&pairs, now)?;
    handler.bottlenecks(query, now).await.map(Json)
}

impl HistoryHandler {
    pub(super) fn new(queries: QuerySender) -> Self {
        Self { queries, turn: Arc::default(), clock: Clock::start() }
    }

    /// The mesh and the file's reader, if a history is kept.
    async fn reader(&self) -> Result<(MeshName, HistoryReader), Refusal> {
        let (mesh, reader) = self.queries.send(Query::History).await?;
        Ok((mesh, reader.ok_or_else(|| Refusal::not_found(NOT_KEPT))?))
    }

    /// Computes a page from the samples of a query, on a thread of its own.
    pub(super) async fn answer<P: Send + 'static>(
        &self,
        query: HistoryQuery,
        now: Wall,
        page: impl FnOnce(&Answered) -> P + Send + 'static,
    ) -> Result<P, Refusal> {
        let turn = Arc::clone(&self.turn).lock_owned().await;
        let (mesh, reader) = self.reader().await?;
        let (reading, unstored) = self.read(&reader, query.keys()).await?;
        let layout = Layout::of(&query.range, query.step, now, &reading.kept_from())
            .map_err(|error| Refusal::bad(error.to_string()))?;
        let of = query.clone();

        let page = computed(move || {
            // A client that leaves does not begin another one's turn.
            let _turn = turn;
            // The samples of a metric's operation and what it is divided by may be missing.
            let asked = if query.metrics.is_empty() { 0..1 } else { 1..3 };
            let answer = accumulate(&query.keys(), asked, layout, &reading, &unstored)?;
            Ok::<_, ReadError>(
                answer.map(|answer| page(&Answered { mesh, query, reading, answer })),
            )
        });

        match page.await?? {
            Some(page) => Ok(page),
            None => {
                let (_, _, known) = self.keys().await?;
                Err(match of.metrics.first() {
                    Some(_) => unknown::unknown_metric(&of.metrics, &known),
                    None => unknown::metric_instead(&of.pool, &known)
                        .unwrap_or_else(|| unknown::unknown(&of.pool, &pools(known))),
                })
            }
        }
    }

    /// A reading of the file, and what is to be added to just this reading.
    async fn read(
        &self,
        reader: &HistoryReader,
        keys: Vec<HistoryKey>,
    ) -> Result<(Reading, Unstored), Refusal> {
        // A checkpoint may be written between the two questions: then what is to be added does not
        // fit the reading, and another one is made.
        for _ in 0..HISTORY_READINGS_MAX {
            let reader = reader.clone();
            let reading = computed(move || reader.read()).await??;
            let (keys, held) = (keys.clone(), reading.batch());
            let unstored = self.queries.send(|answer| Query::Unstored(keys, held, answer)).await?;
            if let Some(unstored) = unstored {
                return Ok((reading, unstored));
            }
        }
        Err(Refusal(StatusCode::SERVICE_UNAVAILABLE, BUSY.to_owned()))
    }

    /// The samples of several pools and what counters grew by over a range, all from one reading: a
    /// step and its phases add up in it.
    async fn whole(
        &self,
        keys: Vec<HistoryKey>,
        range: &Range<Wall>,
        now: Wall,
    ) -> Result<WholeRange, Refusal> {
        let turn = Arc::clone(&self.turn).lock_owned().await;
        let (mesh, reader) = self.reader().await?;
        let (reading, unstored) = self.read(&reader, keys.clone()).await?;
        let layout = Layout::of(range, None, now, &reading.kept_from())
            .map_err(|error| Refusal::bad(error.to_string()))?;

        let whole = computed(move || {
            let _turn = turn;
            let (mut samples, mut counters) = (BTreeMap::new(), BTreeMap::new());
            let mut received = Received::default();
            for key in keys {
                let of = std::slice::from_ref(&key);
                let found = accumulate(of, 0..1, layout.clone(), &reading, &unstored)?;
                let Some(answer) = found else { continue };
                received = answer.received().unwrap_or_default();
                match key {
                    HistoryKey::Samples(pool) => {
                        samples.extend(answer.samples().map(|of| (pool, PoolSamples::of(of))));
                    }
                    HistoryKey::Metric(metric) => {
                        let totals = answer.totals(&metric);
                        counters.extend(totals.map(|totals| (metric, totals.clone())));
                    }
                }
            }
            let kept_from_seconds = kept_from(&reading);
            let counters = Some(counters);
            let whole = WholeRange { mesh, layout, kept_from_seconds, received, samples, counters };
            Ok::<_, ReadError>(whole)
        });
        Ok(whole.await??)
    }

    pub(super) async fn operations(&self) -> Result<OperationsPage, Refusal> {
        let (mesh, reading, pools) = self.pools().await?;
        Ok(operations_page(&mesh, &reading, &pools))
    }

    /// All pools of which the history has samples, and the reading that has them.
    pub(super) async fn pools(&self) -> Result<(MeshName, Reading, Vec<Pool>), Refusal> {
        let (mesh, reading, keys) = self.keys().await?;
        Ok((mesh, reading, pools(keys)))
    }

    /// All that the history has, and the reading that has it.
    async fn keys(&self) -> Result<(MeshName, Reading, Vec<HistoryKey>), Refusal> {
        let turn = Arc::clone(&self.turn).lock_owned().await;
        let (mesh, reader) = self.reader().await?;
        let mut keys = self.queries.send(Query::UnstoredKeys).await?;
        let listed = computed(move || {
            let _turn = turn;
            let reading = reader.read()?;
            keys.extend(reading.keys()?);
            keys.sort_unstable();
            keys.dedup();
            Ok((mesh, reading, keys))
        });
        listed.await?
    }
}

fn pools(keys: Vec<HistoryKey>) -> Vec<Pool> {
    let pools = keys.into_iter().filter_map(|key| match key {
        HistoryKey::Samples(pool) => Some(pool),
        HistoryKey::Metric(_) => None,
    });
    pools.collect()
}

/// Several pools and counters over one range.
struct WholeRange {
    mesh: MeshName,
    layout: Layout,
    kept_from_seconds: f64,
    /// Of the fleet, whichever pools were read.
    received: Received,
    /// Those that the history knows.
    samples: BTreeMap<Pool, PoolSamples>,
    /// Absent where none were read.
    counters: Option<BTreeMap<MetricKey, MetricTotals>>,
}

/// What is read of the samples of one pool.
struct PoolSamples {
    exact: ExactFigures,
    p99_ns: Option<u64>,
}

impl PoolSamples {
    fn of(samples: &Histogram) -> Self {
        let p99_ns = samples.quantile(0.99).map(|found| found.value_ns);
        Self { exact: samples.exact(), p99_ns }
    }
}

/// The samples of a query, and what they were read from.
pub(super) struct Answered {
    mesh: MeshName,
    query: HistoryQuery,
    reading: Reading,
    answer: Accumulator,
}

impl Answered {
    fn operation(&self) -> String {
        self.query.pool.operation_name()
    }
}

fn rollup_of(pool: &Pool) -> Option<String> {
    match pool {
        Pool::Group(rollup, _) => Some(rollup.clone()),
        Pool::Fleet(_) | Pool::Selected(_) => None,
    }
}

fn values_of(pool: &Pool) -> Option<Vec<String>> {
    match pool {
        Pool::Group(_, group) => Some(group.values.iter().map(ToString::to_string).collect()),
        Pool::Fleet(_) | Pool::Selected(_) => None,
    }
}

/// All that some keys have, stored and not stored yet; `None` if there never was any of those at
/// these places.
fn accumulate(
    keys: &[HistoryKey],
    asked: Range<usize>,
    layout: Layout,
    reading: &Reading,
    unstored: &Unstored,
) -> Result<Option<Accumulator>, ReadError> {
    let mut answer = Accumulator::new(layout);
    let known = reading.add_to(&mut answer, keys)?;
    // A series that started after the last checkpoint is in no file yet.
    let is_unstored = |key: &HistoryKey| match key {
        HistoryKey::Samples(pool) => unstored.samples.pools.contains_key(pool),
        HistoryKey::Metric(metric) => unstored.samples.metrics.contains_key(metric),
    };
    let is_known = |(key, is_stored): (&HistoryKey, &bool)| *is_stored || is_unstored(key);
    let known: Vec<bool> = keys.iter().zip(&known).map(is_known).collect();
    // What a metric is divided by comes after it.
    let (asked, after) = (&known[asked.clone()], &known[asked.end..]);
    if !asked.contains(&true) || after.contains(&false) {
        return Ok(None);
    }
    if let Some(first) = keys.first() {
        answer.add_unstored(unstored, first.pool());
    }
    Ok(Some(answer))
}

/// The samples point by point.
pub(super) fn page(answered: &Answered) -> HistoryPage {
    let layout = &answered.answer.layout;
    HistoryPage {
        mesh: answered.mesh.to_string(),
        operation: answered.operation(),
        rollup: rollup_of(&answered.query.pool),
        values: values_of(&answered.query.pool),
        unit: answered.query.unit().shown_as().to_owned(),
        from_seconds: seconds(layout.range.start.0),
        to_seconds: seconds(layout.range.end.0),
        resolution: layout.slots().to_owned(),
        step_seconds: layout.step.as_secs_f64(),
        kept_from_seconds: kept_from(&answered.reading),
        nodes: None,
        labels: BTreeMap::new(),
        points: answered.answer.points(&answered.query),
    }
}

fn heatmap(answered: &Answered, bands: usize) -> HeatmapPage {
    let layout = &answered.answer.layout;
    let (bands, counts) = answered.answer.bands(bands, answered.query.unit());

    HeatmapPage {
        mesh: answered.mesh.to_string(),
        operation: answered.operation(),
        rollup: rollup_of(&answered.query.pool),
        values: values_of(&answered.query.pool),
        unit: answered.query.unit().shown_as().to_owned(),
        from_seconds: seconds(layout.range.start.0),
        to_seconds: seconds(layout.range.end.0),
        resolution: layout.slots().to_owned(),
        step_seconds: layout.step.as_secs_f64(),
        bands,
        counts,
    }
}

/// Since when at least the coarsest tier keeps samples.
fn kept_from(reading: &Reading) -> f64 {
    let [.., coarsest] = reading.kept_from();
    let begun = reading.begun().unwrap_or_default();
    seconds(coarsest.max(begun).0)
}

fn tiers(reading: &Reading) -> Vec<HistoryTier> {
    let tiers = Resolution::ALL.into_iter().zip(reading.kept_from()).zip(reading.bytes());
    let begun = reading.begun().unwrap_or_default();

    let tier = |((resolution, kept), bytes): ((Resolution, Wall), u64)| HistoryTier {
        resolution: resolution.as_str().to_owned(),
        kept_from_seconds: seconds(kept.max(begun).0),
        bytes,
    };
    tiers.map(tier).collect()
}

fn operations_page(mesh: &MeshName, reading: &Reading, pools: &[Pool]) -> OperationsPage {
    let fleet = pools.iter().filter_map(|pool| match pool {
        Pool::Fleet(operation) => Some(operation.to_string()),
        _ => None,
    });

    let groups = pools.iter().filter_map(|pool| match pool {
        Pool::Group(rollup, group) => Some(HistoryGroup {
            rollup: rollup.clone(),
            operation: group.operation.to_string(),
            values: group.values.iter().map(ToString::to_string).collect(),
        }),
        _ => None,
    });

    OperationsPage {
        mesh: mesh.to_string(),
        kept_from_seconds: kept_from(reading),
        tiers: tiers(reading),
        operations: fleet.collect(),
        groups: groups.collect(),
    }
}
