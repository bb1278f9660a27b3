//! Captured profiles over HTTP: ordered, stopped and named with the token, listed, and shown in
//! each of their forms.
//! What takes time is computed off the driver's thread, for one request at a time.
//!
//! DESIGN A184.

mod forms;
mod requests;

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Path, Query as Parameters, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{get, post};
use axum::{Json, Router};
use plimsoll_clock::Clock;
use plimsoll_runtime::token::Token;
use plimsoll_schemas::ids::{ProfileName, RunName};
use plimsoll_schemas::summary::{ProfileRequest, ProfileRow, ProfilesPage};
use plimsoll_schemas::time::Wall;
use plimsoll_schemas::wire::capture::CaptureId;
use tokio::sync::Mutex as Turn;

pub(super) use requests::KeepBody;
use requests::{ListQuery, Wanted};

use super::alerts::may_change;
use super::parameters::{Pairs, pick, read};
use super::query::{ProfileSource, Query, QuerySender};
use super::refusal::{Answer, Refusal, computed};
use crate::core::captures::CaptureError;
use crate::core::runs::{RunError, RunsQuery};
use crate::io::profiles::{ProfileError, ProfileRef, ProfileStore};

#[derive(Clone)]
struct ProfileHandler {
    queries: QuerySender,
    /// The token that changes need; without one, changes are rejected.
    token: Option<Arc<Token>>,
    /// Of requests that decode profiles.
    turn: Arc<Turn<()>>,
    clock: Clock,
}

pub(super) fn routes(queries: QuerySender, token: Option<Token>) -> Router {
    let (token, turn) = (token.map(Arc::new), Arc::default());
    Router::new()
        .route("/api/v1/profiles", get(list).post(order))
        .route("/api/v1/profiles/last", get(show_last))
        .route("/api/v1/profiles/compare", get(forms::compare))
        .route("/api/v1/profiles/{id}", get(show))
        .route("/api/v1/profiles/{id}/stop", post(stop))
        .route("/api/v1/profiles/{id}/keep", post(keep).delete(unkeep))
        .route("/api/v1/profiles/{id}/pprof", get(forms::show_pprof))
        .route("/api/v1/profiles/{id}/flamegraph.svg", get(forms::show_svg))
        // The name of earlier versions.
        .route("/api/v1/profiles/{id}/svg", get(forms::show_svg))
        .route("/api/v1/profiles/{id}/flame.json", get(forms::show_flame))
        .route("/api/v1/profiles/{id}/top.json", get(forms::show_top))
        .route("/api/v1/profiles/{id}/trace", get(forms::show_trace))
        .with_state(ProfileHandler { queries, token, turn, clock: Clock::start() })
}

async fn list(
    State(handler): State<ProfileHandler>,
    Parameters(pairs): Pairs,
) -> Answer<ProfilesPage> {
    let ListQuery { wanted, run, limit } = requests::list(&pairs, handler.clock.now().wall)?;
    let source = handler.source().await?;
    let mesh = source.mesh.to_string();
    let mut profiles = newest_first(source);
    if let Some(run) = run {
        let of_run = handler.of_run(run).await?;
        profiles.retain(|row| of_run.has(row));
    }
    profiles.retain(|row| wanted.has(row));
    profiles.truncate(limit);
    Ok(Json(ProfilesPage { mesh, profiles }))
}

async fn show_last(
    State(handler): State<ProfileHandler>,
    Parameters(pairs): Pairs,
) -> Answer<ProfileRow> {
    let wanted = requests::last(&pairs)?;
    let all = newest_first(handler.source().await?).into_iter();
    let newest = all.filter(|row| row.state.has_profile()).find(|row| wanted.has(row));
    let none = "no such profile is kept; GET /api/v1/profiles lists all captures";
    newest.map(Json).ok_or_else(|| Refusal::not_found(none))
}

