//! Captured profiles over HTTP: ordered with the token, listed, and shown in each of their forms.
//! What takes time is computed off the driver's thread, for one request at a time.
//!
//! DESIGN A184.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Path, Query as Parameters, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use plimsoll_clock::Clock;
use plimsoll_profile::flame::{self, FlameGraph};
use plimsoll_profile::{ThreadState, folded, subtract, svg};
use plimsoll_runtime::token::Token;
use plimsoll_schemas::ids::{Labels, NodeName, Operation};
use plimsoll_schemas::summary::{ProfileRow, ProfileState, ProfilesPage};
use plimsoll_schemas::time::Wall;
use plimsoll_schemas::wire::capture::{CaptureId, ProcessSelector};
use serde::Deserialize;
use tokio::sync::Mutex as Turn;

use super::alerts::may_change;
use super::parameters::{BadRequest, Pairs, count, name, one_of, optional_name, pick, read, value};
use super::query::{ProfileSource, Query, QuerySender};
use super::refusal::{Answer, Refusal, computed, near};
use crate::core::captures::{CaptureCommand, CaptureError};
use crate::io::profiles::{ProfileError, ProfileStore};
use crate::limits::captures::PAGE_MAX;

/// Profiles of a page without `limit`.
const LISTED: usize = 100;

#[derive(Clone)]
struct ProfileHandler {
    queries: QuerySender,
    /// The token that changes need; without one, changes are rejected.
    token: Option<Arc<Token>>,
    /// Of requests that decode profiles.
    turn: Arc<Turn<()>>,
    clock: Clock,
}

/// A capture to order: of the process with this number, or of the one that sends this operation
/// with these labels.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "ProfileRequest"))]
#[serde(deny_unknown_fields)]
pub(super) struct ProfileBody {
    /// The node.
    node: String,
    /// The number of the process.
    pid: Option<u32>,
    /// What it sends.
    operation: Option<String>,
    /// Labels that its samples have.
    #[serde(default)]
    labels: Labels,
    /// Its length, by default 10.
    seconds: Option<u32>,
    /// Samples a second, by default 100.
    hz: Option<u32>,
}

/// Which profiles are listed.
#[derive(Debug, PartialEq, Eq)]
struct ListQuery {
    node: Option<NodeName>,
    state: Option<ProfileState>,
    limit: usize,
}

/// A picture of a profile, or of what it has more than another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PictureQuery {
    id: CaptureId,
    minus: Option<CaptureId>,
    /// Threads in this state alone.
    state: Option<ThreadState>,
}

pub(super) fn routes(queries: QuerySender, token: Option<Token>) -> Router {
    let (token, turn) = (token.map(Arc::new), Arc::default());
    Router::new()
        .route("/api/v1/profiles", get(list).post(order))
        .route("/api/v1/profiles/{id}", get(show))
        .route("/api/v1/profiles/{id}/pprof", get(show_pprof))
        .route("/api/v1/profiles/{id}/folded", get(show_folded))
        .route("/api/v1/profiles/{id}/svg", get(show_svg))
        .route("/api/v1/profiles/{id}/flame.json", get(show_flame))
        .with_state(ProfileHandler { queries, token, turn, clock: Clock::start() })
}

async fn list(
    State(handler): State<ProfileHandler>,
    Parameters(pairs): Pairs,
) -> Answer<ProfilesPage> {
    let query = list_query(&pairs)?;
    let ProfileSource { mesh, rows, store } = handler.source().await?;
    Ok(Json(ProfilesPage { mesh: mesh.to_string(), profiles: query.select(rows, store.as_ref()) }))
}

