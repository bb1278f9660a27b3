//! One scrape: a connection of its own, one request, one answer, all within one deadline. Follows
//! no redirect and keeps no connection.

use std::error::Error;
use std::sync::Arc;

use crate::limits::scrape::{HEAD_BYTES_MAX, PAGE_BYTES_MAX, PAGE_BYTES_RESERVED};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper::header::{ACCEPT, CONNECTION, CONTENT_ENCODING, CONTENT_TYPE, HOST, USER_AGENT};
use hyper::{Request, Response, StatusCode, Version};
use plimsoll_runtime::client::ConnectError;
use plimsoll_runtime::http::refusal_text;
use plimsoll_schemas::remote_text::innermost;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::config::Endpoint;
use crate::core::intake::promtext::{Failure, Format, Page, ScrapeFailure};

const ACCEPTED: &str =
    "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";

/// A page and the room that it takes.
pub(super) type Brought = (Page, Option<OwnedSemaphorePermit>);

impl Endpoint {
    /// Requests the page. Its bytes are taken from `room`.
    pub(super) async fn get(&self, room: &Arc<Semaphore>) -> Result<Brought, ScrapeFailure> {
        // What is waited for when time is up.
        let mut waited = Failure::ConnectTimeout;
        let outcome = timeout(self.timeout, self.exchange(&mut waited, room)).await;
        outcome.unwrap_or_else(|_| Err(waited.into()))
    }

    async fn exchange(
        &self,
        waited: &mut Failure,
        room: &Arc<Semaphore>,
    ) -> Result<Brought, ScrapeFailure> {
        let request = Request::get(&self.path)
            .header(HOST, &self.address.authority)
            .header(ACCEPT, ACCEPTED)
            .header(CONNECTION, "close")
            .header(USER_AGENT, concat!("plimsoll-node/", env!("CARGO_PKG_VERSION")))
            .body(Full::default())
            .map_err(|_| Failure::Garbage)?;

        let connected = self.address.connect(None, HEAD_BYTES_MAX).await;
        let connection = connected.map_err(|error| match error {
            ConnectError::Http(error) => failure(&error),
            error => caused(Failure::Connect, &error),
        })?;

        *waited = Failure::AnswerTimeout;
        let answered = connection.send(request, |answer| page(answer, waited, room)).await;
        answered.map_err(|error| failure(&error))?
    }
}

async fn page(
    answer: Response<Incoming>,
    waited: &mut Failure,
    room: &Arc<Semaphore>,
) -> Result<Brought, ScrapeFailure> {
    let format = match format(&answer) {
        Ok(format) => format,
        Err(kind) => {
            *waited = kind;
            return Err(ScrapeFailure { kind, cause: refusal_text(answer).await });
        }
    };
    *waited = Failure::BodyTimeout;
    // Without a length or chunks, as in HTTP/1.0, a cut connection looks like the end (N30).
    let is_whole = answer.body().size_hint().exact().is_some()
        || answer.version() == Version::HTTP_11 && is_chunked(&answer);
    let (body, room) = read(answer.into_body(), room).await?;
    Ok((Page { format, body, is_whole }, room))
}

fn failure(error: &hyper::Error) -> ScrapeFailure {
    caused(if error.is_parse() { Failure::Garbage } else { Failure::Reset }, error)
}

fn caused(kind: Failure, error: &dyn Error) -> ScrapeFailure {
    ScrapeFailure { kind, cause: innermost(error) }
}

fn is_chunked(answer: &Response<Incoming>) -> bool {
    answer.headers().contains_key(hyper::header::TRANSFER_ENCODING)
}

/// The format that an answer is in. Prometheus' own clients always send it; an answer without one,
/// or with plain text only, is in the older format.
fn format(answer: &Response<Incoming>) -> Result<Format, Failure> {
    if answer.status() != StatusCode::OK {
        return Err(Failure::of_status(answer.status().as_u16()));
    }
    let header = |name| answer.headers().get(name).map_or(&b""[..], |value| value.as_bytes());
    if !matches!(header(CONTENT_ENCODING), b"" | b"identity") {
        return Err(Failure::Encoding);
    }
    let media_type = header(CONTENT_TYPE).split(|byte| *byte == b';').next().unwrap_or_default();
    match media_type.trim_ascii().to_ascii_lowercase().as_slice() {
        b"application/openmetrics-text" => Ok(Format::OpenMetrics),
        b"" | b"text/plain" => Ok(Format::Text),
        _ => Err(Failure::Type),
    }
}

/// Reads a body as it comes, and no further than its bound.
async fn read(
    mut body: Incoming,
    room: &Arc<Semaphore>,
) -> Result<(Vec<u8>, Option<OwnedSemaphorePermit>), ScrapeFailure> {
    // A stated length is believed only to refuse.
    if body.size_hint().lower() > PAGE_BYTES_MAX as u64 {
        return Err(Failure::TooLong.into());
    }
    let (mut page, mut taken) = (Vec::new(), None::<OwnedSemaphorePermit>);

    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| failure(&error))?;
        let Ok(bytes) = frame.into_data() else { continue };
        if page.len() + bytes.len() > PAGE_BYTES_MAX {
            return Err(Failure::TooLong.into());
        }
        page.extend_from_slice(&bytes);
        // The first bytes of each page are always there, so that a large target starves no small
        // one.
        let shared = page.len().saturating_sub(PAGE_BYTES_RESERVED);
        let more = shared - taken.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let more = u32::try_from(more).map_err(|_| Failure::TooLong)?;
        let more = room.clone().try_acquire_many_owned(more).map_err(|_| Failure::Crowded)?;

        match &mut taken {
            Some(taken) => taken.merge(more),
            None => taken = Some(more),
        }
    }

    Ok((page, taken))
}