async fn order(
    State(handler): State<ProfileHandler>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<(StatusCode, Json<ProfileRow>), Refusal> {
    may_change(handler.token.as_deref(), &headers)?;
    let request: ProfileRequest = read(&body)?;
    let ordered = handler.queries.send(|answer| Query::Capture(request, answer)).await?;
    Ok((StatusCode::CREATED, Json(ordered?)))
}

async fn stop(
    State(handler): State<ProfileHandler>,
    headers: HeaderMap,
    Path(id): Path<String>,
) -> Answer<ProfileRow> {
    may_change(handler.token.as_deref(), &headers)?;
    let id = requests::capture_id("id", &id)?;
    let stopped = handler.queries.send(|answer| Query::StopCapture(id, answer)).await?;
    let store = handler.source().await?.store;
    // What was captured before a restart is in the store alone.
    let is_kept = store.is_some_and(|store| store.row(id).is_some());
    Ok(Json(stopped.map_err(|error| match error {
        CaptureError::Unknown(id) if is_kept => CaptureError::NotRunning(id),
        error => error,
    })?))
}

async fn keep(
    State(handler): State<ProfileHandler>,
    headers: HeaderMap,
    Path(id): Path<String>,
    body: Bytes,
) -> Answer<ProfileRow> {
    may_change(handler.token.as_deref(), &headers)?;
    let KeepBody { name } = read(&body)?;
    handler.keep_as(&id, Some(name)).await.map(Json)
}

async fn unkeep(
    State(handler): State<ProfileHandler>,
    headers: HeaderMap,
    Path(id): Path<String>,
) -> Result<StatusCode, Refusal> {
    may_change(handler.token.as_deref(), &headers)?;
    handler.keep_as(&id, None).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn show(
    State(handler): State<ProfileHandler>,
    Path(id): Path<String>,
    Parameters(pairs): Pairs,
) -> Answer<ProfileRow> {
    pick::<0>(&pairs, [], "none: leave it out")?;
    let wanted = requests::profile_ref("id", &id)?;
    let ProfileSource { rows, store, .. } = handler.source().await?;
    let kept = store.and_then(|store| store.find(&wanted).ok());
    let is_wanted = |row: &ProfileRow| ProfileRef::Id(row.id) == wanted;
    let found = kept.or_else(|| rows.into_iter().find(is_wanted));
    Ok(Json(found.ok_or(ProfileError::Unknown(wanted))?))
}

/// All captures. What is kept replaces what was ordered.
fn newest_first(ProfileSource { rows, store, .. }: ProfileSource) -> Vec<ProfileRow> {
    let kept = store.map(|store| store.rows()).unwrap_or_default();
    let all: BTreeMap<CaptureId, ProfileRow> =
        rows.into_iter().chain(kept).map(|row| (row.id, row)).collect();
    let mut all: Vec<ProfileRow> = all.into_values().collect();
    all.sort_by(|a, b| b.made_at().total_cmp(&a.made_at()).then(a.node.cmp(&b.node)));
    all
}

impl ProfileHandler {
    async fn source(&self) -> Result<ProfileSource, Refusal> {
        self.queries.send(Query::Profiles).await
    }

    /// What captures of a run have: its nodes, if it names them and all are known, and its time.
    async fn of_run(&self, name: RunName) -> Result<Wanted, Refusal> {
        let query = RunsQuery { name: Some(name.clone()), ..RunsQuery::default() };
        let page = self.queries.send(|answer| Query::Runs(query, answer)).await?;
        let unknown = || Refusal::not_found(RunError::Unknown(name).to_string());
        let run = page.runs.into_iter().next().ok_or_else(unknown)?;
        let range = run.begun_seconds..run.ended_seconds.unwrap_or(f64::INFINITY);
        let has_all = !run.has_more_nodes && !run.nodes.is_empty();
        let nodes = has_all.then_some(run.nodes);
        Ok(Wanted { nodes, range: Some(range), ..Wanted::default() })
    }

    async fn keep_as(&self, id: &str, name: Option<ProfileName>) -> Result<ProfileRow, Refusal> {
        let of = requests::profile_ref("id", id)?;
        self.computed(move |store, now| store.keep_as(now, store.find(&of)?.id, name)).await
    }

    /// Computed from stored profiles, one request at a time.
    async fn computed<T: Send + 'static>(
        &self,
        compute: impl FnOnce(&ProfileStore, Wall) -> Result<T, ProfileError> + Send + 'static,
    ) -> Result<T, Refusal> {
        let store = self.source().await?.store;
        let store = store.ok_or_else(|| Refusal::not_found(CaptureError::NoStore.to_string()))?;
        let (turn, now) = (Arc::clone(&self.turn).lock_owned().await, self.clock.now().wall);
        let computed = computed(move || {
            let _turn = turn;
            compute(&store, now)
        });
        Ok(computed.await??)
    }
}

impl From<CaptureError> for Refusal {
    fn from(error: CaptureError) -> Self {
        let status = match error {
            CaptureError::UnknownNode(_) | CaptureError::Unknown(_) => StatusCode::NOT_FOUND,
            CaptureError::Nodes | CaptureError::Order(_) => StatusCode::BAD_REQUEST,
            CaptureError::NoKey
            | CaptureError::NoStore
            | CaptureError::Full(_)
            | CaptureError::NotRunning(_) => StatusCode::CONFLICT,
        };
        Self(status, error.to_string())
    }
}

impl From<ProfileError> for Refusal {
    fn from(error: ProfileError) -> Self {
        let status = match error {
            ProfileError::Unknown(_) => StatusCode::NOT_FOUND,
            ProfileError::NameTaken { .. } | ProfileError::NamesFull => StatusCode::CONFLICT,
            ProfileError::Damaged { .. } | ProfileError::NotStored(_) => {
                StatusCode::INTERNAL_SERVER_ERROR
            }
            ProfileError::SameProcess { .. }
            | ProfileError::Subtract(_)
            | ProfileError::Trace(_)
            | ProfileError::NoTrace(_) => StatusCode::BAD_REQUEST,
        };
        Self(status, error.to_string())
    }
}

#[cfg(test)]
mod tests;