async fn order(
    State(handler): State<ProfileHandler>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<(StatusCode, Json<ProfileRow>), Refusal> {
    may_change(handler.token.as_deref(), &headers)?;
    let command = command(&body)?;
    match handler.queries.send(|answer| Query::Capture(command, answer)).await? {
        Ok(row) => Ok((StatusCode::CREATED, Json(row))),
        Err(CaptureError::UnknownNode(node)) => Err(handler.unknown_node(&node).await?),
        Err(error @ CaptureError::Order(_)) => Err(Refusal::bad(error.to_string())),
        Err(error) => Err(Refusal(StatusCode::CONFLICT, error.to_string())),
    }
}

async fn show(
    State(handler): State<ProfileHandler>,
    Path(id): Path<String>,
    Parameters(pairs): Pairs,
) -> Answer<ProfileRow> {
    pick::<0>(&pairs, [], "none")?;
    let id = capture_id("id", &id)?;
    let ProfileSource { rows, store, .. } = handler.source().await?;
    let kept = store.and_then(|store| store.row(id));
    let ordered = || without_profile(rows).find(|row| row.id == id.to_string());
    let found = kept.or_else(ordered).map(Json);
    found.ok_or_else(|| Refusal::not_found(ProfileError::Unknown(id).to_string()))
}

async fn show_pprof(
    State(handler): State<ProfileHandler>,
    Path(id): Path<String>,
    Parameters(pairs): Pairs,
) -> Result<Response, Refusal> {
    pick::<0>(&pairs, [], "none")?;
    let id = capture_id("id", &id)?;
    let bytes = handler.computed(move |store, now| Ok(store.bytes(now, id)?)).await?;
    Ok(download(id, "pb.gz", "application/octet-stream", bytes))
}

async fn show_folded(
    State(handler): State<ProfileHandler>,
    Path(id): Path<String>,
    Parameters(pairs): Pairs,
) -> Result<Response, Refusal> {
    let [state] = pick(&pairs, ["state"], "state")?;
    let PictureQuery { id, state, .. } = picture(&id, None, state)?;
    let folded =
        handler.computed(move |store, now| Ok(folded::write(&store.profile(now, id)?, state)));
    Ok(([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], folded.await?).into_response())
}

async fn show_svg(
    State(handler): State<ProfileHandler>,
    Path(id): Path<String>,
    Parameters(pairs): Pairs,
) -> Result<Response, Refusal> {
    let query = picture_query(&id, &pairs)?;
    let picture = handler.computed(move |store, now| {
        let title = title(store, query);
        Ok(svg::render(&title, &graph(store, now, query)?))
    });
    // As a file: a picture with a script is not to run as a page of this origin.
    Ok(download(query.id, "svg", "image/svg+xml", picture.await?.into_bytes()))
}

async fn show_flame(
    State(handler): State<ProfileHandler>,
    Path(id): Path<String>,
    Parameters(pairs): Pairs,
) -> Result<Response, Refusal> {
    let query = picture_query(&id, &pairs)?;
    let graph = handler.computed(move |store, now| graph(store, now, query));
    Ok(Json(graph.await?).into_response())
}

impl ProfileHandler {
    async fn source(&self) -> Result<ProfileSource, Refusal> {
        self.queries.send(Query::Profiles).await
    }

    /// Computed from stored profiles, one request at a time.
    async fn computed<T: Send + 'static>(
        &self,
        compute: impl FnOnce(&ProfileStore, Wall) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let store = self.source().await?.store;
        let store = store.ok_or_else(|| Refusal::not_found(CaptureError::NoStore.to_string()))?;
        let (turn, now) = (Arc::clone(&self.turn).lock_owned().await, self.clock.now().wall);
        computed(move || {
            let _turn = turn;
            compute(&store, now)
        })
        .await?
    }

    async fn unknown_node(&self, node: &NodeName) -> Result<Refusal, Refusal> {
        let (_, nodes, _) = self.queries.send(Query::Asker).await?;
        let hint = near(node.as_str(), nodes.iter().map(ToString::to_string));
        let error = CaptureError::UnknownNode(node.clone());
        Ok(Refusal::not_found(format!("{error}{hint}")))
    }
}

