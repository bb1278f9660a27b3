//! OTLP over HTTP: `POST /v1/metrics` and `POST /v1/traces`, answered in the request's encoding.

use crate::limits::{OTLP_BODY_BYTES_MAX, OTLP_RETRY_SECONDS};
use axum::Router;
use axum::body::{Body, HttpBody};
use axum::extract::State;
use axum::http::{HeaderMap, Request, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;

use super::answer;
use super::body::{CompleteBody, Compression, PartialBody, read};
use super::budget::RequestRecord;
use super::inbox::Inbox;
use super::refusal::Refusal;
use super::stats::{RequestOutcome, RequestSource};
use crate::core::intake::otlp::{Encoding, Signal};

const PROTOBUF: &str = "application/x-protobuf";
const JSON: &str = "application/json";

pub(super) fn routes(inbox: Inbox) -> Router {
    let take = |signal| {
        post(async move |State(inbox): State<Inbox>, request: Request<Body>| {
            on_export(&inbox, signal, request).await
        })
    };
    Router::new()
        .route("/v1/metrics", take(Signal::Metrics))
        .route("/v1/traces", take(Signal::Traces))
        .method_not_allowed_fallback(async |State(inbox): State<Inbox>, headers: HeaderMap| {
            on_stray(&inbox, &headers, &Refusal::Method)
        })
        .fallback(async |State(inbox): State<Inbox>, headers: HeaderMap| {
            on_stray(&inbox, &headers, &Refusal::Unknown)
        })
        .with_state(inbox)
}

async fn on_export(inbox: &Inbox, signal: Signal, request: Request<Body>) -> Response {
    let mut record = inbox.budget.begin(RequestSource::of("http", Some(signal)));
    let encoding = encoding(request.headers());

    let outcome = match encoding {
        Some(encoding) => inbox.post(signal, encoding, take(&record, request).await).await,
        None => Err(Refusal::ContentType),
    };

    let encoding = encoding.unwrap_or(Encoding::Json);
    record.on_end(RequestOutcome::of(&outcome));

    match outcome {
        Ok(outcome) => {
            let body = answer::exported(signal, encoding, &outcome);
            ([(header::CONTENT_TYPE, content_type(encoding))], body).into_response()
        }
        Err(refusal) => refuse(encoding, &refusal),
    }
}

async fn take(record: &RequestRecord, request: Request<Body>) -> Result<CompleteBody, Refusal> {
    let compression = request.headers().get(header::CONTENT_ENCODING);
    let compression = Compression::named(compression.map_or(b"", |name| name.as_bytes()))?;
    let body = request.into_body();
    if body.size_hint().lower() > OTLP_BODY_BYTES_MAX as u64 {
        return Err(Refusal::TooLarge);
    }
    // Only now: a request that is refused by its head alone takes no memory from others.
    let mut coming = PartialBody::new(record.reserve()?, compression)?;
    read(body, |part| coming.on_part(part)).await?;
    coming.on_end()
}

/// A request for what there is not.
fn on_stray(inbox: &Inbox, headers: &HeaderMap, refusal: &Refusal) -> Response {
    inbox.on_stray("http", refusal);
    refuse(encoding(headers).unwrap_or(Encoding::Json), refusal)
}

fn refuse(encoding: Encoding, refusal: &Refusal) -> Response {
    let body = answer::refused(encoding, refusal);
    let headers = [(header::CONTENT_TYPE, content_type(encoding))];
    let mut response = (refusal.status(), headers, body).into_response();
    if refusal.is_passing() {
        response.headers_mut().insert(header::RETRY_AFTER, OTLP_RETRY_SECONDS.into());
    }
    response
}

fn encoding(headers: &HeaderMap) -> Option<Encoding> {
    let content_type = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    match content_type.split(';').next()?.trim() {
        named if named.eq_ignore_ascii_case(PROTOBUF) => Some(Encoding::Protobuf),
        named if named.eq_ignore_ascii_case(JSON) => Some(Encoding::Json),
        _ => None,
    }
}

fn content_type(encoding: Encoding) -> &'static str {
    match encoding {
        Encoding::Protobuf => PROTOBUF,
        Encoding::Json => JSON,
    }
}
