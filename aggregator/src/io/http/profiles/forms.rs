//! The forms of a profile that is kept: pprof, picture, tree, ranking, trace, and the difference of
//! two.

use axum::Json;
use axum::extract::{Path, Query as Parameters, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use flate2::Compression;
use plimsoll_profile::flame::{self, Detail, FlameGraph};
use plimsoll_profile::pprof::{self, PprofError};
use plimsoll_profile::{Profile, Redaction, Redactor, html, subtract, summary, svg};
use plimsoll_schemas::summary::ProfileRow;
use plimsoll_schemas::time::Wall;
use plimsoll_schemas::wire::capture::{CaptureId, CaptureKind};
use serde::Serialize;
use serde_json::Value;

use super::ProfileHandler;
use super::requests::{self, CompareQuery, PictureQuery, profile_ref};
use crate::io::http::accept;
use crate::io::http::pages::compressed;
use crate::io::http::parameters::{Pairs, pick, take_all};
use crate::io::http::refusal::{Answer, Refusal};
use crate::io::profiles::{ProfileError, ProfileRef, ProfileStore};

/// What B has more than A.
#[derive(Debug, Serialize)]
pub(super) struct Compared {
    a: ProfileRow,
    b: ProfileRow,
    #[serde(flatten)]
    ranked: Value,
    flame: FlameGraph,
}

pub(super) async fn show_pprof(
    State(handler): State<ProfileHandler>,
    Path(id): Path<String>,
    Parameters(pairs): Pairs,
) -> Result<Response, Refusal> {
    let [redact] = pick(&pairs, ["redact"], "redact")?;
    let (of, redaction) = (profile_ref("id", &id)?, requests::redaction(redact)?);
    let found = handler.computed(move |store, now| {
        let ProfileRow { id, kind, .. } = store.find(&of)?;
        if redaction.is_some() {
            let encoded = pprof::encode(&Profiles::new(store, now, redaction).profile(&of)?);
            let damaged = |error: PprofError| ProfileError::Damaged { id, why: error.to_string() };
            return encoded.map(|bytes| (id, bytes)).map_err(damaged);
        }
        if kind == CaptureKind::Trace {
            return Err(ProfileError::Trace(id));
        }
        Ok((id, store.bytes(now, id)?))
    });
    let (id, bytes) = found.await?;
    Ok(download(id, "pb.gz", "application/octet-stream", bytes))
}

pub(super) async fn show_trace(
    State(handler): State<ProfileHandler>,
    Path(id): Path<String>,
    Parameters(pairs): Pairs,
) -> Result<Response, Refusal> {
    pick::<0>(&pairs, [], "none: leave it out")?;
    let of = profile_ref("id", &id)?;
    let found = handler.computed(move |store, now| {
        let ProfileRow { id, kind, .. } = store.find(&of)?;
        if kind != CaptureKind::Trace {
            return Err(ProfileError::NoTrace(id));
        }
        Ok((id, store.bytes(now, id)?))
    });
    let (id, bytes) = found.await?;
    Ok(download(id, "trace.json.gz", "application/gzip", bytes))
}

pub(super) async fn show_svg(
    State(handler): State<ProfileHandler>,
    Path(id): Path<String>,
    Parameters(pairs): Pairs,
) -> Result<Response, Refusal> {
    let query = requests::picture(&id, &pairs)?;
    let drawn = handler.computed(move |store, now| {
        let title = title(store, &query)?;
        let graph = graph(store, now, &query, Detail::PICTURE)?;
        Ok((store.find(&query.of)?.id, svg::render(&title, &graph)))
    });
    // As a file: a picture with a script is not to run as a page of this origin.
    let (id, picture) = drawn.await?;
    Ok(download(id, "svg", "image/svg+xml", picture.into_bytes()))
}

pub(super) async fn show_flame(
    State(handler): State<ProfileHandler>,
    Path(id): Path<String>,
    Parameters(pairs): Pairs,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let (forms, pairs) = take_all(&pairs, "form");
    let has_columns = requests::has_columns(&forms)?;
    let query = requests::picture(&id, &pairs)?;
    let takes_gzip = accept::takes_gzip(&headers);

    let written = handler.computed(move |store, now| {
        let tree = graph(store, now, &query, Detail::WHOLE)?;
        let json = match has_columns {
            true => html::columns(&tree).into_bytes(),
            // Cannot fail: names and numbers always have a text, and memory takes it.
            false => serde_json::to_vec(&tree).expect("names and numbers are texts"),
        };
        // Of 50 000 functions 7 MB, and a tenth compressed.
        Ok(if takes_gzip { compressed(&json, Compression::fast()) } else { json.into() })
    });

    let headers = [(header::CONTENT_TYPE, "application/json"), (header::VARY, "accept-encoding")];
    let mut response = (headers, written.await?).into_response();
    if takes_gzip {
        let gzip = HeaderValue::from_static("gzip");
        response.headers_mut().insert(header::CONTENT_ENCODING, gzip);
    }
    Ok(response)
}

pub(super) async fn show_top(
    State(handler): State<ProfileHandler>,
    Path(id): Path<String>,
    Parameters(pairs): Pairs,
) -> Answer<Value> {
    let known = "n, state and redact";
    let [n, state, redact] = pick(&pairs, ["n", "state", "redact"], known)?;
    let (of, n) = (profile_ref("id", &id)?, requests::functions(n)?);
    let (state, redaction) = (requests::state(state)?, requests::redaction(redact)?);
    let ranked = handler.computed(move |store, now| {
        let id = store.find(&of)?.id.to_string();
        let profile = Profiles::new(store, now, redaction).profile(&of)?;
        Ok(summary::of_profile(&id, &profile, state, n))
    });
    Ok(Json(ranked.await?))
}

pub(super) async fn compare(
    State(handler): State<ProfileHandler>,
    Parameters(pairs): Pairs,
) -> Answer<Compared> {
    let query = requests::comparison(&pairs)?;
    Ok(Json(handler.computed(move |store, now| compared(store, now, &query)).await?))
}

fn compared(
    store: &ProfileStore,
    now: Wall,
    query: &CompareQuery,
) -> Result<Compared, ProfileError> {
    let (a, b) = (store.find(&query.a)?, store.find(&query.b)?);
    let (of_a, of_b) = (store.profile(now, a.id)?, store.profile(now, b.id)?);
    let difference = subtract(&of_b, &of_a, query.state)?;
    let flame = flame::detailed_difference(&difference, Detail::WHOLE);

    let ranked = summary::of_difference(&difference, query.functions);
    Ok(Compared { a, b, ranked, flame })
}

fn graph(
    store: &ProfileStore,
    now: Wall,
    query: &PictureQuery,
    detail: Detail,
) -> Result<FlameGraph, ProfileError> {
    let mut profiles = Profiles::new(store, now, query.redaction);
    let own = profiles.profile(&query.of)?;
    let Some(minus) = &query.minus else { return Ok(flame::detailed(&own, query.state, detail)) };
    let difference = subtract(&own, &profiles.profile(minus)?, query.state)?;
    Ok(flame::detailed_difference(&difference, detail))
}

/// The profiles of one answer, in all of which a name has the same pseudonym.
struct Profiles<'a> {
    store: &'a ProfileStore,
    now: Wall,
    redactor: Option<Redactor>,
}

