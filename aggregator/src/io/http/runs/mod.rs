//! Runs over HTTP: begun and stopped with the token, listed, shown with the latencies of their own
//! window, and compared. What takes time is computed off the driver's thread, for one request at a
//! time.
//!
//! DESIGN A81, A82, A189.

mod comparison;
mod requests;
mod status;

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Path, Query as Parameters, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{get, post};
use axum::{Json, Router};
use plimsoll_clock::Clock;
use plimsoll_compare::Comparison;
use plimsoll_runtime::token::Token;
use plimsoll_schemas::ids::RunName;
use plimsoll_schemas::summary::{RunPage, RunRow, RunsPage};
use tokio::sync::Mutex as Turn;

use super::alerts::may_change;
use super::history::HistoryHandler;
use super::parameters::Pairs;
use super::query::{Query, QuerySender};
use super::refusal::{Answer, Refusal, near};
use crate::core::runs::{RunCommand, RunError, RunsQuery};

#[cfg(test)]
pub(super) use requests::{BeginBody, StopBody};

#[derive(Clone)]
struct RunHandler {
    queries: QuerySender,
    history: HistoryHandler,
    /// The token that changes need; without one, changes are rejected.
    token: Option<Arc<Token>>,
    /// Of requests that read the history several times.
    turn: Arc<Turn<()>>,
    clock: Clock,
}

pub(super) fn routes(
    queries: QuerySender,
    token: Option<Token>,
    history: HistoryHandler,
) -> Router {
    let (token, turn) = (token.map(Arc::new), Arc::default());
    let handler = RunHandler { queries, history, token, turn, clock: Clock::start() };
    Router::new()
        .route("/api/v1/runs", get(list).post(begin))
        .route("/api/v1/runs/last", get(show_last))
        .route("/api/v1/runs/compare", get(compare))
        .route("/api/v1/runs/{name}", get(show))
        .route("/api/v1/runs/{name}/stop", post(stop))
        .with_state(handler)
}

async fn list(
    State(handler): State<RunHandler>,
    Parameters(pairs): Pairs,
) -> Answer<Box<RunsPage>> {
    handler.runs(requests::list(&pairs)?).await.map(Json)
}

async fn begin(
    State(handler): State<RunHandler>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<(StatusCode, Json<RunRow>), Refusal> {
    may_change(handler.token.as_deref(), &headers)?;
    let run = handler.order(requests::begin(&body)?).await?;
    Ok((StatusCode::CREATED, Json(run)))
}

async fn stop(
    State(handler): State<RunHandler>,
    headers: HeaderMap,
    Path(name): Path<String>,
    body: Bytes,
) -> Answer<RunPage> {
    may_change(handler.token.as_deref(), &headers)?;
    let run = handler.order(requests::stop(&name, &body)?).await?;
    handler.status(run).await.map(Json)
}

async fn show(
    State(handler): State<RunHandler>,
    Path(name): Path<String>,
    Parameters(pairs): Pairs,
) -> Answer<RunPage> {
    requests::none(&pairs)?;
    let run = handler.run(requests::name("name", &name)?).await?;
    handler.status(run).await.map(Json)
}

async fn show_last(State(handler): State<RunHandler>, Parameters(pairs): Pairs) -> Answer<RunPage> {
    requests::none(&pairs)?;
    let newest = handler.runs(RunsQuery { limit: 1, ..RunsQuery::default() }).await?;
    let none = "no runs yet; POST /api/v1/runs or `plimsoll run` starts one";
    let run = newest.runs.into_iter().next().ok_or_else(|| Refusal::not_found(none))?;
    handler.status(run).await.map(Json)
}

async fn compare(
    State(handler): State<RunHandler>,
    Parameters(pairs): Pairs,
) -> Answer<Comparison> {
    handler.comparison(requests::comparison(&pairs)?).await.map(Json)
}

impl RunHandler {
    async fn runs(&self, query: RunsQuery) -> Result<Box<RunsPage>, Refusal> {
        self.queries.send(|answer| Query::Runs(query, answer)).await
    }

    /// The run of this name, if there is one.
    async fn find(&self, name: &RunName) -> Result<Option<RunRow>, Refusal> {
        let query = RunsQuery { name: Some(name.clone()), ..RunsQuery::default() };
        Ok(self.runs(query).await?.runs.into_iter().next())
    }

    /// The run of this name; one that is unknown is answered with those of similar names.
    async fn run(&self, name: RunName) -> Result<RunRow, Refusal> {
        match self.find(&name).await? {
            Some(run) => Ok(run),
            None => Err(self.unknown(name).await?),
        }
    }

    async fn unknown(&self, name: RunName) -> Result<Refusal, Refusal> {
        let all = self.runs(RunsQuery::default()).await?.runs;
        let hint = near(name.as_str(), all.iter().map(|run| run.name.to_string()));
        Ok(Refusal::not_found(format!("{}{hint}", RunError::Unknown(name))))
    }

    async fn order(&self, order: RunCommand) -> Result<RunRow, Refusal> {
        match self.queries.send(|answer| Query::RunOrder(order, answer)).await? {
            Ok(run) => Ok(run),
            // A client that got no answer to its first attempt sends another one.
            Err(RunError::Ended(name)) => self.run(name).await,
            Err(RunError::Unknown(name)) => Err(self.unknown(name).await?),
            Err(error @ RunError::Operator(_)) => Err(Refusal::bad(error.to_string())),
            Err(error) => Err(Refusal(StatusCode::CONFLICT, error.to_string())),
        }
    }
}