impl ListQuery {
    /// Newest first; what is kept replaces what was ordered.
    fn select(&self, ordered: Vec<ProfileRow>, store: Option<&ProfileStore>) -> Vec<ProfileRow> {
        let kept = store.map(ProfileStore::rows).unwrap_or_default();
        let all = without_profile(ordered).chain(kept).map(|row| (row.id.clone(), row));
        let all: BTreeMap<String, ProfileRow> = all.collect();

        let wanted = |row: &ProfileRow| {
            self.node.as_ref().is_none_or(|node| *node == row.node)
                && self.state.is_none_or(|state| state == row.state)
        };
        let mut rows: Vec<_> = all.into_values().filter(wanted).collect();
        rows.sort_by(|a, b| b.start_seconds.total_cmp(&a.start_seconds).then(a.node.cmp(&b.node)));
        rows.truncate(self.limit);
        rows
    }
}

/// An ordered one that is not in the store any more has no profile.
fn without_profile(ordered: Vec<ProfileRow>) -> impl Iterator<Item = ProfileRow> {
    ordered.into_iter().map(|row| ProfileRow { has_profile: false, ..row })
}

fn graph(store: &ProfileStore, now: Wall, query: PictureQuery) -> Result<FlameGraph, Refusal> {
    let PictureQuery { id, minus, state } = query;
    let profile = store.profile(now, id)?;
    let Some(peer) = minus else { return Ok(flame::of_profile(&profile, state)) };
    let difference = subtract(&profile, &store.profile(now, peer)?, state);
    Ok(flame::of_difference(&difference.map_err(ProfileError::from)?))
}

fn title(store: &ProfileStore, PictureQuery { id, minus, .. }: PictureQuery) -> String {
    let node = |id| store.row(id).map(|row| row.node.to_string()).unwrap_or_default();
    match minus {
        None => format!("{}, profile {id}", node(id)),
        Some(peer) => format!("{} minus {}, profiles {id} and {peer}", node(id), node(peer)),
    }
}

fn download(id: CaptureId, ending: &str, media_type: &'static str, bytes: Vec<u8>) -> Response {
    let disposition = format!("attachment; filename=\"{id}.{ending}\"");
    let headers =
        [(header::CONTENT_TYPE, media_type.to_owned()), (header::CONTENT_DISPOSITION, disposition)];
    (headers, bytes).into_response()
}

fn command(body: &[u8]) -> Result<CaptureCommand, BadRequest> {
    let ProfileBody { node, pid, operation, labels, seconds, hz } = read(body)?;
    let operation = operation.map(|text| name::<Operation>("operation", &text)).transpose()?;
    let process = ProcessSelector { pid, operation, labels };
    Ok(CaptureCommand { node: name("node", &node)?, process, seconds, hz })
}

fn list_query(pairs: &[(String, String)]) -> Result<ListQuery, BadRequest> {
    let [node, state, limit] = pick(pairs, ["node", "state", "limit"], "node, state and limit")?;
    Ok(ListQuery {
        node: optional_name("node", node)?,
        state: one_of("state", state, ProfileState::ALL, ProfileState::as_str)?,
        limit: count("limit", limit, LISTED, PAGE_MAX)?,
    })
}

fn picture_query(id: &str, pairs: &[(String, String)]) -> Result<PictureQuery, BadRequest> {
    let [minus, state] = pick(pairs, ["minus", "state"], "minus and state")?;
    picture(id, minus, state)
}

fn picture(id: &str, minus: Option<&str>, state: Option<&str>) -> Result<PictureQuery, BadRequest> {
    Ok(PictureQuery {
        id: capture_id("id", id)?,
        minus: minus.map(|text| capture_id("minus", text)).transpose()?,
        state: one_of("state", state, ThreadState::ALL, ThreadState::as_str)?,
    })
}

fn capture_id(key: &'static str, text: &str) -> Result<CaptureId, BadRequest> {
    text.parse().map_err(|error: plimsoll_schemas::wire::capture::CaptureIdError| {
        value(key, text, &format!("the id of a profile: {error}"))
    })
}

impl From<ProfileError> for Refusal {
    fn from(error: ProfileError) -> Self {
        match error {
            ProfileError::Unknown(_) => Self::not_found(error.to_string()),
            ProfileError::Damaged { .. } => Self::failed(error.to_string()),
            ProfileError::SameProcess { .. } | ProfileError::Subtract(_) => {
                Self::bad(error.to_string())
            }
        }
    }
}

#[cfg(test)]
mod tests;
