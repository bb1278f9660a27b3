//! Runs over HTTP: begun and stopped with the token, listed, shown with the latencies of their own
//! window, and compared. What takes time is computed off the driver's thread, for one request at a
//! time.
//!
//! DESIGN A81, A82.

mod comparison;
mod requests;
mod status;

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Path, Query as Parameters, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use plimsoll_clock::Clock;
use plimsoll_schemas::ids::RunName;
use plimsoll_schemas::summary::{RunRow, RunsPage};
use tokio::sync::Mutex as Turn;

use super::alerts::may_change;
use super::history::{HistoryHandler, Refusal};
use super::near::near;
use super::orders::BadRequest;
use super::query::{Query, QuerySender};
use crate::core::runs::{RunCommand, RunError, RunsQuery};
use plimsoll_runtime::token::Token;

type Pairs = Parameters<Vec<(String, String)>>;

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

/// The routes about runs.
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

async fn list(State(handler): State<RunHandler>, Parameters(pairs): Pairs) -> Response {
    let page = async { handler.runs(requests::list(&pairs)?).await };
    answer(page.await.map(Json))
}

async fn begin(State(handler): State<RunHandler>, headers: HeaderMap, body: Bytes) -> Response {
    handler.order(&headers, StatusCode::CREATED, || requests::begin(&body)).await
}

async fn stop(
    State(handler): State<RunHandler>,
    headers: HeaderMap,
    Path(name): Path<String>,
    body: Bytes,
) -> Response {
    handler.order(&headers, StatusCode::OK, || requests::stop(&name, &body)).await
}

async fn show(
    State(handler): State<RunHandler>,
    Path(name): Path<String>,
    Parameters(pairs): Pairs,
) -> Response {
    let page = async {
        requests::none(&pairs)?;
        handler.status(handler.run(requests::name("name", &name)?).await?).await
    };
    answer(page.await.map(Json))
}

async fn show_last(State(handler): State<RunHandler>, Parameters(pairs): Pairs) -> Response {
    let page = async {
        requests::none(&pairs)?;
        let newest = handler.runs(RunsQuery { limit: 1, ..RunsQuery::default() }).await?;
        let run = newest.runs.into_iter().next();
        let none = "no runs yet; POST /api/v1/runs or `plimsoll run` starts one";
        let run = run.ok_or_else(|| Refusal(StatusCode::NOT_FOUND, none.to_owned()))?;
        handler.status(run).await
    };
    answer(page.await.map(Json))
}

async fn compare(State(handler): State<RunHandler>, Parameters(pairs): Pairs) -> Response {
    let comparison = async { handler.comparison(requests::comparison(&pairs)?).await };
    answer(comparison.await.map(Json))
}

fn answer(result: Result<impl IntoResponse, Refusal>) -> Response {
    result.map_or_else(IntoResponse::into_response, IntoResponse::into_response)
}

impl RunHandler {
    async fn runs(&self, query: RunsQuery) -> Result<Box<RunsPage>, Refusal> {
        let page = self.queries.send(|answer| Query::Runs(query, answer)).await;
        page.ok_or_else(Refusal::ending)
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
        let error = format!("{}{hint}", RunError::Unknown(name));
        Ok(Refusal(StatusCode::NOT_FOUND, error))
    }

    /// Carries out a change if the client shows the token.
    async fn order(
        &self,
        headers: &HeaderMap,
        done: StatusCode,
        order: impl FnOnce() -> Result<RunCommand, BadRequest>,
    ) -> Response {
        if let Err(response) = may_change(self.token.as_deref(), headers) {
            return *response;
        }
        answer(self.carry_out(order).await.map(|run| (done, Json(run))))
    }

    async fn carry_out(
        &self,
        order: impl FnOnce() -> Result<RunCommand, BadRequest>,
    ) -> Result<RunRow, Refusal> {
        let order = order()?;
        let carried_out = self.queries.send(|answer| Query::RunOrder(order, answer)).await;
        match carried_out.ok_or_else(Refusal::ending)? {
            Ok(run) => Ok(run),
            Err(RunError::Unknown(name)) => Err(self.unknown(name).await?),
            Err(error @ RunError::Operator(_)) => {
                Err(Refusal(StatusCode::BAD_REQUEST, error.to_string()))
            }
            Err(error) => Err(Refusal(StatusCode::CONFLICT, error.to_string())),
        }
    }
}

impl From<BadRequest> for Refusal {
    fn from(error: BadRequest) -> Self {
        Self(StatusCode::BAD_REQUEST, error.to_string())
    }
}
