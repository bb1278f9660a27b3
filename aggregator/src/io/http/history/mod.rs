//! The past over HTTP: `/api/v1/query`, `/api/v1/heatmap` and `/api/v1/operations`. What the
//! history file holds is read on a thread of its own, one request at a time, and what is not stored
//! yet is added. With `node=`, nodes are asked for their own histories instead.
//!
//! DESIGN A75.

mod encoded;
mod nodes;
mod parameters;

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{Query as Parameters, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use plimsoll_clock::Clock;
use plimsoll_runtime::http::ending;
use plimsoll_schemas::ids::MeshName;
use plimsoll_schemas::summary::{
    HeatmapPage, HistoryGroup, HistoryPage, HistoryTier, OperationsPage, STATISTICS_UNIT,
};
use plimsoll_schemas::time::{Wall, seconds};
use tokio::sync::Mutex as Turn;
use tokio::task::spawn_blocking;

use super::accept::{self, Encoding};
use super::near::near;
use super::query::{Query, QuerySender};
use crate::core::fleet::{OVERFLOW, Pool};
use crate::core::history::{Accumulator, HistoryQuery, Layout, Resolution, Unstored};
use crate::io::history::{HistoryReader, ReadError, Reading};
use crate::limits::{HISTORY_READINGS_MAX, OPERATIONS_MAX, ROLLUP_GROUPS_MAX};

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

/// A response that is not the requested page.
pub(super) struct Refusal(pub(super) StatusCode, pub(super) String);

/// The routes of the past.
pub(super) fn routes(handler: HistoryHandler) -> Router {
    Router::new()
        .route("/api/v1/query", get(show_query))
        .route("/api/v1/heatmap", get(show_heatmap))
        .route("/api/v1/operations", get(show_operations))
        .route("/api/v1/hardware/history", get(show_hardware))
        .with_state(handler)
}

async fn show_query(
    State(handler): State<HistoryHandler>,
    Parameters(pairs): Parameters<Vec<(String, String)>>,
    headers: HeaderMap,
) -> Response {
    let (now, encoding) = (handler.clock.now().wall, accept::encoding(&headers));
    let query = match parameters::parse(&pairs, now) {
        Ok(query) => query,
        Err(error) => return refuse(StatusCode::BAD_REQUEST, &error.to_string()),
    };
    let response = if query.nodes.is_some() {
        handler.response_of_nodes(query, now, encoding).await
    } else {
        let response = move |answered: &Answered| encoded::response(&page(answered), encoding);
        handler.answer(query, now, response).await
    };
    response.unwrap_or_else(Refusal::into_response)
}

async fn show_heatmap(
    State(handler): State<HistoryHandler>,
    Parameters(pairs): Parameters<Vec<(String, String)>>,
) -> Response {
    let now = handler.clock.now().wall;
    let (query, bands) = match parameters::parse_heatmap(&pairs, now) {
        Ok(parsed) => parsed,
        Err(error) => return refuse(StatusCode::BAD_REQUEST, &error.to_string()),
    };
    if query.nodes.is_some() {
        let error = "node is given; a heatmap is of the fleet's history, so leave it out";
        return refuse(StatusCode::BAD_REQUEST, error);
    }
    match handler.answer(query, now, move |answered| heatmap(answered, bands)).await {
        Ok(page) => Json(page).into_response(),
        Err(refusal) => refusal.into_response(),
    }
}

async fn show_hardware(
    State(handler): State<HistoryHandler>,
    Parameters(pairs): Parameters<Vec<(String, String)>>,
) -> Response {
    let now = handler.clock.now().wall;
    let query = match parameters::parse_hardware(&pairs, now) {
        Ok(query) => query,
        Err(error) => return refuse(StatusCode::BAD_REQUEST, &error.to_string()),
    };
    match nodes::hardware(&handler.queries, query, now).await {
        Ok(page) => Json(page).into_response(),
        Err(refusal) => refusal.into_response(),
    }
}

async fn show_operations(
    State(handler): State<HistoryHandler>,
    Parameters(pairs): Parameters<Vec<(String, String)>>,
) -> Response {
    if let Some((key, _)) = pairs.first() {
        let error = format!("unknown parameter {key:?}; this page has no parameters");
        return refuse(StatusCode::BAD_REQUEST, &error);
    }
    match handler.operations().await {
        Ok(page) => Json(page).into_response(),
        Err(refusal) => refusal.into_response(),
    }
}

impl HistoryHandler {
    pub(super) fn new(queries: QuerySender) -> Self {
        Self { queries, turn: Arc::default(), clock: Clock::start() }
    }

    /// The page of latencies that nodes answer from their own histories.
    pub(super) async fn latencies_of_nodes(
        &self,
        query: HistoryQuery,
        now: Wall,
    ) -> Result<HistoryPage, Refusal> {
        nodes::latencies(&self.queries, query, now).await
    }

    /// The same as a response, made off the runtime's thread.
    async fn response_of_nodes(
        &self,
        query: HistoryQuery,
        now: Wall,
        encoding: Encoding,
    ) -> Result<Response, Refusal> {
        let page = self.latencies_of_nodes(query, now).await?;
        let response = spawn_blocking(move || encoded::response(&page, encoding));
        response.await.map_err(|_| Refusal::failed("the answer cannot be written"))
    }

    /// The mesh and the file's reader, if a history is kept.
    async fn reader(&self) -> Result<(MeshName, HistoryReader), Refusal> {
        let source = self.queries.send(Query::History).await.ok_or_else(Refusal::ending)?;
        let (mesh, reader) = source;
        let reader = reader.ok_or_else(|| Refusal(StatusCode::NOT_FOUND, NOT_KEPT.to_owned()))?;
        Ok((mesh, reader))
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
        let (reading, unstored) = self.read(&reader, &query.pool).await?;
        let layout = Layout::of(&query, now, &reading.kept_from())
            .map_err(|error| Refusal(StatusCode::BAD_REQUEST, error.to_string()))?;
        let computed = spawn_blocking(move || {
            // A client that leaves does not begin another one's turn.
            let _turn = turn;
            Ok(match accumulate(&query.pool, layout, &reading, &unstored)? {
                Some(answer) => Ok(page(&Answered { mesh, query, reading, answer })),
                None => Err(query.pool),
            })
        });
        let computed: Result<_, Refusal> =
            computed.await.map_err(|_| Refusal::failed("the query cannot be computed"))?;
        match computed? {
            Ok(page) => Ok(page),
            Err(pool) => {
                let (_, _, known) = self.pools().await?;
                Err(unknown(&pool, &known))
            }
        }
    }

    /// A reading of the file, and what is to be added to just this reading.
    async fn read(
        &self,
        reader: &HistoryReader,
        pool: &Pool,
    ) -> Result<(Reading, Unstored), Refusal> {
        for _ in 0..HISTORY_READINGS_MAX {
            let reader = reader.clone();
            let reading = spawn_blocking(move || reader.read()).await;
            let reading = reading.map_err(|_| Refusal::failed("the history is damaged"))??;
            let (pool, held) = (pool.clone(), reading.batch());
            let unstored = self.queries.send(|answer| Query::Unstored(pool, held, answer)).await;
            if let Some(unstored) = unstored.ok_or_else(Refusal::ending)? {
                return Ok((reading, unstored));
            }
        }
        Err(Refusal(StatusCode::SERVICE_UNAVAILABLE, BUSY.to_owned()))
    }

    /// What the history has.
    pub(super) async fn operations(&self) -> Result<OperationsPage, Refusal> {
        let (mesh, reading, pools) = self.pools().await?;
        Ok(operations_page(&mesh, &reading, &pools))
    }

    /// All pools that the history has, and the reading that has them.
    pub(super) async fn pools(&self) -> Result<(MeshName, Reading, Vec<Pool>), Refusal> {
        let turn = Arc::clone(&self.turn).lock_owned().await;
        let (mesh, reader) = self.reader().await?;
        let mut pools =
            self.queries.send(Query::UnstoredPools).await.ok_or_else(Refusal::ending)?;
        let listed = spawn_blocking(move || {
            let _turn = turn;
            let reading = reader.read()?;
            pools.extend(reading.pools()?);
            pools.sort_unstable();
            pools.dedup();
            Ok((mesh, reading, pools))
        });
        listed.await.map_err(|_| Refusal::failed("the history is damaged"))?
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
        match &self.query.pool {
            Pool::Fleet(operation) => operation.to_string(),
            Pool::Group(_, group) => group.operation.to_string(),
            Pool::Selected(budget) => budget.to_string(),
        }
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

/// All samples of a query, stored and not stored yet; `None` if there never were any.
fn accumulate(
    pool: &Pool,
    layout: Layout,
    reading: &Reading,
    unstored: &Unstored,
) -> Result<Option<Accumulator>, Refusal> {
    let mut answer = Accumulator::new(layout);
    let is_known = reading.add_to(&mut answer, pool)?;
    if !is_known && unstored.samples.pools.is_empty() {
        return Ok(None);
    }
    answer.add_unstored(unstored);
    Ok(Some(answer))
}

/// The samples point by point.
pub(super) fn page(answered: &Answered) -> HistoryPage {
    let layout = answered.answer.layout();
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
    let layout = answered.answer.layout();
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

fn operations_page(mesh: &MeshName, reading: &Reading, pools: &[Pool]) -> OperationsPage {
    let kept = reading.kept_from();
    let tiers = Resolution::ALL.into_iter().zip(kept).zip(reading.bytes());
    let begun = reading.begun().unwrap_or_default();
    let tier = |((resolution, kept), bytes): ((Resolution, Wall), u64)| HistoryTier {
        resolution: resolution.as_str().to_owned(),
        kept_from_seconds: seconds(kept.max(begun).0),
        bytes,
    };
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
        tiers: tiers.map(tier).collect(),
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
    Refusal(StatusCode::NOT_FOUND, error)
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

impl Refusal {
    pub(super) fn failed(why: &str) -> Self {
        Self(StatusCode::INTERNAL_SERVER_ERROR, why.to_owned())
    }

    /// The process is ending.
    pub(super) fn ending() -> Self {
        Self(StatusCode::SERVICE_UNAVAILABLE, String::new())
    }
}

impl From<ReadError> for Refusal {
    fn from(error: ReadError) -> Self {
        Self::failed(&error.to_string())
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        if self.1.is_empty() { ending() } else { refuse(self.0, &self.1) }
    }
}

fn refuse(status: StatusCode, why: &str) -> Response {
    (status, format!("{why}\n")).into_response()
}