impl<'a> Profiles<'a> {
    fn new(store: &'a ProfileStore, now: Wall, redaction: Option<Redaction>) -> Self {
        Self { store, now, redactor: redaction.map(Redactor::new) }
    }

    fn profile(&mut self, of: &ProfileRef) -> Result<Profile, ProfileError> {
        let profile = self.store.profile(self.now, self.store.find(of)?.id)?;
        Ok(match &mut self.redactor {
            Some(redactor) => redactor.redacted(&profile),
            None => profile,
        })
    }
}

/// The nodes and ids, or without their names the ids alone, and which threads.
fn title(store: &ProfileStore, query: &PictureQuery) -> Result<String, ProfileError> {
    let named = |of| -> Result<String, ProfileError> {
        let row = store.find(of)?;
        Ok(match query.redaction {
            Some(_) => format!("profile {}", row.id),
            None => format!("{}, profile {}", row.subject(), row.id),
        })
    };
    let state = query.state.map(|state| format!(", {} threads", state.as_str()));
    let own = named(&query.of)? + &state.unwrap_or_default();
    let Some(minus) = &query.minus else { return Ok(own) };
    Ok(format!("{own} minus {}", named(minus)?))
}

fn download(id: CaptureId, ending: &str, media_type: &'static str, bytes: Vec<u8>) -> Response {
    let disposition = format!("attachment; filename=\"{id}.{ending}\"");
    let headers =
        [(header::CONTENT_TYPE, media_type.to_owned()), (header::CONTENT_DISPOSITION, disposition)];
    (headers, bytes).into_response()
}
