//! One HTTP post over a connection of its own. Only the head of the response is read, and of a
//! refusal the beginning of its body; no redirect is followed, and one deadline covers it all.
//!
//! DESIGN A32.

use std::error::Error;
use std::time::Duration;

use crate::limits::notifications::{ANSWER_HEAD_BYTES_MAX, POST_WAIT};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONNECTION, CONTENT_TYPE, HOST, HeaderValue, RETRY_AFTER, USER_AGENT};
use hyper::{Request, Response};
use plimsoll_runtime::client::ConnectError;
use plimsoll_runtime::http::refusal_text;
use plimsoll_schemas::remote_text::innermost;
use tokio::time::timeout;

use super::endpoint::Endpoint;
use crate::core::alerting::Answer;

/// How a post ended, and what the receiver or the system answered if it was not taken.
type Ended = (Answer, String);

/// Failures without an HTTP status.
const CONNECT: Answer = Answer::Failed("connect", None);
const TLS: Answer = Answer::Failed("tls", None);
const GARBAGE: Answer = Answer::Failed("garbage", None);
const TIMEOUT: Answer = Answer::Failed("timeout", None);

/// Posts one body to the endpoint. The text has no secret of the endpoint.
pub(super) async fn post(endpoint: &Endpoint, body: Vec<u8>) -> Ended {
    let ended = timeout(POST_WAIT, exchange(endpoint, body)).await;
    let ended = ended.unwrap_or_else(|_| Err((TIMEOUT, String::new())));
    let (answer, cause) = ended.unwrap_or_else(|failed| failed);
    (answer, endpoint.without_secrets(&cause))
}

async fn exchange(endpoint: &Endpoint, body: Vec<u8>) -> Result<Ended, Ended> {
    let request = request(endpoint, body).map_err(|error| failed(GARBAGE, &error))?;
    let connected = endpoint.address.connect(endpoint.trust.as_ref(), ANSWER_HEAD_BYTES_MAX).await;
    let connection = connected.map_err(|error| match error {
        ConnectError::Tcp(_) => failed(CONNECT, &error),
        ConnectError::Name(_) | ConnectError::Tls(_) => failed(TLS, &error),
        ConnectError::Http(_) => failed(GARBAGE, &error),
    })?;
    connection.send(request, ended).await.map_err(|error| failed(GARBAGE, &error))
}

async fn ended(answer: Response<Incoming>) -> Ended {
    let ended = Answer::of_status(answer.status().as_u16(), retry_after(&answer));
    let cause = match ended {
        Answer::Taken => String::new(),
        Answer::Refused(_) | Answer::Failed(..) => refusal_text(answer).await,
    };
    (ended, cause)
}

fn failed(answer: Answer, error: &dyn Error) -> Ended {
    (answer, innermost(error))
}

fn request(endpoint: &Endpoint, body: Vec<u8>) -> Result<Request<Full<Bytes>>, hyper::http::Error> {
    let mut request = Request::post(&endpoint.target)
        .header(HOST, &endpoint.address.authority)
        .header(USER_AGENT, concat!("plimsoll-aggregator/", env!("CARGO_PKG_VERSION")))
        .header(CONTENT_TYPE, "application/json")
        .header(CONNECTION, "close")
        .body(Full::new(Bytes::from(body)))?;
    for (name, value) in &endpoint.headers {
        request.headers_mut().insert(name, value.clone());
    }
    Ok(request)
}

/// The receiver's `Retry-After`, if it is in seconds.
fn retry_after<B>(answer: &Response<B>) -> Option<Duration> {
    let value: &HeaderValue = answer.headers().get(RETRY_AFTER)?;
    value.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}
