//! The past over HTTP: `/api/v1/query`, `/api/v1/heatmap`, `/api/v1/operations` and
//! `/api/v1/bottlenecks`. What the
//! history file holds is read on a thread of its own, one request at a time, and what is not stored
//! yet is added. With `node=`, nodes are asked for their own histories instead.
//!
//! DESIGN A75.

mod bottlenecks;
mod encoded;
mod metrics;
mod nodes;
mod parameters;
mod shares_query;

pub(super) use metrics::page as metric_page;
pub(super) use nodes::latencies;

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
    OperationsPage, STATISTICS_UNIT,
};
use plimsoll_schemas::time::{Wall, seconds};
use tokio::sync::Mutex as Turn;

use super::accept;
use super::parameters::Pairs;
use super::query::{Query, QuerySender};
use super::refusal::{Answer, Refusal, computed, near};
use crate::core::fleet::{OVERFLOW, Pool};
use crate::core::history::{
    Accumulator, HistoryKey, HistoryQuery, Layout, Received, Resolution, Unstored,
};
use crate::io::history::{HistoryReader, ReadError, Reading};
use crate::limits::{ASK_ALL_WAIT, HISTORY_READINGS_MAX, OPERATIONS_MAX, ROLLUP_GROUPS_MAX};

const NOT_KEPT: &str = "no history is kept; set history.path and state.path in the settings, or \
                        start with --history and --state";
/// Values of a roll-up that an error names.
const VALUES_NAMED_MAX: usize = 5;
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
        .route("/api/v1/metrics", get(metrics::show_list))
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
        return metrics::show(&handler, &pairs).await.map(IntoResponse::into_response);
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
    if let Some((key, _)) = pairs.first() {
        let why = format!("unknown parameter {key:?}; this page has no parameters");
        return Err(Refusal::bad(why));
    }
    handler.operations().await.map(Json)
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
                    Some(metric) => metrics::unknown(metric, &known),
                    None => metrics::instead(&of.pool, &known)
                        .unwrap_or_else(|| unknown(&of.pool, &pools(known))),
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

    /// The samples of several pools over a range, all from one reading: a step and its phases add
    /// up in it.
    async fn whole(
        &self,
        pools: Vec<Pool>,
        range: &Range<Wall>,
        now: Wall,
    ) -> Result<WholeRange, Refusal> {
        let turn = Arc::clone(&self.turn).lock_owned().await;
        let (mesh, reader) = self.reader().await?;
        let keys: Vec<HistoryKey> = pools.iter().cloned().map(HistoryKey::Samples).collect();
        let (reading, unstored) = self.read(&reader, keys).await?;
        let layout = Layout::of(range, None, now, &reading.kept_from())
            .map_err(|error| Refusal::bad(error.to_string()))?;

        let whole = computed(move || {
            let _turn = turn;
            let (mut samples, mut received) = (BTreeMap::new(), Received::default());
            for pool in pools {
                let key = [HistoryKey::Samples(pool.clone())];
                let found = accumulate(&key, 0..1, layout.clone(), &reading, &unstored)?;
                let Some(answer) = found else { continue };
                received = answer.received().unwrap_or_default();
                samples.extend(answer.samples().map(|of| (pool, PoolSamples::of(of))));
            }
            let kept_from_seconds = kept_from(&reading);
            Ok::<_, ReadError>(WholeRange { mesh, layout, kept_from_seconds, received, samples })
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

/// Several pools over one range.
struct WholeRange {
    mesh: MeshName,
    layout: Layout,
    kept_from_seconds: f64,
    /// Of the fleet, whichever pools were read.
    received: Received,
    /// Those that the history knows.
    samples: BTreeMap<Pool, PoolSamples>,
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

    fn rollup(&self) -> Option<String> {
        match &self.query.pool {
            Pool::Group(rollup, _) => Some(rollup.clone()),
            Pool::Fleet(_) | Pool::Selected(_) => None,
        }
    }

    fn values(&self) -> Option<Vec<String>> {
        match &self.query.pool {
            Pool::Group(_, group) => Some(group.values.iter().map(ToString::to_string).collect()),
            Pool::Fleet(_) | Pool::Selected(_) => None,
        }
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
    let mut known = keys.iter().zip(known).skip(asked.start).take(asked.len());
    if !known.any(|(key, is_stored)| is_stored || is_unstored(key)) {
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
        rollup: answered.rollup(),
        values: answered.values(),
        unit: STATISTICS_UNIT.to_owned(),
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
    let (bands, counts) = answered.answer.bands(bands);

    HeatmapPage {
        mesh: answered.mesh.to_string(),
        operation: answered.operation(),
        rollup: answered.rollup(),
        values: answered.values(),
        unit: STATISTICS_UNIT.to_owned(),
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

/// Names what is unknown, what is similar or known, and whether its samples may be in the overflow.
fn unknown(pool: &Pool, known: &[Pool]) -> Refusal {
    let wanted = in_words(pool);
    let similar = near(&wanted, known.iter().map(in_words));
    let hint = if similar.is_empty() { known_values(pool, known) } else { similar };
    let others = others(pool, known).unwrap_or_default();
    let error = format!("no samples of {wanted}{hint}{others}. /api/v1/operations lists all names");
    Refusal::not_found(error)
}

fn in_words(pool: &Pool) -> String {
    match pool {
        Pool::Fleet(operation) => operation.to_string(),
        Pool::Selected(budget) => format!("budget {budget}"),
        Pool::Group(rollup, group) => {
            format!("{} with {rollup}={}", group.operation, group.values.join(","))
        }
    }
}

/// Some values that the group's roll-up has for its operation.
fn known_values(pool: &Pool, known: &[Pool]) -> String {
    let Pool::Group(rollup, wanted) = pool else { return String::new() };
    let values = known.iter().filter_map(|of| match of {
        Pool::Group(name, group) if name == rollup && !group.is_overflow() => {
            (group.operation == wanted.operation).then(|| group.values.join(","))
        }
        _ => None,
    });
    let shown: Vec<String> = values.take(VALUES_NAMED_MAX).collect();
    if shown.is_empty() { String::new() } else { format!("; known {rollup}: {}", shown.join(", ")) }
}

/// The bound of the table that a pool is not in, if that table has left out any.
fn others(pool: &Pool, known: &[Pool]) -> Option<String> {
    let is_folded = |of: &Pool| match (pool, of) {
        (Pool::Fleet(_), Pool::Fleet(operation)) => operation.as_str() == OVERFLOW,
        (Pool::Group(wanted, _), Pool::Group(rollup, group)) => {
            wanted == rollup && group.is_overflow()
        }
        _ => false,
    };

    let (most, what) = match pool {
        Pool::Group(..) => (ROLLUP_GROUPS_MAX, "groups of a roll-up"),
        Pool::Fleet(_) | Pool::Selected(_) => (OPERATIONS_MAX, "operations"),
    };

    let text =
        || format!("; {most} {what} are kept by name, samples of all others are in {OVERFLOW:?}");
    known.iter().any(is_folded).then(text)
}
