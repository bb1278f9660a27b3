//! OTLP over gRPC: the unary `Export` of the metrics and of the trace service. Reflection, health
//! checks, logs and streaming are answered as unimplemented.

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use http_body_util::{BodyExt, Full};

use super::answer;
use super::body::{CompleteBody, Compression, read};
use super::budget::RequestRecord;
use super::framing::Framed;
use super::inbox::Inbox;
use super::refusal::Refusal;
use super::stats::{RequestOutcome, RequestSource};
use crate::core::intake::otlp::{Encoding, Signal};

const METRICS: &str = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export";
const TRACES: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";

const CONTENT_TYPE: &str = "application/grpc";
const ENCODING: &str = "grpc-encoding";
const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const ACCEPTED: HeaderName = HeaderName::from_static("grpc-accept-encoding");

pub(super) fn routes(inbox: Inbox) -> Router {
    let take = |signal| {
        post(async move |State(inbox): State<Inbox>, request: Request<Body>| {
            on_export(&inbox, signal, request).await
        })
    };
    Router::new()
        .route(METRICS, take(Signal::Metrics))
        .route(TRACES, take(Signal::Traces))
        .fallback(on_stray)
        .with_state(inbox)
}

async fn on_export(inbox: &Inbox, signal: Signal, request: Request<Body>) -> Response {
    let mut record = inbox.budget.begin(RequestSource::of("grpc", Some(signal)));
    if !is_grpc(request.headers()) {
        record.on_end(RequestOutcome::Refused(Refusal::ContentType.as_str()));
        return StatusCode::UNSUPPORTED_MEDIA_TYPE.into_response();
    }
    let body = take(&record, request).await;
    let outcome = inbox.post(signal, Encoding::Protobuf, body).await;
    record.on_end(RequestOutcome::of(&outcome));
    match outcome {
        Ok(outcome) => taken(&answer::exported(signal, Encoding::Protobuf, &outcome)),
        Err(refusal) => refuse(&refusal),
    }
}

async fn take(record: &RequestRecord, request: Request<Body>) -> Result<CompleteBody, Refusal> {
    let compression = request.headers().get(ENCODING);
    let compression = Compression::named(compression.map_or(b"", HeaderValue::as_bytes))?;
    let mut framed = Framed::new(record.reserve()?, compression);
    read(request.into_body(), |part| framed.on_part(part)).await?;
    framed.on_end()
}

async fn on_stray(State(inbox): State<Inbox>) -> Response {
    inbox.on_stray("grpc", &Refusal::Unknown);
    refuse(&Refusal::Unknown)
}

fn is_grpc(headers: &HeaderMap) -> bool {
    let stated = headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    let rest = stated.and_then(|stated| stated.strip_prefix(CONTENT_TYPE.as_bytes()));
    matches!(rest, Some([] | [b';', ..] | b"+proto"))
}

/// The message and, after it, that all is well.
fn taken(message: &[u8]) -> Response {
    let length = u32::try_from(message.len()).unwrap_or_default();
    let framed = [&[0], &length.to_be_bytes()[..], message].concat();
    let trailers = HeaderMap::from_iter([(STATUS, HeaderValue::from_static("0"))]);
    let body = Full::new(Bytes::from(framed)).with_trailers(async { Some(Ok(trailers)) });
    ([(header::CONTENT_TYPE, CONTENT_TYPE)], Body::new(body)).into_response()
}

/// A response without message: its trailers are in the head.
fn refuse(refusal: &Refusal) -> Response {
    let headers = [
        (header::CONTENT_TYPE, CONTENT_TYPE.to_owned()),
        (STATUS, refusal.code().to_string()),
        (MESSAGE, percent_encoded(&refusal.words())),
        (ACCEPTED, "identity,gzip".to_owned()),
    ];
    (headers, Body::empty()).into_response()
}

/// What a header cannot hold, and `%`, as gRPC escapes it.
fn percent_encoded(words: &str) -> String {
    let mut encoded = String::with_capacity(words.len());
    for byte in words.bytes() {
        match byte {
            b' '..=b'~' if byte != b'%' => encoded.push(byte.into()),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_travels_in_printable_ascii() {
        assert_eq!(percent_encoded("50% of \"ä\"\n"), "50%25 of \"%C3%A4\"%0A");
    }
}
