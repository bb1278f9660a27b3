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
use plimsoll_profile::{subtract, svg};
use plimsoll_runtime::token::Token;
use plimsoll_schemas::ids::NodeName;
use plimsoll_schemas::summary::{ProfileRequest, ProfileRow, ProfilesPage};
use plimsoll_schemas::time::Wall;
use plimsoll_schemas::wire::capture::{CaptureId, CaptureIdError};
use tokio::sync::Mutex as Turn;

use super::alerts::may_change;
use super::parameters::{BadRequest, Pairs, count, optional_name, pick, read, value};
use super::query::{ProfileSource, Query, QuerySender};
use super::refusal::{Answer, Refusal, computed};
use crate::core::captures::CaptureError;
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

/// A picture of a profile, or of what it has more than another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PictureQuery {
    id: CaptureId,
    minus: Option<CaptureId>,
}

pub(super) fn routes(queries: QuerySender, token: Option<Token>) -> Router {
    let (token, turn) = (token.map(Arc::new), Arc::default());
    Router::new()
        .route("/api/v1/profiles", get(list).post(order))
        .route("/api/v1/profiles/{id}", get(show))
        .route("/api/v1/profiles/{id}/pprof", get(show_pprof))
        .route("/api/v1/profiles/{id}/svg", get(show_svg))
        .route("/api/v1/profiles/{id}/flame.json", get(show_flame))
        .with_state(ProfileHandler { queries, token, turn, clock: Clock::start() })
}

async fn list(
    State(handler): State<ProfileHandler>,
    Parameters(pairs): Pairs,
) -> Answer<ProfilesPage> {
    let [node, limit] = pick(&pairs, ["node", "limit"], "node and limit")?;
    let node: Option<NodeName> = optional_name("node", node)?;
    let limit = count("limit", limit, LISTED, PAGE_MAX)?;
    let ProfileSource { mesh, rows, store } = handler.source().await?;
    // What is kept replaces what was ordered.
    let kept = store.map(|store| store.rows()).unwrap_or_default();
    let all: BTreeMap<CaptureId, ProfileRow> =
        rows.into_iter().chain(kept).map(|row| (row.id, row)).collect();

    let wanted = |row: &ProfileRow| node.as_ref().is_none_or(|node| *node == row.node);
    let mut profiles: Vec<ProfileRow> = all.into_values().filter(wanted).collect();
    profiles.sort_by(|a, b| b.start_seconds.total_cmp(&a.start_seconds).then(a.node.cmp(&b.node)));
    profiles.truncate(limit);
    Ok(Json(ProfilesPage { mesh: mesh.to_string(), profiles }))
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

async fn show(
    State(handler): State<ProfileHandler>,
    Path(id): Path<String>,
    Parameters(pairs): Pairs,
) -> Answer<ProfileRow> {
    pick::<0>(&pairs, [], "none")?;
    let id = capture_id("id", &id)?;
    let ProfileSource { rows, store, .. } = handler.source().await?;
    let kept = store.and_then(|store| store.row(id));
    let found = kept.or_else(|| rows.into_iter().find(|row| row.id == id));
    Ok(Json(found.ok_or(ProfileError::Unknown(id))?))
}

async fn show_pprof(
    State(handler): State<ProfileHandler>,
    Path(id): Path<String>,
    Parameters(pairs): Pairs,
) -> Result<Response, Refusal> {
    pick::<0>(&pairs, [], "none")?;
    let id = capture_id("id", &id)?;
    let bytes = handler.computed(move |store, now| store.bytes(now, id)).await?;
    Ok(download(id, "pb.gz", "application/octet-stream", bytes))
}

async fn show_svg(
    State(handler): State<ProfileHandler>,
    Path(id): Path<String>,
    Parameters(pairs): Pairs,
) -> Result<Response, Refusal> {
    let query = picture_query(&id, &pairs)?;
    let picture = handler.computed(move |store, now| {
        let node = |id| store.row(id).map(|row| row.node.to_string()).unwrap_or_default();
        let minus = query.minus.map(|id| format!(" minus {}, profile {id}", node(id)));
        let title =
            format!("{}, profile {}", node(query.id), query.id) + &minus.unwrap_or_default();
        Ok(svg::render(&title, &graph(store, now, query)?))
    });
    // As a file: a picture with a script is not to run as a page of this origin.
    Ok(download(query.id, "svg", "image/svg+xml", picture.await?.into_bytes()))
}

async fn show_flame(
    State(handler): State<ProfileHandler>,
    Path(id): Path<String>,
    Parameters(pairs): Pairs,
) -> Answer<FlameGraph> {
    let query = picture_query(&id, &pairs)?;
    Ok(Json(handler.computed(move |store, now| graph(store, now, query)).await?))
}

impl ProfileHandler {
    async fn source(&self) -> Result<ProfileSource, Refusal> {
        self.queries.send(Query::Profiles).await
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

fn graph(
    store: &ProfileStore,
    now: Wall,
    PictureQuery { id, minus }: PictureQuery,
) -> Result<FlameGraph, ProfileError> {
    let profile = store.profile(now, id)?;
    let Some(peer) = minus else { return Ok(flame::of_profile(&profile, None)) };
    Ok(flame::of_difference(&subtract(&profile, &store.profile(now, peer)?, None)?))
}

fn download(id: CaptureId, ending: &str, media_type: &'static str, bytes: Vec<u8>) -> Response {
    let disposition = format!("attachment; filename=\"{id}.{ending}\"");
    let headers =
        [(header::CONTENT_TYPE, media_type.to_owned()), (header::CONTENT_DISPOSITION, disposition)];
    (headers, bytes).into_response()
}

fn picture_query(id: &str, pairs: &[(String, String)]) -> Result<PictureQuery, BadRequest> {
    let [minus] = pick(pairs, ["minus"], "minus")?;
    let minus = minus.map(|text| capture_id("minus", text)).transpose()?;
    Ok(PictureQuery { id: capture_id("id", id)?, minus })
}

fn capture_id(key: &'static str, text: &str) -> Result<CaptureId, BadRequest> {
    text.parse()
        .map_err(|error: CaptureIdError| value(key, text, &format!("the id of a profile: {error}")))
}

impl From<CaptureError> for Refusal {
    fn from(error: CaptureError) -> Self {
        let status = match error {
            CaptureError::UnknownNode(_) => StatusCode::NOT_FOUND,
            CaptureError::Order(_) => StatusCode::BAD_REQUEST,
            CaptureError::NoKey | CaptureError::NoStore | CaptureError::Full => {
                StatusCode::CONFLICT
            }
        };
        Self(status, error.to_string())
    }
}

impl From<ProfileError> for Refusal {
    fn from(error: ProfileError) -> Self {
        let status = match error {
            ProfileError::Unknown(_) => StatusCode::NOT_FOUND,
            ProfileError::Damaged { .. } => StatusCode::INTERNAL_SERVER_ERROR,
            ProfileError::SameProcess { .. } | ProfileError::Subtract(_) => StatusCode::BAD_REQUEST,
        };
        Self(status, error.to_string())
    }
}

#[cfg(test)]
mod tests;
